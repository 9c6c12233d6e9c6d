/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "roce/relay.h"

/*
 * The responder's answers. What a QP owes is kept in the QP, so a link without room delays answers and loses none, and ACKs
 * that pile up become one. READ and atomic responses go first: an ACK behind them would say that they had gone.
 *
 * An application that spins has mostly something to say when it has received something. So an ACK that is due in its turn
 * waits for its next, and goes with what it sends meanwhile, in one train.
 */

/* Responses that one QP may send before it lets others have their turn. */
#define TURN_PKTS (2u * ROCE_BATCH)

/* 82 ms (IBA 1.x §9.7.5.2.8): the process that is waited for has not had a processor for longer. */
#define EXCUSE_RNR_TIMER 26u

void answer_owe(struct roce_qp *rqp)
{
	if (!list_is_linked(&rqp->answer_node))
		list_add_tail(&rqp->answer_node, &rqp->roce->answering);
}

static struct answer_job *job_at(const struct roce_qp *rqp, uint32_t index)
{
	return &rqp->rx.jobs[index % rqp->rx.max_jobs];
}

static void push(struct roce_qp *rqp, const struct answer_job *job)
{
	*job_at(rqp, rqp->rx.jobs_head++) = *job;
	answer_owe(rqp);
}

static void drop_job(struct roce_qp *rqp, uint32_t index)
{
	for (; index + 1 != rqp->rx.jobs_head; index++)
		*job_at(rqp, index) = *job_at(rqp, index + 1);
	rqp->rx.jobs_head--;
}

static uint32_t count_new(const struct roce_qp *rqp)
{
	uint32_t n = 0;

	for (uint32_t i = rqp->rx.jobs_tail; i != rqp->rx.jobs_head; i++)
		n += !job_at(rqp, i)->is_replay;
	return n;
}

/* There is room for as many replays as for new ones; the oldest replay makes room. */
static void make_room(struct roce_qp *rqp)
{
	if (rqp->rx.jobs_head - rqp->rx.jobs_tail < rqp->rx.max_jobs)
		return;
	for (uint32_t i = rqp->rx.jobs_tail; i != rqp->rx.jobs_head; i++) {
		if (job_at(rqp, i)->is_replay) {
			drop_job(rqp, i);
			return;
		}
	}
}

bool answer_add(struct roce_qp *rqp, const struct answer_job *job)
{
	if (count_new(rqp) >= rqp->rx.max_reads)
		return false;
	make_room(rqp);
	push(rqp, job);
	return true;
}

static bool overlaps(const struct answer_job *a, const struct answer_job *b)
{
	return psn_is_before(a->next_psn, b->end_psn) && psn_is_before(b->next_psn, a->end_psn);
}

/* Whether the requester went back before this one: what is behind it in the queue comes before it in the stream. */
static bool is_out_of_order(const struct roce_qp *rqp, uint32_t index)
{
	const struct answer_job *due = job_at(rqp, index);

	for (; index != rqp->rx.jobs_head; index++) {
		if (psn_is_before(job_at(rqp, index)->next_psn, due->next_psn))
			return true;
	}
	return false;
}

/* The requester asks again. What is still to come in its place will answer that; else it is answered last. */
void answer_replace(struct roce_qp *rqp, const struct answer_job *job)
{
	uint32_t i = rqp->rx.jobs_tail;

	while (i != rqp->rx.jobs_head) {
		const struct answer_job *due = job_at(rqp, i);

		if (!overlaps(due, job))
			i++;
		else if (!psn_is_after(due->next_psn, job->next_psn) && !is_out_of_order(rqp, i))
			return;
		else
			drop_job(rqp, i);
	}
	make_room(rqp);
	if (rqp->rx.jobs_head - rqp->rx.jobs_tail < rqp->rx.max_jobs)
		push(rqp, job);
}

static bool send_aeth(struct roce_qp *rqp, uint32_t psn, uint8_t syndrome)
{
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), OPCODE_ACK),
		.psn = psn,
		.syndrome = syndrome,
		.msn = rqp->rx.msn,
	};

	if (!batch_reserve(rqp->roce))
		return false;
	batch_commit(rqp, &packet, 0);
	return true;
}

/* The one packet that answers an atomic, or that an atomic WRITE or a FLUSH was executed. */
static bool send_result(struct roce_qp *rqp, struct answer_job *job)
{
	bool is_atomic = job->kind == ANSWER_ATOMIC;
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp),
				      is_atomic ? OPCODE_ATOMIC_ACK : OPCODE_READ_RESPONSE_ONLY),
		.psn = job->next_psn,
		.syndrome = verdict_syndrome(VERDICT_ACCEPTED, 0),
		.msn = job->msn,
		.atomic_original = job->original,
	};

	if (!batch_reserve(rqp->roce))
		return false;
	batch_commit(rqp, &packet, 0);
	job->next_psn = job->end_psn;
	return true;
}

/*
 * Names the bytes of one response. A short one is copied: memory that is READ to see it change might change between its
 * ICRC and its departure, again and again.
 */
static int name_payload(struct roce_slot *slot, const uint8_t *from, uint32_t bytes, bool is_only)
{
	if (!bytes)
		return 0;
	if (is_only)
		from = memcpy(slot->bytes, from, bytes);
	slot->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};
	return 1;
}

/* The bytes of a READ are gone since it was accepted. A replay was answered once already and is no reason to err. */
static void give_up(struct roce_qp *rqp, struct answer_job *job, enum verdict verdict)
{
	if (job->is_replay) {
		job->next_psn = job->end_psn;
		return;
	}
	rqp->rx.psn = job->next_psn;
	rqp->rx.jobs_tail = rqp->rx.jobs_head;
	roce_responder_refuse(rqp, verdict);
}

/* Where the bytes of the next packet of a READ are. Checked again each time: the region may be gone since, or the SRQ. */
static enum verdict find_read_data(struct roce_qp *rqp, const struct answer_job *job,
				   uint32_t bytes, const uint8_t **from)
{
	if (rqp->qp->type == IBV_QPT_XRC_RECV && !xrc_aim(rqp->qp, job->srqn))
		return VERDICT_SRQ;
	return verdict_of_access(execute_read(rqp->qp, job->remote_addr, job->rkey, bytes, from));
}

/* One packet of a READ. */
static bool send_read_data(struct roce_qp *rqp, struct answer_job *job)
{
	bool ends = psn_next(job->next_psn) == job->end_psn;
	uint32_t bytes = ends ? job->left_bytes : rqp->mtu_bytes;
	struct packet packet = {
		.opcode = opcode_of_read_response(service_of(rqp), !job->is_started, ends),
		.psn = job->next_psn,
		.syndrome = verdict_syndrome(VERDICT_ACCEPTED, 0),
		.msn = job->msn,
	};
	struct roce_slot *slot = batch_reserve(rqp->roce);
	enum verdict verdict;
	const uint8_t *from;

	if (!slot)
		return false;
	verdict = find_read_data(rqp, job, bytes, &from);
	if (verdict != VERDICT_ACCEPTED) {
		give_up(rqp, job, verdict);
		return true;
	}
	batch_commit(rqp, &packet, name_payload(slot, from, bytes, ends && !job->is_started));
	job->next_psn = psn_next(job->next_psn);
	job->remote_addr += bytes;
	job->left_bytes -= bytes;
	job->is_started = true;
	return true;
}

/* false: the link takes no more, or the turn is over. */
static bool send_jobs(struct roce_qp *rqp)
{
	uint32_t budget = TURN_PKTS;

	while (rqp->rx.jobs_tail != rqp->rx.jobs_head) {
		struct answer_job *job = job_at(rqp, rqp->rx.jobs_tail);

		if (!budget--)
			return false;
		if (job->kind == ANSWER_READ ? !send_read_data(rqp, job) : !send_result(rqp, job))
			return false;
		if (rqp->rx.jobs_tail != rqp->rx.jobs_head && job->next_psn == job->end_psn)
			rqp->rx.jobs_tail++;
	}
	return true;
}

static bool send_notice(struct roce_qp *rqp)
{
	struct packet packet = {
		.opcode = OPCODE(CNP, NOTIFICATION),
		.is_becn = true,
	};

	if (!batch_reserve(rqp->roce))
		return false;
	batch_commit(rqp, &packet, 0);
	return true;
}

static void count_nak(struct roce *roce, enum verdict verdict)
{
	const struct verdict_row *row = verdict_row(verdict);

	if (row->reply == REPLY_RNR_NAK)
		roce_count(roce, ROCE_RNR_NAKS_SENT);
	else if (row->nak == AETH_NAK_PSN_SEQUENCE)
		roce_count(roce, ROCE_SEQUENCE_NAKS_SENT);
	else if (row->nak == AETH_NAK_INVALID_REQUEST)
		roce_count(roce, ROCE_INVALID_NAKS_SENT);
	else if (row->nak == AETH_NAK_REMOTE_ACCESS)
		roce_count(roce, ROCE_ACCESS_NAKS_SENT);
	else
		roce_count(roce, ROCE_OPERATION_NAKS_SENT);
}

static bool send_nak(struct roce_qp *rqp)
{
	enum verdict verdict = rqp->rx.owes_nak;
	uint8_t syndrome = verdict_syndrome(verdict, rqp->qp->attr.min_rnr_timer);

	if (!send_aeth(rqp, rqp->rx.psn, syndrome))
		return false;
	rqp->rx.owes_nak = VERDICT_ACCEPTED;
	/* It says all that the ACK would have said. */
	rqp->rx.owes_ack = false;
	count_nak(rqp->roce, verdict);
	return true;
}

/* XRC: what another process was given is to come again later. It says nothing of what is before that. */
static bool send_excuse(struct roce_qp *rqp)
{
	unsigned timer = rqp->qp->attr.min_rnr_timer;

	if (!rqp->rx.home || !rqp->rx.home->owes_excuse)
		return true;
	if (aeth_rnr_wait_ns(timer) < aeth_rnr_wait_ns(EXCUSE_RNR_TIMER))
		timer = EXCUSE_RNR_TIMER;
	if (!send_aeth(rqp, relay_awaited_psn(rqp), verdict_syndrome(VERDICT_RNR, timer)))
		return false;
	rqp->rx.home->owes_excuse = false;
	count_nak(rqp->roce, VERDICT_RNR);
	return true;
}

bool answer_may_wait(struct roce_qp *rqp)
{
	bool may_wait = rqp->roce->engine->is_inline && !rqp->rx.has_waited &&
			!rqp->rx.owes_notice && rqp->rx.owes_nak == VERDICT_ACCEPTED &&
			rqp->rx.jobs_tail == rqp->rx.jobs_head;

	rqp->rx.has_waited = may_wait;
	return may_wait;
}

bool answer_run(struct roce_qp *rqp)
{
	bool is_done;

	if (rqp->rx.owes_notice) {
		if (!send_notice(rqp))
			return false;
		rqp->rx.owes_notice = false;
	}
	is_done = send_jobs(rqp);
	if (rqp->qp->type == IBV_QPT_XRC_RECV)
		xrc_unaim(rqp->qp);
	if (!is_done)
		return false;
	if (!send_excuse(rqp))
		return false;
	/* Another process executes, and answers. */
	if (rqp->rx.home && !relay_is_settled(rqp->rx.home))
		return true;
	if (rqp->rx.owes_nak != VERDICT_ACCEPTED && !send_nak(rqp))
		return false;
	if (rqp->rx.owes_ack) {
		if (!send_aeth(rqp, psn_prev(rqp->rx.psn), verdict_syndrome(VERDICT_ACCEPTED, 0)))
			return false;
		rqp->rx.owes_ack = false;
	}
	rqp->rx.has_waited = false;
	if (rqp->proxy)
		relay_proxy_report(rqp);
	return true;
}
