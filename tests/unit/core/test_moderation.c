/* SPDX-License-Identifier: BSD-2-Clause */

/* Completion event moderation when the daemon exits: no event may wait for a count or a timer. */

#include "queues.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/engine/engine_notice.h"
#include "core/queue/cq.h"

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;

/* An armed CQ whose event waits for 16 completions. */
static void open_moderated(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = 16},
	};

	channel = ibv_create_comp_channel(fake.ctx);
	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	cq = ibv_create_cq(fake.ctx, 100, NULL, channel, 0);
	assert_non_null(cq);
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

static struct ibv_qp *create_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);

	assert_non_null(qp);
	fake_walk(qp, IBV_QPS_RTS);
	return qp;
}

static void daemon_exits(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	fake.engine.notices.fd = pair[0];
	engine_lock(&fake.engine);
	engine_take_notices(&fake.engine);
	engine_unlock(&fake.engine);
	assert_true(fake.engine.is_fatal);
	close(pair[0]);
	fake.engine.notices.fd = -1;
	fake_expect_event(&fake, IBV_EVENT_DEVICE_FATAL, NULL);
}

/* The channel does not block. */
static void expect_events(unsigned int count)
{
	struct ibv_cq *reported;
	void *cq_context;

	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(ibv_get_cq_event(channel, &reported, &cq_context), 0);
		assert_ptr_equal(reported, cq);
	}
	assert_int_equal(ibv_get_cq_event(channel, &reported, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_cq_events(cq, count);
}

static void close_moderated(void)
{
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void engine_die_flushed_receive_reports_moderated_event(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	open_moderated();
	qp = create_qp();
	post_recvs(qp, 1);
	daemon_exits();
	expect_events(1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	close_moderated();
}

static void engine_die_reports_pending_moderated_event(void **state)
{
	const struct ibv_wc wc = {.opcode = IBV_WC_RECV};

	(void)state;
	open_moderated();
	engine_lock(&fake.engine);
	cq_deliver(to_cq(cq), &wc, false);
	engine_unlock(&fake.engine);
	expect_events(0);
	daemon_exits();
	expect_events(1);
	close_moderated();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUES_TEST(engine_die_flushed_receive_reports_moderated_event),
		QUEUES_TEST(engine_die_reports_pending_moderated_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
