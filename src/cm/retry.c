/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/retry.h"

#include <errno.h>

#include "base/clock.h"
#include "cm/conn.h"

/*
 * Waits start at this fraction of what the peer may take, but not above 4.096 us * 2^14 = 67 ms, and double up to it: a
 * lost datagram costs little, a slow peer is not flooded.
 */
#define RETRY_FIRST_SHIFT 4
#define RETRY_FIRST_MAX	  14

/*
 * Questions are repeated after 4.096 us * 2^17 = 537 ms at first, or sooner where that would leave fewer waits than
 * these.
 */
#define SELDOM_FIRST_MAX 17
#define SELDOM_WAITS	 8

/* Longer exponents than this come only from peers that mean us no good: 4.096 us * 2^24 = 69 s. */
#define EXPONENT_MAX 24

static uint64_t exponent_ns(uint8_t exponent)
{
	return 4096ull << (exponent < EXPONENT_MAX ? exponent : EXPONENT_MAX);
}

/* What a message and its repetitions wait for answers in all, if their waits grow from the one to the other. */
static uint64_t all_waits_ns(uint8_t first, uint8_t exponent)
{
	uint64_t wait_ns = exponent_ns(first), sum_ns = 0;

	for (int i = 0; i <= CM_MAX_RETRIES; i++) {
		sum_ns += wait_ns;
		if (wait_ns < exponent_ns(exponent))
			wait_ns *= 2;
	}
	return sum_ns;
}

static uint8_t lasting(uint8_t first, uint8_t exponent, uint64_t patience_ns)
{
	while (exponent < EXPONENT_MAX && all_waits_ns(first, exponent) < patience_ns)
		exponent++;
	return exponent;
}

uint8_t cm_response_timeout(uint64_t patience_ns)
{
	return lasting(RETRY_FIRST_MAX, RETRY_FIRST_MAX + RETRY_FIRST_SHIFT, patience_ns);
}

/* Within this machine nothing is lost on the way, and whoever does not answer a REP at once is busy with others; a REQ is
 * repeated there too, for the listener whose backlog was full. */
static uint64_t first_wait_ns(const struct cm_retry *retry, const struct cm_path *path,
			      enum cm_msg_type type)
{
	uint64_t wait_ns = exponent_ns(retry->response_timeout) >> RETRY_FIRST_SHIFT;

	if (path->is_local && type == CM_MSG_REP)
		return exponent_ns(retry->response_timeout);
	if (retry->first_timeout)
		return exponent_ns(retry->first_timeout);
	if (wait_ns > exponent_ns(RETRY_FIRST_MAX))
		return exponent_ns(RETRY_FIRST_MAX);
	return wait_ns > CLOCK_NS_PER_MS ? wait_ns : CLOCK_NS_PER_MS;
}

static int send_mad(struct cm *cm, const struct cm_path *path, enum cm_msg_type type,
		    const void *mad)
{
	int ret = cm->ops->send(cm->ctx, path, mad);

	if (ret)
		cm->counters.unsent++;
	else
		cm->counters.sent[type]++;
	return ret;
}

int cm_send(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg)
{
	uint8_t mad[MAD_BYTES];

	cm_msg_build(msg, mad);
	return send_mad(cm, path, msg->type, mad);
}

void cm_retry_init(struct cm_retry *retry, void (*on_timer)(struct timer *timer, uint64_t now_ns))
{
	timer_init(&retry->timer, on_timer);
	retry->patience_ns = CM_PATIENCE_NS;
	retry->error = -ETIMEDOUT;
}

void cm_retry_seldom(struct cm_retry *retry, uint64_t patience_ns)
{
	uint8_t first = SELDOM_FIRST_MAX;

	while (first > RETRY_FIRST_MAX && exponent_ns(first) * SELDOM_WAITS > patience_ns)
		first--;
	retry->patience_ns = patience_ns;
	retry->first_timeout = first;
	retry->response_timeout = lasting(first, first, patience_ns);
	retry->max_retries = CM_MAX_RETRIES;
}

/* A path that refuses will go on refusing: what is left of the waiting is none. */
static void refused(struct cm_retry *retry, int error)
{
	retry->left = 0;
	retry->error = error;
}

/* Waits begin short, but if nothing more is sent the peer has all the time that it was promised. */
static uint64_t next_wait_ns(const struct cm_retry *retry)
{
	uint64_t most_ns = exponent_ns(retry->response_timeout);

	return retry->left == 0 && retry->wait_ns < most_ns ? most_ns : retry->wait_ns;
}

static void arm(struct cm_retry *retry, struct cm *cm, int sent, uint64_t now_ns)
{
	uint64_t deadline_ns = now_ns + next_wait_ns(retry);

	if (sent) {
		refused(retry, sent);
		deadline_ns = now_ns;
	}
	if (deadline_ns > retry->give_up_ns)
		deadline_ns = retry->give_up_ns;
	timer_add(&cm->timers, &retry->timer, deadline_ns);
}

void cm_retry_start(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    const struct cm_msg *msg, uint64_t now_ns)
{
	cm_msg_build(msg, retry->mad);
	retry->left = retry->max_retries;
	retry->wait_ns = first_wait_ns(retry, path, msg->type);
	retry->give_up_ns = now_ns + retry->patience_ns;
	retry->error = -ETIMEDOUT;
	arm(retry, cm, send_mad(cm, path, msg->type, retry->mad), now_ns);
}

static int send_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path)
{
	int ret = cm->ops->send(cm->ctx, path, retry->mad);

	if (ret)
		cm->counters.unsent++;
	else
		cm->counters.resent++;
	return ret;
}

void cm_retry_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    uint64_t now_ns)
{
	uint64_t most_ns = exponent_ns(retry->response_timeout);

	retry->left--;
	if (retry->wait_ns < most_ns)
		retry->wait_ns *= 2;
	arm(retry, cm, send_again(retry, cm, path), now_ns);
}

void cm_retry_repeat(struct cm_retry *retry, struct cm *cm, const struct cm_path *path)
{
	int ret = send_again(retry, cm, path);

	if (ret)
		refused(retry, ret);
}

void cm_retry_wait(struct cm_retry *retry, struct cm *cm, uint8_t service_timeout,
		   uint8_t again_timeout, uint64_t now_ns)
{
	uint64_t answer_ns = exponent_ns(retry->response_timeout);
	uint64_t service_ns = exponent_ns(service_timeout), again_ns = exponent_ns(again_timeout);

	retry->left = retry->max_retries;
	retry->give_up_ns = now_ns + service_ns + answer_ns + retry->patience_ns;
	timer_add(&cm->timers, &retry->timer,
		  now_ns + (again_ns < service_ns ? again_ns : service_ns) + answer_ns);
}

void cm_retry_stop(struct cm_retry *retry, struct cm *cm)
{
	timer_cancel(&cm->timers, &retry->timer);
}

bool cm_retry_is_over(const struct cm_retry *retry, uint64_t now_ns)
{
	return retry->left == 0 || now_ns >= retry->give_up_ns;
}

/* As long as a packet of ours could still be on its way to be acknowledged (IBA 1.x §12.9.8.4). */
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns)
{
	timer_add(&conn->cm->timers, &conn->retry.timer, now_ns + exponent_ns(conn->ack_timeout));
}
