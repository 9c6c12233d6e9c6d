/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/clock.h"
#include "cm/conn.h"

/* Waits start at this fraction of what the peer may take and double up to it: a lost datagram costs little, a slow peer
 * is not flooded. */
#define RETRY_FIRST_SHIFT 4

/* Longer exponents than this come only from peers that mean us no good: 4.096 us * 2^24 = 69 s. */
#define EXPONENT_MAX 24

static uint64_t exponent_ns(uint8_t exponent)
{
	return 4096ull << (exponent < EXPONENT_MAX ? exponent : EXPONENT_MAX);
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

/* A path that refuses will go on refusing: what is left of the waiting is none. */
static void arm(struct cm_conn *conn, int sent, uint64_t now_ns)
{
	if (sent)
		conn->retry.left = 0;
	timer_add(&conn->cm->timers, &conn->timer, sent ? now_ns : now_ns + conn->retry.wait_ns);
}

void cm_retry_start(struct cm_conn *conn, const struct cm_msg *msg, uint64_t now_ns)
{
	uint64_t first_ns = exponent_ns(conn->response_timeout) >> RETRY_FIRST_SHIFT;

	cm_msg_build(msg, conn->retry.mad);
	conn->retry.left = conn->max_retries;
	conn->retry.wait_ns = first_ns > CLOCK_NS_PER_MS ? first_ns : CLOCK_NS_PER_MS;
	arm(conn, send_mad(conn->cm, &conn->path, msg->type, conn->retry.mad), now_ns);
}

static int send_again(struct cm_conn *conn)
{
	int ret = conn->cm->ops->send(conn->cm->ctx, &conn->path, conn->retry.mad);

	if (ret)
		conn->cm->counters.unsent++;
	else
		conn->cm->counters.resent++;
	return ret;
}

void cm_retry_again(struct cm_conn *conn, uint64_t now_ns)
{
	uint64_t most_ns = exponent_ns(conn->response_timeout);

	conn->retry.left--;
	if (conn->retry.wait_ns < most_ns)
		conn->retry.wait_ns *= 2;
	arm(conn, send_again(conn), now_ns);
}

/* Out of turn: the timer runs on. */
void cm_retry_repeat(struct cm_conn *conn)
{
	if (send_again(conn))
		conn->retry.left = 0;
}

void cm_retry_wait(struct cm_conn *conn, uint8_t service_timeout, uint64_t now_ns)
{
	uint64_t wait_ns = exponent_ns(service_timeout) + exponent_ns(conn->response_timeout);

	timer_add(&conn->cm->timers, &conn->timer, now_ns + wait_ns);
}

void cm_retry_stop(struct cm_conn *conn)
{
	timer_cancel(&conn->cm->timers, &conn->timer);
}

/* As long as a packet of ours could still be on its way to be acknowledged (IBA 1.x §12.9.8.4). */
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns)
{
	timer_add(&conn->cm->timers, &conn->timer, now_ns + exponent_ns(conn->ack_timeout));
}
