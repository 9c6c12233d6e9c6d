/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two communication managers with consumers, timers, hosts that restart and a hostile network, in
 * any order of events. After all consumers have destroyed their objects and the network works
 * again, no connection may remain. Targets: all of cm/.
 *
 * The input is a list of operations, each one byte followed by its operands; see operate(). Forged
 * messages use communication IDs, transaction IDs and GUIDs of existing connections; otherwise
 * hardly any message would pass the first check.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/cm/net.h"
#include "cm/conn.h"

#define OWNERS_MAX 16
#define HEARD_MAX  32
#define EDITS_MAX  8
#define OPS_MAX	   512
#define STEPS_MAX  100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A consumer of one connection; exists until the end of the input. */
struct owner {
	struct net_node *node;
	struct cm_conn *conn; /* NULL: destroyed */
	uint32_t qpn;
	bool is_over; /* received its last event; a further event is an error */
};

struct input {
	const uint8_t *data;
	size_t left;
};

/* A SIDR resolution, of the active or the passive side. */
struct seeker {
	struct net_node *node;
	struct cm_sidr *sidr; /* NULL: completed, answered or destroyed */
	bool is_active;
};

/* A MAD that one of the nodes sent. */
struct heard {
	struct net_node *from;
	uint8_t mad[MAD_BYTES];
};

static struct net net;
static struct heard heard[HEARD_MAX];
static unsigned heard_count;
static struct seeker seekers[OWNERS_MAX];
static unsigned seeker_count;
static struct owner owners[OWNERS_MAX];
static unsigned owner_count;

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static uint8_t take(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->data++;
}

static struct owner *owner_new(struct net_node *node)
{
	struct owner *owner = &owners[owner_count];

	if (owner_count == OWNERS_MAX)
		return NULL;
	*owner = (struct owner){.node = node, .qpn = 0x10 + owner_count};
	owner_count++;
	return owner;
}

static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	struct owner *owner = owner_new(node);

	if (!owner) {
		*reason = req->local_qpn & 1 ? CM_REJ_NO_RESOURCES : 0;
		return NULL;
	}
	owner->conn = conn;
	return owner;
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *ctx,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct owner *owner = ctx;

	must(owner->node == node && owner->conn == conn && type < CM_EVENT_COUNT);
	must(!(type == CM_EVENT_REP || type == CM_EVENT_REJ) || msg);
	must(!owner->is_over);
	owner->is_over = type == CM_EVENT_TIMEWAIT_EXIT || type == CM_EVENT_REJ ||
			 type == CM_EVENT_REQ_ERROR || type == CM_EVENT_REP_ERROR;
	/* Some consumers destroy the connection in the callback, which is permitted. */
	if (type == CM_EVENT_DREQ && owner->qpn % 3 == 0) {
		owner->conn = NULL;
		cm_destroy(conn, net.now_ns);
	}
}

static struct seeker *seeker_new(struct net_node *node, bool is_active)
{
	struct seeker *seeker = &seekers[seeker_count];

	if (seeker_count == OWNERS_MAX)
		return NULL;
	*seeker = (struct seeker){.node = node, .is_active = is_active};
	seeker_count++;
	return seeker;
}

static void *on_sidr_request(struct net_node *node, struct cm_sidr *sidr,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	struct seeker *seeker = seeker_new(node, false);

	if (seeker)
		seeker->sidr = sidr;
	else
		*status = req->private_data[0] & 1 ? CM_SIDR_NO_QP : 0;
	return seeker;
}

static void on_sidr_event(struct net_node *node, struct cm_sidr *sidr, void *ctx,
			  const struct cm_sidr_rep *rep)
{
	struct seeker *seeker = ctx;

	(void)rep;
	must(seeker->node == node && seeker->sidr == sidr && seeker->is_active);
	seeker->sidr = NULL;
}

/* Stores the last HEARD_MAX messages. */
static void on_wire(struct net_node *from, const struct cm_msg *msg)
{
	struct heard *last = &heard[heard_count % HEARD_MAX];

	last->from = from;
	cm_msg_build(msg, last->mad);
	heard_count++;
}

static struct owner *pick(struct input *in)
{
	return owner_count ? &owners[take(in) % owner_count] : NULL;
}

static void consumer_calls(struct input *in)
{
	struct owner *owner = pick(in);
	uint8_t what = take(in);
	struct cm_conn *conn = owner ? owner->conn : NULL;
	struct cm_rep rep;
	int ret = 0;

	if (!conn)
		return;
	switch (what % 6) {
	case 0:
		net_rep(&rep, owner->node, owner->qpn);
		ret = cm_accept(conn, &rep, net.now_ns);
		break;
	case 1:
		ret = cm_establish(conn, net.now_ns);
		break;
	case 2:
		ret = cm_notify(conn, net.now_ns);
		break;
	case 3:
		ret = cm_reject(conn, what, owner, what % 3 ? 0 : sizeof(*owner), net.now_ns);
		break;
	case 4:
		ret = cm_disconnect(conn, net.now_ns);
		break;
	case 5:
		owner->conn = NULL;
		cm_destroy(conn, net.now_ns);
		break;
	}
	must(ret <= 0);
}

static void seeker_calls(struct input *in)
{
	struct seeker *seeker = seeker_count ? &seekers[take(in) % seeker_count] : NULL;
	uint8_t what = take(in);
	struct cm_sidr_rep rep = {.status = what & 3, .qpn = what};

	if (!seeker || !seeker->sidr)
		return;
	if (what & 4) {
		cm_sidr_destroy(seeker->sidr, net.now_ns);
		seeker->sidr = NULL;
	} else if (!cm_sidr_reply(seeker->sidr, &rep, net.now_ns)) {
		must(!seeker->is_active);
		seeker->sidr = NULL;
	}
}

static void resolve_new(struct input *in)
{
	struct seeker *seeker = seeker_new(&net.nodes[take(in) & 1], true);

	if (seeker)
		seeker->sidr = net_resolve(seeker->node, seeker);
}

/* Fields of a forged message that are taken from the input instead of a connection. */
#define HOW_NO_FROM_ID 0x01
#define HOW_NO_TO_ID   0x02
#define HOW_NO_TID     0x04
#define HOW_NO_GUID    0x08
#define HOW_NO_SERVICE 0x10
#define HOW_NO_QPN     0x20

/* All messages except SIDR begin with the sender's and the recipient's communication ID. */
static void name_ids(struct cm_msg *msg, const struct owner *from, const struct owner *to,
		     uint8_t how)
{
	const struct cm_conn *tid_of = msg->type == CM_MSG_REQ ? NULL : to ? to->conn : NULL;

	if (from && from->conn && !(how & HOW_NO_FROM_ID))
		msg->rtu.local_comm_id = cm_conn_local_id(from->conn);
	if (to && to->conn && msg->type != CM_MSG_REQ && !(how & HOW_NO_TO_ID))
		msg->rtu.remote_comm_id = cm_conn_local_id(to->conn);
	if (!tid_of && from)
		tid_of = from->conn;
	if (tid_of && !(how & HOW_NO_TID))
		msg->tid = tid_of->tid;
}

static void name_rest(struct cm_msg *msg, const struct net_node *sender, const struct owner *to,
		      uint8_t how)
{
	if (msg->type == CM_MSG_REQ && !(how & HOW_NO_GUID))
		msg->req.local_ca_guid = sender->guid;
	if (msg->type == CM_MSG_REP && !(how & HOW_NO_GUID))
		msg->rep.local_ca_guid = sender->guid;
	if (msg->type == CM_MSG_REQ && !(how & HOW_NO_SERVICE))
		msg->req.service_id = NET_SERVICE;
	if (msg->type == CM_MSG_SIDR_REQ && !(how & HOW_NO_SERVICE))
		msg->sidr_req.service_id = NET_SERVICE;
	/* Few different QPNs, so that messages for the same QPN occur. */
	if (msg->type == CM_MSG_REQ && !(how & HOW_NO_QPN))
		msg->req.local_qpn &= 0x1f;
	if (msg->type == CM_MSG_REP && !(how & HOW_NO_QPN))
		msg->rep.local_qpn &= 0x1f;
	if (msg->type == CM_MSG_DREQ && to && !(how & HOW_NO_QPN))
		msg->dreq.remote_qpn = to->qpn;
}

static void deliver(struct net_node *to, const void *mad)
{
	struct cm_path path;

	net_path(to, &path);
	cm_receive(to->cm, &path, mad, MAD_BYTES, net.now_ns);
}

/*
 * Sends a forged message with the communication ID of one connection as sender and that of another
 * one as recipient.
 */
static void forge(struct input *in)
{
	struct net_node *to = &net.nodes[take(in) & 1];
	struct owner *from_owner = pick(in), *to_owner = pick(in);
	uint8_t how = take(in), type = take(in) % CM_MSG_COUNT;
	uint8_t mad[MAD_BYTES] = {MAD_BASE_VERSION, MAD_CLASS_CM, CM_CLASS_VERSION,
				  MAD_METHOD_SEND};
	uint8_t bytes = take(in);
	struct cm_msg msg;

	mad[17] = (uint8_t)(CM_ATTR_FIRST + type);
	for (uint8_t i = 0; i < bytes && i < MAD_BYTES - MAD_HDR_BYTES; i++)
		mad[MAD_HDR_BYTES + i] = take(in);
	must(cm_msg_parse(&msg, mad, sizeof(mad)) == 0);
	if (type != CM_MSG_SIDR_REQ && type != CM_MSG_SIDR_REP)
		name_ids(&msg, from_owner, to_owner, how);
	name_rest(&msg, net_other(to), to_owner, how);
	cm_msg_build(&msg, mad);
	deliver(to, mad);
}

/*
 * Delivers a recorded message again or back to its sender, unchanged or modified, or as an ICMP
 * error.
 */
static void echo(struct input *in)
{
	uint8_t which = take(in), how = take(in), edits = how >> 2 & (EDITS_MAX - 1);
	unsigned known = heard_count < HEARD_MAX ? heard_count : HEARD_MAX;
	uint8_t mad[MAD_BYTES];
	struct net_node *from;
	struct cm_path path;

	if (!known)
		return;
	from = heard[which % known].from;
	memcpy(mad, heard[which % known].mad, sizeof(mad));
	while (edits--) {
		uint8_t at = take(in);

		mad[at] = take(in);
	}
	if (how & 1) {
		net_path(from, &path);
		cm_unreachable(from->cm, &path, mad, how & 0x80 ? take(in) : MAD_BYTES, -1,
			       net.now_ns);
	} else {
		deliver(how & 2 ? from : net_other(from), mad);
	}
}

/* Restarts a host; the connections of its consumers are lost. */
static void restart(struct input *in)
{
	struct net_node *node = &net.nodes[take(in) & 1];

	for (unsigned i = 0; i < owner_count; i++) {
		if (owners[i].node == node)
			owners[i].conn = NULL;
	}
	for (unsigned i = 0; i < seeker_count; i++) {
		if (seekers[i].node == node)
			seekers[i].sidr = NULL;
	}
	net_restart(node);
}

static void raw(struct input *in)
{
	struct net_node *to = &net.nodes[take(in) & 1];
	size_t len = in->left < MAD_BYTES ? in->left : MAD_BYTES;
	struct cm_path path;

	net_path(to, &path);
	if (len & 1)
		cm_unreachable(to->cm, &path, in->data, len, -1, net.now_ns);
	else
		cm_receive(to->cm, &path, in->data, len, net.now_ns);
	in->data += len;
	in->left -= len;
}

static void connect_new(struct input *in)
{
	uint8_t how = take(in);
	struct owner *owner = owner_new(&net.nodes[how & 1]);

	/* The QPN may still be in use. */
	if (owner && how & 0x80)
		owner->qpn = 0x10 + (how >> 1 & 7);
	if (owner)
		owner->conn = net_connect(owner->node, owner, owner->qpn);
}

static void advance(void)
{
	uint64_t next_ns = net_next(&net);

	if (next_ns != UINT64_MAX)
		net_advance(&net, next_ns);
}

static void weather(struct input *in)
{
	uint8_t how = take(in);

	net.loss_percent = how & 0x3f;
	net.is_cut = how & 0x80;
}

static void operate(struct input *in)
{
	switch (take(in) % 14) {
	case 0:
		connect_new(in);
		break;
	case 1:
	case 2:
		consumer_calls(in);
		break;
	case 3:
	case 4:
		advance();
		break;
	case 5:
		forge(in);
		break;
	case 6:
		raw(in);
		break;
	case 7:
		weather(in);
		break;
	case 8:
		resolve_new(in);
		break;
	case 9:
		seeker_calls(in);
		break;
	case 10:
	case 11:
		echo(in);
		break;
	case 12:
		restart(in);
		break;
	case 13:
		/* Lets several timers expire. */
		for (int i = take(in) % 16; i >= 0; i--)
			advance();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .left = size};

	net_open(&net, 3);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_sidr_request = on_sidr_request;
	net.on_sidr_event = on_sidr_event;
	net.on_wire = on_wire;
	net.repeat_percent = 10;
	net.delay_max_ns = 1000000;
	owner_count = 0;
	seeker_count = 0;
	heard_count = 0;
	for (int i = 0; i < OPS_MAX && in.left > 0; i++)
		operate(&in);
	net.loss_percent = 0;
	net.is_cut = false;
	for (unsigned i = 0; i < owner_count; i++) {
		struct cm_conn *conn = owners[i].conn;

		owners[i].conn = NULL;
		if (conn)
			cm_destroy(conn, net.now_ns);
	}
	for (unsigned i = 0; i < seeker_count; i++) {
		struct cm_sidr *sidr = seekers[i].sidr;

		seekers[i].sidr = NULL;
		if (sidr)
			cm_sidr_destroy(sidr, net.now_ns);
	}
	/* REQs that arrive from now on are not accepted, because no owner is available. */
	owner_count = OWNERS_MAX;
	seeker_count = OWNERS_MAX;
	must(net_settle(&net, STEPS_MAX));
	must(cm_conn_count(net.nodes[0].cm) == 0 && cm_conn_count(net.nodes[1].cm) == 0);
	must(cm_sidr_count(net.nodes[0].cm) == 0 && cm_sidr_count(net.nodes[1].cm) == 0);
	net_close(&net);
	return 0;
}
