/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/probe.h"

#include <string.h>

#include "base/trace_points.h"
#include "base/util.h"
#include "core/engine/qp_table.h"
#include "roce/trace_points.h"
#include "wire/trace_packet.h"

static uint64_t trace_time_ns(const struct roce *roce)
{
	return roce->clock ? roce->clock(roce->clock_arg) : 0;
}

/* The WR of a request that was sent; 0: unknown. */
static uint64_t probe_wr_id_of(const struct roce *roce, uint32_t qpn, uint32_t psn, uint8_t opcode)
{
	const struct opcode_info *info = opcode_info(opcode);
	struct qp *qp = qpn ? qp_find(roce->engine, qpn) : NULL;
	uint32_t end;

	if (!qp || qp->transport != &roce_transport || !info || !info->is_request)
		return 0;
	/* The WQE after the ones that were sent completely may have been sent in part. */
	end = (int32_t)(qp->sq.begun - qp->sq.nxt) > 0 ? qp->sq.begun : qp->sq.nxt;
	for (uint32_t i = qp->sq.una; i != qp->sq.head && i != end + 1; i++) {
		const struct send_wqe *wqe = sq_wqe(&qp->sq, i);

		if (wqe_info(wqe)->kind != WR_KIND_LOCAL &&
		    psn_sub(psn, wqe->first_psn) < roce_requester_wqe_psns(roce_qp_of(qp), wqe))
			return wqe->wr_id;
	}
	return 0;
}

static void emit_sent(const struct roce *roce, uint64_t now_ns, const struct link_tx *tx)
{
	struct trace_event event = {
		.time_ns = now_ns,
		.ifindex = tx->path->ifindex,
		.packet =
			{
				.src_port = tx->path->src_port,
				.traffic_class = tx->path->traffic_class,
				.hop_limit = tx->path->hop_limit,
			},
	};
	struct trace_packet *packet = &event.packet;

	memcpy(packet->local_gid, tx->path->local_gid, GID_BYTES);
	memcpy(packet->remote_gid, tx->path->remote_gid, GID_BYTES);
	trace_packet_append(packet, tx->hdr, tx->hdr_bytes);
	trace_packet_append_user(packet, tx->payload, tx->payload_count);
	trace_packet_append(packet, tx->trailer, tx->trailer_bytes);
	trace_packet_fill_head(&event);
	packet->wr_id = probe_wr_id_of(roce, tx->path->local_qpn, event.psn, packet->bytes[0]);
	trace_emit(&trace_packet_sent, &event);
}

static void emit_received(const struct roce *roce, const struct link_rx *rx)
{
	struct trace_event event = {
		.time_ns = trace_time_ns(roce),
		.ifindex = rx->ifindex,
		.packet =
			{
				.src_port = rx->src_port,
				.traffic_class = rx->traffic_class,
				.hop_limit = rx->hop_limit,
			},
	};

	memcpy(event.packet.local_gid, rx->local_gid, GID_BYTES);
	memcpy(event.packet.remote_gid, rx->remote_gid, GID_BYTES);
	trace_packet_append(&event.packet, rx->bytes, rx->len);
	trace_packet_fill_head(&event);
	trace_emit(&trace_packet_received, &event);
}

/* Whether the event of a packet is emitted while trace_is_on(): always if it is a NAK. */
static bool wants_packet(const uint8_t *bytes, size_t len)
{
	return trace_packets_are_on() || trace_packet_is_nak(bytes, len);
}

int roce_probe_send_traced(struct roce *roce, const struct link_tx *tx, int n)
{
	uint64_t now_ns = trace_is_on() ? trace_time_ns(roce) : 0;
	int taken = link_send(roce->link, tx, n);

	if (trace_is_on()) {
		for (int i = 0; i < taken; i++) {
			if (wants_packet(tx[i].hdr, tx[i].hdr_bytes))
				emit_sent(roce, now_ns, &tx[i]);
		}
	}
	return taken;
}

/* With fault rules packets are sent one by one, so that each packet passes the fault point. */
int roce_probe_send(struct roce *roce, const struct link_tx *tx, int n)
{
	if (probe_is_on(PROBE_FAULT))
		return roce_fault_send(roce, tx);
	return roce_probe_send_traced(roce, tx, n);
}

/* The text of a counter of dropped packets; NULL: a counter of other events. */
static const char *cause_of_drop(enum roce_counter counter)
{
	static const char prefix[] = "dropped: ";
	const char *name = roce_counter_name(counter);

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : NULL;
}

/* The counters of drops show whether the packet was dropped. */
void roce_receive_traced(struct roce *roce, const struct link_rx *rx)
{
	uint64_t before[ROCE_COUNTER_COUNT];
	struct packet packet = {0};
	bool is_parsed;

	if (!trace_is_on()) {
		roce_receive(roce, rx);
		return;
	}
	memcpy(before, roce->counters, sizeof(before));
	is_parsed = packet_parse(&packet, rx->bytes, rx->len) == PACKET_OK;
	roce_receive(roce, rx);
	for (int i = 0; i < ROCE_COUNTER_COUNT; i++) {
		const char *cause = cause_of_drop((enum roce_counter)i);

		if (cause && roce->counters[i] != before[i])
			trace_emit_drop(cause, is_parsed ? packet.dest_qpn : 0,
					is_parsed ? packet.src_qpn : 0, is_parsed ? packet.psn : 0,
					rx->remote_gid, (uint32_t)rx->len);
	}
}

void roce_probe_receive(struct roce *roce, const struct link_rx *rx)
{
	if (trace_is_on() && wants_packet(rx->bytes, rx->len))
		emit_received(roce, rx);
	if (probe_is_on(PROBE_FAULT))
		roce_fault_receive(roce, rx);
	else
		roce_receive_traced(roce, rx);
}

void roce_emit_retransmit(const struct roce_qp *rqp, uint32_t psn)
{
	struct trace_event event = {
		.time_ns = rqp->roce->now_ns,
		.qpn = rqp->qp->qpn,
		.psn = psn,
	};

	trace_emit(&point_retransmit, &event);
}

void roce_emit_recovery(const struct roce_qp *rqp, enum recovery_state from,
			enum recovery_input input)
{
	struct trace_event event = {
		.time_ns = rqp->roce->now_ns,
		.qpn = rqp->qp->qpn,
		.psn = rqp->tx.una_psn,
		.state = {.from = from, .to = rqp->tx.recovery.state, .input = input},
	};

	trace_emit(&point_recovery_state, &event);
}

void roce_emit_window(struct roce_qp *rqp, enum roce_window_cause cause)
{
	const struct cc *cc = &rqp->tx.cc;
	struct trace_event event = {
		.time_ns = rqp->roce->now_ns,
		.qpn = rqp->qp->qpn,
		.psn = rqp->tx.una_psn,
		.window =
			{
				.psns = cc->cwnd_pkts,
				.threshold_psns = cc->ssthresh_pkts,
				.cause = cause,
			},
	};

	if (cc->cwnd_pkts == rqp->tx.traced_cwnd_pkts)
		return;
	rqp->tx.traced_cwnd_pkts = cc->cwnd_pkts;
	trace_emit(&point_window, &event);
}
