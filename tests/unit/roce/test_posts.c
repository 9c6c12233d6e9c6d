/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "../../with_locks.h"
#include "core/engine/progress_limits.h"
#include "core/engine/transport.h"
#include "peer.h"

/* Packets of several calls of ibv_post_send() are sent together if the application polls. */

#define AT_ONCE 4 /* calls whose packets are sent at once */
#define POSTS	(AT_ONCE + 3)
/* Runs without posts after which the application is not expected to post many WRs again. */
#define IDLE_RUNS 64
/* Calls without a run after which each further one counts as a poll. */
#define SUCCESSION 32
#define BYTES	   64

static struct ibv_ah *ah; /* UD */

static int open_type(void **state, enum ibv_qp_type type, unsigned access)
{
	static struct peer peer;

	peer_open(&peer, type, access);
	peer_settle(&peer);
	*state = &peer;
	return 0;
}

static int set_up(void **state)
{
	return open_type(state, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
}

static int set_up_uc(void **state)
{
	return open_type(state, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
}

static int set_up_ud(void **state)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 9}};
	struct peer *peer;

	open_type(state, IBV_QPT_UD, 0);
	peer = *state;
	memcpy(attr.grh.dgid.raw, peer_gid, GID_BYTES);
	ah = ibv_create_ah(peer->node->pd, &attr);
	return ah ? 0 : -1;
}

static int tear_down(void **state)
{
	struct peer *peer = *state;

	if (ah)
		assert_int_equal(ibv_destroy_ah(ah), 0);
	ah = NULL;
	if (peer->qp)
		peer_close(peer);
	return 0;
}

static void post(struct peer *peer, const void *from, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)from, BYTES, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = PEER_QPN;
		wr.wr.ud.remote_qkey = PEER_QKEY;
	}
	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
}

static void post_many(struct peer *peer)
{
	memset(peer->node->buf, 0x5a, BYTES);
	for (int i = 0; i < POSTS; i++)
		post(peer, peer->node->buf, peer->node->mr->lkey);
}

/* The number of packets that have arrived at the test. */
static int arrived(struct peer *peer)
{
	struct packet packet;
	int count = 0;

	peer->world.now_ns += 1000;
	sim_net_advance(peer->world.net, peer->world.now_ns);
	while (peer_next(peer, &packet)) {
		assert_int_equal(packet.payload_bytes, BYTES);
		assert_int_equal(packet.payload[BYTES - 1], 0x5a);
		count++;
	}
	return count;
}

static void roce_posts_of_polling_thread_wait_for_its_poll(void **state)
{
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	peer_settle(peer);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE);
}

static void run_idle(struct peer *peer, int runs)
{
	for (int i = 0; i < runs; i++)
		WITH_LOCKS(&peer->node->engine, roce_transport.run(&peer->node->engine));
}

/*
 * An application that posts many WRs after a run does so after the next runs, too, unless it has
 * only polled for a while.
 */
static void roce_posts_after_many_posts_wait_from_first_one(void **state)
{
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	run_idle(peer, 1);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE);
	post_many(peer);
	assert_int_equal(arrived(peer), 0);
	run_idle(peer, IDLE_RUNS);
	assert_int_equal(arrived(peer), POSTS);
	post(peer, peer->node->buf, peer->node->mr->lkey);
	assert_int_equal(arrived(peer), 0);
	/* A single WR: the next one is sent at once. */
	run_idle(peer, 1);
	assert_int_equal(arrived(peer), 1);
	post(peer, peer->node->buf, peer->node->mr->lkey);
	assert_int_equal(arrived(peer), 1);
}

static void roce_posts_after_idle_runs_are_sent_at_once(void **state)
{
	struct peer *peer = *state;

	post_many(peer);
	run_idle(peer, IDLE_RUNS + 2);
	assert_int_equal(arrived(peer), POSTS);
	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	run_idle(peer, 1);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE);
}

static void roce_posts_of_thread_that_does_not_poll_are_sent_at_once(void **state)
{
	struct peer *peer = *state;

	peer->node->engine.progress.state = PROGRESS_NONE;
	post_many(peer);
	assert_int_equal(arrived(peer), POSTS);
	peer->node->engine.progress.state = PROGRESS_POLLED;
}

/* The engine thread ticks while threads serve, so that it sends what waits. */
static void roce_posts_wait_if_engine_thread_ticks(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;

	engine->progress.state = PROGRESS_TICKS;
	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	engine->progress.state = PROGRESS_PARKED;
	post(peer, peer->node->buf, peer->node->mr->lkey);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE + 1);
	engine->progress.state = PROGRESS_POLLED;
}

static uint32_t outstanding(const struct peer *peer)
{
	const struct send_queue *sq = &to_qp(peer->qp)->sq;

	return sq->head - sq->una;
}

/* WRs without ACK complete at once, so that an application that polls finds no empty CQ. */
static void roce_posts_in_quick_succession_make_engine_thread_tick(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	struct ibv_wc wc;

	engine->progress.state = PROGRESS_THREAD;
	engine->polling.streak = SPIN_POLLS - 2;
	for (int i = 0; i < SUCCESSION + 1; i++) {
		assert_int_equal(outstanding(peer), 0);
		post(peer, peer->node->buf, peer->node->mr->lkey);
		world_poll(peer->node->send_cq, &wc);
	}
	assert_false(engine_is_polled(engine));
	post(peer, peer->node->buf, peer->node->mr->lkey);
	assert_true(engine_is_polled(engine));
	assert_int_equal(outstanding(peer), 1);
	engine->progress.state = PROGRESS_POLLED;
}

static void roce_posts_that_wait_prevent_sleep(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;

	post_many(peer);
	WITH_LOCKS(engine, assert_true(roce_transport.sleep(engine, true)));
	peer_settle(peer);
	WITH_LOCKS(engine, assert_false(roce_transport.sleep(engine, true)));
	assert_int_equal(arrived(peer), POSTS);
}

static void roce_posts_that_wait_are_sent_before_qp_enters_err(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(arrived(peer), POSTS);
}

static void roce_posts_that_wait_are_sent_before_qp_is_destroyed(void **state)
{
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(ibv_destroy_qp(peer->qp), 0);
	peer->qp = NULL;
	assert_int_equal(arrived(peer), POSTS);
	link_close(peer->link);
	world_close(&peer->world);
}

/* The engine does not read the memory after the call has returned. */
static void roce_posts_that_wait_are_sent_before_mr_is_deregistered(void **state)
{
	struct peer *peer = *state;
	static uint8_t memory[BYTES];
	struct ibv_mr *mr = ibv_reg_mr(peer->node->pd, memory, sizeof(memory), 0);

	assert_non_null(mr);
	memset(memory, 0x5a, sizeof(memory));
	for (int i = 0; i < POSTS; i++)
		post(peer, memory, mr->lkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	memset(memory, 0, sizeof(memory));
	assert_int_equal(arrived(peer), POSTS);
}

static void expect_success(struct peer *peer, int count)
{
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		assert_true(world_poll(peer->node->send_cq, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_false(world_poll(peer->node->send_cq, &wc));
}

/*
 * The application may exit when it has polled the completions. UC completes without an ACK, and so
 * does UD.
 */
static void roce_posts_without_ack_complete_when_they_were_sent(void **state)
{
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	assert_int_equal(outstanding(peer), POSTS - AT_ONCE);
	peer_settle(peer);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE);
	assert_int_equal(outstanding(peer), 0);
	expect_success(peer, POSTS);
}

static void roce_posts_without_ack_succeed_before_qp_enters_err(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct peer *peer = *state;

	post_many(peer);
	assert_int_equal(ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(arrived(peer), POSTS);
	expect_success(peer, POSTS);
}

/* The failed WR completes after those that were posted before it. */
static void roce_posts_without_ack_succeed_before_qp_enters_sqe(void **state)
{
	struct peer *peer = *state;
	struct ibv_wc wc;

	post_many(peer);
	post(peer, peer->node->buf, peer->node->mr->lkey + 1);
	assert_int_equal(arrived(peer), POSTS);
	for (int i = 0; i < POSTS; i++) {
		assert_true(world_poll(peer->node->send_cq, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_SQE);
}

#define POSTS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define UC_AND_UD(test)                                        \
	{#test ", UC", test, set_up_uc, tear_down, NULL},      \
	{                                                      \
#test ", UD", test, set_up_ud, tear_down, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POSTS_TEST(roce_posts_of_polling_thread_wait_for_its_poll),
		POSTS_TEST(roce_posts_after_many_posts_wait_from_first_one),
		POSTS_TEST(roce_posts_after_idle_runs_are_sent_at_once),
		POSTS_TEST(roce_posts_of_thread_that_does_not_poll_are_sent_at_once),
		POSTS_TEST(roce_posts_wait_if_engine_thread_ticks),
		POSTS_TEST(roce_posts_that_wait_prevent_sleep),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_qp_enters_err),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_qp_is_destroyed),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_mr_is_deregistered),
		UC_AND_UD(roce_posts_without_ack_complete_when_they_were_sent),
		UC_AND_UD(roce_posts_in_quick_succession_make_engine_thread_tick),
		UC_AND_UD(roce_posts_that_wait_prevent_sleep),
		UC_AND_UD(roce_posts_without_ack_succeed_before_qp_enters_err),
		UC_AND_UD(roce_posts_without_ack_succeed_before_qp_enters_sqe),
	};

	return cmocka_run_group_tests_name("posts", tests, NULL, NULL);
}
