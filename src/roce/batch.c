/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "link/gso.h"
#include "roce/probe.h"

/*
 * The batch of packets to be sent. Packets are collected until the batch is full or the call ends; their payload
 * stays in application memory. Packets that the link then does not accept are copied, and no other packet is sent
 * before them.
 */

/* Interval of retries after back-pressure, unless the link's owner calls earlier. */
#define HELD_LOOK_NS 100000u

static void copy_one(struct link_tx *tx, struct roce_slot *slot)
{
	uint32_t bytes = 0;

	slot->path = *tx->path;
	slot->owner = NULL;
	tx->path = &slot->path;
	for (int i = 0; i < tx->payload_count; i++) {
		const struct iovec *from = &slot->iov[i];

		if (from->iov_base != slot->bytes + bytes)
			memcpy(slot->bytes + bytes, from->iov_base, from->iov_len);
		bytes += (uint32_t)from->iov_len;
	}
	slot->iov[0] = (struct iovec){.iov_base = slot->bytes, .iov_len = bytes};
	tx->payload_count = bytes ? 1 : 0;
}

static void batch_hold(struct roce *roce)
{
	struct roce_batch *batch = &roce->batch;

	if (!batch->is_held) {
		for (int i = batch->sent; i < batch->count; i++)
			copy_one(&batch->tx[i], &batch->slots[i]);
		roce_count(roce, ROCE_BACK_PRESSURE);
	}
	batch->is_held = true;
	roce_timer_add(roce, &roce->held_timer, roce->now_ns + HELD_LOOK_NS);
}

void batch_note(struct roce_qp *rqp, uint32_t psn)
{
	struct roce_slot *slot = &rqp->roce->batch.slots[rqp->roce->batch.count - 1];

	slot->owner = rqp;
	slot->psn = psn;
}

static_assert(ROCE_BATCH <= UINT8_MAX, "roce_bursts.pkts holds the length of a burst");

/*
 * Records the packets that each QP has in a GSO burst. A network that loses one packet of a burst mostly loses the whole
 * burst, so loss recovery uses the number of the QP's packets in it. The QPs take turns, so these follow each other.
 */
static void batch_note_burst(const struct roce_slot *slots, int n)
{
	for (int first = 0, end; first < n; first = end) {
		struct roce_qp *owner = slots[first].owner;
		struct roce_bursts *bursts;

		for (end = first + 1; end < n && slots[end].owner == owner; end++)
			;
		/* batch_burst_pkts() is 1 for all others. */
		if (!owner || end - first == 1)
			continue;
		bursts = &owner->tx.bursts;
		bursts->first_psns[bursts->head % BURSTS_NOTED] = slots[first].psn;
		bursts->pkts[bursts->head % BURSTS_NOTED] = (uint8_t)(end - first);
		bursts->head++;
	}
}

static void batch_note_bursts(struct roce_batch *batch, int first, int end)
{
	while (first < end) {
		int n = gso_length(&batch->tx[first], batch->count - first);

		batch_note_burst(&batch->slots[first], n);
		first += n;
	}
}

uint32_t batch_burst_pkts(const struct roce_qp *rqp, uint32_t psn)
{
	const struct roce_bursts *bursts = &rqp->tx.bursts;

	for (uint32_t i = 1; i <= BURSTS_NOTED && i <= bursts->head; i++) {
		uint32_t at = (bursts->head - i) % BURSTS_NOTED;

		if (bursts->first_psns[at] == psn)
			return bursts->pkts[at];
		if (psn_is_before(bursts->first_psns[at], psn))
			break;
	}
	return 1;
}

void batch_flush(struct roce *roce)
{
	struct roce_batch *batch = &roce->batch;
	int taken;

	while (batch->sent < batch->count) {
		taken = roce->link ? roce_link_send(roce, &batch->tx[batch->sent],
						    batch->count - batch->sent) :
				     batch->count - batch->sent;
		if (taken <= 0) {
			batch_hold(roce);
			return;
		}
		batch_note_bursts(batch, batch->sent, batch->sent + taken);
		batch->sent += taken;
		roce->counters[ROCE_PACKETS_SENT] += (uint64_t)taken;
	}
	batch->count = 0;
	batch->sent = 0;
	batch->drawn = 0;
	batch->is_held = false;
}

/* This many calls of ibv_post_send() send their packets at once, counted from the last run by an application thread. */
#define POSTS_AT_ONCE 4u
/*
 * After this many, each further call counts as a poll of an empty CQ. WRs of UC and UD that do not wait complete at once, so that an
 * application that polls finds no empty CQ.
 */
#define POSTS_OF_POLLING 32u

/*
 * Whether the packets of this call of ibv_post_send() may wait for those of the next calls (docs/adr/0055). The application posts
 * one WR after the other, and polls; its next poll of an empty CQ or the tick of the engine thread sends them.
 */
bool batch_may_wait(struct roce *roce)
{
	if (roce->posts_since_run < POSTS_OF_POLLING)
		roce->posts_since_run++;
	else if (!engine_ticks(roce->engine))
		engine_expect_polls(roce->engine);
	return roce->posts_since_run > POSTS_AT_ONCE && roce->link && engine_ticks(roce->engine) &&
	       !roce->batch.is_held && list_is_empty(&roce->sending);
}

void batch_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce *roce = container_of(timer, struct roce, held_timer);

	/* run() continues with the QPs that back-pressure stopped. */
	roce->now_ns = now_ns;
	batch_flush(roce);
	if (!roce->batch.is_held)
		roce_transport.run(roce->engine);
}

struct roce_slot *batch_reserve(struct roce *roce)
{
	struct roce_batch *batch = &roce->batch;

	if (batch->is_held || batch->count == ROCE_BATCH)
		batch_flush(roce);
	if (batch->is_held)
		return NULL;
	return &batch->slots[batch->count];
}

static uint32_t icrc_of(const struct icrc_flow *flow, const struct link_tx *tx)
{
	static const uint8_t zeros[PACKET_PAD_MAX];
	struct iovec pieces[MAX_SGE + 2];
	size_t count = 0;

	pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)tx->hdr,
					 .iov_len = tx->hdr_bytes};
	for (int i = 0; i < tx->payload_count; i++)
		pieces[count++] = tx->payload[i];
	pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros,
					 .iov_len = packet_pad_bytes(tx->payload_bytes)};
	return icrc_compute(flow, 0, pieces, count);
}

void batch_commit_to(struct roce *roce, const struct link_path *path, const struct icrc_flow *flow,
		     struct packet *packet, int iovs)
{
	struct roce_batch *batch = &roce->batch;
	struct roce_slot *slot = &batch->slots[batch->count];
	struct link_tx *tx = &batch->tx[batch->count];
	size_t bytes = 0;

	for (int i = 0; i < iovs; i++)
		bytes += slot->iov[i].iov_len;
	packet->payload_bytes = bytes;
	packet->pkey = PACKET_PKEY_DEFAULT;
	packet->is_migrated = true;
	slot->owner = NULL;
	tx->path = path;
	tx->payload = slot->iov;
	tx->payload_count = iovs;
	tx->payload_bytes = (uint16_t)bytes;
	tx->hdr_bytes = (uint8_t)packet_build_headers(packet, tx->hdr);
	tx->trailer_bytes = (uint8_t)packet_build_trailer(bytes, icrc_of(flow, tx), tx->trailer);
	batch->count++;
}

void batch_commit(struct roce_qp *rqp, struct packet *packet, int iovs)
{
	packet->dest_qpn = rqp->qp->attr.dest_qp_num;
	batch_commit_to(rqp->roce, &rqp->path, &rqp->tx_flow, packet, iovs);
}
