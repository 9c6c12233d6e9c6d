/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cm/conn.h"

/*
 * The actions of the state table. cm_step() sets the new state before it runs an action; afterwards
 * it closes the connection and reports the event.
 */

/*
 * Linux sends an MRA of 69 s for every REP. The REP is repeated after 4.096 us * 2^19 = 2.1 s and
 * the response timeout nevertheless: otherwise a lost RTU would delay the connection by 69 s.
 */
#define REP_AGAIN 19

/*
 * A connection is challenged at most once in this time (the limit of challenge ACKs, RFC 5961 §7).
 */
#define CHALLENGE_INTERVAL_NS CLOCK_NS_PER_S

/* Less than Linux waits before it repeats a REQ, 4.3 s. */
#define ADDRESS_CHALLENGE_NS (4 * CLOCK_NS_PER_S)

static void cm_report_event(struct cm_step *step, enum cm_event_type event)
{
	step->has_event = true;
	step->event = event;
}

static int cm_do_illegal(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	(void)step;
	return -EINVAL;
}

static int do_already(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	(void)step;
	return -EISCONN;
}

static int cm_do_nothing(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	(void)step;
	return 0;
}

static int cm_do_stray(struct cm_conn *conn, struct cm_step *step)
{
	(void)step;
	conn->cm->counters.strays++;
	return 0;
}

static int cm_do_send_req(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg = {.type = CM_MSG_REQ, .tid = conn->tid};

	conn->path = *step->path;
	conn->validation.is_done = true; /* the consumer chose the address */
	conn->local_qpn = step->req->local_qpn;
	conn->is_xrc = step->req->transport_type == CM_TRANSPORT_EXTENDED;
	conn->local_ca_guid = step->req->local_ca_guid;
	conn->retry.response_timeout = step->req->remote_cm_response_timeout;
	conn->retry.max_retries = step->req->max_cm_retries;
	conn->ack_timeout = step->req->primary.local_ack_timeout;
	msg.req = *step->req;
	msg.req.local_comm_id = conn->local_comm_id;
	msg.req.starting_psn = conn->psn;
	cm_retry_start(&conn->retry, conn->cm, &conn->path, &msg, step->now_ns);
	return 0;
}

static int cm_do_take_req(struct cm_conn *conn, struct cm_step *step)
{
	const struct cm_req *req = &step->msg->req;

	conn->path = *step->path;
	conn->tid = step->msg->tid;
	conn->remote_comm_id = req->local_comm_id;
	conn->remote_ca_guid = req->local_ca_guid;
	conn->remote_qpn = req->local_qpn;
	conn->is_xrc = req->transport_type == CM_TRANSPORT_EXTENDED;
	conn->retry.response_timeout = req->local_cm_response_timeout;
	conn->retry.max_retries = req->max_cm_retries;
	conn->ack_timeout = req->primary.local_ack_timeout;
	cm_name_remote(conn);
	cm_name_qpn(conn);
	return 0;
}

/*
 * Verifies the source address of a REQ. Any host can send a REQ in the name of another host, and a
 * REP is repeated until the RTU arrives, which would multiply such a REQ. The challenge is a
 * SIDR_REQ for a service that no host has. The SIDR_REP repeats the random transaction ID, which
 * shows that the peer receives at its address. If the challenge or the SIDR_REP is lost, the
 * repeated REQ is challenged, too, for ADDRESS_CHALLENGE_NS. Afterwards each REQ is answered with
 * one REP, in case the peer's CM answers no such request. Returns whether the address has to be
 * challenged.
 */
static bool action_challenge_address(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_validation *validation = &conn->validation;
	struct cm *cm = conn->cm;
	struct cm_msg msg;

	if (cm_validation_is_done(cm, validation, &conn->path, now_ns) ||
	    (validation->tid && now_ns >= validation->challenged_ns + ADDRESS_CHALLENGE_NS))
		return false;
	if (!validation->tid) {
		validation->tid = random_u64(cm->random) | 1;
		validation->challenged_ns = now_ns;
	}
	cm_make_address_challenge(conn, &msg);
	if (validation->credit > 0)
		cm->counters.address_challenges++;
	(void)cm_conn_send(conn, &msg, now_ns);
	return true;
}

/*
 * A repeated REQ whose sender is not verified yet gets a challenge first: the MRA would stop the
 * repetitions.
 */
static int do_send_mra(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg;

	if (step->input == CM_IN_REQ && action_challenge_address(conn, step->now_ns))
		return 0;
	cm_make_mra(conn, step->input == CM_IN_REQ ? CM_ABOUT_REQ : CM_ABOUT_REP, &msg);
	return cm_conn_send(conn, &msg, step->now_ns);
}

static int do_wait_longer(struct cm_conn *conn, struct cm_step *step)
{
	const struct cm_mra *mra = &step->msg->mra;

	cm_retry_wait(&conn->retry, conn->cm, mra->service_timeout,
		      mra->about == CM_ABOUT_REP ? REP_AGAIN : mra->service_timeout, step->now_ns);
	return 0;
}

static int cm_do_send_rep(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg = {.type = CM_MSG_REP, .tid = conn->tid, .rep = *step->rep};

	conn->local_qpn = cm_rep_qpn(conn, step->rep);
	conn->local_ca_guid = step->rep->local_ca_guid;
	msg.rep.local_comm_id = conn->local_comm_id;
	msg.rep.remote_comm_id = conn->remote_comm_id;
	msg.rep.starting_psn = conn->psn;
	/*
	 * The challenge takes the credit of the REQ, so cm_retry_start() withholds the REP until
	 * the SIDR_REP arrives.
	 */
	(void)action_challenge_address(conn, step->now_ns);
	cm_retry_start(&conn->retry, conn->cm, &conn->path, &msg, step->now_ns);
	return 0;
}

static int cm_do_take_rep(struct cm_conn *conn, struct cm_step *step)
{
	const struct cm_rep *rep = &step->msg->rep;

	cm_retry_stop(&conn->retry, conn->cm);
	conn->path.is_local = step->path->is_local;
	conn->remote_comm_id = rep->local_comm_id;
	conn->remote_ca_guid = rep->local_ca_guid;
	conn->remote_qpn = cm_rep_qpn(conn, rep);
	cm_name_qpn(conn);
	cm_report_event(step, CM_EVENT_REP);
	return 0;
}

static int do_send_rtu(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg;

	cm_make_rtu(conn, &msg);
	/* If the RTU is lost, the peer repeats its REP, so the RTU is sent once. */
	(void)cm_conn_send(conn, &msg, step->now_ns);
	return 0;
}

static int do_take_rtu(struct cm_conn *conn, struct cm_step *step)
{
	/* In case of CM_IN_NOTIFY a packet with the QPN and the PSN of the REP arrived. */
	conn->validation.is_done = true;
	cm_retry_stop(&conn->retry, conn->cm);
	cm_report_event(step, CM_EVENT_RTU);
	return 0;
}

static int cm_do_repeat(struct cm_conn *conn, struct cm_step *step)
{
	if (!action_challenge_address(conn, step->now_ns))
		cm_retry_repeat(&conn->retry, conn->cm, &conn->path, step->now_ns);
	return 0;
}

static int do_send_withheld(struct cm_conn *conn, struct cm_step *step)
{
	cm_retry_send_withheld(&conn->retry, conn->cm, &conn->path, step->now_ns);
	return 0;
}

static int cm_do_resend(struct cm_conn *conn, struct cm_step *step)
{
	cm_retry_again(&conn->retry, conn->cm, &conn->path, step->now_ns);
	return 0;
}

static void send_rej(struct cm_conn *conn, enum cm_about about, uint16_t reason,
		     const struct cm_step *step)
{
	struct cm_msg msg;

	cm_make_rej(conn, about, reason, &msg);
	if (step->private_len > 0)
		memcpy(msg.rej.private_data, step->private_data, step->private_len);
	(void)cm_conn_send(conn, &msg, step->now_ns);
}

static int do_lose_req(struct cm_conn *conn, struct cm_step *step)
{
	send_rej(conn, CM_ABOUT_REQ, CM_REJ_TIMEOUT, step);
	cm_report_event(step, CM_EVENT_REQ_ERROR);
	return 0;
}

static int do_miss_req(struct cm_conn *conn, struct cm_step *step)
{
	conn->retry.error = step->error;
	conn->cm->counters.unreachable++;
	cm_report_event(step, CM_EVENT_REQ_ERROR);
	return 0;
}

static int do_lose_rep(struct cm_conn *conn, struct cm_step *step)
{
	send_rej(conn, CM_ABOUT_REP, CM_REJ_TIMEOUT, step);
	cm_report_event(step, CM_EVENT_REP_ERROR);
	return 0;
}

/*
 * A REJ names the message that it rejects: the REQ if the passive side sends it, the REP if the
 * active side does.
 */
static int do_send_rej(struct cm_conn *conn, struct cm_step *step)
{
	bool is_passive = conn->by_remote_id.is_linked;

	send_rej(conn, is_passive ? CM_ABOUT_REQ : CM_ABOUT_REP,
		 step->reason ? step->reason : CM_REJ_CONSUMER, step);
	return 0;
}

/* Before the REP the peer's communication ID is unknown, so the REJ carries our own. */
static int do_unpublish(struct cm_conn *conn, struct cm_step *step)
{
	send_rej(conn, CM_ABOUT_OTHER, CM_REJ_TIMEOUT, step);
	return 0;
}

static int do_take_rej(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	cm_report_event(step, CM_EVENT_REJ);
	return 0;
}

static int do_send_stale(struct cm_conn *conn, struct cm_step *step)
{
	send_rej(conn, CM_ABOUT_REQ, CM_REJ_STALE_CONN, step);
	return 0;
}

static int do_send_apr(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg;

	cm_make_apr(conn, step->msg->tid, &msg);
	return cm_conn_send(conn, &msg, step->now_ns);
}

static int do_send_dreq(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg;

	cm_make_dreq(conn, &msg);
	cm_retry_start(&conn->retry, conn->cm, &conn->path, &msg, step->now_ns);
	return 0;
}

static int do_take_dreq(struct cm_conn *conn, struct cm_step *step)
{
	cm_retry_stop(&conn->retry, conn->cm);
	cm_report_event(step, CM_EVENT_DREQ);
	return 0;
}

static void send_drep(struct cm_conn *conn, const struct cm_step *step)
{
	struct cm_msg msg;

	cm_make_drep(conn, step->msg ? step->msg->tid : conn->tid, &msg);
	/* If the DREP is lost, the peer repeats its DREQ, so the DREP is sent once. */
	(void)cm_conn_send(conn, &msg, step->now_ns);
}

static int do_send_drep(struct cm_conn *conn, struct cm_step *step)
{
	send_drep(conn, step);
	return 0;
}

static int do_cross_dreq(struct cm_conn *conn, struct cm_step *step)
{
	send_drep(conn, step);
	cm_report_event(step, CM_EVENT_DREP);
	return 0;
}

static int do_take_drep(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	cm_report_event(step, CM_EVENT_DREP);
	return 0;
}

static int do_lose_dreq(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	cm_report_event(step, CM_EVENT_DREQ_ERROR);
	return 0;
}

static int do_lose_peer(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	cm_report_event(step, CM_EVENT_LOST);
	return 0;
}

/*
 * Challenges the peer: sends a DREQ with a new transaction ID and a QPN that is not the
 * connection's. A peer that has the connection verifies the QPN and drops the DREQ. A peer that
 * does not have it replies with a DREP. The message that caused the challenge is no proof that the
 * connection is stale, since any host can name a QPN.
 */
static int do_challenge(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_msg msg;

	if (conn->challenge_tid && step->now_ns < conn->challenged_ns + CHALLENGE_INTERVAL_NS)
		return 0;
	conn->challenge_tid = random_u64(conn->cm->random) | 1;
	conn->challenged_ns = step->now_ns;
	conn->cm->counters.challenges++;
	cm_make_challenge(conn, &msg);
	return cm_conn_send(conn, &msg, step->now_ns);
}

static int do_end_timewait(struct cm_conn *conn, struct cm_step *step)
{
	(void)conn;
	cm_report_event(step, CM_EVENT_TIMEWAIT_EXIT);
	return 0;
}

static cm_action_fn *const actions[] = {
	[CM_ACTION_MISSING] = cm_do_illegal,
	[CM_ACTION_ILLEGAL] = cm_do_illegal,
	[CM_ACTION_ALREADY] = do_already,
	[CM_ACTION_NOTHING] = cm_do_nothing,
	[CM_ACTION_STRAY] = cm_do_stray,
	[CM_ACTION_NEVER] = cm_do_nothing,
	[CM_ACTION_SEND_REQ] = cm_do_send_req,
	[CM_ACTION_TAKE_REQ] = cm_do_take_req,
	[CM_ACTION_SEND_MRA] = do_send_mra,
	[CM_ACTION_WAIT_LONGER] = do_wait_longer,
	[CM_ACTION_SEND_REP] = cm_do_send_rep,
	[CM_ACTION_TAKE_REP] = cm_do_take_rep,
	[CM_ACTION_SEND_RTU] = do_send_rtu,
	[CM_ACTION_TAKE_RTU] = do_take_rtu,
	[CM_ACTION_REPEAT] = cm_do_repeat,
	[CM_ACTION_RESEND] = cm_do_resend,
	[CM_ACTION_SEND_WITHHELD] = do_send_withheld,
	[CM_ACTION_TIMEOUT_REQ] = do_lose_req,
	[CM_ACTION_TIMEOUT_REP] = do_lose_rep,
	[CM_ACTION_REQ_UNREACHABLE] = do_miss_req,
	[CM_ACTION_SEND_REJ] = do_send_rej,
	[CM_ACTION_SEND_REJ_TIMEOUT] = do_unpublish,
	[CM_ACTION_TAKE_REJ] = do_take_rej,
	[CM_ACTION_SEND_STALE] = do_send_stale,
	[CM_ACTION_SEND_APR] = do_send_apr,
	[CM_ACTION_SEND_DREQ] = do_send_dreq,
	[CM_ACTION_TAKE_DREQ] = do_take_dreq,
	[CM_ACTION_SEND_DREP] = do_send_drep,
	[CM_ACTION_CROSS_DREQ] = do_cross_dreq,
	[CM_ACTION_CHALLENGE] = do_challenge,
	[CM_ACTION_TAKE_DREP] = do_take_drep,
	[CM_ACTION_TIMEOUT_DREQ] = do_lose_dreq,
	[CM_ACTION_END_STALE] = do_lose_peer,
	[CM_ACTION_END_TIMEWAIT] = do_end_timewait,
};
static_assert(COUNT(actions) == CM_ACTION_COUNT, "every action has its function");

cm_action_fn *cm_action_fn_of(enum cm_action action)
{
	return actions[action];
}
