/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/user_copy.h"
#include "base/util.h"
#include "core/queue/comp_cntr.h"
#include "roce/xrc_forward.h"

/*
 * The responder's responses. Pending responses are stored in the QP. Back-pressure of the link
 * therefore delays responses without losing any, and several pending ACKs are coalesced. READ and
 * atomic responses are sent before an ACK with a later PSN, because that ACK would acknowledge
 * their requests.
 *
 * An application that polls often sends after it has received. So a pending ACK waits for one more
 * turn, and is sent in one batch with the application's next packets: before the first packet that
 * ends a message, unless the peer puts ACKs first itself.
 */

/* Responses that a QP may send in one turn; then other QPs send. */
#define TURN_PKTS (2u * ROCE_BATCH)

/* 82 ms (IBA 1.x §9.7.5.2.8). The executor has not reported for 100 ms (xrc_forward_target.c). */
#define STALL_RNR_TIMER 26u

void response_set_pending(struct roce_qp *rqp)
{
	if (!list_is_linked(&rqp->response_node))
		list_add_tail(&rqp->response_node, &rqp->roce->responding);
}

static struct response_job *job_at(const struct roce_qp *rqp, uint32_t index)
{
	return &rqp->rx.jobs[index & (round_up_pow2(rqp->rx.max_jobs) - 1)];
}

static void push(struct roce_qp *rqp, const struct response_job *job)
{
	*job_at(rqp, rqp->rx.jobs_head++) = *job;
	response_set_pending(rqp);
}

/* Drops a job. `successor` takes over the READs that the dropped job was to count. */
static void drop_job(struct roce_qp *rqp, uint32_t index, struct response_job *successor)
{
	successor->reads += job_at(rqp, index)->reads;
	successor->read_bytes += job_at(rqp, index)->read_bytes;
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

/* The queue holds as many replays as new jobs. If it is full, the oldest replay is dropped. */
static void roce_response_make_room(struct roce_qp *rqp, struct response_job *successor)
{
	if (rqp->rx.jobs_head - rqp->rx.jobs_tail < rqp->rx.max_jobs)
		return;
	for (uint32_t i = rqp->rx.jobs_tail; i != rqp->rx.jobs_head; i++) {
		if (job_at(rqp, i)->is_replay) {
			drop_job(rqp, i, successor);
			return;
		}
	}
}

bool response_has_room(const struct roce_qp *rqp)
{
	return count_new(rqp) < rqp->rx.max_reads;
}

void response_add(struct roce_qp *rqp, struct response_job *job)
{
	roce_response_make_room(rqp, job);
	push(rqp, job);
}

static bool overlaps(const struct response_job *a, const struct response_job *b)
{
	return psn_is_before(a->next_psn, b->end_psn) && psn_is_before(b->next_psn, a->end_psn);
}

/*
 * Whether the queue has, after this job, a job with lower PSNs: the requester went back to before
 * this job.
 */
static bool is_out_of_order(const struct roce_qp *rqp, uint32_t index)
{
	const struct response_job *due = job_at(rqp, index);

	for (; index != rqp->rx.jobs_head; index++) {
		if (psn_is_before(job_at(rqp, index)->next_psn, due->next_psn))
			return true;
	}
	return false;
}

/*
 * If a pending job covers the duplicate request, that job is the response. Else overlapping jobs
 * are dropped and the job is queued.
 */
void response_replace(struct roce_qp *rqp, struct response_job *job)
{
	uint32_t i = rqp->rx.jobs_tail;

	while (i != rqp->rx.jobs_head) {
		const struct response_job *due = job_at(rqp, i);

		if (!overlaps(due, job))
			i++;
		else if (!psn_is_after(due->next_psn, job->next_psn) && !is_out_of_order(rqp, i))
			return;
		else
			drop_job(rqp, i, job);
	}
	roce_response_make_room(rqp, job);
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
		.takes_ahead = reorder_takes_ahead(rqp),
	};

	if (!batch_reserve(rqp->roce))
		return false;
	batch_commit(rqp, &packet, 0);
	return true;
}

/* Sends the response to an atomic, an atomic WRITE or a FLUSH: one packet. */
static bool send_result(struct roce_qp *rqp, struct response_job *job)
{
	bool is_atomic = job->response == WR_RESPONSE_ATOMIC;
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp),
				      is_atomic ? OPCODE_ATOMIC_ACK : OPCODE_READ_RESPONSE_ONLY),
		.psn = job->next_psn,
		.syndrome = disposition_syndrome(DISPOSITION_ACCEPTED, 0),
		.msn = job->msn,
		.atomic_original = job->original,
		.takes_ahead = reorder_takes_ahead(rqp),
	};

	if (!batch_reserve(rqp->roce))
		return false;
	batch_commit(rqp, &packet, 0);
	job->next_psn = job->end_psn;
	return true;
}

/*
 * Fills the slot's iov for one READ response. The payload of a response of one packet is copied. A
 * requester may poll memory by READs, and a change of that memory between ICRC and send() would
 * corrupt the packet, repeatedly. Returns the number of entries, or -EFAULT: the memory cannot be
 * read.
 */
static int name_payload(struct roce_slot *slot, const uint8_t *from, uint32_t bytes, bool is_only)
{
	if (!bytes)
		return 0;
	if (is_only && !user_copy_from(slot->bytes, from, bytes))
		return -EFAULT;
	if (is_only)
		from = slot->bytes;
	slot->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};
	return 1;
}

/*
 * Counts the peer's READs at the end of the job, with success or error. If a part of a WR fails,
 * the WR fails.
 */
static void count_reads(const struct roce_qp *rqp, struct response_job *job, bool is_success)
{
	uint32_t reads = !is_success && !job->reads ? 1 : job->reads;

	if (job->reads || job->read_bytes)
		comp_cntr_count_many(rqp->qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
				     is_success, reads, job->read_bytes);
	job->reads = 0;
	job->read_bytes = 0;
}

/*
 * The memory of a READ has become inaccessible since the READ was accepted. A replay is dropped
 * without an error, because its response was sent before.
 */
static void give_up(struct roce_qp *rqp, struct response_job *job, enum disposition disposition)
{
	count_reads(rqp, job, false);
	if (job->is_replay) {
		job->next_psn = job->end_psn;
		return;
	}
	rqp->rx.psn = job->next_psn;
	rqp->rx.jobs_tail = rqp->rx.jobs_head;
	roce_responder_refuse(rqp, disposition);
}

/*
 * Finds the payload of a READ's next packet. Checked for each packet: the MR may be deregistered or
 * the SRQ destroyed.
 */
static enum disposition find_read_data(struct roce_qp *rqp, const struct response_job *job,
				       uint32_t bytes, const uint8_t **from)
{
	if (rqp->qp->type == IBV_QPT_XRC_RECV && !xrc_aim(rqp->qp, job->srqn))
		return DISPOSITION_SRQ;
	return disposition_of_access(
		execute_read(rqp->qp, job->remote_addr, job->rkey, bytes, from));
}

/* Sends one packet of a READ response. */
static bool roce_response_send_read_data(struct roce_qp *rqp, struct response_job *job)
{
	bool ends = psn_next(job->next_psn) == job->end_psn;
	uint32_t bytes = ends ? job->left_bytes : rqp->mtu_bytes;
	struct packet packet = {
		.opcode = opcode_of_read_response(service_of(rqp), !job->is_started, ends),
		.psn = job->next_psn,
		.syndrome = disposition_syndrome(DISPOSITION_ACCEPTED, 0),
		.msn = job->msn,
		.takes_ahead = reorder_takes_ahead(rqp),
	};
	struct roce_slot *slot = batch_reserve(rqp->roce);
	enum disposition disposition;
	const uint8_t *from;
	bool is_readable;
	int iovs;

	if (!slot)
		return false;
	disposition = find_read_data(rqp, job, bytes, &from);
	if (disposition != DISPOSITION_ACCEPTED) {
		give_up(rqp, job, disposition);
		return true;
	}
	iovs = name_payload(slot, from, bytes, ends && !job->is_started);
	if (iovs < 0)
		is_readable = false;
	else if (job->may_overtake && !job->is_replay)
		is_readable = batch_commit_ahead(rqp, &packet, iovs);
	else
		is_readable = batch_commit(rqp, &packet, iovs);
	if (!is_readable) {
		give_up(rqp, job, DISPOSITION_GONE);
		return true;
	}
	job->next_psn = psn_next(job->next_psn);
	job->remote_addr += bytes;
	job->left_bytes -= bytes;
	job->is_started = true;
	return true;
}

/* false: back-pressure of the link, or the turn is over. */
static bool roce_response_send_jobs(struct roce_qp *rqp)
{
	uint32_t budget = TURN_PKTS;

	while (rqp->rx.jobs_tail != rqp->rx.jobs_head) {
		struct response_job *job = job_at(rqp, rqp->rx.jobs_tail);

		if (!budget--)
			return false;
		if (job->response == WR_RESPONSE_READ ? !roce_response_send_read_data(rqp, job) :
							!send_result(rqp, job))
			return false;
		if (rqp->rx.jobs_tail == rqp->rx.jobs_head || job->next_psn != job->end_psn)
			continue;
		count_reads(rqp, job, true);
		rqp->rx.jobs_tail++;
	}
	return true;
}

void response_revoke(struct roce_qp *rqp)
{
	uint32_t end = rqp->rx.jobs_tail;

	rqp->rx.is_revoked = true;
	while (end != rqp->rx.jobs_head && job_at(rqp, end)->response != WR_RESPONSE_READ)
		end++;
	if (end == rqp->rx.jobs_head)
		return;
	for (uint32_t i = end; i != rqp->rx.jobs_head; i++)
		count_reads(rqp, job_at(rqp, i), false);
	rqp->rx.jobs_head = end;
	/* The ACK would acknowledge the READ. */
	rqp->rx.ack_pending = false;
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

static void count_nak(struct roce *roce, enum disposition disposition)
{
	const struct disposition_row *row = disposition_row(disposition);

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
	enum disposition disposition = rqp->rx.nak_pending;
	uint8_t syndrome = disposition_syndrome(disposition, rqp->qp->attr.min_rnr_timer);

	if (!send_aeth(rqp, rqp->rx.psn, syndrome))
		return false;
	rqp->rx.nak_pending = DISPOSITION_ACCEPTED;
	/* The NAK also acknowledges all preceding requests. */
	rqp->rx.ack_pending = false;
	count_nak(rqp->roce, disposition);
	return true;
}

/* XRC: sends an RNR NAK for requests that were forwarded to a process that has not reported. */
static bool send_stall_nak(struct roce_qp *rqp)
{
	unsigned timer = rqp->qp->attr.min_rnr_timer;

	if (!rqp->rx.xrc_target || !rqp->rx.xrc_target->rnr_nak_pending)
		return true;
	if (aeth_rnr_wait_ns(timer) < aeth_rnr_wait_ns(STALL_RNR_TIMER))
		timer = STALL_RNR_TIMER;
	if (!send_aeth(rqp, xrc_target_unreported_psn(rqp),
		       disposition_syndrome(DISPOSITION_RNR, timer)))
		return false;
	rqp->rx.xrc_target->rnr_nak_pending = false;
	count_nak(rqp->roce, DISPOSITION_RNR);
	return true;
}

bool response_may_wait(struct roce_qp *rqp)
{
	bool is_only_ack = !rqp->rx.cnp_pending && rqp->rx.nak_pending == DISPOSITION_ACCEPTED &&
			   rqp->rx.jobs_tail == rqp->rx.jobs_head;
	bool awaits_reply = is_only_ack && ack_waits(rqp);

	rqp->rx.has_waited = awaits_reply ||
			     (is_only_ack && run_by_replier(rqp->roce->engine->run_by) &&
			      !rqp->rx.has_waited);
	if (awaits_reply)
		ack_wait_begin(rqp->roce);
	return rqp->rx.has_waited;
}

void response_run_waited(struct roce_qp *rqp)
{
	if (!rqp->rx.has_waited || !response_run(rqp))
		return;
	list_del(&rqp->response_node);
	/* The batch sorts packets by length, and the ACK is short. */
	if (!rqp->tx.may_overtake)
		lanes_follow(&rqp->roce->batch.lanes, &rqp->tx.lanes, &rqp->rx.lanes);
}

bool response_run(struct roce_qp *rqp)
{
	bool is_done;

	if (rqp->rx.cnp_pending) {
		if (!send_notice(rqp))
			return false;
		rqp->rx.cnp_pending = false;
	}
	is_done = roce_response_send_jobs(rqp);
	if (rqp->qp->type == IBV_QPT_XRC_RECV)
		xrc_unaim(rqp->qp);
	if (!is_done)
		return false;
	if (!send_stall_nak(rqp))
		return false;
	/* A burst is in progress: the executor sends the responses. */
	if (rqp->rx.xrc_target && xrc_target_is_in_burst(rqp->rx.xrc_target))
		return true;
	if (rqp->rx.nak_pending != DISPOSITION_ACCEPTED && !send_nak(rqp))
		return false;
	if (rqp->rx.ack_pending) {
		if (!send_aeth(rqp, psn_prev(rqp->rx.psn),
			       disposition_syndrome(DISPOSITION_ACCEPTED, 0)))
			return false;
		rqp->rx.ack_pending = false;
	}
	rqp->rx.has_waited = false;
	if (rqp->executor)
		xrc_executor_responded(rqp);
	return true;
}
