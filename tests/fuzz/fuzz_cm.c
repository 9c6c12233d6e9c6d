/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two consumers, the clock and a hostile network can do to two communication managers, in any order. Whatever it is,
 * once every consumer has let go and the network is well again, nothing is left over. Targets: all of cm/.
 *
 * The input is a list of operations, one byte each with its operands behind it; see operate(). Forged messages take their
 * communication IDs and GUIDs from live connections, or hardly any would get past the first check.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/cm/net.h"

#define OWNERS_MAX 16
#define OPS_MAX	   512
#define STEPS_MAX  100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A consumer of one connection; lives as long as its input. */
struct owner {
	struct net_node *node;
	struct cm_conn *conn; /* NULL: let go */
	uint32_t qpn;
	bool is_over; /* heard its last event, or so it should be */
};

struct input {
	const uint8_t *data;
	size_t left;
};

static struct net net;
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
	/* Letting go from within is legal, and the hardest case. */
	if (type == CM_EVENT_DREQ && owner->qpn % 3 == 0) {
		owner->conn = NULL;
		cm_destroy(conn, net.now_ns);
	}
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

/* A message in which whoever sends it calls itself by the ID of one live connection and its peer by that of another. */
static void forge(struct input *in)
{
	struct net_node *to = &net.nodes[take(in) & 1];
	struct owner *from_owner = pick(in), *to_owner = pick(in);
	uint32_t from_id = 0, to_id = 0;
	struct cm_msg msg;
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	memset(mad, 0, sizeof(mad));
	mad[0] = MAD_BASE_VERSION;
	mad[1] = MAD_CLASS_CM;
	mad[2] = CM_CLASS_VERSION;
	mad[3] = MAD_METHOD_SEND;
	mad[17] = (uint8_t)(CM_ATTR_FIRST + take(in) % CM_MSG_COUNT);
	for (size_t i = MAD_HDR_BYTES; i < MAD_HDR_BYTES + 48; i++)
		mad[i] = take(in);
	must(cm_msg_parse(&msg, mad, sizeof(mad)) == 0);
	if (from_owner && from_owner->conn)
		from_id = cm_conn_local_id(from_owner->conn);
	if (to_owner && to_owner->conn)
		to_id = cm_conn_local_id(to_owner->conn);
	if (msg.type == CM_MSG_REQ) {
		msg.req.service_id = NET_SERVICE;
		msg.req.local_ca_guid = net_other(to)->guid;
		msg.req.local_qpn &= 0x1f;
	}
	/* Both IDs come first in every message but SIDR's, the sender's before the recipient's. */
	msg.rtu.local_comm_id = from_id ? from_id : msg.rtu.local_comm_id;
	if (msg.type != CM_MSG_REQ && msg.type != CM_MSG_SIDR_REQ && to_id)
		msg.rtu.remote_comm_id = to_id;
	if (msg.type == CM_MSG_DREQ && to_owner)
		msg.dreq.remote_qpn = to_owner->qpn;
	cm_msg_build(&msg, mad);
	net_path(to, &path);
	cm_receive(to->cm, &path, mad, sizeof(mad), net.now_ns);
}

static void raw(struct input *in)
{
	struct net_node *to = &net.nodes[take(in) & 1];
	size_t len = in->left < MAD_BYTES ? in->left : MAD_BYTES;
	struct cm_path path;

	net_path(to, &path);
	cm_receive(to->cm, &path, in->data, len, net.now_ns);
	in->data += len;
	in->left -= len;
}

static void connect_new(struct input *in)
{
	struct owner *owner = owner_new(&net.nodes[take(in) & 1]);

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
	switch (take(in) % 8) {
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
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .left = size};

	net_open(&net, 3);
	net.on_request = on_request;
	net.on_event = on_event;
	net.repeat_percent = 10;
	net.delay_max_ns = 1000000;
	owner_count = 0;
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
	/* A REQ that is still on its way finds nobody: no owner is left to give it. */
	owner_count = OWNERS_MAX;
	must(net_settle(&net, STEPS_MAX));
	must(cm_conn_count(net.nodes[0].cm) == 0 && cm_conn_count(net.nodes[1].cm) == 0);
	net_close(&net);
	return 0;
}
