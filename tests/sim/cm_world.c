/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "cm/conn.h"
#include "link/udp.h"

#define GSI_BUDGET 64
#define ERRORS_MAX 16

/* ICMP errors about packets of a node; owned by the node. */
struct cm_errors {
	unsigned count;
	struct link_error errors[ERRORS_MAX];
	uint8_t bytes[ERRORS_MAX][PACKET_MAX];
	uint8_t heard[PACKET_MAX]; /* the payload of the error that was returned last */
};

/* Aborts if the set-up of the test fails. */
#define must(condition) must_at(condition, __LINE__)

static void must_at(bool is_true, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "cm_world.c:%d: set-up failed\n", line);
	abort();
}

/* The node whose code runs: the stubs below return its interfaces and its socket. */
static struct cm_node *here;

/* MADs of the simulation have no device. */
const struct netdev *netdev_by_id(uint32_t dev_id)
{
	(void)dev_id;
	return NULL;
}

const struct netdev *netdev_by_gid(const uint8_t gid[16], uint32_t *index)
{
	if (index)
		*index = 0;
	return !memcmp(here->gid, gid, GID_BYTES) ? &here->netdev : NULL;
}

/* Wraps the host's link, which outlives the QP1 code that uses it. */
struct lent_link {
	struct link link;
	struct link *real;
};

static struct link *real_link(struct link *link)
{
	return ((struct lent_link *)(void *)link)->real;
}

static size_t assemble(const struct link_tx *tx, uint8_t *to)
{
	size_t len = tx->hdr_bytes;

	memcpy(to, tx->hdr, tx->hdr_bytes);
	for (int i = 0; i < tx->payload_count; i++) {
		memcpy(to + len, tx->payload[i].iov_base, tx->payload[i].iov_len);
		len += tx->payload[i].iov_len;
	}
	memcpy(to + len, tx->trailer, tx->trailer_bytes);
	return len + tx->trailer_bytes;
}

/*
 * Generates the ICMP error of a router (unknown host) or of a host (closed port), with part of the
 * packet.
 */
static void bounce(struct cm_node *from, const struct link_tx *tx)
{
	struct cm_node *to = cm_world_find(from->world, tx->path->remote_gid);
	struct cm_errors *errors = from->errors;
	struct link_error *error = &errors->errors[errors->count];

	if (!from->world->tells_errors || from->is_cut || (to && (to->cm || to->is_cut)) ||
	    errors->count == ERRORS_MAX)
		return;
	memcpy(error->remote_gid, tx->path->remote_gid, GID_BYTES);
	error->error = to ? -ECONNREFUSED : -EHOSTUNREACH;
	error->len = assemble(tx, errors->bytes[errors->count]);
	/* IPv4 requires 8 quoted bytes only; today's routers quote most of the packet. */
	if (!cm_world_below(from->world, 4))
		error->len = cm_world_below(from->world, error->len);
	errors->count++;
}

static int lent_send(struct link *link, const struct link_tx *tx, int n)
{
	int taken = link_send(real_link(link), tx, n);

	for (int i = 0; i < taken; i++)
		bounce(here, &tx[i]);
	return taken;
}

static int lent_report_errors(struct link *link)
{
	(void)link;
	return 0;
}

static bool lent_errors(struct link *link, struct link_error *error)
{
	struct cm_errors *errors = here->errors;

	(void)link;
	if (!errors->count)
		return false;
	*error = errors->errors[--errors->count];
	memcpy(errors->heard, errors->bytes[errors->count], sizeof(errors->heard));
	error->bytes = errors->heard;
	return true;
}

static int lent_recv(struct link *link, struct link_rx *rx, int max)
{
	return link_recv(real_link(link), rx, max);
}

static int lent_fd(struct link *link)
{
	return link_fd(real_link(link));
}

static int lent_path_open(struct link *link, struct link_path *path)
{
	return link_path_open(real_link(link), path);
}

static void lent_path_close(struct link *link, struct link_path *path)
{
	link_path_close(real_link(link), path);
}

static void lent_close(struct link *link)
{
	free(link);
}

static const struct link_ops lent_ops = {
	.name = "lent",
	.send = lent_send,
	.recv = lent_recv,
	.fd = lent_fd,
	.path_open = lent_path_open,
	.path_close = lent_path_close,
	.report_errors = lent_report_errors,
	.errors = lent_errors,
	.close = lent_close,
};

/* The linker replaces udp_link_open() by this function. */
struct link *__wrap_udp_link_open(int rx_fd);

struct link *__wrap_udp_link_open(int rx_fd)
{
	struct lent_link *delegated = calloc(1, sizeof(*delegated));

	(void)rx_fd;
	must(delegated != NULL);
	delegated->link.ops = &lent_ops;
	delegated->real = here->link;
	return &delegated->link;
}

uint64_t cm_world_random(struct cm_world *world)
{
	uint64_t x = world->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	world->random = x;
	return x * UINT64_C(2685821657736338717);
}

uint64_t cm_world_below(struct cm_world *world, uint64_t n)
{
	return n ? (cm_world_random(world) >> 16) % n : 0;
}

bool cm_world_chance(struct cm_world *world, unsigned percent)
{
	return cm_world_below(world, 100) < percent;
}

static int on_send(void *ctx, const struct cm_path *path, const void *mad)
{
	struct cm_node *node = ctx;
	struct cm_msg msg;

	here = node;
	must(cm_msg_parse(&msg, mad, MAD_BYTES) == 0);
	node->world->hooks->sent(node, path, &msg);
	return gsi_send(&node->gsi, path, mad);
}

static void *on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	struct cm_node *node = ctx;

	return node->world->hooks->request(node, conn, path, req, reason);
}

static void on_event(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	struct cm_node *node = ctx;

	must(now_ns == node->world->now_ns);
	node->world->hooks->event(node, conn, owner, type, msg);
}

static void *on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	struct cm_node *node = ctx;

	return node->world->hooks->sidr_request(node, sidr, path, req, status);
}

static void on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep, uint64_t now_ns)
{
	struct cm_node *node = ctx;

	must(now_ns == node->world->now_ns);
	node->world->hooks->sidr_event(node, sidr, owner, rep);
}

static const struct cm_callbacks callbacks = {
	.send = on_send,
	.request = on_request,
	.event = on_event,
	.sidr_request = on_sidr_request,
	.sidr_event = on_sidr_event,
};

void cm_world_revive(struct cm_node *node, bool reuse_ids)
{
	struct cm_world *world = node->world;

	here = node;
	node->incarnation++;
	random_init_repeatable(&node->random, cm_world_random(world));
	node->cm = cm_new(&callbacks, node, &node->random);
	must(node->cm && cm_listen(node->cm, CM_WORLD_SERVICE) == 0);
	/* A host with another implementation may reuse its communication IDs after a restart. */
	if (reuse_ids) {
		random_init_repeatable(&node->id_random, (uint64_t)node->index);
		node->cm->id_random = &node->id_random;
	}
	gsi_init(&node->gsi);
	node->gsi.wire = gsi_wire_open(-1);
	must(node->gsi.wire != NULL);
}

void cm_world_count(struct gsi_wire_counters *to, const struct gsi_wire_counters *from)
{
	for (int i = 0; i < GSI_WIRE_COUNTER_COUNT; i++)
		to->counts[i] += from->counts[i];
	for (int i = 0; i < PACKET_REASON_COUNT; i++)
		to->malformed[i] += from->malformed[i];
}

void cm_world_kill(struct cm_node *node)
{
	struct cm_world *world = node->world;
	const struct gsi_wire_counters *counters = gsi_wire_counters(node->gsi.wire);
	const struct cm_counters *cm = cm_counters(node->cm);

	here = node;
	cm_world_count(&world->counters, counters);
	for (int i = 0; i < CM_MSG_COUNT; i++)
		world->cm_sent += cm->sent[i];
	world->cm_resent += cm->resent;
	world->cm_strays += cm->strays;
	cm_free(node->cm);
	node->cm = NULL;
	gsi_fini(&node->gsi);
	node->errors->count = 0;
}

void cm_world_cut(struct cm_node *node, bool is_cut)
{
	node->is_cut = is_cut;
	sim_link_cut(node->link, is_cut);
}

static void node_open(struct cm_world *world, int index, bool is_ipv6)
{
	const uint8_t ipv4[GID_BYTES] = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(index + 1)};
	const uint8_t ipv6[GID_BYTES] = {0xfd, [15] = (uint8_t)(index + 1)};
	struct cm_node *node = &world->nodes[index];

	node->world = world;
	node->index = index;
	memcpy(node->gid, is_ipv6 ? ipv6 : ipv4, GID_BYTES);
	node->netdev.dev_id = 1;
	node->netdev.node_guid = 0x1000 + (uint64_t)index;
	node->link = sim_link_new(world->net, node->gid);
	node->errors = calloc(1, sizeof(*node->errors));
	must(node->link && node->errors);
	cm_world_revive(node, true);
}

void cm_world_open(struct cm_world *world, uint64_t seed, int node_count, bool is_ipv6,
		   const struct sim_faults *faults, const struct cm_world_hooks *hooks, void *ctx)
{
	memset(world, 0, sizeof(*world));
	world->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	world->now_ns = 1000000000;
	world->hooks = hooks;
	world->ctx = ctx;
	world->node_count = node_count;
	world->net = sim_net_new(seed, faults);
	must(world->net != NULL);
	(void)cm_world_random(world);
	for (int i = 0; i < node_count; i++)
		node_open(world, i, is_ipv6);
}

void cm_world_close(struct cm_world *world)
{
	for (int i = 0; i < world->node_count; i++) {
		if (world->nodes[i].cm)
			cm_world_kill(&world->nodes[i]);
		link_close(world->nodes[i].link);
		free(world->nodes[i].errors);
	}
	sim_net_free(world->net);
}

struct cm_node *cm_world_find(struct cm_world *world, const uint8_t gid[GID_BYTES])
{
	for (int i = 0; i < world->node_count; i++) {
		if (!memcmp(world->nodes[i].gid, gid, GID_BYTES))
			return &world->nodes[i];
	}
	return NULL;
}

void cm_world_path(const struct cm_node *from, const uint8_t to_gid[GID_BYTES],
		   struct cm_path *path)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->sgid, from->gid, GID_BYTES);
	memcpy(path->dgid, to_gid, GID_BYTES);
	path->dev_id = from->netdev.dev_id;
	path->hop_limit = 64;
}

uint64_t cm_world_next(const struct cm_world *world)
{
	uint64_t next_ns = sim_net_next(world->net);

	for (int i = 0; i < world->node_count; i++) {
		const struct cm_node *node = &world->nodes[i];
		uint64_t due_ns = node->cm ? cm_next_deadline(node->cm) : TIMER_NEVER_NS;

		/* Packets that were looped back or arrived while the host was down. */
		if (node->cm &&
		    (node->gsi.queued || node->errors->count || sim_link_has_rx(node->link)))
			due_ns = world->now_ns;
		next_ns = due_ns < next_ns ? due_ns : next_ns;
	}
	return next_ns;
}

static void node_run(struct cm_node *node)
{
	uint64_t now_ns = node->world->now_ns;

	here = node;
	while (gsi_wire_receive(&node->gsi, node->cm, now_ns))
		here = node;
	gsi_wire_errors(node->gsi.wire, node->cm, now_ns);
	here = node;
	(void)gsi_run(&node->gsi, node->cm, GSI_BUDGET, now_ns);
	cm_run(node->cm, now_ns);
}

void cm_world_advance(struct cm_world *world, uint64_t now_ns)
{
	if (now_ns > world->now_ns)
		world->now_ns = now_ns;
	sim_net_advance(world->net, world->now_ns);
	for (int i = 0; i < world->node_count; i++) {
		if (world->nodes[i].cm)
			node_run(&world->nodes[i]);
	}
}
