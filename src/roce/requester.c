/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "core/object/opcode.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "core/report/usage.h"
#include "roce/probe.h"

/*
 * The requester. A WQE gets its PSNs when its first packet is sent and keeps them;
 * send_wqe.first_psn is the first. A packet can be rebuilt from its PSN alone, so go-back-N only
 * sets next_psn. WQEs [una, nxt) were sent completely, the WQE at nxt perhaps in part. WQEs
 * complete strictly in order.
 *
 * A long READ is sent as several READ requests, so that the responses in flight do not exceed the
 * congestion window. The responses have the same PSNs as those to a single request. The boundaries
 * between these requests never change: a responder need not accept a duplicate READ request with
 * boundaries that differ from the original's (IBA 1.x §9.7.5.1.4).
 */

/* Packets that a QP may send in one turn; then other QPs send. */
#define TURN_PKTS (2u * ROCE_BATCH)
/*
 * The AckReq bit is set in the last packet of each message, and after this many packets without it.
 */
#define ACK_REQUEST_PKTS 30u
#define READ_PIECE_PSNS	 30u
/*
 * A WRITE of up to this many bytes and packets is sent as Only packets, which fit into one GSO
 * burst.
 */
#define SPLIT_BYTES 32768u
#define SPLIT_PKTS  32u

enum step {
	STEP_NEXT, /* a WQE or packet was processed; the next one may follow */
	STEP_STOP, /* sending is blocked until a response, a timer or the end of back-pressure */
};

uint32_t roce_requester_wqe_psns(const struct roce_qp *rqp, const struct send_wqe *wqe)
{
	return wqe_info(wqe)->exact_bytes ? 1 : psns_of_bytes(rqp, wqe->length_bytes);
}

void roce_requester_succeed(struct roce_qp *rqp)
{
	struct send_queue *sq = &rqp->qp->sq;

	sq_retire(rqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	/*
	 * The following local operations may have been executed already, also if preceding WQEs
	 * were retransmitted.
	 */
	while (sq->una != sq->head && sq_wqe(sq, sq->una)->state == SEND_WQE_DONE)
		sq_retire(rqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
}

void roce_requester_go_back(struct roce_qp *rqp)
{
	rqp->tx.next_psn = rqp->tx.una_psn;
	rqp->qp->sq.nxt = rqp->qp->sq.una;
	rqp->tx.reads_tail = rqp->tx.reads_head;
	rqp->tx.unasked_pkts = 0;
}

/*
 * Index of the WQE that contains max_psn. If max_psn is the end of a WQE, the index of the next
 * one.
 */
static uint32_t requester_index_of_max(const struct roce_qp *rqp)
{
	const struct send_queue *sq = &rqp->qp->sq;
	const struct send_wqe *last = sq_wqe(sq, sq->begun - 1);

	if (sq->begun == sq->una ||
	    psn_add(last->first_psn, roce_requester_wqe_psns(rqp, last)) == rqp->tx.max_psn)
		return sq->begun;
	return sq->begun - 1;
}

/*
 * The gap was retransmitted: continues with unsent packets, because the peer may have buffered
 * those between.
 */
static void requester_skip_buffered(struct roce_qp *rqp)
{
	rqp->tx.next_psn = rqp->tx.max_psn;
	rqp->qp->sq.nxt = requester_index_of_max(rqp);
}

void roce_requester_moved_on(struct roce_qp *rqp)
{
	bool is_sending_gap = recovery_is_sending_gap(rqp);

	/*
	 * The peer acknowledged packets that were to be retransmitted: it received their first
	 * copy.
	 */
	if (psn_is_before(rqp->tx.next_psn, rqp->tx.una_psn))
		rqp->tx.next_psn = rqp->tx.una_psn;
	if (is_sending_gap && !recovery_is_sending_gap(rqp))
		requester_skip_buffered(rqp);
	/* Prevents that an old value is taken for a later PSN after PSNs wrapped around. */
	if (!roce_requester_has_reads_out(rqp))
		rqp->tx.reads_end_psn = rqp->tx.una_psn;
	while (rqp->tx.reads_tail != rqp->tx.reads_head &&
	       !psn_is_after(rqp->tx.read_ends[rqp->tx.reads_tail % MAX_RD_ATOMIC],
			     rqp->tx.una_psn))
		rqp->tx.reads_tail++;
}

static uint32_t requester_reads_out(const struct roce_qp *rqp)
{
	return rqp->tx.reads_head - rqp->tx.reads_tail;
}

/* Includes READs and atomics that are to be retransmitted. */
bool roce_requester_has_reads_out(const struct roce_qp *rqp)
{
	return psn_is_after(rqp->tx.reads_end_psn, rqp->tx.una_psn);
}

/*
 * Completes UC WQEs that were sent. No packet in the batch refers to application memory any more.
 */
static void requester_retire_unreliable(struct roce_qp *rqp)
{
	struct send_queue *sq = &rqp->qp->sq;

	list_del(&rqp->sent_node);
	while (sq->una != sq->nxt)
		roce_requester_succeed(rqp);
	rqp->tx.una_psn = rqp->tx.next_psn;
	qp_check_drained(rqp->qp);
}

unsigned int roce_requester_flush(struct roce *roce)
{
	unsigned int count = 0;

	batch_flush(roce);
	for (; !list_is_empty(&roce->sent); count++)
		requester_retire_unreliable(
			list_first_entry(&roce->sent, struct roce_qp, sent_node));
	return count;
}

/*
 * A WQE failed locally. If preceding WQEs are outstanding, the failure is reported after they
 * complete.
 */
static enum step requester_fail_in_order(struct roce_qp *rqp, enum ibv_wc_status status,
					 enum vendor_err vendor_err)
{
	if (!is_reliable(rqp)) {
		batch_flush(rqp->roce);
		requester_retire_unreliable(rqp);
	}
	if (requester_is_oldest(&rqp->qp->sq))
		requester_fail(rqp->qp, status, vendor_err);
	return STEP_STOP;
}

/* Updates the state after the packets [next_psn, next_psn + psns) were committed to the batch. */
static void requester_sent(struct roce_qp *rqp, const struct send_wqe *wqe, uint32_t psns,
			   bool wants_ack)
{
	uint32_t psn = rqp->tx.next_psn;
	uint32_t end_psn = psn_add(wqe->first_psn, roce_requester_wqe_psns(rqp, wqe));
	bool is_new = !psn_is_before(psn, rqp->tx.max_psn);
	bool is_sending_gap = recovery_is_sending_gap(rqp);

	if (is_reliable(rqp))
		recovery_on_sent(rqp, psn, wants_ack && is_new);
	rqp->tx.next_psn = psn_add(psn, psns);
	if (is_new) {
		batch_note(rqp, psn);
	} else {
		roce_count(rqp->roce, ROCE_PACKETS_RESENT);
		rqp->qp->usage->retries++;
		roce_trace_retransmit(rqp, psn);
	}
	if (psn_is_after(rqp->tx.next_psn, rqp->tx.max_psn))
		rqp->tx.max_psn = rqp->tx.next_psn;
	rqp->tx.unasked_pkts = wants_ack ? 0 : rqp->tx.unasked_pkts + 1;
	if (rqp->tx.next_psn == end_psn)
		rqp->qp->sq.nxt++;
	if (is_sending_gap && !recovery_is_sending_gap(rqp))
		requester_skip_buffered(rqp);
}

static void requester_fill_message(const struct send_wqe *wqe, bool starts, bool ends,
				   enum opcode_transport transport, struct packet *packet)
{
	const struct wr_opcode_info *info = wqe_info(wqe);

	/* The wire module encodes the headers that the packet's opcode has. */
	packet->opcode = info->kind == WR_KIND_WRITE ?
				 opcode_of_write(transport, starts, ends, wqe_has_imm(wqe)) :
				 opcode_of_send(transport, starts, ends, info->extra);
	packet->rkey = wqe->rkey;
	packet->imm_be = wqe->imm_data_be;
	packet->inv_rkey = wqe->imm_data_be;
	packet->is_solicited = ends && (wqe->send_flags & IBV_SEND_SOLICITED);
}

static bool requester_wants_ack(struct roce_qp *rqp, uint32_t psn, bool ends)
{
	if (!is_reliable(rqp))
		return pace_on_send(&rqp->tx.pace, psn);
	return ends || rqp->tx.unasked_pkts + 1 >= ACK_REQUEST_PKTS || recovery_room(rqp) == 1 ||
	       (recovery_is_sending_gap(rqp) &&
		psn_next(psn) == rqp->tx.recovery.retransmit_end_psn);
}

/*
 * Whether each packet of a WRITE is a WRITE of its own. Its packets then have the same length and
 * are one GSO burst. Otherwise the RETH makes the first packet longer than the others, which need a
 * second system call (docs/adr/0056).
 *
 * The first message of several packets is not split: a peer with another path MTU refuses its first
 * packet, as it refuses that of a NIC. A larger path MTU of the peer would admit the parts. After
 * 2^24 packets another message may have the same PSN, and is not split either.
 */
static bool requester_splits(const struct roce_qp *rqp, const struct send_wqe *wqe)
{
	if (rqp->qp->type != IBV_QPT_RC || wqe_info(wqe)->kind != WR_KIND_WRITE ||
	    wqe_has_imm(wqe) || wqe->length_bytes > SPLIT_BYTES ||
	    wqe->length_bytes > SPLIT_PKTS * rqp->mtu_bytes)
		return false;
	return wqe->length_bytes <= rqp->mtu_bytes ||
	       (rqp->tx.has_whole && wqe->first_psn != rqp->tx.whole_psn);
}

/*
 * Whether the next packet may be sent before those that precede it: only the first time, and not
 * while a loss is repaired. The packets of long messages fill bursts in their order.
 */
static bool requester_may_overtake(const struct roce_qp *rqp, const struct packet *packet)
{
	const struct opcode_info *info = opcode_info(packet->opcode);

	return rqp->tx.may_overtake && opcode_starts_message(info) && opcode_ends_message(info) &&
	       rqp->tx.recovery.state == RECOVERY_OPEN &&
	       !psn_is_before(rqp->tx.next_psn, rqp->tx.max_psn);
}

/* Sends the next packet of a SEND or WRITE. */
static enum step requester_step_message(struct roce_qp *rqp, struct send_wqe *wqe,
					struct roce_slot *slot)
{
	uint32_t at = psn_sub(rqp->tx.next_psn, wqe->first_psn) * rqp->mtu_bytes;
	uint32_t left = wqe->length_bytes - at;
	uint32_t bytes = min_u32(left, rqp->mtu_bytes);
	bool is_split = requester_splits(rqp, wqe);
	struct packet packet = {
		.psn = rqp->tx.next_psn,
		.xrc_srqn = wqe->remote_srqn,
		.va = wqe->remote_addr + at,
		.dma_length_bytes = is_split ? bytes : left,
	};
	bool ends = bytes == left;
	struct sge_iovs payload = {.iov = slot->iov, .max = MAX_SGE};
	enum vendor_err err = VENDOR_ERR_NONE;
	bool is_readable;

	if (__builtin_expect(!rqp->tx.has_whole && !ends, 0)) {
		rqp->tx.has_whole = true;
		rqp->tx.whole_psn = wqe->first_psn;
	}

	if (bytes)
		err = sge_gather(rqp->qp, wqe, at, bytes, false, &payload);
	if (err)
		return requester_fail_in_order(rqp, IBV_WC_LOC_PROT_ERR, err);
	requester_fill_message(wqe, is_split || at == 0, is_split || ends, service_of(rqp),
			       &packet);
	if (is_split)
		roce_mark_part(&packet, !ends);
	packet.wants_ack = requester_wants_ack(rqp, packet.psn, ends);
	if (requester_may_overtake(rqp, &packet))
		is_readable = batch_commit_ahead(rqp, &packet, payload.count);
	else
		is_readable = batch_commit(rqp, &packet, payload.count);
	if (!is_readable)
		return requester_fail_in_order(rqp, IBV_WC_LOC_PROT_ERR, VENDOR_ERR_MEMORY_GONE);
	requester_sent(rqp, wqe, 1, packet.wants_ack);
	/*
	 * The RETH of a WRITE makes this packet longer than the next one, which therefore begins a
	 * GSO burst. A short ACK fits between. The last packet of any message follows the ACK
	 * (requester_acks_before()).
	 */
	if (!ends && !is_split)
		response_run_waited(rqp);
	return STEP_NEXT;
}

static void requester_note_read(struct roce_qp *rqp, uint32_t end_psn)
{
	rqp->tx.read_ends[rqp->tx.reads_head++ % MAX_RD_ATOMIC] = end_psn;
	if (psn_is_after(end_psn, rqp->tx.reads_end_psn))
		rqp->tx.reads_end_psn = end_psn;
}

/*
 * Sends the READ request for the next piece, or for the remainder of a piece if responses were
 * lost.
 */
static enum step requester_step_read(struct roce_qp *rqp, struct send_wqe *wqe)
{
	uint32_t done_psns = psn_sub(rqp->tx.next_psn, wqe->first_psn);
	uint32_t at = done_psns * rqp->mtu_bytes;
	uint32_t psns = roce_requester_wqe_psns(rqp, wqe) - done_psns;
	uint32_t piece_psns = READ_PIECE_PSNS - done_psns % READ_PIECE_PSNS;
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), OPCODE_READ_REQUEST),
		.psn = rqp->tx.next_psn,
		.xrc_srqn = wqe->remote_srqn,
		.wants_ack = true,
		.takes_ahead = rqp->tx.may_overtake &&
			       reorder_is_flow(rqp, rqp->tx.read_reorder.flow_port),
		.va = wqe->remote_addr + at,
		.rkey = wqe->rkey,
		.dma_length_bytes = wqe->length_bytes - at,
	};

	if (piece_psns < psns) {
		psns = piece_psns;
		packet.dma_length_bytes = psns * rqp->mtu_bytes;
		roce_mark_part(&packet, rqp->qp->type == IBV_QPT_RC);
	}
	/* Avoids short requests: waits until the window has room for a full piece. */
	if (psns > recovery_room(rqp) && rqp->tx.next_psn != rqp->tx.una_psn)
		return STEP_STOP;
	batch_commit(rqp, &packet, 0);
	requester_note_read(rqp, psn_add(rqp->tx.next_psn, psns));
	requester_sent(rqp, wqe, psns, true);
	return STEP_NEXT;
}

/* Sets the fields of the packet's extended headers. */
static void requester_fill_request(const struct send_wqe *wqe, struct packet *packet)
{
	const struct opcode_info *headers = opcode_info(packet->opcode);

	packet->va = wqe->remote_addr;
	packet->rkey = wqe->rkey;
	packet->dma_length_bytes = wqe->length_bytes;
	if (headers->has_atomic_eth) {
		bool has_compare = wqe_info(wqe)->has_compare;

		packet->swap_or_add = has_compare ? wqe->swap : wqe->compare_add;
		packet->compare = has_compare ? wqe->compare_add : 0;
	}
	if (headers->has_feth) {
		packet->dma_length_bytes = (uint32_t)wqe->flush_length_bytes;
		packet->flush_types = wqe->flush_types;
		packet->flush_level = wqe->flush_level;
	}
}

/* Sends a request of one packet whose response is one packet. */
static enum step requester_step_request(struct roce_qp *rqp, struct send_wqe *wqe,
					struct roce_slot *slot)
{
	const struct wr_opcode_info *info = wqe_info(wqe);
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), info->operation),
		.psn = rqp->tx.next_psn,
		.xrc_srqn = wqe->remote_srqn,
		.wants_ack = true,
	};
	struct sge_iovs operand = {.iov = slot->iov, .max = MAX_SGE};
	enum vendor_err err = VENDOR_ERR_NONE;

	if (info->data == WR_DATA_OPERAND)
		err = sge_gather(rqp->qp, wqe, 0, wqe->length_bytes, false, &operand);
	if (err)
		return requester_fail_in_order(rqp, IBV_WC_LOC_PROT_ERR, err);
	requester_fill_request(wqe, &packet);
	if (!batch_commit(rqp, &packet, operand.count))
		return requester_fail_in_order(rqp, IBV_WC_LOC_PROT_ERR, VENDOR_ERR_MEMORY_GONE);
	requester_note_read(rqp, psn_next(rqp->tx.next_psn));
	requester_sent(rqp, wqe, 1, true);
	return STEP_NEXT;
}

static void requester_begin_psns(struct roce_qp *rqp, struct send_wqe *wqe)
{
	if (wqe->state == SEND_WQE_POSTED) {
		wqe->first_psn = rqp->tx.next_psn;
		wqe->state = SEND_WQE_SENT;
	}
	requester_begin(&rqp->qp->sq);
}

/*
 * A local operation was executed. It has no PSN, and completes after the preceding WQEs; in UC, at
 * the end of the turn.
 */
static void requester_executed(struct roce_qp *rqp)
{
	if (is_reliable(rqp) && rqp->qp->sq.una + 1 == rqp->qp->sq.nxt)
		roce_requester_succeed(rqp);
}

/* UC: whether the window has room. If not, the timer or a VENDOR_ACK continues. */
static bool requester_has_window(struct roce_qp *rqp)
{
	uint32_t timeouts = rqp->tx.pace.timeouts;
	uint64_t retry_ns;
	bool may_send = pace_may_send(&rqp->tx.pace, rqp->roce->now_ns, &retry_ns);

	if (!may_send)
		roce_timer_add(rqp->roce, &rqp->tx.timer, retry_ns);
	else if (rqp->tx.pace.timeouts != timeouts)
		roce_count(rqp->roce, ROCE_PACE_TIMEOUTS);
	return may_send;
}

void roce_requester_on_vendor_ack(struct roce_qp *rqp, const struct packet *packet)
{
	if (packet->src_qpn != rqp->path.remote_qpn || !pace_on_ack(&rqp->tx.pace, packet->psn)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	roce_count(rqp->roce, ROCE_VENDOR_ACKS_RECEIVED);
	roce_send_later(rqp);
}

void roce_requester_pace_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce_qp *rqp = container_of(timer, struct roce_qp, tx.timer);

	rqp->roce->now_ns = now_ns;
	roce_requester_run(rqp);
	roce_requester_flush(rqp->roce);
}

/*
 * Whether a postponed ACK precedes the next packet, because this packet ends a message. The peer's
 * application would otherwise receive a reply before the completion of the SEND that the reply
 * answers. With a NIC it does not. A peer that permits packets ahead puts them in order itself
 * (roce_acks_first()), and receives the ACK at the end of the burst.
 */
static bool requester_acks_before(const struct roce_qp *rqp, const struct send_wqe *wqe)
{
	return !rqp->tx.may_overtake && wqe_info(wqe)->response == WR_RESPONSE_ACK &&
	       wqe->length_bytes <= rqp->mtu_bytes;
}

/* Sends the next packet of the WQE at nxt. */
static enum step requester_step_send(struct roce_qp *rqp, struct send_wqe *wqe)
{
	struct roce_slot *slot;

	if (is_reliable(rqp) ? !recovery_room(rqp) : !requester_has_window(rqp))
		return STEP_STOP;
	if (wqe_is_request(wqe) && requester_reads_out(rqp) >= requester_depth(rqp->qp))
		return STEP_STOP;
	if (requester_acks_before(rqp, wqe))
		response_run_waited(rqp);
	slot = batch_reserve(rqp->roce);
	if (!slot) {
		roce_send_later(rqp);
		return STEP_STOP;
	}
	requester_begin_psns(rqp, wqe);
	switch (wqe_info(wqe)->response) {
	case WR_RESPONSE_ACK:
		return requester_step_message(rqp, wqe, slot);
	case WR_RESPONSE_READ:
		return requester_step_read(rqp, wqe);
	default:
		return requester_step_request(rqp, wqe, slot);
	}
}

static enum step requester_step(struct roce_qp *rqp)
{
	struct send_wqe *wqe = sq_wqe(&rqp->qp->sq, rqp->qp->sq.nxt);
	struct requester_error error;

	switch (requester_prepare(rqp->qp, requester_reads_out(rqp), &error)) {
	case REQUESTER_NEXT_SEND:
		return requester_step_send(rqp, wqe);
	case REQUESTER_NEXT_EXECUTED:
		requester_executed(rqp);
		return STEP_NEXT;
	case REQUESTER_NEXT_FAIL:
		return requester_fail_in_order(rqp, error.status, error.vendor_err);
	default:
		return STEP_STOP;
	}
}

void roce_requester_run(struct roce_qp *rqp)
{
	struct qp *qp = rqp->qp;
	struct send_queue *sq = &qp->sq;
	uint32_t budget = TURN_PKTS;

	list_del(&rqp->send_node);
	while (sq->nxt != requester_sendable_end(qp) && recovery_may_send(rqp)) {
		if (!budget--) {
			roce_send_later(rqp);
			break;
		}
		if (requester_step(rqp) == STEP_STOP)
			break;
	}
	if (!is_reliable(rqp) && sq->una != sq->nxt && !list_is_linked(&rqp->sent_node))
		list_add_tail(&rqp->sent_node, &rqp->roce->sent);
	qp_check_drained(qp);
}
