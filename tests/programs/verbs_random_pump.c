/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_random.h"

/*
 * Without a message, event or completion for this many seconds in which the process ran, the round
 * fails.
 */
#define STALL_SECONDS 120u
#define COMPLETIONS   16
/* System calls are made in one of this many turns while completions arrive. */
#define TURNS 16u

static void vr_take_hello(struct vr_round *r, const struct vr_message *message)
{
	r->peer = *message;
	r->has_hello = true;
}

static void vr_take_message(struct vr_round *r, const struct vr_message *message)
{
	switch (message->type) {
	case VR_HELLO:
		vr_take_hello(r, message);
		break;
	case VR_READY:
		r->is_peer_ready = true;
		break;
	case VR_QUIET:
		r->is_peer_quiet = true;
		break;
	case VR_ACK:
	case VR_SKIPPED:
		if (message->a > r->out.acked)
			r->out.acked = (uint32_t)message->a;
		break;
	case VR_GRANT:
		r->out.grants = (uint32_t)message->a;
		r->out.grant_rkey = (uint32_t)message->b;
		break;
	case VR_SKIP:
		r->in.skipped = (uint32_t)message->a;
		r->in.is_skip_pending = true;
		break;
	case VR_DONE:
		memcpy(r->in.counters, message->counters, sizeof(r->in.counters));
		r->in.is_done = true;
		break;
	case VR_FLOODING:
		r->is_flooding = true;
		break;
	case VR_REVOKED_NOW:
		r->flood_limit = r->flood_posted;
		r->is_revoked = true;
		break;
	case VR_FLOOD_OVER:
		r->is_flood_over = true;
		break;
	case VR_END:
		r->is_ended = true;
		r->is_peer_passed = message->a;
		r->is_last = r->is_last || message->b;
		break;
	default:
		vr_fail(r, "message of type %u", message->type);
	}
}

static bool vr_take_messages(struct vr_round *r)
{
	struct vr_message message;
	bool is_any = false;

	while (!r->is_ended && !vr.is_peer_gone) {
		ssize_t got = recv(vr.peer_fd, &message, sizeof(message), MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got != sizeof(message)) {
			vr.is_peer_gone = true;
			break;
		}
		if (message.round != r->number)
			vr_fail(r, "message of round %u", message.round);
		vr_take_message(r, &message);
		is_any = true;
	}
	return is_any;
}

static void vr_take_event(struct vr_round *r, const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_COMM_EST)
		return;
	vr_line(r, "what=event type=%d name=\"%s\"", event->event_type,
		ibv_event_type_str(event->event_type));
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		vr.is_device_fatal = true;
		r->is_broken = true;
		break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		r->is_broken = true;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		r->is_broken = r->is_broken || !r->is_in_flood;
		break;
	default:
		break;
	}
}

bool vr_take_events(struct vr_round *r)
{
	struct ibv_async_event event;
	bool is_any = false;

	while (vr.context && !ibv_get_async_event(vr.context, &event)) {
		vr_take_event(r, &event);
		ibv_ack_async_event(&event);
		is_any = true;
	}
	if (vr.context && errno != EAGAIN && !is_any)
		vr_call_repeats(r, "ibv_get_async_event", errno);
	return is_any;
}

struct vr_completion {
	struct ibv_wc wc;
	uint32_t invalidated;
};

static void vr_read_completion(struct ibv_cq_ex *cq, struct vr_completion *completion)
{
	struct ibv_wc *wc = &completion->wc;

	memset(completion, 0, sizeof(*completion));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->vendor_err = ibv_wc_read_vendor_err(cq);
	if (cq->status != IBV_WC_SUCCESS)
		return;
	wc->opcode = ibv_wc_read_opcode(cq);
	wc->wc_flags = ibv_wc_read_wc_flags(cq);
	wc->byte_len = ibv_wc_read_byte_len(cq);
	wc->qp_num = ibv_wc_read_qp_num(cq);
	wc->src_qp = ibv_wc_read_src_qp(cq);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(cq);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		completion->invalidated = ibv_wc_read_invalidated_rkey(cq);
}

static int vr_poll_ex(struct vr_round *r, struct ibv_cq_ex *cq, struct vr_completion *completions)
{
	struct ibv_poll_cq_attr attr = {0};
	int err = ibv_start_poll(cq, &attr);
	int count = 0;

	if (err) {
		if (err != ENOENT)
			vr_call_failed(r, "ibv_start_poll", err);
		return 0;
	}
	do {
		vr_read_completion(cq, &completions[count++]);
	} while (count < COMPLETIONS && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return count;
}

static int vr_poll(struct vr_round *r, struct ibv_cq *cq, struct vr_completion *completions)
{
	struct ibv_wc wcs[COMPLETIONS];
	int count;

	VR_CALL(count, "ibv_poll_cq", ibv_poll_cq(cq, COMPLETIONS, wcs));
	if (count < 0) {
		vr_call_failed(r, "ibv_poll_cq", -count);
		return 0;
	}
	for (int i = 0; i < count; i++) {
		completions[i].wc = wcs[i];
		completions[i].invalidated = wcs[i].invalidated_rkey;
	}
	return count;
}

static bool vr_drain(struct vr_round *r)
{
	struct vr_completion completions[COMPLETIONS];
	bool is_any = false;

	for (unsigned int i = 0; i < 2; i++) {
		int count;

		if (!r->cqs[i])
			continue;
		if (r->cq_ex[i] && vr_roll(r, 2))
			count = vr_poll_ex(r, r->cq_ex[i], completions);
		else
			count = vr_poll(r, r->cqs[i], completions);
		for (int j = 0; j < count; j++) {
			const struct ibv_wc *wc = &completions[j].wc;

			if (wc->wr_id & VR_ID_RECV)
				vr_take_recv(r, wc, completions[j].invalidated);
			else if (wc->wr_id & VR_ID_FLOOD)
				vr_take_flood(r, wc);
			else
				vr_take_send(r, wc);
		}
		is_any = is_any || count;
	}
	return is_any;
}

static void vr_arm(struct vr_round *r)
{
	for (unsigned int i = 0; i < 2; i++) {
		int err = 0;

		if (r->cqs[i])
			VR_CALL(err, "ibv_req_notify_cq", ibv_req_notify_cq(r->cqs[i], 0));
		if (err)
			vr_call_repeats(r, "ibv_req_notify_cq", err);
	}
}

static void vr_take_cq_events(struct vr_round *r)
{
	struct ibv_cq *cq;
	uint64_t count;
	void *context;

	if (r->has_waiter) {
		if (read(r->bell, &count, sizeof(count)) < 0 && errno != EAGAIN)
			vr_fail(r, "eventfd: %s", strerror(errno));
		return;
	}
	while (!ibv_get_cq_event(r->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	if (errno != EAGAIN)
		vr_call_repeats(r, "ibv_get_cq_event", errno);
}

static void vr_wait(struct vr_round *r)
{
	struct pollfd fds[3] = {
		{.fd = vr.is_peer_gone ? -1 : vr.peer_fd, .events = POLLIN},
		{.fd = vr.context ? vr.context->async_fd : -1, .events = POLLIN},
		{.fd = -1, .events = POLLIN},
	};
	bool is_spinning = !r->channel;

	if (is_spinning && ++r->spins < 200) {
		sched_yield();
		return;
	}
	r->spins = 0;
	if (r->channel) {
		vr_arm(r);
		if (vr_drain(r)) {
			r->progress_tick = atomic_load(&vr.ticks);
			return;
		}
		fds[2].fd = r->has_waiter ? r->bell : r->channel->fd;
	}
	/* The limit is for the check of a stall, and for faults of the calls that arm a queue. */
	poll(fds, 3, is_spinning ? 1 : 1000);
	if (fds[2].revents)
		vr_take_cq_events(r);
	if (fds[1].revents)
		vr_take_events(r);
}

static void vr_check_stall(const struct vr_round *r)
{
	if (atomic_load(&vr.ticks) - r->progress_tick > STALL_SECONDS)
		vr_fail(r,
			"no progress for %u s: posted %u, retired %u, acknowledged %u, "
			"received %u, done %d, broken %d, flood %d, ended %d",
			STALL_SECONDS, r->out.posted, r->out.retired, r->out.acked, r->in.next,
			r->in.is_done, r->is_broken, r->is_in_flood, r->is_ended);
}

/*
 * Messages of UC and UD may be lost: the peer is asked to look whether more have arrived, and to go
 * on.
 */
static void vr_skip(struct vr_round *r)
{
	if (r->in.is_skip_pending) {
		r->in.is_skip_pending = false;
		vr_send(r, VR_SKIPPED, r->in.skipped, 0);
	}
	if ((r->plan.service != VR_UC && r->plan.service != VR_UD) || r->is_broken ||
	    r->out.posted - r->out.acked < r->plan.window || r->out.skip_asked == r->out.posted)
		return;
	r->out.skip_asked = r->out.posted;
	vr_send(r, VR_SKIP, r->out.posted, 0);
}

bool vr_pump(struct vr_round *r, bool is_idle)
{
	bool is_any = vr_drain(r);

	r->turns++;
	if (!is_any || r->turns % TURNS == 0)
		is_any |= vr_take_messages(r);
	if (r->turns % (TURNS * TURNS) == 0)
		is_any |= vr_take_events(r);
	if (is_any) {
		r->progress_tick = atomic_load(&vr.ticks);
		r->spins = 0;
	} else {
		vr_acknowledge(r, true);
		vr_skip(r);
		vr_check_stall(r);
		if (is_idle && !r->is_ended && !vr.is_peer_gone)
			vr_wait(r);
	}
	return !r->is_broken && !r->is_ended && !vr.is_peer_gone;
}
