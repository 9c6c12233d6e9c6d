/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi_probe.h"

#include <string.h>

#include "base/clock.h"
#include "wire/cm_msg.h"
#include "wire/mad.h"
#include "wire/trace_packet.h"

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

static bool mad_fault_due(enum fault_point point, const uint8_t *peer, const void *mad,
			  struct fault *fault)
{
	const int cm_ops = FAULT_OP_CM_LAST - FAULT_OP_CM + 1;
	struct fault_subject subject = {.peer = peer};
	struct mad_hdr hdr;

	if (!probe_is_on(PROBE_FAULT))
		return false;
	if (mad_parse(&hdr, mad, MAD_BYTES) == 0 && hdr.attr_id >= CM_ATTR_FIRST &&
	    hdr.attr_id - CM_ATTR_FIRST < cm_ops)
		subject.op = (enum fault_op)(FAULT_OP_CM + hdr.attr_id - CM_ATTR_FIRST);
	return fault_due(point, &subject, fault);
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
	struct fault fault;
	int ret;

	if (!mad_fault_due(FAULT_MAD_SEND, path->dgid, mad, &fault))
		return gsi_probe_send_traced(gsi, path, mad);
	switch (fault.action) {
	case FAULT_DROP:
		return 0;
	case FAULT_DELAY:
		gsi_delay_add(&gsi->delay, path, mad, false, clock_now_ns() + fault.delay_ns);
		return 0;
	case FAULT_REJECT:
		/* The CM receives the REJ as from its peer. */
		if (build_rej(mad, (uint16_t)fault.code, copy))
			gsi_loop(gsi, path, copy);
		return 0;
	case FAULT_CORRUPT:
		memcpy(copy, mad, sizeof(copy));
		fault_corrupt(&fault, copy, sizeof(copy));
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
	struct fault fault;

	if (trace_is_on())
		emit_mad(&trace_mad_received, path, mad, len);
	/* cm_receive() drops a MAD of another length as malformed. */
	if (len != MAD_BYTES || !mad_fault_due(FAULT_MAD_RECEIVE, path->dgid, mad, &fault)) {
		cm_receive(cm, path, mad, len, now_ns);
		return;
	}
	switch (fault.action) {
	case FAULT_DROP:
		return;
	case FAULT_CORRUPT:
		memcpy(copy, mad, sizeof(copy));
		fault_corrupt(&fault, copy, sizeof(copy));
		cm_receive(cm, path, copy, sizeof(copy), now_ns);
		return;
	case FAULT_DELAY:
		gsi_delay_add(&gsi->delay, path, mad, true, now_ns + fault.delay_ns);
		return;
	case FAULT_REJECT:
		if (build_rej(mad, (uint16_t)fault.code, copy))
			(void)gsi_probe_send_traced(gsi, path, copy);
		return;
	default:
		cm_receive(cm, path, mad, len, now_ns);
		cm_receive(cm, path, mad, len, now_ns);
	}
}
