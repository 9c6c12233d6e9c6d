/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi_probe.h"

#include <string.h>

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

static bool mad_fault_due(enum fault_point point, const uint8_t *peer, const void *mad, size_t len,
			  struct fault *fault)
{
	const int cm_ops = FAULT_OP_CM_LAST - FAULT_OP_CM + 1;
	struct fault_subject subject = {.peer = peer};
	struct mad_hdr hdr;

	if (!probe_is_on(PROBE_FAULT))
		return false;
	if (mad_parse(&hdr, mad, len) == 0 && hdr.attr_id >= CM_ATTR_FIRST &&
	    hdr.attr_id - CM_ATTR_FIRST < cm_ops)
		subject.op = (enum fault_op)(FAULT_OP_CM + hdr.attr_id - CM_ATTR_FIRST);
	return fault_due(point, &subject, fault);
}

int gsi_probe_send(struct gsi *gsi, const struct cm_path *path, const void *mad)
{
	uint8_t copy[MAD_BYTES];
	struct fault fault;
	int ret;

	if (!mad_fault_due(FAULT_MAD_SEND, path->dgid, mad, MAD_BYTES, &fault))
		return gsi_probe_send_traced(gsi, path, mad);
	switch (fault.action) {
	case FAULT_DROP:
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

static void gsi_probe_receive_corrupted(struct cm *cm, const struct cm_path *path, const void *mad,
					size_t len, uint64_t now_ns, const struct fault *fault)
{
	uint8_t copy[MAD_BYTES];

	/* cm_receive() drops a MAD of another length as malformed. */
	if (len != sizeof(copy)) {
		cm_receive(cm, path, mad, len, now_ns);
		return;
	}
	memcpy(copy, mad, sizeof(copy));
	fault_corrupt(fault, copy, sizeof(copy));
	cm_receive(cm, path, copy, len, now_ns);
}

void gsi_probe_receive(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		       uint64_t now_ns)
{
	struct fault fault;

	if (trace_is_on())
		emit_mad(&trace_mad_received, path, mad, len);
	if (!mad_fault_due(FAULT_MAD_RECEIVE, path->dgid, mad, len, &fault)) {
		cm_receive(cm, path, mad, len, now_ns);
		return;
	}
	switch (fault.action) {
	case FAULT_DROP:
		return;
	case FAULT_CORRUPT:
		gsi_probe_receive_corrupted(cm, path, mad, len, now_ns, &fault);
		return;
	default:
		cm_receive(cm, path, mad, len, now_ns);
		cm_receive(cm, path, mad, len, now_ns);
	}
}
