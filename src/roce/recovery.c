/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>

#include "base/util.h"
#include "core/engine/engine.h"
#include "core/qp/qp.h"
#include "core/queue/requester.h"
#include "core/report/failure_warn.h"
#include "roce/probe.h"

/*
 * Loss recovery of a queue pair: passes inputs to the state table (recovery_state.c), executes its
 * actions, and runs the timer.
 *
 * Two timeouts share one timer. The ACK timeout is ibv_qp_attr.timeout: if una_psn has not advanced
 * for this time, one retry is used, and after retry_cnt retries the queue pair fails (IBA 1.x
 * §9.9.2.1.1). The retransmission timeout of RFC 6298 is much shorter and uses no retry. It
 * recovers from the loss of the last packet or of an acknowledgment.
 */

/*
 * The ACK timeout may be up to four times the attribute's value (IBA 1.x §9.7.6.1.3). A peer
 * process responds only when it is scheduled; on a busy host this takes longer than the timeouts
 * that applications choose for a NIC. So timeouts below ACK_TIMEOUT_ENOUGH_NS are multiplied by
 * ACK_TIMEOUT_STRETCH, up to ACK_TIMEOUT_ENOUGH_NS. The minimum is ACK_TIMEOUT_MIN_NS.
 */
#define ACK_TIMEOUT_ENOUGH_NS 250000000u
#define ACK_TIMEOUT_STRETCH   4u
#define ACK_TIMEOUT_MIN_NS    4000000u
#define RTOS_IN_ACK_TIMEOUT   4
#define RTO_BACKOFF_MAX	      8
/*
 * During selective repeat the timer also sends new packets, PACING_STEPS_IN_RTT times per
 * round-trip time.
 */
#define PACING_STEPS_IN_RTT 8u
#define PACING_STEP_MIN_NS  100000u
/* Before a timeout takes effect, at most this many batches of received datagrams are processed. */
#define TIMEOUT_DRAIN_TURNS 16
#define RNR_RETRY_INFINITE  7

static uint32_t in_flight_pkts(const struct roce_qp *rqp)
{
	return psn_sub(rqp->tx.next_psn, rqp->tx.una_psn);
}

static uint64_t recovery_ack_timeout_ns(const struct roce_qp *rqp)
{
	uint64_t timeout_ns = requester_ack_timeout_ns(rqp->qp);

	if (!timeout_ns)
		return TIMER_NEVER_NS / 2;
	if (timeout_ns < ACK_TIMEOUT_ENOUGH_NS)
		timeout_ns = min_u64(ACK_TIMEOUT_STRETCH * timeout_ns, ACK_TIMEOUT_ENOUGH_NS);
	return timeout_ns < ACK_TIMEOUT_MIN_NS ? ACK_TIMEOUT_MIN_NS : timeout_ns;
}

/*
 * The maximum of the RTO: each retry includes several retransmissions, unless the round-trip time
 * is too long for that.
 */
static uint64_t recovery_rto_limit_ns(const struct roce_qp *rqp)
{
	uint64_t part_ns = recovery_ack_timeout_ns(rqp) / RTOS_IN_ACK_TIMEOUT;
	uint64_t least_ns = 2 * rtt_srtt_ns(&rqp->tx.recovery.rtt);

	return part_ns > least_ns ? part_ns : least_ns;
}

static uint64_t recovery_deadline_ns(const struct roce_qp *rqp)
{
	const struct recovery *recovery = &rqp->tx.recovery;
	uint64_t rto_ns = min_u64(rtt_rto_ns(&recovery->rtt, recovery->rto_backoff),
				  recovery_rto_limit_ns(rqp));

	return min_u64(recovery->rto_start_ns + rto_ns,
		       recovery->ack_start_ns + recovery_ack_timeout_ns(rqp));
}

bool recovery_is_sending_gap(const struct roce_qp *rqp)
{
	return rqp->tx.recovery.state == RECOVERY_SELECTIVE &&
	       psn_is_before(rqp->tx.next_psn, rqp->tx.recovery.retransmit_end_psn);
}

bool recovery_may_send(const struct roce_qp *rqp)
{
	return rqp->tx.recovery.state != RECOVERY_RNR_WAIT;
}

/*
 * The gap was retransmitted, and the peer is known to buffer out-of-order packets: new packets may
 * be sent at the rate at which packets leave the network.
 */
static bool recovery_is_pacing(const struct roce_qp *rqp)
{
	const struct recovery *recovery = &rqp->tx.recovery;

	return recovery->state == RECOVERY_SELECTIVE &&
	       recovery->reorder.confidence == REORDER_CONFIRMED && !recovery_is_sending_gap(rqp) &&
	       recovery->rtt.recent_ns;
}

static uint64_t recovery_next_pacing_ns(const struct roce_qp *rqp)
{
	uint64_t step_ns = rqp->tx.recovery.rtt.recent_ns / PACING_STEPS_IN_RTT;

	if (!recovery_is_pacing(rqp))
		return TIMER_NEVER_NS;
	return rqp->roce->now_ns + (step_ns < PACING_STEP_MIN_NS ? PACING_STEP_MIN_NS : step_ns);
}

/*
 * A pending timer with an earlier deadline is not changed: its expiration calls this function
 * again.
 */
static void recovery_arm(struct roce_qp *rqp)
{
	uint64_t due_ns = min_u64(recovery_deadline_ns(rqp), recovery_next_pacing_ns(rqp));

	if (!rqp->tx.timer.is_pending || due_ns < rqp->tx.timer.deadline_ns)
		roce_timer_add(rqp->roce, &rqp->tx.timer, due_ns);
}

int roce_set_cc(struct engine *engine, const char *name)
{
	const struct cc_ops *cc = cc_find(name);

	if (!cc)
		return -EINVAL;
	roce_of(engine)->cc = cc;
	return 0;
}

void recovery_init(struct roce_qp *rqp)
{
	timer_init(&rqp->tx.timer, is_reliable(rqp) ? recovery_timer : roce_requester_pace_timer);
	cc_init(&rqp->tx.cc, rqp->roce->cc);
}

void recovery_start(struct roce_qp *rqp)
{
	rqp->tx.recovery = (struct recovery){
		.retries_left = rqp->qp->attr.retry_cnt,
		.rnr_left = rqp->qp->attr.rnr_retry,
	};
}

void recovery_halt(struct roce_qp *rqp)
{
	timer_cancel(&rqp->qp->context->engine->timers, &rqp->tx.timer);
	rqp->tx.recovery.state = RECOVERY_OPEN;
}

/*
 * The number of new packets that may be sent during selective repeat. The peer cannot report which
 * packets it has buffered. In each round-trip time one window of packets leaves the network, so as
 * many new ones may be sent.
 */
static uint32_t recovery_paced_room(const struct roce_qp *rqp)
{
	const struct recovery *recovery = &rqp->tx.recovery;
	uint64_t rtt_ns = recovery->rtt.recent_ns;
	uint64_t passed_ns = min_u64(rqp->roce->now_ns - recovery->retransmit_ns, rtt_ns);
	uint32_t unacked = psn_sub(rqp->tx.max_psn, rqp->tx.una_psn);
	uint32_t followed = psn_sub(rqp->tx.max_psn, recovery->retransmit_max_psn);
	uint32_t may_follow = (uint32_t)(rqp->tx.cc.cwnd_pkts * passed_ns / rtt_ns);

	if (unacked >= CC_MAX_PKTS || may_follow <= followed)
		return 0;
	may_follow -= followed;
	return may_follow < CC_MAX_PKTS - unacked ? may_follow : CC_MAX_PKTS - unacked;
}

uint32_t recovery_room(const struct roce_qp *rqp)
{
	uint32_t in_flight = in_flight_pkts(rqp), cwnd = rqp->tx.cc.cwnd_pkts;
	uint32_t room = in_flight < cwnd ? cwnd - in_flight : 0;
	uint32_t paced = recovery_is_pacing(rqp) ? recovery_paced_room(rqp) : 0;

	return room > paced ? room : paced;
}

void recovery_on_sent(struct roce_qp *rqp, uint32_t psn, bool is_timeable)
{
	struct recovery *recovery = &rqp->tx.recovery;
	uint64_t now_ns = rqp->roce->now_ns;
	bool is_resending = recovery->is_una_resent || recovery->rto_backoff;

	if (psn == rqp->tx.una_psn) {
		recovery->rto_start_ns = now_ns;
		/*
		 * The ACK timeout starts with the first copy of una_psn; a retransmission does not
		 * restart it.
		 */
		if (!is_resending)
			recovery->ack_start_ns = now_ns;
	}
	if (is_timeable && !recovery->is_timing && !is_resending) {
		recovery->is_timing = true;
		recovery->is_timed_resent = false;
		recovery->timed_psn = psn;
		recovery->timed_ns = now_ns;
	}
	recovery_arm(rqp);
}

static struct cc_conn recovery_cc_conn(const struct roce_qp *rqp)
{
	const struct recovery_reorder *reorder = &rqp->tx.recovery.reorder;
	const struct link *link = rqp->roce->link;

	return (struct cc_conn){
		.una_psn = rqp->tx.una_psn,
		.max_psn = rqp->tx.max_psn,
		.max_cwnd_pkts = cc_max_cwnd_pkts(link ? link->rx_bytes : 0, rqp->mtu_bytes),
		.is_selective = reorder->confidence == REORDER_CONFIRMED,
		.is_go_back_n = roce_requester_has_reads_out(rqp) ||
				recovery_reorder_has_failed(reorder),
		.rtt = &rqp->tx.recovery.rtt,
	};
}

static void recovery_cc_loss(struct roce_qp *rqp)
{
	struct cc_conn conn = recovery_cc_conn(rqp);

	rqp->tx.cc.ops->on_loss(&rqp->tx.cc, &conn);
	roce_trace_window(rqp, ROCE_WINDOW_LOSS);
}

void recovery_on_ecn(struct roce_qp *rqp)
{
	struct cc_conn conn = recovery_cc_conn(rqp);

	rqp->tx.cc.ops->on_ecn(&rqp->tx.cc, &conn);
	roce_trace_window(rqp, ROCE_WINDOW_ECN);
}

/* Retransmits the packets [una_psn, end_psn). */
static void recovery_retransmit(struct roce_qp *rqp, uint32_t end_psn)
{
	struct recovery *recovery = &rqp->tx.recovery;

	recovery->is_timed_resent = recovery->rto_backoff;
	recovery->is_timing = recovery->is_timing && recovery->is_timed_resent;
	recovery->is_una_resent = true;
	recovery->retransmit_end_psn = end_psn;
	recovery->retransmit_max_psn = rqp->tx.max_psn;
	recovery->retransmit_ns = rqp->roce->now_ns;
	recovery->rto_start_ns = rqp->roce->now_ns;
	roce_requester_go_back(rqp);
}

static void recovery_resume(struct roce_qp *rqp)
{
	struct recovery *recovery = &rqp->tx.recovery;

	recovery->is_una_resent = false;
	recovery->rto_backoff = 0;
	recovery->ack_start_ns = rqp->roce->now_ns;
}

static void recovery_step(struct roce_qp *rqp, enum recovery_input input)
{
	struct recovery *recovery = &rqp->tx.recovery;
	enum recovery_state from = recovery->state;
	struct recovery_cell cell = recovery_cell(from, input);

	recovery->state = (enum recovery_state)cell.next;
	if (recovery->state != from)
		roce_trace_recovery(rqp, from, input);
	switch ((enum recovery_action)cell.action) {
	case RECOVERY_ACTION_RETRANSMIT_GAP:
		recovery_retransmit(rqp, psn_add(rqp->tx.una_psn, recovery->gap_pkts));
		break;
	case RECOVERY_ACTION_RETRANSMIT_ALL_COUNT:
		recovery_reorder_count(&recovery->reorder);
		recovery_retransmit(rqp, rqp->tx.max_psn);
		break;
	case RECOVERY_ACTION_RETRANSMIT_ALL_DENY:
		recovery_reorder_deny(&recovery->reorder);
		recovery_retransmit(rqp, rqp->tx.max_psn);
		break;
	case RECOVERY_ACTION_RETRANSMIT_ALL:
	case RECOVERY_ACTION_WAIT_RNR:
		recovery_retransmit(rqp, rqp->tx.max_psn);
		break;
	case RECOVERY_ACTION_CONFIRM:
		recovery_reorder_confirm(&recovery->reorder);
		break;
	case RECOVERY_ACTION_RESUME:
		recovery_resume(rqp);
		break;
	case RECOVERY_ACTION_NOTHING:
		break;
	default:
		assert(false);
	}
}

/* Adds a round-trip time sample if the acknowledgment covers the timed packet. */
static void recovery_measure(struct roce_qp *rqp)
{
	struct recovery *recovery = &rqp->tx.recovery;
	uint64_t now_ns = rqp->roce->now_ns, sample_ns;

	if (!recovery->is_timing || !psn_is_before(recovery->timed_psn, rqp->tx.una_psn))
		return;
	recovery->is_timing = false;
	sample_ns = now_ns - recovery->timed_ns;
	if (recovery->is_timed_resent) {
		rtt_add_upper_bound(&recovery->rtt, sample_ns);
	} else {
		rtt_add_sample(&recovery->rtt, now_ns, sample_ns);
		cc_on_rtt_sample(&rqp->tx.cc, sample_ns);
	}
}

void recovery_on_progress(struct roce_qp *rqp, uint32_t acked_pkts)
{
	struct recovery *recovery = &rqp->tx.recovery;
	uint64_t now_ns = rqp->roce->now_ns;
	struct cc_conn conn;

	if (recovery->is_una_resent && !recovery->rto_backoff) {
		uint64_t sample_ns = rtt_add_ambiguous_sample(&recovery->rtt,
							      now_ns - recovery->rto_start_ns);

		if (sample_ns)
			cc_on_rtt_sample(&rqp->tx.cc, sample_ns);
	}
	recovery->ack_start_ns = now_ns;
	recovery->rto_start_ns = now_ns;
	/*
	 * RFC 6298 §5.7 keeps the backoff until the next sample. With random losses that delays
	 * recovery too much.
	 */
	recovery->rto_backoff = 0;
	recovery->is_una_resent = false;
	recovery->retries_left = rqp->qp->attr.retry_cnt;
	recovery->rnr_left = rqp->qp->attr.rnr_retry;
	recovery_step(rqp, recovery_classify_ack(recovery, rqp->tx.una_psn));
	recovery_measure(rqp);
	conn = recovery_cc_conn(rqp);
	rqp->tx.cc.ops->on_ack(&rqp->tx.cc, &conn, acked_pkts);
	roce_trace_window(rqp, ROCE_WINDOW_ACK);
}

static void recovery_repair_gap(struct roce_qp *rqp)
{
	struct recovery *recovery = &rqp->tx.recovery;
	const struct recovery_gap gap = {
		.una_psn = rqp->tx.una_psn,
		.max_psn = rqp->tx.max_psn,
		.burst_pkts = bursts_pkts(rqp, rqp->tx.una_psn),
		.has_responses = roce_requester_has_reads_out(rqp),
	};
	uint32_t gap_pkts;
	enum recovery_input input = recovery_classify_gap(recovery, &gap, &gap_pkts);

	if (input == RECOVERY_IN_GAP)
		recovery->gap_pkts = gap_pkts;
	recovery_step(rqp, input);
}

/*
 * Whether una_psn was retransmitted less than a round-trip time ago: the report is about an earlier
 * copy.
 */
static bool recovery_is_report_early(const struct roce_qp *rqp)
{
	const struct recovery *recovery = &rqp->tx.recovery;

	return recovery->state != RECOVERY_OPEN &&
	       psn_is_before(rqp->tx.una_psn, recovery->retransmit_end_psn) &&
	       psn_is_before(rqp->tx.una_psn, rqp->tx.next_psn) &&
	       rqp->roce->now_ns - recovery->retransmit_ns < rtt_min_ns(&recovery->rtt);
}

void recovery_on_gap(struct roce_qp *rqp)
{
	const struct recovery *recovery = &rqp->tx.recovery;

	/* Each gap is processed once: further reports are about the same loss. */
	if (recovery->state == RECOVERY_RNR_WAIT || recovery->is_una_resent ||
	    recovery_is_report_early(rqp))
		return;
	/*
	 * A gap immediately after the retransmitted gap is the same loss if the peer has no reorder
	 * buffer.
	 */
	if (!recovery_is_gap_acked(recovery, rqp->tx.una_psn))
		recovery_cc_loss(rqp);
	recovery_repair_gap(rqp);
}

void recovery_on_ack_end(struct roce_qp *rqp)
{
	if (recovery_is_gap_acked(&rqp->tx.recovery, rqp->tx.una_psn))
		recovery_repair_gap(rqp);
}

/*
 * Uses one RNR retry; false: no retries are left. An rnr_retry of 7 means unlimited retries (IBA
 * 1.x §9.7.5.2.8).
 */
static bool recovery_count_rnr(struct roce_qp *rqp)
{
	if (rqp->qp->attr.rnr_retry == RNR_RETRY_INFINITE)
		return true;
	if (!rqp->tx.recovery.rnr_left)
		return false;
	rqp->tx.recovery.rnr_left--;
	return true;
}

void recovery_on_rnr_nak(struct roce_qp *rqp, unsigned int timer_code)
{
	if (rqp->tx.recovery.state == RECOVERY_RNR_WAIT)
		return;
	if (!recovery_count_rnr(rqp)) {
		requester_fail(rqp->qp, IBV_WC_RNR_RETRY_EXC_ERR, VENDOR_ERR_RNR);
		return;
	}
	rqp->tx.recovery.rnr_naks++;
	rqp->tx.recovery.rnr_waited_ns += aeth_rnr_wait_ns(timer_code);
	failure_warn_rnr(rqp->qp, rqp->tx.recovery.rnr_naks, rqp->tx.recovery.rnr_waited_ns,
			 timer_code);
	recovery_step(rqp, RECOVERY_IN_RNR_NAK);
	rqp->tx.recovery.is_timing = false; /* the time would include the wait */
	roce_timer_add(rqp->roce, &rqp->tx.timer, rqp->roce->now_ns + aeth_rnr_wait_ns(timer_code));
}

static void recovery_end_rnr_wait(struct roce_qp *rqp)
{
	recovery_step(rqp, RECOVERY_IN_RNR_EXPIRED);
	/* Acknowledgments may have arrived during the wait. */
	recovery_step(rqp, recovery_classify_ack(&rqp->tx.recovery, rqp->tx.una_psn));
}

/* The deadline passed without progress. false: no retries are left, and the queue pair failed. */
static bool recovery_time_out(struct roce_qp *rqp)
{
	struct recovery *recovery = &rqp->tx.recovery;
	uint64_t now_ns = rqp->roce->now_ns;
	struct cc_conn conn;

	if (now_ns >= recovery->ack_start_ns + recovery_ack_timeout_ns(rqp)) {
		if (!recovery->retries_left) {
			requester_fail(rqp->qp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_RESPONSE);
			return false;
		}
		recovery->retries_left--;
		recovery->ack_start_ns = now_ns;
	}
	roce_count(rqp->roce, ROCE_TIMEOUTS);
	if (recovery->rto_backoff < RTO_BACKOFF_MAX)
		recovery->rto_backoff++;
	/*
	 * With a peer that buffers out-of-order packets, the first timeout is treated as the loss
	 * of a retransmission.
	 */
	if (recovery->reorder.confidence == REORDER_CONFIRMED && recovery->rto_backoff == 1) {
		recovery_cc_loss(rqp);
		recovery_repair_gap(rqp);
		return true;
	}
	conn = recovery_cc_conn(rqp);
	rqp->tx.cc.ops->on_rto(&rqp->tx.cc, &conn);
	roce_trace_window(rqp, ROCE_WINDOW_TIMEOUT);
	recovery_step(rqp, RECOVERY_IN_RTO);
	return true;
}

/*
 * If the process was not scheduled for a while, its timer has expired while acknowledgments wait in
 * the socket. These are processed first; otherwise the scheduling delay would be treated as a loss.
 */
static void recovery_drain_socket(struct roce_qp *rqp)
{
	struct engine *engine = rqp->roce->engine;

	/* Also in the turn of a thread that leaves the socket to its next wake-up. */
	roce_link_is_readable(engine);
	for (int i = 0; i < TIMEOUT_DRAIN_TURNS && roce_transport.run(engine); i++)
		roce_link_is_readable(engine);
}

static bool recovery_is_idle(const struct roce_qp *rqp)
{
	return rqp->tx.una_psn == rqp->tx.max_psn || rqp->qp->state == IBV_QPS_ERR;
}

/* Processes an expiration of the timer outside RNR_WAIT. Returns whether to send packets. */
static bool recovery_expire(struct roce_qp *rqp)
{
	if (recovery_is_idle(rqp))
		return false;
	if (rqp->roce->now_ns >= recovery_deadline_ns(rqp))
		return recovery_time_out(rqp);
	if (recovery_is_pacing(rqp))
		return true;
	recovery_arm(rqp);
	return false;
}

void recovery_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce_qp *rqp = container_of(timer, struct roce_qp, tx.timer);

	rqp->roce->now_ns = now_ns;
	if (!recovery_may_send(rqp)) {
		recovery_end_rnr_wait(rqp);
	} else {
		if (!recovery_is_idle(rqp) && now_ns >= recovery_deadline_ns(rqp))
			recovery_drain_socket(rqp);
		/* An RNR NAK among the received packets may have started the RNR timer. */
		if (!recovery_may_send(rqp) || !recovery_expire(rqp))
			return;
	}
	roce_requester_run(rqp);
	batch_flush(rqp->roce);
	/*
	 * Also if no packet could be sent, because of back-pressure or because the send queue is in
	 * SQD.
	 */
	if (!recovery_is_idle(rqp) && recovery_may_send(rqp))
		recovery_arm(rqp);
}
