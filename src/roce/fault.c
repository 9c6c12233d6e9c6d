/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/user_copy.h"
#include "core/engine/qp_table.h"
#include "core/report/fault_points.h"
#include "roce/probe.h"
#include "wire/opcode.h"
#include "wire/packet.h"

/* The points packet.send and packet.receive. */

/* Limit of delayed packets, which bounds their memory. Further packets are lost. */
#define DELAYED_MAX 4096u
/* A reordered packet is sent after this time, even if no later packets follow. */
#define REORDER_NS UINT64_C(10000000)
/*
 * Deadlines of packets with the same delay differ by at least 1 ns, so that the timers keep their
 * order. Deadlines within this time of the last one are of the same delay.
 */
#define SAME_DELAY_NS 8192u

/*
 * A packet that fault injection delays, before link_send() or after link_recv(). In the list
 * roce.delayed.
 */
struct delayed_packet {
	struct list_head node;
	struct timer timer;
	struct roce *roce;
	bool is_outgoing;
	uint32_t qpn; /* the local QP */
	/* REORDER: number of packets of the QP that are still to overtake this one; else 0 */
	uint64_t followers;
	struct link_path path; /* outgoing: target of tx.path */
	struct iovec payload;
	struct link_tx tx;
	struct link_rx rx;
	uint8_t bytes[]; /* outgoing: the payload; incoming: the datagram */
};

static void delayed_free(struct delayed_packet *delayed)
{
	list_del(&delayed->node);
	delayed->roce->delayed_count--;
	delayed->roce->reordered_count -= delayed->followers != 0;
	free(delayed);
}

/* The delay is over. Frees the packet. */
static void delayed_release(struct delayed_packet *delayed)
{
	struct roce *roce = delayed->roce;

	if (delayed->is_outgoing) {
		/* With back-pressure, the packet is lost. */
		if (roce->link)
			(void)roce_probe_send_traced(roce, &delayed->tx, 1);
	} else {
		roce_receive_traced(roce, &delayed->rx);
	}
	delayed_free(delayed);
}

static void delay_is_over(struct timer *timer, uint64_t now_ns)
{
	struct delayed_packet *delayed = container_of(timer, struct delayed_packet, timer);
	struct roce *roce = delayed->roce;
	bool is_outgoing = delayed->is_outgoing;

	roce->now_ns = now_ns;
	delayed_release(delayed);
	if (!is_outgoing) {
		roce_transport.run(roce->engine);
		batch_flush(roce);
	}
}

/* Constant delays keep the order of packets. */
static uint64_t delayed_deadline_ns(struct roce *roce, bool is_outgoing, uint64_t delay_ns)
{
	uint64_t *last_ns = &roce->delayed_until_ns[is_outgoing];
	uint64_t deadline_ns = roce->now_ns + delay_ns;

	if (deadline_ns <= *last_ns && *last_ns - deadline_ns < SAME_DELAY_NS)
		deadline_ns = *last_ns + 1;
	*last_ns = deadline_ns;
	return deadline_ns;
}

/*
 * Allocates a delayed packet with space for `bytes` and starts its timer; NULL: the packet is lost.
 */
static struct delayed_packet *delayed_new(struct roce *roce, size_t bytes, bool is_outgoing,
					  const struct fault_subject *subject,
					  const struct fault *fault)
{
	uint64_t delay_ns = fault->action == FAULT_REORDER ? REORDER_NS : fault->delay_ns;
	struct delayed_packet *delayed;

	if (roce->delayed_count >= DELAYED_MAX)
		return NULL;
	delayed = calloc(1, sizeof(*delayed) + bytes);
	if (!delayed)
		return NULL;
	delayed->roce = roce;
	delayed->is_outgoing = is_outgoing;
	delayed->qpn = subject->qpn;
	delayed->followers = fault->action == FAULT_REORDER ? fault->count : 0;
	roce->reordered_count += delayed->followers != 0;
	timer_init(&delayed->timer, delay_is_over);
	list_add_tail(&delayed->node, &roce->delayed);
	roce->delayed_count++;
	roce_timer_add(roce, &delayed->timer, delayed_deadline_ns(roce, is_outgoing, delay_ns));
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

/*
 * A packet was sent or received: releases the reordered packets of the same QP and direction that
 * it was the last to overtake.
 */
static void packet_passed(struct roce *roce, bool is_outgoing, uint32_t qpn)
{
	struct delayed_packet *delayed, *tmp;

	if (!roce->reordered_count)
		return;
	list_for_each_entry_safe(delayed, tmp, &roce->delayed, node) {
		if (!delayed->followers || delayed->is_outgoing != is_outgoing ||
		    delayed->qpn != qpn)
			continue;
		if (delayed->followers > 1) {
			delayed->followers--;
			continue;
		}
		timer_cancel(&roce->engine->timers, &delayed->timer);
		delayed_release(delayed);
	}
}

static void delay_outgoing(struct roce *roce, const struct link_tx *tx,
			   const struct fault_subject *subject, const struct fault *fault)
{
	struct delayed_packet *delayed = delayed_new(roce, tx->payload_bytes, true, subject, fault);

	if (!delayed)
		return;
	delayed->path = *tx->path;
	delayed->tx = *tx;
	delayed->tx.path = &delayed->path;
	user_gather_readable(delayed->bytes, tx->payload, tx->payload_count, tx->payload_bytes);
	delayed->payload = (struct iovec){delayed->bytes, tx->payload_bytes};
	delayed->tx.payload = &delayed->payload;
	delayed->tx.payload_count = tx->payload_bytes ? 1 : 0;
}

static void delay_incoming(struct roce *roce, const struct link_rx *rx,
			   const struct fault_subject *subject, const struct fault *fault)
{
	struct delayed_packet *delayed = delayed_new(roce, rx->len, false, subject, fault);

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
	user_gather_readable(payload.iov_base, tx->payload, tx->payload_count, tx->payload_bytes);
	memcpy(packet + tx->hdr_bytes + tx->payload_bytes, tx->trailer, tx->trailer_bytes);
	fault_corrupt(fault, packet, bytes);
	memcpy(copy.hdr, packet, tx->hdr_bytes);
	copy.payload = &payload;
	copy.payload_count = tx->payload_bytes ? 1 : 0;
	memcpy(copy.trailer, packet + tx->hdr_bytes + tx->payload_bytes, tx->trailer_bytes);
	return roce_probe_send_traced(roce, &copy, 1);
}

/* Sends the packet with the ECN field "congestion experienced", as if a router had marked it. */
static int send_marked(struct roce *roce, const struct link_tx *tx)
{
	struct link_path path = *tx->path;
	struct link_tx copy = *tx;

	path.traffic_class |= ROCE_ECN_MASK;
	copy.path = &path;
	return roce_probe_send_traced(roce, &copy, 1);
}

static void fill_subject(struct roce *roce, uint32_t qpn, const uint8_t *peer, size_t bytes,
			 const struct packet *packet, struct fault_subject *subject)
{
	const struct qp *qp = qpn ? qp_find(roce->engine, qpn) : NULL;

	*subject = (struct fault_subject){.now_ns = roce->now_ns, .bytes = (uint32_t)bytes};
	if (qp)
		fault_subject_of_qp(subject, qp);
	subject->qpn = qpn;
	subject->peer = peer;
	subject->op = opcode_fault_op(packet->info);
}

static void subject_of_outgoing(struct roce *roce, const struct link_tx *tx,
				struct fault_subject *subject)
{
	struct packet packet = {.opcode = tx->hdr[0], .info = opcode_info(tx->hdr[0])};
	uint32_t qpn = tx->path->local_qpn;

	/*
	 * The path of an address handle belongs to no QP. The DETH, which contains the source QPN,
	 * follows the BTH.
	 */
	if (!qpn && packet.info && packet.info->has_deth)
		qpn = be_load24(tx->hdr + BTH_BYTES + DETH_BYTES - 3);
	fill_subject(roce, qpn, tx->path->remote_gid,
		     (size_t)tx->hdr_bytes + tx->payload_bytes + tx->trailer_bytes, &packet,
		     subject);
}

static void subject_of_incoming(struct roce *roce, const struct link_rx *rx,
				struct fault_subject *subject)
{
	struct packet packet = {.info = NULL};

	if (rx->len >= BTH_BYTES) {
		packet.info = opcode_info(rx->bytes[0]);
		packet.dest_qpn = be_load24(rx->bytes + 5);
	}
	fill_subject(roce, packet.dest_qpn, rx->remote_gid, rx->len, &packet, subject);
}

/*
 * The fault of the first unsent packet of the batch, or NULL. It is determined on the first attempt
 * to send the packet; after back-pressure, the next attempts execute the same action.
 */
static const struct fault *fault_of_packet(struct roce_batch *batch,
					   const struct fault_subject *subject)
{
	if (batch->drawn <= batch->sent) {
		batch->is_faulty = fault_due(FAULT_PACKET_SEND, subject, &batch->fault);
		batch->drawn = batch->sent + 1;
	}
	return batch->is_faulty ? &batch->fault : NULL;
}

static int send_with(struct roce *roce, const struct link_tx *tx,
		     const struct fault_subject *subject, const struct fault *fault)
{
	int taken;

	switch (fault->action) {
	case FAULT_DROP:
		return 1;
	case FAULT_DELAY:
	case FAULT_REORDER:
		delay_outgoing(roce, tx, subject, fault);
		return 1;
	case FAULT_CORRUPT:
		return send_corrupted(roce, tx, fault);
	case FAULT_MARK:
		return send_marked(roce, tx);
	default:
		/* DUPLICATE: with back-pressure, the second copy is lost. */
		taken = roce_probe_send_traced(roce, tx, 1);
		if (taken == 1)
			(void)roce_probe_send_traced(roce, tx, 1);
		return taken;
	}
}

int roce_fault_send(struct roce *roce, const struct link_tx *tx)
{
	struct fault_subject subject;
	const struct fault *fault;
	int taken;

	subject_of_outgoing(roce, tx, &subject);
	fault = fault_of_packet(&roce->batch, &subject);
	taken = fault ? send_with(roce, tx, &subject, fault) : roce_probe_send_traced(roce, tx, 1);
	if (taken == 1 && !(fault && fault->action == FAULT_REORDER))
		packet_passed(roce, true, subject.qpn);
	return taken;
}

static void receive_corrupted(struct roce *roce, const struct link_rx *rx,
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

static void receive_marked(struct roce *roce, const struct link_rx *rx)
{
	struct link_rx copy = *rx;

	copy.traffic_class |= ROCE_ECN_MASK;
	roce_receive_traced(roce, &copy);
}

static void receive_with(struct roce *roce, const struct link_rx *rx,
			 const struct fault_subject *subject, const struct fault *fault)
{
	switch (fault->action) {
	case FAULT_DROP:
		return;
	case FAULT_DELAY:
	case FAULT_REORDER:
		delay_incoming(roce, rx, subject, fault);
		return;
	case FAULT_CORRUPT:
		receive_corrupted(roce, rx, fault);
		return;
	case FAULT_MARK:
		receive_marked(roce, rx);
		return;
	default:
		roce_receive_traced(roce, rx);
		roce_receive_traced(roce, rx);
	}
}

void roce_fault_receive(struct roce *roce, const struct link_rx *rx)
{
	struct fault_subject subject;
	struct fault fault;
	bool is_due;

	subject_of_incoming(roce, rx, &subject);
	is_due = fault_due(FAULT_PACKET_RECEIVE, &subject, &fault);
	if (is_due)
		receive_with(roce, rx, &subject, &fault);
	else
		roce_receive_traced(roce, rx);
	if (!is_due || fault.action != FAULT_REORDER)
		packet_passed(roce, false, subject.qpn);
}
