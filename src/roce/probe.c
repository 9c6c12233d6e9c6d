/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/trace_points.h"
#include "base/util.h"
#include "roce/trace_points.h"
#include "wire/trace_packet.h"

/* Limit of delayed packets, which bounds their memory. Further packets are lost. */
#define DELAYED_MAX 4096u

/* A packet that fault injection delays, before link_send() or after link_recv(). In the list roce.delayed. */
struct delayed_packet {
	struct list_head node;
	struct timer timer;
	struct roce *roce;
	bool is_outgoing;
	struct link_path path; /* outgoing: target of tx.path */
	struct iovec payload;
	struct link_tx tx;
	struct link_rx rx;
	uint8_t bytes[]; /* outgoing: the payload; incoming: the datagram */
};

static uint64_t trace_time_ns(const struct roce *roce)
{
	return roce->clock ? roce->clock(roce->clock_arg) : 0;
}

static void emit_sent(uint64_t now_ns, const struct link_tx *tx)
{
	struct trace_event event = {
		.time_ns = now_ns,
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
	for (int i = 0; i < tx->payload_count; i++)
		trace_packet_append(packet, tx->payload[i].iov_base, tx->payload[i].iov_len);
	trace_packet_append(packet, tx->trailer, tx->trailer_bytes);
	trace_packet_fill_head(&event);
	trace_emit(&trace_packet_sent, &event);
}

static void emit_received(const struct roce *roce, const struct link_rx *rx)
{
	struct trace_event event = {
		.time_ns = trace_time_ns(roce),
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

/* As link_send(), with a trace event for each packet that the link accepted. */
static int roce_probe_send_traced(struct roce *roce, const struct link_tx *tx, int n)
{
	uint64_t now_ns = trace_is_on() ? trace_time_ns(roce) : 0;
	int taken = link_send(roce->link, tx, n);

	if (trace_is_on()) {
		for (int i = 0; i < taken; i++)
			emit_sent(now_ns, &tx[i]);
	}
	return taken;
}

static void delayed_free(struct delayed_packet *delayed)
{
	list_del(&delayed->node);
	delayed->roce->delayed_count--;
	free(delayed);
}

static void delay_is_over(struct timer *timer, uint64_t now_ns)
{
	struct delayed_packet *delayed = container_of(timer, struct delayed_packet, timer);
	struct roce *roce = delayed->roce;

	roce->now_ns = now_ns;
	if (delayed->is_outgoing) {
		/* With back-pressure, the packet is lost. */
		if (roce->link)
			(void)roce_probe_send_traced(roce, &delayed->tx, 1);
	} else {
		roce_receive(roce, &delayed->rx);
		roce_transport.run(roce->engine);
		batch_flush(roce);
	}
	delayed_free(delayed);
}

/* Allocates a delayed packet with space for `bytes` and starts its timer; NULL: the packet is lost. */
static struct delayed_packet *delayed_new(struct roce *roce, size_t bytes, uint64_t delay_ns)
{
	struct delayed_packet *delayed;

	if (roce->delayed_count >= DELAYED_MAX)
		return NULL;
	delayed = calloc(1, sizeof(*delayed) + bytes);
	if (!delayed)
		return NULL;
	delayed->roce = roce;
	timer_init(&delayed->timer, delay_is_over);
	list_add_tail(&delayed->node, &roce->delayed);
	roce->delayed_count++;
	roce_timer_add(roce, &delayed->timer, roce->now_ns + delay_ns);
	return delayed;
}

void roce_drop_delayed(struct roce *roce)
{
	while (!list_is_empty(&roce->delayed)) {
		struct delayed_packet *delayed = list_first_entry(&roce->delayed,
								  struct delayed_packet, node);

		timer_cancel(&roce->engine->timers, &delayed->timer);
		delayed_free(delayed);
	}
}

static void roce_probe_copy_payload(const struct link_tx *tx, uint8_t *to)
{
	for (int i = 0; i < tx->payload_count; i++) {
		memcpy(to, tx->payload[i].iov_base, tx->payload[i].iov_len);
		to += tx->payload[i].iov_len;
	}
}

static void delay_outgoing(struct roce *roce, const struct link_tx *tx, uint64_t delay_ns)
{
	struct delayed_packet *delayed = delayed_new(roce, tx->payload_bytes, delay_ns);

	if (!delayed)
		return;
	delayed->is_outgoing = true;
	delayed->path = *tx->path;
	delayed->tx = *tx;
	delayed->tx.path = &delayed->path;
	roce_probe_copy_payload(tx, delayed->bytes);
	delayed->payload = (struct iovec){delayed->bytes, tx->payload_bytes};
	delayed->tx.payload = &delayed->payload;
	delayed->tx.payload_count = tx->payload_bytes ? 1 : 0;
}

static void delay_incoming(struct roce *roce, const struct link_rx *rx, uint64_t delay_ns)
{
	struct delayed_packet *delayed = delayed_new(roce, rx->len, delay_ns);

	if (!delayed)
		return;
	delayed->rx = *rx;
	memcpy(delayed->bytes, rx->bytes, rx->len);
	delayed->rx.bytes = delayed->bytes;
}

/* Sends a copy of the packet with one bit inverted. Returns as link_send() for one packet. */
static int send_corrupted(struct roce *roce, const struct link_tx *tx, const struct fault *fault)
{
	size_t bytes = (size_t)tx->hdr_bytes + tx->payload_bytes + tx->trailer_bytes;
	uint8_t packet[PACKET_MAX];
	struct iovec payload = {packet + tx->hdr_bytes, tx->payload_bytes};
	struct link_tx copy = *tx;

	memcpy(packet, tx->hdr, tx->hdr_bytes);
	roce_probe_copy_payload(tx, payload.iov_base);
	memcpy(packet + tx->hdr_bytes + tx->payload_bytes, tx->trailer, tx->trailer_bytes);
	fault_corrupt(fault, packet, bytes);
	memcpy(copy.hdr, packet, tx->hdr_bytes);
	copy.payload = &payload;
	copy.payload_count = tx->payload_bytes ? 1 : 0;
	memcpy(copy.trailer, packet + tx->hdr_bytes + tx->payload_bytes, tx->trailer_bytes);
	return roce_probe_send_traced(roce, &copy, 1);
}

/*
 * The fault of the first unsent packet of the batch, or NULL. It is determined on the first attempt to send the packet;
 * after back-pressure, the next attempts execute the same action.
 */
static const struct fault *fault_of_packet(struct roce_batch *batch)
{
	if (batch->drawn <= batch->sent) {
		batch->is_faulty = fault_due(FAULT_PACKET_SEND, NULL, &batch->fault);
		batch->drawn = batch->sent + 1;
	}
	return batch->is_faulty ? &batch->fault : NULL;
}

/* With fault rules packets are sent one by one, so that each packet passes the fault point. */
int roce_probe_send(struct roce *roce, const struct link_tx *tx, int n)
{
	const struct fault *fault = fault_of_packet(&roce->batch);
	int taken;

	if (!fault)
		return roce_probe_send_traced(roce, tx, probe_is_on(PROBE_FAULT) ? 1 : n);
	switch (fault->action) {
	case FAULT_DROP:
		return 1;
	case FAULT_DELAY:
		delay_outgoing(roce, tx, fault->delay_ns);
		return 1;
	case FAULT_CORRUPT:
		return send_corrupted(roce, tx, fault);
	default:
		/* DUPLICATE: with back-pressure, the second copy is lost. */
		taken = roce_probe_send_traced(roce, tx, 1);
		if (taken == 1)
			(void)roce_probe_send_traced(roce, tx, 1);
		return taken;
	}
}

/* The text of a counter of dropped packets; NULL: a counter of other events. */
static const char *cause_of_drop(enum roce_counter counter)
{
	static const char prefix[] = "dropped: ";
	const char *name = roce_counter_name(counter);

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : NULL;
}

/* roce_receive() with the point "drop": the counters of drops show whether the packet was dropped. */
static void roce_receive_traced(struct roce *roce, const struct link_rx *rx)
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

static void roce_probe_receive_corrupted(struct roce *roce, const struct link_rx *rx,
					 const struct fault *fault)
{
	uint8_t packet[PACKET_MAX];
	struct link_rx copy = *rx;

	/* A datagram longer than PACKET_MAX is not corrupted: it is dropped as malformed anyway. */
	if (rx->len && rx->len <= sizeof(packet)) {
		memcpy(packet, rx->bytes, rx->len);
		fault_corrupt(fault, packet, rx->len);
		copy.bytes = packet;
	}
	roce_receive_traced(roce, &copy);
}

void roce_probe_receive(struct roce *roce, const struct link_rx *rx)
{
	struct fault fault;

	if (trace_is_on())
		emit_received(roce, rx);
	if (!fault_due(FAULT_PACKET_RECEIVE, NULL, &fault)) {
		roce_receive_traced(roce, rx);
		return;
	}
	switch (fault.action) {
	case FAULT_DROP:
		return;
	case FAULT_DELAY:
		delay_incoming(roce, rx, fault.delay_ns);
		return;
	case FAULT_CORRUPT:
		roce_probe_receive_corrupted(roce, rx, &fault);
		return;
	default:
		roce_receive_traced(roce, rx);
		roce_receive_traced(roce, rx);
	}
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
