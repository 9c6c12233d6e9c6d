/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "base/user_copy.h"
#include "base/user_fault.h"
#include "link/gso.h"
#include "roce/probe.h"

/*
 * The batch of packets to be sent. Packets are collected until the batch is full or the call ends;
 * their payload stays in application memory. Packets that the link then does not accept are copied,
 * and no other packet is sent before them.
 */

/* Payloads of up to this many bytes are copied before their ICRC is computed. */
#define ICRC_COPY_BYTES 256u
/* Interval of retries after back-pressure, unless the link's owner calls earlier. */
#define HELD_LOOK_NS 100000u

/* Copies the payload to the slot. false: it cannot be read. */
static bool copy_payload(struct link_tx *tx, struct roce_slot *slot)
{
	uint32_t bytes = 0;

	for (int i = 0; i < tx->payload_count; i++) {
		const struct iovec *from = &slot->iov[i];

		if (from->iov_base != slot->bytes + bytes &&
		    !user_copy_from(slot->bytes + bytes, from->iov_base, from->iov_len))
			return false;
		bytes += (uint32_t)from->iov_len;
	}
	slot->iov[0] = (struct iovec){.iov_base = slot->bytes, .iov_len = bytes};
	tx->payload_count = bytes ? 1 : 0;
	return true;
}

/*
 * If the payload has become unreadable, the peer drops the packet because of its ICRC. A reliable
 * requester sends it again, and batch_add() then reports the error.
 */
static void copy_one(struct link_tx *tx, struct roce_slot *slot)
{
	slot->path = *tx->path;
	tx->path = &slot->path;
	if (copy_payload(tx, slot))
		return;
	memset(slot->bytes, 0, tx->payload_bytes);
	slot->iov[0] = (struct iovec){.iov_base = slot->bytes, .iov_len = tx->payload_bytes};
	tx->payload_count = 1;
}

static void batch_hold(struct roce *roce)
{
	struct roce_batch *batch = &roce->batch;

	if (!batch->is_held) {
		for (int i = batch->sent; i < batch->count; i++) {
			copy_one(&batch->tx[i], &batch->slots[batch->notes[i].slot]);
			batch->notes[i].owner = NULL;
		}
		roce_count(roce, ROCE_BACK_PRESSURE);
	}
	batch->is_held = true;
	roce_timer_add(roce, &roce->held_timer, roce->now_ns + HELD_LOOK_NS);
}

void batch_note(struct roce_qp *rqp, uint32_t psn)
{
	struct roce_note *note = &rqp->roce->batch.notes[rqp->roce->batch.count - 1];

	note->owner = rqp;
	note->psn = psn;
}

static void batch_note_bursts(struct roce_batch *batch, int first, int end)
{
	while (first < end) {
		int n = gso_length(&batch->tx[first], batch->count - first);

		bursts_note(batch, &batch->notes[first], n);
		first += n;
	}
}

/* Brings the packets into the order of their lanes. */
static void batch_sort(struct roce_batch *batch)
{
	struct link_tx tx[ROCE_BATCH];
	struct roce_note notes[ROCE_BATCH];
	uint8_t order[ROCE_BATCH];

	if (!lanes_order(&batch->lanes, batch->lane_of, batch->count, order))
		return;
	memcpy(tx, batch->tx, sizeof(*tx) * (size_t)batch->count);
	memcpy(notes, batch->notes, sizeof(*notes) * (size_t)batch->count);
	for (int i = 0; i < batch->count; i++) {
		batch->tx[i] = tx[order[i]];
		batch->notes[i] = notes[order[i]];
	}
}

void batch_flush(struct roce *roce)
{
	struct roce_batch *batch = &roce->batch;
	int taken;

	if (batch->lanes.count > 1 && !batch->is_held)
		batch_sort(batch);
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
	lanes_begin(&batch->lanes);
}

/*
 * This many calls of ibv_post_send() send their packets at once, counted from the last run by an
 * application thread. If there were more before that run, the application is expected to post as
 * many again.
 */
#define POSTS_AT_ONCE 4u
/* The expectation ends after this many runs in succession without posts. */
#define RUNS_WITHOUT_POSTS 64u
/*
 * After this many, each further call counts as a poll of an empty CQ. WRs of UC and UD that do not
 * wait complete at once, so that an application that polls finds no empty CQ.
 */
#define POSTS_OF_POLLING 32u

static unsigned int posts_at_once(const struct roce *roce)
{
	return roce->posts_before_run > POSTS_AT_ONCE ? 0 : POSTS_AT_ONCE;
}

void batch_on_run(struct roce *roce)
{
	if (roce->posts_since_run) {
		roce->posts_before_run = roce->posts_since_run;
		roce->runs_without_posts = 0;
	} else if (roce->runs_without_posts < RUNS_WITHOUT_POSTS) {
		roce->runs_without_posts++;
	} else {
		roce->posts_before_run = 0;
	}
	roce->posts_since_run = 0;
}

/*
 * Whether the packets of this call of ibv_post_send() may wait for those of the next calls
 * (docs/adr/0055). The application posts one WR after the other, and polls; its next poll of an
 * empty CQ or the tick of the engine thread sends them.
 */
bool batch_may_wait(struct roce *roce)
{
	if (roce->posts_since_run < POSTS_OF_POLLING)
		roce->posts_since_run++;
	else if (!engine_ticks(roce->engine))
		engine_expect_polls(roce->engine);
	return roce->posts_since_run > posts_at_once(roce) && roce->link &&
	       engine_ticks(roce->engine) && !roce->batch.is_held && list_is_empty(&roce->sending);
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

/* The computation of an ICRC, which reads the payload in application memory. */
struct icrc_job {
	const struct icrc_flow *flow;
	const struct link_tx *tx;
	uint32_t icrc;
};

static void icrc_run(void *arg)
{
	static const uint8_t zeros[PACKET_PAD_MAX];
	struct icrc_job *job = arg;
	const struct link_tx *tx = job->tx;
	struct iovec pieces[MAX_SGE + 2];
	size_t count = 0;

	pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)tx->hdr,
					 .iov_len = tx->hdr_bytes};
	for (int i = 0; i < tx->payload_count; i++)
		pieces[count++] = tx->payload[i];
	pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros,
					 .iov_len = packet_pad_bytes(tx->payload_bytes)};
	job->icrc = icrc_compute(job->flow, 0, pieces, count);
}

/*
 * A short payload is copied first, which takes less time than a call that may fault. So does a
 * thread whose faults are not caught, with a system call.
 */
static bool icrc_of(struct icrc_job *job, struct link_tx *tx, struct roce_slot *slot)
{
	if (tx->payload_bytes > ICRC_COPY_BYTES && user_fault_is_caught())
		return user_fault_run(tx->payload, tx->payload_count, icrc_run, job);
	if (!copy_payload(tx, slot))
		return false;
	icrc_run(job);
	return true;
}

/* Adds the packet to the batch. `range`: the lanes of its sequence. */
static bool batch_add(struct roce *roce, const struct link_path *path, const struct icrc_flow *flow,
		      struct packet *packet, int iovs, struct lane_range *range, bool may_overtake)
{
	struct roce_batch *batch = &roce->batch;
	struct roce_slot *slot = &batch->slots[batch->count];
	struct link_tx *tx = &batch->tx[batch->count];
	struct icrc_job job = {.flow = flow, .tx = tx};
	size_t bytes = 0;

	for (int i = 0; i < iovs; i++)
		bytes += slot->iov[i].iov_len;
	packet->payload_bytes = bytes;
	packet->pkey = PACKET_PKEY_DEFAULT;
	packet->is_migrated = true;
	batch->lane_of[batch->count] = (uint8_t)lanes_join(&batch->lanes, range, path,
							   (uint32_t)packet_bytes(packet),
							   may_overtake, &packet->is_ahead);
	batch->notes[batch->count] = (struct roce_note){.slot = (uint8_t)batch->count};
	tx->path = path;
	tx->payload = slot->iov;
	tx->payload_count = iovs;
	tx->payload_bytes = (uint16_t)bytes;
	tx->hdr_bytes = (uint8_t)packet_build_headers(packet, tx->hdr);
	if (!icrc_of(&job, tx, slot)) {
		/* The packet may have joined a lane. The next batch has none. */
		batch_flush(roce);
		return false;
	}
	tx->trailer_bytes = (uint8_t)packet_build_trailer(bytes, job.icrc, tx->trailer);
	if (packet->is_ahead)
		roce_count(roce, ROCE_SENT_AHEAD);
	batch->count++;
	return true;
}

bool batch_commit_to(struct roce *roce, const struct link_path *path, const struct icrc_flow *flow,
		     struct packet *packet, int iovs)
{
	return batch_add(roce, path, flow, packet, iovs, &roce->batch.others, false);
}

static bool batch_add_to_qp(struct roce_qp *rqp, struct packet *packet, int iovs, bool may_overtake)
{
	bool is_request = opcode_info(packet->opcode)->is_request;

	packet->dest_qpn = rqp->qp->attr.dest_qp_num;
	return batch_add(rqp->roce, &rqp->path, &rqp->tx_flow, packet, iovs,
			 is_request ? &rqp->tx.lanes : &rqp->rx.lanes, may_overtake);
}

bool batch_commit(struct roce_qp *rqp, struct packet *packet, int iovs)
{
	return batch_add_to_qp(rqp, packet, iovs, false);
}

bool batch_commit_ahead(struct roce_qp *rqp, struct packet *packet, int iovs)
{
	return batch_add_to_qp(rqp, packet, iovs, true);
}
