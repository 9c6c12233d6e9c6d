/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp.h"
#include "roce/relay.h"

/*
 * The receiving half of a QP. Each request runs through the checks below in their order; the first that has something
 * to say gives the verdict, and the table of verdicts says what goes out and what the QP does (IBA 1.x §9.7.4, §9.9.3).
 * UC has nobody to answer: there a message that breaks a rule is dropped, up to the next that begins (IBA 1.x §9.8.2).
 */

/* Whether the packet is the next, an old or an early one. */
static enum verdict check_psn(struct roce_qp *rqp, const struct packet *packet)
{
	int32_t ahead = psn_diff(packet->psn, rqp->rx.psn);

	if (ahead < 0)
		return opcode_has_own_answer(packet->info) ? VERDICT_REPLAY : VERDICT_DUPLICATE;
	if (ahead > 0)
		return rqp->rx.has_nakd ? VERDICT_AWAITED : VERDICT_GAP;
	return VERDICT_ACCEPTED;
}

/* Whether its opcode may follow the one before. */
static enum verdict check_sequence(struct roce_qp *rqp, const struct packet *packet)
{
	bool continues = packet->info->is_middle || packet->info->is_last;

	if (continues != rqp->rx.is_inside)
		return VERDICT_SEQUENCE;
	if (continues && packet->info->is_write != rqp->rx.is_inside_write)
		return VERDICT_SEQUENCE;
	return VERDICT_ACCEPTED;
}

/* What is still to come of the message that the packet is of, as far as it was announced. */
static uint32_t left_bytes(const struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t whole = packet->info->is_write ? rqp->rx.in->length_bytes : MAX_MSG_BYTES;

	if (packet->info->has_reth)
		return packet->dma_length_bytes;
	return rqp->rx.is_inside ? whole - rqp->rx.in->done_bytes : MAX_MSG_BYTES;
}

/* Whether payload and message have lengths that are possible: of a WRITE, those that it announced (IBA 1.x §9.7.4.1). */
static enum verdict check_size(struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t left = left_bytes(rqp, packet);

	/* What a FLUSH names is no message. */
	if (packet->info->is_flush)
		return VERDICT_ACCEPTED;
	if (!packet_fits_mtu(packet, rqp->mtu_bytes) || packet->dma_length_bytes > MAX_MSG_BYTES)
		return VERDICT_SIZE;
	if (packet->info->is_atomic_write)
		return packet->payload_bytes == left ? VERDICT_ACCEPTED : VERDICT_SIZE;
	if (opcode_has_own_answer(packet->info))
		return VERDICT_ACCEPTED;
	if (packet->payload_bytes > left)
		return VERDICT_SIZE;
	if (packet->info->is_write && opcode_ends_message(packet->info) &&
	    packet->payload_bytes != left)
		return VERDICT_SIZE;
	return VERDICT_ACCEPTED;
}

/*
 * Whether an XRC packet names an SRQ of the QP's domain, the same in all of a message: it is that one's rights,
 * receives and completion queue that the packet goes by (IBA A14).
 */
static enum verdict check_srq(struct roce_qp *rqp, const struct packet *packet)
{
	if (!packet->info->has_xrceth)
		return VERDICT_ACCEPTED;
	if (rqp->rx.is_inside && packet->xrc_srqn != rqp->rx.srqn)
		return VERDICT_SRQ;
	rqp->rx.srqn = packet->xrc_srqn;
	return xrc_aim(rqp->qp, packet->xrc_srqn) ? VERDICT_ACCEPTED : VERDICT_SRQ;
}

typedef enum verdict check_fn(struct roce_qp *rqp, const struct packet *packet);

static check_fn *const checks[] = {check_psn, check_sequence, check_size, check_srq};

static enum verdict check(struct roce_qp *rqp, const struct packet *packet)
{
	enum verdict verdict = VERDICT_ACCEPTED;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && verdict == VERDICT_ACCEPTED;
	     i++)
		verdict = checks[i](rqp, packet);
	return verdict;
}

static void drop_message(struct roce_qp *rqp)
{
	rqp->rx.is_inside = false;
	inbound_drop(rqp->rx.in);
}

static enum access_result take_recv(struct roce_qp *rqp)
{
	return rqp->rx.in->has_recv ? ACCESS_OK : inbound_take_recv(rqp->qp, rqp->rx.in);
}

static enum access_result begin(struct roce_qp *rqp, const struct packet *packet)
{
	if (packet->info->is_send)
		return inbound_begin_recv(rqp->qp, rqp->rx.in);
	return inbound_begin_write(rqp->qp, rqp->rx.in, packet->va, packet->rkey,
				   packet->dma_length_bytes);
}

static enum access_result finish(struct roce_qp *rqp, const struct packet *packet)
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

/* One packet of a SEND or WRITE. Without a receive nothing of it is done, so that it can come again. */
static enum access_result execute_message(struct roce_qp *rqp, const struct packet *packet)
{
	const struct opcode_info *info = packet->info;
	enum access_result result = ACCESS_OK;

	if (opcode_starts_message(info))
		result = begin(rqp, packet);
	if (result == ACCESS_OK && info->is_write && info->has_imm)
		result = take_recv(rqp);
	if (result == ACCESS_OK && packet->payload_bytes)
		result = inbound_data(rqp->qp, rqp->rx.in, packet->payload,
				      (uint32_t)packet->payload_bytes);
	if (result == ACCESS_OK && opcode_ends_message(info))
		result = finish(rqp, packet);
	if (result != ACCESS_OK)
		return result;
	rqp->rx.is_inside = !opcode_ends_message(info);
	rqp->rx.is_inside_write = info->is_write;
	rqp->rx.psn = psn_next(packet->psn);
	if (!rqp->rx.is_inside)
		rqp->rx.msn = psn_next(rqp->rx.msn);
	return ACCESS_OK;
}

static struct answer_job read_job(const struct roce_qp *rqp, const struct packet *packet)
{
	return (struct answer_job){
		.next_psn = packet->psn,
		.end_psn = psn_add(packet->psn, psns_of_bytes(rqp, packet->dma_length_bytes)),
		.msn = rqp->rx.msn,
		.srqn = packet->xrc_srqn,
		.rkey = packet->rkey,
		.remote_addr = packet->va,
		.left_bytes = packet->dma_length_bytes,
	};
}

static struct answer_job atomic_job(const struct done_atomic *done)
{
	return (struct answer_job){
		.next_psn = done->psn,
		.end_psn = psn_next(done->psn),
		.msn = done->msn,
		.kind = done->kind,
		.original = done->original,
	};
}

static enum verdict execute_read_request(struct roce_qp *rqp, const struct packet *packet)
{
	struct answer_job job;
	const uint8_t *from;
	enum access_result result = execute_read(rqp->qp, packet->va, packet->rkey,
						 packet->dma_length_bytes, &from);

	if (result != ACCESS_OK)
		return verdict_of_access(result);
	rqp->rx.msn = psn_next(rqp->rx.msn);
	job = read_job(rqp, packet);
	if (!answer_add(rqp, &job))
		return VERDICT_DEPTH;
	rqp->rx.psn = job.end_psn;
	return VERDICT_ACCEPTED;
}

static enum access_result execute_word(struct roce_qp *rqp, const struct packet *packet,
				       struct done_atomic *done)
{
	bool is_cas = packet->opcode == opcode_make(service_of(rqp), OPCODE_COMPARE_SWAP);

	if (packet->info->is_flush)
		return execute_flush(rqp->qp, packet->va, packet->rkey, packet->dma_length_bytes,
				     packet->flush_types, packet->flush_level);
	if (packet->info->is_atomic_write)
		return execute_atomic_write(rqp->qp, packet->va, packet->rkey, packet->payload,
					    (uint32_t)packet->payload_bytes);
	done->kind = ANSWER_ATOMIC;
	return execute_atomic(rqp->qp, is_cas, packet->va, packet->rkey,
			      is_cas ? packet->compare : packet->swap_or_add,
			      is_cas ? packet->swap_or_add : 0, &done->original);
}

/* An atomic, an atomic WRITE or a FLUSH: what is done once and remembered. */
static enum verdict execute_once(struct roce_qp *rqp, const struct packet *packet)
{
	struct done_atomic done = {.is_valid = true, .psn = packet->psn, .kind = ANSWER_EMPTY};
	struct answer_job job;
	enum access_result result = execute_word(rqp, packet, &done);

	if (result != ACCESS_OK)
		return verdict_of_access(result);
	rqp->rx.msn = psn_next(rqp->rx.msn);
	done.msn = rqp->rx.msn;
	rqp->rx.atomics[rqp->rx.atomics_head++ % rqp->rx.max_reads] = done;
	job = atomic_job(&done);
	if (!answer_add(rqp, &job))
		return VERDICT_DEPTH;
	rqp->rx.psn = job.end_psn;
	return VERDICT_ACCEPTED;
}

/*
 * A READ is carried out again as it asks now, and checked as such; the others are only answered again, from what is
 * remembered.
 */
static enum verdict replay(struct roce_qp *rqp, const struct packet *packet)
{
	struct answer_job job;
	const uint8_t *from;

	if (relay_is_foreign(rqp, packet))
		return relay_replay(rqp, packet);
	if (packet->info->is_read) {
		job = read_job(rqp, packet);
		if (packet->info->has_xrceth && !xrc_aim(rqp->qp, packet->xrc_srqn))
			return VERDICT_STALE;
		/* Not beyond what was asked for in turn. */
		if (packet->dma_length_bytes > MAX_MSG_BYTES ||
		    psn_is_after(job.end_psn, rqp->rx.psn) ||
		    execute_read(rqp->qp, packet->va, packet->rkey, packet->dma_length_bytes,
				 &from) != ACCESS_OK)
			return VERDICT_STALE;
		job.is_replay = true;
		answer_replace(rqp, &job);
		return VERDICT_REPLAY;
	}
	for (uint32_t i = 0; i < rqp->rx.max_reads; i++) {
		const struct done_atomic *done = &rqp->rx.atomics[i];

		if (!done->is_valid || done->psn != packet->psn)
			continue;
		job = atomic_job(done);
		job.is_replay = true;
		answer_replace(rqp, &job);
		return VERDICT_REPLAY;
	}
	return VERDICT_STALE;
}

static enum verdict execute(struct roce_qp *rqp, const struct packet *packet)
{
	if (packet->info->is_read)
		return execute_read_request(rqp, packet);
	if (opcode_has_own_answer(packet->info))
		return execute_once(rqp, packet);
	return verdict_of_access(execute_message(rqp, packet));
}

static enum access_result access_of_verdict(enum verdict verdict)
{
	for (unsigned result = ACCESS_OK; result < ACCESS_RESULT_COUNT; result++) {
		if (verdict_of_access((enum access_result)result) == verdict)
			return (enum access_result)result;
	}
	/* What the wire found wrong is not the receive's fault: it ends as those of an abandoned message do. */
	return ACCESS_OK;
}

/* The receive of the message under way completes, to its SRQ's completion queue if it is XRC and the SRQ still there. */
static void fail_message(struct roce_qp *rqp, enum access_result result)
{
	bool is_xrc = rqp->qp->type == IBV_QPT_XRC_RECV;

	if (is_xrc)
		xrc_aim(rqp->qp, rqp->rx.srqn);
	inbound_fail(rqp->qp, rqp->rx.in, result);
	if (is_xrc)
		xrc_unaim(rqp->qp);
}

void roce_responder_refuse(struct roce_qp *rqp, enum verdict verdict)
{
	rqp->rx.is_inside = false;
	rqp->rx.owes_nak = verdict;
	rqp->rx.fatal = verdict;
	answer_owe(rqp);
	fail_message(rqp, access_of_verdict(verdict));
	if (rqp->proxy)
		relay_proxy_refuse(rqp, verdict);
	else
		qp_enter_error(rqp->qp, verdict_row(verdict)->event);
}

/* What the table says. */
static void carry_out(struct roce_qp *rqp, enum verdict verdict, bool wants_ack)
{
	const struct verdict_row *row = verdict_row(verdict);

	if (row->errs_qp) {
		roce_responder_refuse(rqp, verdict);
		return;
	}
	switch (row->reply) {
	case REPLY_IF_ASKED:
		if (!wants_ack)
			return;
		rqp->rx.owes_ack = true;
		break;
	case REPLY_ACK:
		rqp->rx.owes_ack = true;
		break;
	case REPLY_RNR_NAK:
	case REPLY_NAK:
		rqp->rx.owes_nak = verdict;
		rqp->rx.has_nakd = true;
		break;
	default:
		return;
	}
	answer_owe(rqp);
}

/* The same at an XRC queue pair's home: what is in turn may be for another process to check. */
static enum verdict check_at_home(struct roce_qp *rqp, const struct packet *packet)
{
	enum verdict verdict = check_psn(rqp, packet);

	if (verdict == VERDICT_ACCEPTED)
		verdict = relay_route(rqp, packet);
	return verdict == VERDICT_ACCEPTED ? check(rqp, packet) : verdict;
}

static enum verdict take_one(struct roce_qp *rqp, const struct packet *packet)
{
	enum verdict verdict = rqp->rx.home ? check_at_home(rqp, packet) : check(rqp, packet);
	bool wants_ack = packet->wants_ack && !opcode_has_own_answer(packet->info);

	if (verdict == VERDICT_DUPLICATE || verdict == VERDICT_REPLAY)
		roce_count(rqp->roce, ROCE_DUPLICATES);
	if (verdict == VERDICT_REPLAY)
		verdict = replay(rqp, packet);
	else if (verdict == VERDICT_ACCEPTED)
		verdict = execute(rqp, packet);
	if (verdict == VERDICT_STALE)
		roce_count(rqp->roce, ROCE_DROPPED_STALE);
	if (verdict == VERDICT_AWAITED)
		roce_count(rqp->roce, ROCE_DROPPED_SEQUENCE);
	if (verdict == VERDICT_ACCEPTED || verdict == VERDICT_RELAYED) {
		rqp->rx.has_nakd = false;
		rqp->rx.owes_nak = VERDICT_ACCEPTED;
	}
	/* What comes behind it waits as if the requester had been told of a gap. */
	if (verdict == VERDICT_PARKED) {
		rqp->rx.has_nakd = true;
		kept_add(rqp, packet);
	}
	/* Not behind one that was turned away: its requester will send all of them at a time of its own choice. */
	if (verdict == VERDICT_GAP || (verdict == VERDICT_AWAITED && rqp->rx.kept_count))
		kept_add(rqp, packet);
	if (verdict == VERDICT_RNR)
		kept_drop_all(rqp);
	carry_out(rqp, verdict, wants_ack);
	return verdict;
}

static bool is_receiving(const struct roce_qp *rqp)
{
	enum ibv_qp_state state = rqp->qp->state;

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

static bool is_parked(const struct roce_qp *rqp)
{
	return rqp->rx.home && rqp->rx.home->is_parked;
}

/* Those that waited for their turn. Where another is missing behind them the requester is told at once. */
static void take_kept(struct roce_qp *rqp)
{
	struct kept_packet *kept;

	while (is_receiving(rqp) && !is_parked(rqp) && (kept = kept_take(rqp))) {
		take_one(rqp, &kept->packet);
		kept_free(rqp, kept);
	}
	if (is_receiving(rqp) && !rqp->rx.has_nakd && kept_has_later(rqp))
		carry_out(rqp, VERDICT_GAP, false);
}

static void take_reliable(struct roce_qp *rqp, const struct packet *packet)
{
	enum verdict verdict = take_one(rqp, packet);

	if (rqp->rx.home && verdict != VERDICT_RELAYED)
		relay_home_excuse(rqp, packet);
	if (rqp->rx.kept_count)
		take_kept(rqp);
}

/* So far behind what is expected a UC packet counts as late; further, its sender counts as having begun anew. */
#define UNRELIABLE_LATE_PSNS 0x10000

/*
 * A lost packet costs UC the message it belongs to; the first of a message may have any PSN (IBA 1.x §9.8.2.1). But a UDP
 * network may also repeat and reorder, so one that comes late is not taken for new.
 */
static bool is_unreliable_in_turn(struct roce_qp *rqp, const struct packet *packet)
{
	int32_t ahead = psn_diff(packet->psn, rqp->rx.psn);

	if (ahead < 0 && ahead > -UNRELIABLE_LATE_PSNS && rqp->rx.has_begun)
		return false;
	if (opcode_starts_message(packet->info)) {
		drop_message(rqp);
		rqp->rx.has_begun = true;
		return true;
	}
	if (rqp->rx.is_inside && !ahead && packet->info->is_write == rqp->rx.is_inside_write)
		return true;
	drop_message(rqp);
	return false;
}

static enum roce_counter counter_of_access(enum access_result result)
{
	switch (result) {
	case ACCESS_RNR:
		return ROCE_DROPPED_NO_RECV;
	case ACCESS_LENGTH:
		return ROCE_DROPPED_SIZE;
	case ACCESS_LOCAL:
		return ROCE_DROPPED_BAD_RECV;
	default:
		return ROCE_DROPPED_ACCESS;
	}
}

static void take_unreliable(struct roce_qp *rqp, const struct packet *packet)
{
	enum access_result result;

	if (!is_unreliable_in_turn(rqp, packet)) {
		roce_count(rqp->roce, ROCE_DROPPED_SEQUENCE);
		return;
	}
	if (check_size(rqp, packet) != VERDICT_ACCEPTED) {
		roce_count(rqp->roce, ROCE_DROPPED_SIZE);
		drop_message(rqp);
		return;
	}
	result = execute_message(rqp, packet);
	if (result == ACCESS_OK)
		return;
	roce_count(rqp->roce, counter_of_access(result));
	/* Only a receive that is at fault itself ends the QP. */
	if ((result != ACCESS_LENGTH && result != ACCESS_LOCAL && result != ACCESS_INVALIDATE) ||
	    !rqp->rx.in->has_recv) {
		drop_message(rqp);
		return;
	}
	inbound_fail(rqp->qp, rqp->rx.in, result);
	qp_enter_error(rqp->qp, QP_NO_EVENT);
}

/*
 * The requester of a QP that erred by its doing did not hear of it: the NAK was lost, or what was answered before it. A
 * READ or atomic that was accepted before is answered once more, since the requester cannot come to the NAK without: it
 * would end with a retry count that is used up, and at the wrong request.
 */
static void tell_again(struct roce_qp *rqp, const struct packet *packet)
{
	if (rqp->qp->state != IBV_QPS_ERR || rqp->rx.fatal == VERDICT_ACCEPTED) {
		roce_count(rqp->roce, ROCE_DROPPED_QP_STATE);
		return;
	}
	if (rqp->rx.home && rqp->rx.fatal == VERDICT_OWNER)
		relay_learn(rqp, packet);
	if (opcode_has_own_answer(packet->info) && psn_is_before(packet->psn, rqp->rx.psn))
		(void)replay(rqp, packet);
	rqp->rx.owes_nak = rqp->rx.fatal;
	answer_owe(rqp);
}

static void take(struct roce_qp *rqp, const struct packet *packet)
{
	if (!is_receiving(rqp)) {
		tell_again(rqp, packet);
		return;
	}
	if (rqp->qp->state == IBV_QPS_RTR)
		qp_comm_established(rqp->qp);
	if (is_reliable(rqp))
		take_reliable(rqp, packet);
	else
		take_unreliable(rqp, packet);
}

void roce_responder_request(struct roce_qp *rqp, const struct packet *packet)
{
	take(rqp, packet);
	if (rqp->qp->type == IBV_QPT_XRC_RECV)
		xrc_unaim(rqp->qp);
}

void roce_responder_resume(struct roce_qp *rqp)
{
	rqp->rx.home->is_parked = false;
	take_kept(rqp);
	xrc_unaim(rqp->qp);
}

enum verdict roce_responder_relayed(struct roce_qp *rqp, const struct packet *packet)
{
	enum verdict verdict = take_one(rqp, packet);

	xrc_unaim(rqp->qp);
	return verdict;
}

void roce_responder_replay(struct roce_qp *rqp, const struct packet *packet)
{
	if (opcode_has_own_answer(packet->info) && replay(rqp, packet) == VERDICT_STALE)
		roce_count(rqp->roce, ROCE_DROPPED_STALE);
	xrc_unaim(rqp->qp);
}

void roce_responder_abandon(struct roce_qp *rqp)
{
	rqp->rx.is_inside = false;
	kept_drop_all(rqp);
	fail_message(rqp, ACCESS_OK);
}
