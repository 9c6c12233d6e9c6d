/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi_probe.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/fault_user.h"
#include "daemon/netdev.h"
#include "wire/cm_msg.h"
#include "wire/mad.h"
#include "wire/trace_packet.h"

/* The first byte of a MAD (IBA 1.x §13.4.2): another version makes it malformed. */
#define BITS_OF_BASE_VERSION 8

/* Matches no condition pid or prog: the MAD belongs to no process of this host. */
#define NO_PID (-1)

static void emit_mad(const struct trace_point *point, const struct cm_path *path, const void *mad,
		     size_t len)
{
	struct trace_event event = {
		.ifindex = path->dev_id,
		.packet = {.traffic_class = path->traffic_class, .hop_limit = path->hop_limit},
	};

	memcpy(event.packet.local_gid, path->sgid, GID_BYTES);
	memcpy(event.packet.remote_gid, path->dgid, GID_BYTES);
	trace_packet_append(&event.packet, mad, len);
	trace_emit(point, &event);
}

static int gsi_probe_send_traced(struct gsi *gsi, const struct cm_path *path, const void *mad)
{
	if (trace_is_on())
		emit_mad(&trace_mad_sent, path, mad, MAD_BYTES);
	return gsi_transmit(gsi, path, mad);
}

void gsi_probe_send_late(struct gsi *gsi, const struct cm_path *path, const void *mad)
{
	(void)gsi_probe_send_traced(gsi, path, mad);
}

/* A MAD on its way through a fault point, and the rule that fires. */
struct mad_pass {
	struct fault fault;
	uid_t uid; /* whose rule it is; FAULT_EVERY_USER: the daemon's */
};

static_assert(FAULT_OP_APR - FAULT_OP_CM == CM_MSG_APR,
	      "the words of `op` are in the order of the MADs");

/* `tag` describes the process that the MAD belongs to; pid 0: not known. */
static void describe_mad(const struct cm_path *path, const struct cm_msg *msg,
			 const struct cm_tag *tag, struct fault_subject *subject)
{
	const struct netdev *dev = netdev_by_id(path->dev_id);

	subject->peer = path->dgid;
	subject->op = (enum fault_op)(FAULT_OP_CM + (int)msg->type);
	subject->pid = tag->pid ? tag->pid : NO_PID;
	subject->program = tag->program;
	if (dev) {
		subject->device = dev->name;
		subject->netdev = dev->name;
	}
}

/*
 * Whether a rule of the daemon's user fires, or one of the user whose connection the MAD is about.
 * A user must not be able to forge messages about other connections, so a MAD that a user's rule
 * corrupts becomes malformed.
 */
static bool mad_fault_due(const struct gsi *gsi, enum fault_point point, const struct cm_path *path,
			  const void *mad, struct mad_pass *pass)
{
	struct fault_subject subject = {0};
	struct cm_tag tag = {0};
	struct cm_msg msg;

	if (!probe_is_on(PROBE_FAULT) || cm_msg_parse(&msg, mad, MAD_BYTES) != CM_FAULT_NONE)
		return false;
	if (gsi->tag)
		(void)gsi->tag(gsi->ctx, path, &msg, point == FAULT_MAD_RECEIVE, &tag);
	describe_mad(path, &msg, &tag, &subject);
	pass->uid = FAULT_EVERY_USER;
	if (fault_due(point, &subject, &pass->fault))
		return true;
	pass->uid = tag.uid;
	if (!tag.pid || !fault_user_own_due(tag.uid, point, &subject, &pass->fault))
		return false;
	pass->fault.random %= BITS_OF_BASE_VERSION;
	return true;
}

/* Builds the REJ for a REQ. false: the MAD is not a valid REQ. */
static bool build_rej(const void *req, uint16_t reason, uint8_t rej[MAD_BYTES])
{
	struct cm_msg msg, reply = {.type = CM_MSG_REJ};

	if (cm_msg_parse(&msg, req, MAD_BYTES) != CM_FAULT_NONE || msg.type != CM_MSG_REQ)
		return false;
	reply.tid = msg.tid;
	reply.rej.remote_comm_id = msg.req.local_comm_id;
	reply.rej.about = CM_ABOUT_REQ;
	reply.rej.reason = reason;
	cm_msg_build(&reply, rej);
	return true;
}

int gsi_probe_send(struct gsi *gsi, const struct cm_path *path, const void *mad)
{
	uint8_t copy[MAD_BYTES];
	struct mad_pass pass;
	int ret;

	if (!mad_fault_due(gsi, FAULT_MAD_SEND, path, mad, &pass))
		return gsi_probe_send_traced(gsi, path, mad);
	switch (pass.fault.action) {
	case FAULT_DROP:
		return 0;
	case FAULT_DELAY:
		gsi_delay_add(&gsi->delay, path, mad, false, pass.uid,
			      clock_now_ns() + pass.fault.delay_ns);
		return 0;
	case FAULT_REJECT:
		/* The CM receives the REJ as from its peer. */
		if (build_rej(mad, (uint16_t)pass.fault.code, copy))
			gsi_loop(gsi, path, copy);
		return 0;
	case FAULT_CORRUPT:
		memcpy(copy, mad, sizeof(copy));
		fault_corrupt(&pass.fault, copy, sizeof(copy));
		return gsi_probe_send_traced(gsi, path, copy);
	default:
		/* FAULT_DUPLICATE: an error of the second copy is ignored. */
		ret = gsi_probe_send_traced(gsi, path, mad);
		if (!ret)
			(void)gsi_probe_send_traced(gsi, path, mad);
		return ret;
	}
}

void gsi_probe_receive(struct gsi *gsi, struct cm *cm, const struct cm_path *path, const void *mad,
		       size_t len, uint64_t now_ns)
{
	uint8_t copy[MAD_BYTES];
	struct mad_pass pass;

	if (trace_is_on())
		emit_mad(&trace_mad_received, path, mad, len);
	/* cm_receive() drops a MAD of another length as malformed. */
	if (len != MAD_BYTES || !mad_fault_due(gsi, FAULT_MAD_RECEIVE, path, mad, &pass)) {
		cm_receive(cm, path, mad, len, now_ns);
		return;
	}
	switch (pass.fault.action) {
	case FAULT_DROP:
		return;
	case FAULT_CORRUPT:
		memcpy(copy, mad, sizeof(copy));
		fault_corrupt(&pass.fault, copy, sizeof(copy));
		cm_receive(cm, path, copy, sizeof(copy), now_ns);
		return;
	case FAULT_DELAY:
		gsi_delay_add(&gsi->delay, path, mad, true, pass.uid, now_ns + pass.fault.delay_ns);
		return;
	case FAULT_REJECT:
		if (build_rej(mad, (uint16_t)pass.fault.code, copy))
			(void)gsi_probe_send_traced(gsi, path, copy);
		return;
	default:
		cm_receive(cm, path, mad, len, now_ns);
		cm_receive(cm, path, mad, len, now_ns);
	}
}
