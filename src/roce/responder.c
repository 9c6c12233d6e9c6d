/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "core/object/qp_state.h"
#include "core/queue/failure_drop.h"
#include "core/queue/failure_wr.h"
#include "core/queue/qp_error.h"
#include "core/report/failure.h"
#include "roce/xrc_forward.h"

/*
 * The responder. The checks below run in order for each request; the first that fails determines
 * the disposition. The table of dispositions (disposition.c) determines the reply and whether the
 * QP enters ERROR (IBA 1.x §9.7.4, §9.9.3).
 */

/*
 * Compares the PSN with the expected one: expected, duplicate, ahead of its turn, or after a gap.
 */
static enum disposition check_psn(struct roce_qp *rqp, const struct packet *packet)
{
	int32_t ahead = psn_diff(packet->psn, rqp->rx.psn);

	if (ahead < 0)
		return opcode_has_own_response(packet->info) ? DISPOSITION_REPLAY :
							       DISPOSITION_DUPLICATE;
	if (ahead > 0 && rqp->rx.nak_sent)
		return DISPOSITION_AWAITED;
	if (ahead > 0)
		return reorder_is_ahead(rqp, packet) ? DISPOSITION_AHEAD : DISPOSITION_GAP;
	return DISPOSITION_ACCEPTED;
}

/* Whether the opcode may follow that of the preceding packet. */
static enum disposition check_sequence(struct roce_qp *rqp, const struct packet *packet)
{
	bool continues = packet->info->is_middle || packet->info->is_last;

	if (continues != rqp->rx.is_inside)
		return DISPOSITION_SEQUENCE;
	if (continues && packet->info->is_write != rqp->rx.is_inside_write)
		return DISPOSITION_SEQUENCE;
	return DISPOSITION_ACCEPTED;
}

/*
 * Bytes that remain of the packet's message: of a WRITE by its RETH, of a SEND at most
 * MAX_MSG_BYTES.
 */
static uint32_t left_bytes(const struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t whole = packet->info->is_write ? rqp->rx.in->length_bytes : MAX_MSG_BYTES;

	if (packet->info->has_reth)
		return packet->dma_length_bytes;
	return rqp->rx.is_inside ? whole - rqp->rx.in->done_bytes : MAX_MSG_BYTES;
}

/*
 * Whether the lengths of payload and message are valid; a WRITE must match the DMA length of its
 * RETH (IBA 1.x §9.7.4.1).
 */
enum disposition responder_check_size(struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t left = left_bytes(rqp, packet);

	/* The length in a FLUSH is that of a memory range, not of a message. */
	if (packet->info->is_flush)
		return DISPOSITION_ACCEPTED;
	if (!packet_fits_mtu(packet, rqp->mtu_bytes)) {
		failure_refused(rqp->qp, &(struct failure_refusal){.length = packet->payload_bytes,
								   .mtu_bytes = rqp->mtu_bytes});
		return DISPOSITION_SIZE;
	}
	if (packet->dma_length_bytes > MAX_MSG_BYTES)
		return DISPOSITION_SIZE;
	if (packet->info->is_atomic_write)
		return packet->payload_bytes == left ? DISPOSITION_ACCEPTED : DISPOSITION_SIZE;
	if (opcode_has_own_response(packet->info))
		return DISPOSITION_ACCEPTED;
	if (packet->payload_bytes > left)
		return DISPOSITION_SIZE;
	if (packet->info->is_write && opcode_ends_message(packet->info) &&
	    packet->payload_bytes != left)
		return DISPOSITION_SIZE;
	return DISPOSITION_ACCEPTED;
}

/*
 * Whether an XRC packet refers to an SRQ of the QP's domain, and all packets of a message to the
 * same. The packet uses the access rights, receives and completion queue of that SRQ (IBA A14).
 */
static enum disposition check_srq(struct roce_qp *rqp, const struct packet *packet)
{
	if (!packet->info->has_xrceth)
		return DISPOSITION_ACCEPTED;
	if (rqp->rx.is_inside && packet->xrc_srqn != rqp->rx.srqn)
		return DISPOSITION_SRQ;
	rqp->rx.srqn = packet->xrc_srqn;
	return xrc_aim(rqp->qp, packet->xrc_srqn) ? DISPOSITION_ACCEPTED : DISPOSITION_SRQ;
}

typedef enum disposition check_fn(struct roce_qp *rqp, const struct packet *packet);

static check_fn *const checks[] = {check_psn, check_sequence, responder_check_size, check_srq};

static enum disposition roce_responder_check(struct roce_qp *rqp, const struct packet *packet)
{
	enum disposition disposition = DISPOSITION_ACCEPTED;

	for (size_t i = 0; i < COUNT(checks) && disposition == DISPOSITION_ACCEPTED; i++)
		disposition = checks[i](rqp, packet);
	return disposition;
}

static enum access_result take_recv(struct roce_qp *rqp)
{
	return rqp->rx.in->has_recv ? ACCESS_OK : inbound_take_recv(rqp->qp, rqp->rx.in);
}

static enum access_result roce_responder_begin(struct roce_qp *rqp, const struct packet *packet)
{
	if (packet->info->is_send)
		return inbound_begin_recv(rqp->qp, rqp->rx.in);
	rqp->rx.in->is_part = roce_is_part(packet);
	return inbound_begin_write(rqp->qp, rqp->rx.in, packet->va, packet->rkey,
				   packet->dma_length_bytes);
}

static enum access_result roce_responder_finish(struct roce_qp *rqp, const struct packet *packet)
{
	const struct inbound_end end = {
		.has_imm = packet->info->has_imm,
		.has_invalidate = packet->info->has_ieth,
		.is_solicited = packet->is_solicited,
		.imm_data_be = packet->imm_be,
		.invalidate_rkey = packet->inv_rkey,
		.src_qpn = rqp->qp->attr.dest_qp_num,
	};

	return inbound_end(rqp->qp, rqp->rx.in, &end);
}

/*
 * Executes one packet of a SEND or WRITE. Without a receive WQE it has no effect, so that the
 * requester can retransmit it.
 */
enum access_result responder_execute_message(struct roce_qp *rqp, const struct packet *packet)
{
	const struct opcode_info *info = packet->info;
	enum access_result result = ACCESS_OK;

	if (opcode_starts_message(info))
		result = roce_responder_begin(rqp, packet);
	if (result == ACCESS_OK && info->is_write && info->has_imm)
		result = take_recv(rqp);
	if (result == ACCESS_OK && packet->payload_bytes)
		result = inbound_data(rqp->qp, rqp->rx.in, packet->payload,
				      (uint32_t)packet->payload_bytes);
	if (result == ACCESS_OK && opcode_ends_message(info))
		result = roce_responder_finish(rqp, packet);
	if (result != ACCESS_OK)
		return result;
	rqp->rx.is_inside = !opcode_ends_message(info);
	rqp->rx.is_inside_write = info->is_write;
	if (opcode_ends_message(info))
		rqp->rx.has_taken_recv = info->completes_recv;
	rqp->rx.psn = psn_next(packet->psn);
	if (!rqp->rx.is_inside)
		rqp->rx.msn = psn_next(rqp->rx.msn);
	return ACCESS_OK;
}

static struct response_job read_job(const struct roce_qp *rqp, const struct packet *packet)
{
	return (struct response_job){
		.next_psn = packet->psn,
		.end_psn = psn_add(packet->psn, psns_of_bytes(rqp, packet->dma_length_bytes)),
		.msn = rqp->rx.msn,
		.response = WR_RESPONSE_READ,
		.srqn = packet->xrc_srqn,
		.rkey = packet->rkey,
		.remote_addr = packet->va,
		.left_bytes = packet->dma_length_bytes,
		.may_overtake = packet->takes_ahead && rqp->qp->type == IBV_QPT_RC,
		.reads = roce_is_part(packet) ? 0 : 1,
		.read_bytes = packet->dma_length_bytes,
	};
}

static struct response_job atomic_job(const struct done_atomic *done)
{
	return (struct response_job){
		.next_psn = done->psn,
		.end_psn = psn_next(done->psn),
		.msn = done->msn,
		.response = done->response,
		.original = done->original,
	};
}

static struct remote_request request_of(const struct packet *packet, int opcode)
{
	bool has_compare = wr_opcodes[opcode].has_compare;

	return (struct remote_request){
		.opcode = (enum ibv_wr_opcode)opcode,
		.rkey = packet->rkey,
		.remote_addr = packet->va,
		.length_bytes = packet->dma_length_bytes,
		.flush_types = packet->flush_types,
		.flush_level = packet->flush_level,
		.compare_add = has_compare ? packet->compare : packet->swap_or_add,
		.swap = has_compare ? packet->swap_or_add : 0,
		.data = packet->payload,
	};
}

/*
 * Executes a request that has a response of its own. A READ is executed again for each duplicate.
 * The result of another request is stored for duplicates, because it must not be executed twice.
 */
static enum disposition execute_own(struct roce_qp *rqp, const struct packet *packet)
{
	int opcode = wr_opcode_of_operation(opcode_operation_of(packet->opcode));
	struct done_atomic done = {.is_valid = true, .psn = packet->psn};
	struct remote_request request;
	enum access_result result;
	struct response_job job;

	if (opcode < 0)
		return DISPOSITION_SEQUENCE;
	/* Before the execution: a rejected atomic must not change memory. */
	if (!response_has_room(rqp))
		return DISPOSITION_DEPTH;
	request = request_of(packet, opcode);
	result = execute_request(rqp->qp, &request, &done.original);
	if (result != ACCESS_OK)
		return disposition_of_access(result);
	rqp->rx.msn = psn_next(rqp->rx.msn);
	if (packet->info->is_read) {
		job = read_job(rqp, packet);
	} else {
		done.response = wr_opcodes[opcode].response;
		done.msn = rqp->rx.msn;
		rqp->rx.atomics[rqp->rx.atomics_head++ % rqp->rx.atomics_count] = done;
		job = atomic_job(&done);
	}
	response_add(rqp, &job);
	rqp->rx.psn = job.end_psn;
	reorder_pass(rqp, psn_sub(job.end_psn, packet->psn));
	return DISPOSITION_ACCEPTED;
}

/*
 * Processes a duplicate request. A READ is checked and executed again. An atomic, atomic WRITE or
 * FLUSH is not: its stored response is sent again.
 */
static enum disposition replay(struct roce_qp *rqp, const struct packet *packet)
{
	struct response_job job;
	const uint8_t *from;

	if (xrc_target_is_remote(rqp, packet))
		return xrc_target_replay(rqp, packet);
	if (packet->info->is_read) {
		job = read_job(rqp, packet);
		if (packet->info->has_xrceth && !xrc_aim(rqp->qp, packet->xrc_srqn))
			return DISPOSITION_STALE;
		/* A duplicate ends before the expected PSN. */
		if (packet->dma_length_bytes > MAX_MSG_BYTES ||
		    psn_is_after(job.end_psn, rqp->rx.psn) ||
		    execute_read(rqp->qp, packet->va, packet->rkey, packet->dma_length_bytes,
				 &from) != ACCESS_OK)
			return DISPOSITION_STALE;
		job.is_replay = true;
		job.reads = 0;
		job.read_bytes = 0;
		response_replace(rqp, &job);
		return DISPOSITION_REPLAY;
	}
	for (uint32_t i = 0; i < rqp->rx.atomics_count; i++) {
		const struct done_atomic *done = &rqp->rx.atomics[i];

		if (!done->is_valid || done->psn != packet->psn)
			continue;
		job = atomic_job(done);
		job.is_replay = true;
		response_replace(rqp, &job);
		return DISPOSITION_REPLAY;
	}
	return DISPOSITION_STALE;
}

static enum disposition roce_responder_execute(struct roce_qp *rqp, const struct packet *packet)
{
	if (opcode_has_own_response(packet->info))
		return execute_own(rqp, packet);
	return disposition_of_access(responder_execute_message(rqp, packet));
}

static enum access_result access_of_disposition(enum disposition disposition)
{
	for (unsigned result = ACCESS_OK; result < ACCESS_RESULT_COUNT; result++) {
		if (disposition_of_access((enum access_result)result) == disposition)
			return (enum access_result)result;
	}
	/*
	 * The packet was invalid, not the receive WQE: it completes like that of an abandoned
	 * message.
	 */
	return ACCESS_OK;
}

/*
 * Completes the receive of the current message with an error; for XRC to the CQ of its SRQ, if the
 * SRQ still exists.
 */
static void fail_message(struct roce_qp *rqp, enum access_result result)
{
	bool is_xrc = rqp->qp->type == IBV_QPT_XRC_RECV;

	if (is_xrc)
		xrc_aim(rqp->qp, rqp->rx.srqn);
	inbound_fail(rqp->qp, rqp->rx.in, result);
	if (is_xrc)
		xrc_unaim(rqp->qp);
}

void roce_responder_refuse(struct roce_qp *rqp, enum disposition disposition)
{
	rqp->rx.is_inside = false;
	rqp->rx.nak_pending = disposition;
	rqp->rx.fatal = disposition;
	response_set_pending(rqp);
	fail_message(rqp, access_of_disposition(disposition));
	if (rqp->executor)
		xrc_executor_fail(rqp, disposition);
	else
		qp_enter_error(rqp->qp, disposition_row(disposition)->event);
}

/* Executes the disposition's entry in the table: reply and QP error. */
static void roce_responder_carry_out(struct roce_qp *rqp, enum disposition disposition,
				     bool wants_ack)
{
	const struct disposition_row *row = disposition_row(disposition);

	if (row->errs_qp) {
		roce_responder_refuse(rqp, disposition);
		return;
	}
	switch (row->reply) {
	case REPLY_IF_ASKED:
		if (!wants_ack)
			return;
		rqp->rx.ack_pending = true;
		break;
	case REPLY_ACK:
		rqp->rx.ack_pending = true;
		break;
	case REPLY_RNR_NAK:
	case REPLY_NAK:
		rqp->rx.nak_pending = disposition;
		rqp->rx.nak_sent = true;
		break;
	default:
		return;
	}
	response_set_pending(rqp);
}

/*
 * The checks in an XRC target QP process: a packet with the expected PSN may be forwarded to
 * another process, which checks it.
 */
static enum disposition check_at_target(struct roce_qp *rqp, const struct packet *packet)
{
	enum disposition disposition = check_psn(rqp, packet);

	if (disposition == DISPOSITION_ACCEPTED)
		disposition = xrc_target_request(rqp, packet);
	return disposition == DISPOSITION_ACCEPTED ? roce_responder_check(rqp, packet) :
						     disposition;
}

static enum disposition take_one(struct roce_qp *rqp, const struct packet *packet)
{
	enum disposition disposition = rqp->rx.xrc_target ? check_at_target(rqp, packet) :
							    roce_responder_check(rqp, packet);
	bool wants_ack = packet->wants_ack && !opcode_has_own_response(packet->info);

	if (disposition == DISPOSITION_DUPLICATE || disposition == DISPOSITION_REPLAY) {
		roce_count(rqp->roce, ROCE_DUPLICATES);
		ack_wait_end(rqp);
	}
	if (disposition == DISPOSITION_REPLAY)
		disposition = replay(rqp, packet);
	else if (disposition == DISPOSITION_ACCEPTED)
		disposition = roce_responder_execute(rqp, packet);
	if (disposition == DISPOSITION_ACCEPTED)
		ack_wait_on_request(rqp, packet->info->completes_recv);
	if (disposition == DISPOSITION_STALE)
		roce_count(rqp->roce, ROCE_DROPPED_STALE);
	if (disposition == DISPOSITION_AWAITED)
		roce_count(rqp->roce, ROCE_DROPPED_SEQUENCE);
	if (disposition == DISPOSITION_ACCEPTED || disposition == DISPOSITION_FORWARDED) {
		rqp->rx.nak_sent = false;
		rqp->rx.nak_pending = DISPOSITION_ACCEPTED;
	}
	/* Later packets are buffered in the same way as after a gap. */
	if (disposition == DISPOSITION_DEFERRED) {
		rqp->rx.nak_sent = true;
		reorder_add(rqp, packet);
	}
	/* Not after an RNR NAK: the requester will retransmit all packets. */
	if ((disposition == DISPOSITION_GAP || disposition == DISPOSITION_AHEAD ||
	     (disposition == DISPOSITION_AWAITED && rqp->rx.reorder_count)) &&
	    reorder_may_buffer(rqp))
		reorder_add(rqp, packet);
	if (disposition == DISPOSITION_RNR)
		reorder_drop_all(rqp);
	roce_responder_carry_out(rqp, disposition, wants_ack);
	return disposition;
}

static bool is_deferred(const struct roce_qp *rqp)
{
	return rqp->rx.xrc_target && xrc_target_is_deferred(rqp->rx.xrc_target);
}

/*
 * Executes buffered packets that are in sequence now. If there is another gap after them, its NAK
 * becomes pending at once. Packets that were overtaken by packets sent ahead are not a gap yet.
 */
static void take_reordered(struct roce_qp *rqp)
{
	struct reorder_packet *buffered;

	while (qp_state_receives(rqp->qp->state) && !is_deferred(rqp) &&
	       (buffered = reorder_dequeue(rqp))) {
		take_one(rqp, &buffered->packet);
		reorder_free(rqp, buffered);
	}
	if (qp_state_receives(rqp->qp->state) && !rqp->rx.nak_sent && reorder_has_gap(rqp))
		roce_responder_carry_out(rqp, DISPOSITION_GAP, false);
}

static void take_reliable(struct roce_qp *rqp, const struct packet *packet)
{
	enum disposition disposition = take_one(rqp, packet);

	/* These dispositions occur only for the expected PSN. */
	if (disposition == DISPOSITION_ACCEPTED || disposition == DISPOSITION_FORWARDED ||
	    disposition == DISPOSITION_DEFERRED)
		rqp->rx.flow_port = rqp->inflow.src_port;
	if (rqp->rx.xrc_target && disposition != DISPOSITION_FORWARDED)
		xrc_target_check_stall(rqp, packet);
	if (rqp->rx.reorder_count)
		take_reordered(rqp);
}

/*
 * A request arrives at a QP in ERROR whose NAK, or a response before it, was lost: the NAK is sent
 * again. The response to a READ or atomic that was accepted before is also sent again, because the
 * requester needs it before it processes the NAK. Otherwise it would report IBV_WC_RETRY_EXC_ERR
 * for the wrong request. After the application itself has moved the QP to ERROR, its memory is not
 * read any more.
 */
static void repeat_nak(struct roce_qp *rqp, const struct packet *packet)
{
	if (rqp->qp->state != IBV_QPS_ERR || rqp->rx.fatal == DISPOSITION_ACCEPTED) {
		roce_count(rqp->roce, ROCE_DROPPED_QP_STATE);
		return;
	}
	if (rqp->rx.xrc_target && rqp->rx.fatal == DISPOSITION_EXECUTOR)
		xrc_target_learn(rqp, packet);
	if (opcode_has_own_response(packet->info) && psn_is_before(packet->psn, rqp->rx.psn) &&
	    !(packet->info->is_read && rqp->rx.is_revoked))
		(void)replay(rqp, packet);
	rqp->rx.nak_pending = rqp->rx.fatal;
	response_set_pending(rqp);
}

static void roce_responder_take(struct roce_qp *rqp, const struct packet *packet)
{
	if (!qp_state_receives(rqp->qp->state)) {
		repeat_nak(rqp, packet);
		return;
	}
	if (rqp->qp->state == IBV_QPS_RTR)
		qp_comm_established(rqp->qp);
	if (is_reliable(rqp)) {
		take_reliable(rqp, packet);
		return;
	}
	responder_take_unreliable(rqp, packet);
	if (vendor_ack_is_requested(packet))
		vendor_ack_pend(rqp, packet->psn);
}

void roce_responder_request(struct roce_qp *rqp, const struct packet *packet)
{
	roce_responder_take(rqp, packet);
	if (rqp->qp->type == IBV_QPT_XRC_RECV)
		xrc_unaim(rqp->qp);
}

void roce_responder_resume(struct roce_qp *rqp)
{
	take_reordered(rqp);
	xrc_unaim(rqp->qp);
}

enum disposition roce_responder_forwarded(struct roce_qp *rqp, const struct packet *packet)
{
	enum disposition disposition = take_one(rqp, packet);

	xrc_unaim(rqp->qp);
	return disposition;
}

void roce_responder_replay(struct roce_qp *rqp, const struct packet *packet)
{
	if (opcode_has_own_response(packet->info) && replay(rqp, packet) == DISPOSITION_STALE)
		roce_count(rqp->roce, ROCE_DROPPED_STALE);
	xrc_unaim(rqp->qp);
}

void roce_responder_abandon(struct roce_qp *rqp)
{
	rqp->rx.is_inside = false;
	reorder_drop_all(rqp);
	fail_message(rqp, ACCESS_OK);
}
