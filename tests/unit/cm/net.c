/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/timer.h"

/* A MAD in transit; owned by the wire. */
struct net_mad {
	struct list_head node;
	struct net_node *to;
	uint64_t due_ns;
	uint8_t bytes[MAD_BYTES];
};

uint64_t net_random(struct net *net)
{
	net->random ^= net->random >> 12;
	net->random ^= net->random << 25;
	net->random ^= net->random >> 27;
	return net->random * UINT64_C(2685821657736338717);
}

unsigned net_below(struct net *net, unsigned bound)
{
	return (unsigned)(net_random(net) >> 33) % bound;
}

bool net_chance(struct net *net, unsigned percent)
{
	return net_below(net, 100) < percent;
}

struct net_node *net_other(struct net_node *node)
{
	return node == &node->net->nodes[0] ? &node->net->nodes[1] : &node->net->nodes[0];
}

void net_path(struct net_node *node, struct cm_path *path)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->sgid, node->gid, GID_BYTES);
	memcpy(path->dgid, net_other(node)->gid, GID_BYTES);
}

static void post(struct net *net, struct net_node *to, const void *bytes)
{
	struct net_mad *mad = calloc(1, sizeof(*mad));

	if (!mad)
		abort();
	mad->to = to;
	mad->due_ns = net->now_ns + 1 + net_random(net) % (net->delay_max_ns + 1);
	memcpy(mad->bytes, bytes, MAD_BYTES);
	list_add_tail(&mad->node, &net->wire);
	net->in_flight++;
}

static int on_send(void *ctx, const struct cm_path *path, const void *bytes)
{
	struct net_node *node = ctx;
	struct net *net = node->net;
	struct cm_msg msg;

	if (net->is_cut)
		return -1;
	if (cm_msg_parse(&msg, bytes, MAD_BYTES))
		abort();
	net->sent++;
	net->sent_to[path->dgid[15]]++;
	if (net->on_wire)
		net->on_wire(node, &msg);
	/* A MAD to a host other than the two is dropped. */
	if (memcmp(path->dgid, net_other(node)->gid, GID_BYTES) != 0 ||
	    net_chance(net, net->loss_percent))
		return 0;
	post(net, net_other(node), bytes);
	while (net_chance(net, net->repeat_percent))
		post(net, net_other(node), bytes);
	return 0;
}

static void *on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	struct net_node *node = ctx;

	(void)path;
	return node->net->on_request(node, conn, req, reason);
}

static void on_event(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	struct net_node *node = ctx;

	(void)now_ns;
	node->net->on_event(node, conn, owner, type, msg);
}

static void *on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	struct net_node *node = ctx;

	(void)path;
	return node->net->on_sidr_request(node, sidr, req, status);
}

static void on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep, uint64_t now_ns)
{
	struct net_node *node = ctx;

	(void)now_ns;
	node->net->on_sidr_event(node, sidr, owner, rep);
}

static const struct cm_callbacks callbacks = {
	.send = on_send,
	.request = on_request,
	.event = on_event,
	.sidr_request = on_sidr_request,
	.sidr_event = on_sidr_event,
};

void net_open(struct net *net, uint64_t seed)
{
	memset(net, 0, sizeof(*net));
	list_init(&net->wire);
	net->now_ns = CLOCK_NS_PER_S;
	net->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	for (unsigned i = 0; i < 2; i++) {
		struct net_node *node = &net->nodes[i];

		node->net = net;
		node->guid = 0x1000 + i;
		node->gid[0] = 0xfd;
		node->gid[15] = (uint8_t)(i + 1);
		random_init_repeatable(&node->random, net_random(net));
		node->cm = cm_new(&callbacks, node, &node->random);
		if (!node->cm || cm_listen(node->cm, NET_SERVICE))
			abort();
	}
}

void net_restart(struct net_node *node)
{
	cm_free(node->cm);
	node->cm = cm_new(&callbacks, node, &node->random);
	if (!node->cm || cm_listen(node->cm, NET_SERVICE))
		abort();
}

void net_close(struct net *net)
{
	while (!list_is_empty(&net->wire)) {
		struct net_mad *mad = list_first_entry(&net->wire, struct net_mad, node);

		list_del(&mad->node);
		free(mad);
	}
	cm_free(net->nodes[0].cm);
	cm_free(net->nodes[1].cm);
}

struct cm_conn *net_connect(struct net_node *node, void *owner, uint32_t qpn)
{
	struct cm_conn *conn = cm_conn_new(node->cm, owner);
	struct cm_req req = {
		.service_id = NET_SERVICE,
		.local_ca_guid = node->guid,
		.local_qpn = qpn,
		.remote_cm_response_timeout = 16,
		.local_cm_response_timeout = 16,
		.max_cm_retries = 15,
		.path_mtu = 5,
		.primary.local_ack_timeout = 10,
	};
	struct cm_path path;

	if (!conn)
		abort();
	net_path(node, &path);
	if (cm_connect(conn, &path, &req, node->net->now_ns))
		abort();
	return conn;
}

struct cm_sidr *net_resolve(struct net_node *node, void *owner)
{
	struct cm_sidr *sidr = cm_sidr_new(node->cm, owner);
	struct cm_sidr_req req = {.service_id = NET_SERVICE, .pkey = MAD_PKEY};
	struct cm_path path;

	if (!sidr)
		abort();
	memcpy(req.private_data, "who", 3);
	net_path(node, &path);
	if (cm_sidr_resolve(sidr, &path, &req, CM_TIMEOUT_NS, node->net->now_ns))
		abort();
	return sidr;
}

void net_rep(struct cm_rep *rep, struct net_node *node, uint32_t qpn)
{
	memset(rep, 0, sizeof(*rep));
	rep->local_ca_guid = node->guid;
	rep->local_qpn = qpn;
}

static struct net_mad *first_due(const struct net *net)
{
	struct net_mad *mad, *first = NULL;

	list_for_each_entry(mad, &net->wire, node) {
		if (!first || mad->due_ns < first->due_ns)
			first = mad;
	}
	return first;
}

uint64_t net_next(const struct net *net)
{
	const struct net_mad *mad = first_due(net);
	uint64_t next_ns = mad ? mad->due_ns : TIMER_NEVER_NS;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t timer_ns = cm_next_deadline(net->nodes[i].cm);

		next_ns = timer_ns < next_ns ? timer_ns : next_ns;
	}
	return next_ns;
}

void net_advance(struct net *net, uint64_t now_ns)
{
	struct net_mad *mad;

	if (now_ns > net->now_ns)
		net->now_ns = now_ns;
	while ((mad = first_due(net)) && mad->due_ns <= net->now_ns) {
		struct cm_path path;

		list_del(&mad->node);
		net->in_flight--;
		net_path(mad->to, &path);
		path.is_local = net->is_local;
		cm_receive(mad->to->cm, &path, mad->bytes, MAD_BYTES, net->now_ns);
		free(mad);
	}
	cm_run(net->nodes[0].cm, net->now_ns);
	cm_run(net->nodes[1].cm, net->now_ns);
}

bool net_settle(struct net *net, unsigned steps)
{
	while (steps-- > 0) {
		uint64_t next_ns = net_next(net);

		if (next_ns == TIMER_NEVER_NS)
			return true;
		net_advance(net, next_ns);
	}
	return false;
}
