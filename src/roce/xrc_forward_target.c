/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/device/device.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "roce/xrc_forward.h"

/*
 * The process of the XRC target QP: forwards requests to the executors and processes their reports.
 */

/* An executor that has not reported for this time is stopped or very slow. */
#define STALL_NS (UINT64_C(100) * CLOCK_NS_PER_MS)

static bool slots_contain(const xrc_slots slots, uint32_t slot)
{
	return slots[slot / 64] >> slot % 64 & 1;
}

static void slots_add(xrc_slots slots, uint32_t slot)
{
	slots[slot / 64] |= UINT64_C(1) << slot % 64;
}

static void slots_remove(xrc_slots slots, uint32_t slot)
{
	slots[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

/* Changes the state and returns the action that the caller must perform. */
static enum xrc_target_action xrc_target_step(struct xrc_target *target,
					      enum xrc_target_input input)
{
	struct xrc_target_cell cell = xrc_target_cell(target->state, input);

	target->state = (enum xrc_target_state)cell.next;
	return (enum xrc_target_action)cell.action;
}

static void xrc_target_on_space(struct xrc_forward_waiter *waiter)
{
	struct roce_qp *rqp = container_of(waiter, struct xrc_target, waiter)->rqp;
	struct roce *roce = rqp->roce;

	roce_look_at_clock(roce);
	xrc_target_resume(rqp);
	if (roce->link)
		batch_flush(roce);
}

int xrc_target_open(struct roce_qp *rqp)
{
	struct xrc_target *target = calloc(1, sizeof(*target));

	if (!target)
		return -ENOMEM;
	target->rqp = rqp;
	xrc_forward_waiter_init(&target->waiter, xrc_target_on_space);
	list_add_tail(&target->node, &rqp->roce->xrc.targets);
	rqp->rx.xrc_target = target;
	return 0;
}

static void detach_all(struct roce_qp *rqp)
{
	const struct xrc_forward_msg msg = {.type = XRC_FORWARD_DETACH, .qpn = rqp->qp->qpn};
	struct xrc_target *target = rqp->rx.xrc_target;

	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		if (slots_contain(target->attached, slot))
			xrc_forward_post(rqp->roce->engine, slot, &msg);
	}
	memset(target->attached, 0, sizeof(target->attached));
	memset(target->current, 0, sizeof(target->current));
}

/*
 * If the QP failed because of a request, the executors stay attached. They may have to send
 * responses to preceding requests again: the requester processes the NAK only after these
 * responses.
 */
void xrc_target_halt(struct roce_qp *rqp)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	if (xrc_target_step(target, XRC_TARGET_IN_HALT) != XRC_TARGET_ACTION_STOP)
		return;
	list_del(&target->waiter.node);
	target->burst_done = target->burst_sent;
	target->executor_is_inside = false;
	target->rnr_nak_pending = false;
	if (rqp->rx.fatal == DISPOSITION_ACCEPTED)
		detach_all(rqp);
}

void xrc_target_close(struct roce_qp *rqp)
{
	xrc_target_halt(rqp);
	detach_all(rqp);
	list_del(&rqp->rx.xrc_target->node);
	free(rqp->rx.xrc_target);
	rqp->rx.xrc_target = NULL;
}

void xrc_target_publish(struct qp *qp)
{
	struct roce_qp *rqp = qp->transport == &roce_transport ? roce_qp_of(qp) : NULL;

	engine_assert_locked(qp->context->engine);
	if (rqp && rqp->rx.xrc_target)
		memset(rqp->rx.xrc_target->current, 0, sizeof(rqp->rx.xrc_target->current));
}

/* As xrc_forward_send(). On -EAGAIN the deferred request is processed again when there is space. */
static int xrc_target_send(struct roce_qp *rqp, uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct engine *engine = rqp->roce->engine;
	int ret = xrc_forward_send(engine, slot, msg);

	if (ret == -EAGAIN)
		xrc_forward_wait(engine, slot, &rqp->rx.xrc_target->waiter);
	return ret;
}

/* Sends the QP's current attributes to the executor. 0 or -errno, as xrc_target_send(). */
static int attach_executor(struct roce_qp *rqp, uint32_t slot)
{
	const struct ibv_qp_attr *attr = &rqp->qp->attr;
	const struct ibv_global_route *route = &attr->ah_attr.grh;
	struct xrc_forward_msg msg = {
		.type = XRC_FORWARD_ATTACH,
		.qpn = rqp->qp->qpn,
		.attach =
			{
				.domain_id = rqp->qp->xrc_domain->id,
				.dev_id = rqp->qp->context->device->dev_id,
				.remote_qpn = attr->dest_qp_num,
				.path_mtu = attr->path_mtu,
				.access = attr->qp_access_flags,
				.max_dest_rd_atomic = attr->max_dest_rd_atomic,
				.min_rnr_timer = attr->min_rnr_timer,
				.flow_label = route->flow_label,
				.traffic_class = route->traffic_class,
				.hop_limit = route->hop_limit,
			},
	};
	struct ipc_gid gid;
	int ret = device_gid(rqp->qp->context->device, route->sgid_index, &gid);

	if (ret)
		return ret;
	memcpy(msg.attach.local_gid, gid.raw, sizeof(msg.attach.local_gid));
	memcpy(msg.attach.remote_gid, route->dgid.raw, sizeof(msg.attach.remote_gid));
	ret = xrc_target_send(rqp, slot, &msg);
	if (ret)
		return ret;
	slots_add(rqp->rx.xrc_target->attached, slot);
	slots_add(rqp->rx.xrc_target->current, slot);
	return 0;
}

/*
 * Whether all responses of this process were sent, so that an executor may send responses. If not,
 * the QP is queued for another turn, which ends with xrc_target_resume().
 */
static bool has_responded(struct roce_qp *rqp)
{
	rqp->rx.nak_pending = DISPOSITION_ACCEPTED;
	rqp->rx.xrc_target->rnr_nak_pending = false;
	if (rqp->rx.jobs_tail != rqp->rx.jobs_head || rqp->rx.ack_pending) {
		if (!response_run(rqp) || rqp->rx.jobs_tail != rqp->rx.jobs_head) {
			response_set_pending(rqp);
			return false;
		}
		batch_flush(rqp->roce);
		/* A response failed and the QP is in ERROR: the NAK precedes the request. */
		if (rqp->rx.fatal != DISPOSITION_ACCEPTED)
			return false;
	}
	if (!rqp->roce->batch.is_held)
		return true;
	response_set_pending(rqp);
	return false;
}

static int xrc_target_begin_burst(struct roce_qp *rqp, uint32_t slot)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	if (!has_responded(rqp))
		return -EAGAIN;
	if (!slots_contain(target->current, slot)) {
		int ret = attach_executor(rqp, slot);

		if (ret)
			return ret;
	}
	target->burst++;
	target->executor = slot;
	target->first_psn = rqp->rx.psn;
	target->done_psn = rqp->rx.psn;
	return 0;
}

static uint32_t psn_after(const struct roce_qp *rqp, const struct packet *packet)
{
	bool is_possible = packet->dma_length_bytes <= MAX_MSG_BYTES;

	if (packet->info->is_read && is_possible)
		return psn_add(packet->psn, psns_of_bytes(rqp, packet->dma_length_bytes));
	return psn_next(packet->psn);
}

static bool is_message(const struct opcode_info *info)
{
	return !info->is_read && !opcode_has_own_response(info);
}

static int send_request(struct roce_qp *rqp, uint32_t slot, const struct packet *packet)
{
	const struct xrc_target *target = rqp->rx.xrc_target;
	const struct xrc_forward_msg msg = {
		.type = XRC_FORWARD_REQUEST,
		.qpn = rqp->qp->qpn,
		.request =
			{
				.burst = target->burst,
				.serial = target->burst_sent + 1,
				.msn = rqp->rx.msn,
				.packet = *packet,
			},
	};

	return xrc_target_send(rqp, slot, &msg);
}

static enum disposition defer_request(struct roce_qp *rqp, const struct packet *packet)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	/* A packet that is deferred again keeps the time at which it was deferred first. */
	if (!xrc_target_is_in_burst(target) && target->deferred_psn != packet->psn) {
		target->deferred_psn = packet->psn;
		target->progress_ns = rqp->roce->now_ns;
	}
	return DISPOSITION_DEFERRED;
}

static enum disposition forward_request(struct roce_qp *rqp, uint32_t slot,
					const struct packet *packet, bool is_first)
{
	struct xrc_target *target = rqp->rx.xrc_target;
	int ret = is_first ? xrc_target_begin_burst(rqp, slot) : 0;

	if (!ret)
		ret = send_request(rqp, slot, packet);
	switch (xrc_target_step(target, !ret	       ? XRC_TARGET_IN_SENT :
					ret == -EAGAIN ? XRC_TARGET_IN_NO_SPACE :
							 XRC_TARGET_IN_NO_PROCESS)) {
	case XRC_TARGET_ACTION_DEFER:
		return defer_request(rqp, packet);
	case XRC_TARGET_ACTION_REJECT:
		return DISPOSITION_SRQ;
	default:
		break;
	}
	if (is_first)
		target->progress_ns = rqp->roce->now_ns;
	target->burst_sent++;
	target->executor_is_inside = is_message(packet->info) && !opcode_ends_message(packet->info);
	rqp->rx.psn = psn_after(rqp, packet);
	roce_count(rqp->roce, ROCE_XRC_FORWARDED);
	return DISPOSITION_FORWARDED;
}

/*
 * All packets of a message go to the process that executed its first; that process checks that the
 * SRQ number is the same.
 */
static uint32_t xrc_target_slot_for(const struct roce_qp *rqp, const struct packet *packet)
{
	const struct xrc_target *target = rqp->rx.xrc_target;

	if (target->executor_is_inside)
		return target->executor;
	return rqp->rx.is_inside ? rqp->roce->engine->slot : xrc_slot_of(packet->xrc_srqn);
}

static enum xrc_target_input xrc_target_classify(const struct roce_qp *rqp, uint32_t slot)
{
	const struct xrc_target *target = rqp->rx.xrc_target;

	if (slot == rqp->roce->engine->slot)
		return XRC_TARGET_IN_REQUEST_OWN;
	return xrc_target_is_in_burst(target) && slot == target->executor ?
		       XRC_TARGET_IN_REQUEST_BURST :
		       XRC_TARGET_IN_REQUEST_OTHER;
}

enum disposition xrc_target_request(struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t slot = xrc_target_slot_for(rqp, packet);

	switch (xrc_target_step(rqp->rx.xrc_target, xrc_target_classify(rqp, slot))) {
	case XRC_TARGET_ACTION_FORWARD_FIRST:
		return forward_request(rqp, slot, packet, true);
	case XRC_TARGET_ACTION_FORWARD_NEXT:
		return forward_request(rqp, slot, packet, false);
	case XRC_TARGET_ACTION_DEFER:
		return defer_request(rqp, packet);
	default:
		return DISPOSITION_ACCEPTED;
	}
}

void xrc_target_resume(struct roce_qp *rqp)
{
	if (xrc_target_step(rqp->rx.xrc_target, XRC_TARGET_IN_SPACE) == XRC_TARGET_ACTION_RETRY)
		roce_responder_resume(rqp);
}

uint32_t xrc_target_unreported_psn(const struct roce_qp *rqp)
{
	const struct xrc_target *target = rqp->rx.xrc_target;

	return xrc_target_is_in_burst(target) ? target->done_psn : rqp->rx.psn;
}

void xrc_target_check_stall(struct roce_qp *rqp, const struct packet *packet)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	if (psn_is_after(packet->psn, rqp->rx.psn) ||
	    rqp->roce->now_ns - target->progress_ns < STALL_NS)
		return;
	if (xrc_target_step(target, XRC_TARGET_IN_STALLED) != XRC_TARGET_ACTION_SEND_RNR_NAK)
		return;
	target->rnr_nak_pending = true;
	response_set_pending(rqp);
}

bool xrc_target_is_remote(const struct roce_qp *rqp, const struct packet *packet)
{
	return rqp->rx.xrc_target && packet->info->has_xrceth &&
	       xrc_slot_of(packet->xrc_srqn) != rqp->roce->engine->slot;
}

enum disposition xrc_target_replay(struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t slot = xrc_slot_of(packet->xrc_srqn);
	const struct xrc_forward_msg msg = {
		.type = XRC_FORWARD_REPLAY,
		.qpn = rqp->qp->qpn,
		.request =
			{
				.burst = rqp->rx.xrc_target->burst,
				.msn = rqp->rx.msn,
				.packet = *packet,
			},
	};

	/* A duplicate ends before the expected PSN. */
	if (psn_is_after(psn_after(rqp, packet), rqp->rx.psn) ||
	    !slots_contain(rqp->rx.xrc_target->attached, slot) ||
	    xrc_forward_send(rqp->roce->engine, slot, &msg))
		return DISPOSITION_STALE;
	return DISPOSITION_REPLAY;
}

void xrc_target_learn(struct roce_qp *rqp, const struct packet *packet)
{
	if (!psn_is_before(packet->psn, rqp->rx.psn) &&
	    psn_is_before(packet->psn, rqp->rx.xrc_target->unknown_end_psn))
		rqp->rx.psn = packet->psn;
}

static void record_progress(struct xrc_target *target, const struct xrc_forward_report *report)
{
	target->burst_done = report->serial;
	target->done_psn = report->psn;
}

/* Pending responses of this process may be sent. */
static void end_burst(struct roce_qp *rqp)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	target->burst_done = target->burst_sent;
	target->rnr_nak_pending = false;
	if (rqp->rx.ack_pending || rqp->rx.nak_pending != DISPOSITION_ACCEPTED)
		response_set_pending(rqp);
}

/*
 * The executor has no receive WQE and sent the RNR NAK: the requester will retransmit from
 * report->psn.
 */
static void go_back(struct roce_qp *rqp, const struct xrc_forward_report *report)
{
	rqp->rx.psn = report->psn;
	rqp->rx.nak_sent = true;
	reorder_drop_all(rqp);
	rqp->rx.xrc_target->executor_is_inside = report->is_inside;
	end_burst(rqp);
}

static void xrc_target_fail(struct roce_qp *rqp, uint32_t psn, enum disposition disposition)
{
	rqp->rx.psn = psn;
	rqp->rx.xrc_target->burst_done = rqp->rx.xrc_target->burst_sent;
	roce_responder_refuse(rqp, disposition);
}

/*
 * Whether the report is about an outstanding request of the current burst, with a result that an
 * executor may have.
 */
static bool report_is_current(const struct roce_qp *rqp, const struct xrc_forward_report *report)
{
	const struct xrc_target *target = rqp->rx.xrc_target;

	if (report->burst != target->burst ||
	    report->serial - target->burst_done - 1 >= target->burst_sent - target->burst_done ||
	    psn_is_before(report->psn, target->first_psn) ||
	    psn_is_after(report->psn, rqp->rx.psn) || report->disposition >= DISPOSITION_COUNT)
		return false;
	return report->disposition == DISPOSITION_ACCEPTED ||
	       report->disposition == DISPOSITION_RNR ||
	       disposition_row((enum disposition)report->disposition)->errs_qp;
}

static enum xrc_target_input xrc_target_classify_report(const struct xrc_target *target,
							const struct xrc_forward_report *report)
{
	if (report->disposition == DISPOSITION_RNR)
		return XRC_TARGET_IN_REPORT_RNR;
	if (report->disposition != DISPOSITION_ACCEPTED)
		return XRC_TARGET_IN_REPORT_ERROR;
	return report->serial == target->burst_sent ? XRC_TARGET_IN_REPORT_LAST :
						      XRC_TARGET_IN_REPORT;
}

static void process_report(struct roce_qp *rqp, const struct xrc_forward_report *report)
{
	struct xrc_target *target = rqp->rx.xrc_target;
	enum xrc_target_input input = xrc_target_classify_report(target, report);

	rqp->rx.msn = report->msn;
	target->progress_ns = rqp->roce->now_ns;
	switch (xrc_target_step(target, input)) {
	case XRC_TARGET_ACTION_PROGRESS:
		record_progress(target, report);
		break;
	case XRC_TARGET_ACTION_END_BURST:
		record_progress(target, report);
		end_burst(rqp);
		break;
	case XRC_TARGET_ACTION_END_BURST_RETRY:
		record_progress(target, report);
		end_burst(rqp);
		roce_responder_resume(rqp);
		break;
	case XRC_TARGET_ACTION_GO_BACK:
		go_back(rqp, report);
		break;
	case XRC_TARGET_ACTION_ERROR:
		xrc_target_fail(rqp, report->psn, (enum disposition)report->disposition);
		break;
	default:
		break;
	}
}

void xrc_target_take_report(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct qp *qp = qp_find(roce->engine, msg->qpn);
	struct roce_qp *rqp = qp && qp->transport == &roce_transport ? roce_qp_of(qp) : NULL;

	if (rqp && rqp->rx.xrc_target && rqp->rx.xrc_target->executor == slot &&
	    report_is_current(rqp, &msg->report))
		process_report(rqp, &msg->report);
}

/* It is unknown which requests the executor executed and acknowledged. */
static void lose_executor(struct roce_qp *rqp)
{
	struct xrc_target *target = rqp->rx.xrc_target;

	if (xrc_target_step(target, XRC_TARGET_IN_EXECUTOR_EXITED) != XRC_TARGET_ACTION_FATAL)
		return;
	target->unknown_end_psn = rqp->rx.psn;
	xrc_target_fail(rqp, target->done_psn, DISPOSITION_EXECUTOR);
}

void xrc_target_peer_exited(struct roce *roce, uint32_t slot)
{
	struct xrc_target *target, *tmp;

	list_for_each_entry_safe(target, tmp, &roce->xrc.targets, node) {
		bool is_needed = xrc_target_is_in_burst(target) || target->executor_is_inside;

		slots_remove(target->attached, slot);
		slots_remove(target->current, slot);
		if (is_needed && target->executor == slot)
			lose_executor(target->rqp);
	}
}
