/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/retry.h"

#include <errno.h>

#include "base/clock.h"
#include "cm/conn.h"

/*
 * Exponential backoff: the first wait is the response timeout divided by 2^RETRY_FIRST_SHIFT, at
 * most 4.096 us * 2^14 = 67 ms. Each further wait is twice as long, up to the response timeout. A
 * lost datagram is repeated soon, and a slow peer gets few repetitions.
 */
#define RETRY_FIRST_SHIFT 4
#define RETRY_FIRST_MAX	  14

/*
 * A SIDR_REQ is repeated after 4.096 us * 2^17 = 537 ms at first, or earlier if the timeout would
 * otherwise allow fewer than SELDOM_WAITS waits.
 */
#define SELDOM_FIRST_MAX 17
#define SELDOM_WAITS	 8

/* Limits a peer's exponent: 4.096 us * 2^24 = 69 s. */
#define EXPONENT_MAX 24

static uint64_t exponent_ns(uint8_t exponent)
{
	return 4096ull << (exponent < EXPONENT_MAX ? exponent : EXPONENT_MAX);
}

/*
 * The sum of the waits after a message and all its repetitions, which grow from `first` to
 * `exponent`.
 */
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

static uint8_t lasting(uint8_t first, uint8_t exponent, uint64_t timeout_ns)
{
	while (exponent < EXPONENT_MAX && all_waits_ns(first, exponent) < timeout_ns)
		exponent++;
	return exponent;
}

uint8_t cm_response_timeout(uint64_t timeout_ns)
{
	return lasting(RETRY_FIRST_MAX, RETRY_FIRST_MAX + RETRY_FIRST_SHIFT, timeout_ns);
}

/*
 * No message is lost within this host. If an RTU or a DREP is late there, the process is busy, so a
 * REP or DREQ is not repeated early. A REQ is repeated, since a listener with a full backlog drops
 * it.
 */
static uint64_t first_wait_ns(const struct cm_retry *retry, const struct cm_path *path,
			      enum cm_msg_type type)
{
	uint64_t wait_ns = exponent_ns(retry->response_timeout) >> RETRY_FIRST_SHIFT;

	if (path->is_local && (type == CM_MSG_REP || type == CM_MSG_DREQ))
		return exponent_ns(retry->response_timeout);
	if (retry->first_timeout)
		return exponent_ns(retry->first_timeout);
	if (wait_ns > exponent_ns(RETRY_FIRST_MAX))
		return exponent_ns(RETRY_FIRST_MAX);
	return wait_ns > CLOCK_NS_PER_MS ? wait_ns : CLOCK_NS_PER_MS;
}

static int retry_send_mad(struct cm *cm, const struct cm_path *path, enum cm_msg_type type,
			  const void *mad)
{
	int ret = cm->callbacks->send(cm->ctx, path, mad);

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
	return retry_send_mad(cm, path, msg->type, mad);
}

int cm_conn_send(struct cm_conn *conn, const struct cm_msg *msg, uint64_t now_ns)
{
	if (!cm_validation_take(conn->cm, &conn->validation, &conn->path, now_ns))
		return 0;
	return cm_send(conn->cm, &conn->path, msg);
}

void cm_retry_init(struct cm_retry *retry, void (*on_timer)(struct timer *timer, uint64_t now_ns))
{
	timer_init(&retry->timer, on_timer);
	retry->timeout_ns = CM_TIMEOUT_NS;
	retry->error = -ETIMEDOUT;
}

void cm_retry_seldom(struct cm_retry *retry, uint64_t timeout_ns)
{
	uint8_t first = SELDOM_FIRST_MAX;

	while (first > RETRY_FIRST_MAX && exponent_ns(first) * SELDOM_WAITS > timeout_ns)
		first--;
	retry->timeout_ns = timeout_ns;
	retry->first_timeout = first;
	retry->response_timeout = lasting(first, first, timeout_ns);
	retry->max_retries = CM_MAX_RETRIES;
}

/*
 * Ends the repetitions after cm_callbacks.send failed: the next attempt would fail in the same way.
 */
static void refused(struct cm_retry *retry, int error)
{
	retry->left = 0;
	retry->error = error;
}

/* After the last repetition the peer has the whole response timeout. */
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

static int retry_send_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path)
{
	int ret = cm->callbacks->send(cm->ctx, path, retry->mad);

	if (ret)
		cm->counters.unsent++;
	else
		cm->counters.resent++;
	return ret;
}

/* Sends the message, unless it has to be withheld. */
static int retry_send(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		      uint64_t now_ns)
{
	if (retry->validation && !cm_validation_take(cm, retry->validation, path, now_ns))
		return 0;
	if (retry->sent++ > 0)
		return retry_send_again(retry, cm, path);
	return retry_send_mad(cm, path, retry->type, retry->mad);
}

void cm_retry_start(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    const struct cm_msg *msg, uint64_t now_ns)
{
	cm_msg_build(msg, retry->mad);
	retry->type = msg->type;
	retry->left = retry->max_retries;
	retry->sent = 0;
	retry->wait_ns = first_wait_ns(retry, path, msg->type);
	retry->give_up_ns = now_ns + retry->timeout_ns;
	retry->error = -ETIMEDOUT;
	arm(retry, cm, retry_send(retry, cm, path, now_ns), now_ns);
}

void cm_retry_send_withheld(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
			    uint64_t now_ns)
{
	if (retry->sent > 0)
		return;
	retry->wait_ns = first_wait_ns(retry, path, retry->type);
	arm(retry, cm, retry_send(retry, cm, path, now_ns), now_ns);
}

void cm_retry_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    uint64_t now_ns)
{
	uint64_t most_ns = exponent_ns(retry->response_timeout);

	if (retry->sent > 0)
		retry->left--;
	if (retry->wait_ns < most_ns)
		retry->wait_ns *= 2;
	arm(retry, cm, retry_send(retry, cm, path, now_ns), now_ns);
}

void cm_retry_repeat(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		     uint64_t now_ns)
{
	int ret = retry_send(retry, cm, path, now_ns);

	if (ret)
		refused(retry, ret);
}

void cm_retry_wait(struct cm_retry *retry, struct cm *cm, uint8_t service_timeout,
		   uint8_t again_timeout, uint64_t now_ns)
{
	uint64_t response_ns = exponent_ns(retry->response_timeout);
	uint64_t service_ns = exponent_ns(service_timeout), again_ns = exponent_ns(again_timeout);

	retry->left = retry->max_retries;
	retry->give_up_ns = now_ns + service_ns + response_ns + retry->timeout_ns;
	timer_add(&cm->timers, &retry->timer,
		  now_ns + (again_ns < service_ns ? again_ns : service_ns) + response_ns);
}

void cm_retry_stop(struct cm_retry *retry, struct cm *cm)
{
	timer_cancel(&cm->timers, &retry->timer);
}

bool cm_retry_is_over(const struct cm_retry *retry, uint64_t now_ns)
{
	return (retry->left == 0 && retry->sent > 0) || now_ns >= retry->give_up_ns;
}

/* The time for which packets of this connection may still arrive (IBA 1.x §12.9.8.4). */
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns)
{
	timer_add(&conn->cm->timers, &conn->retry.timer, now_ns + exponent_ns(conn->ack_timeout));
}
