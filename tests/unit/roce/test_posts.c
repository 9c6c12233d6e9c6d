/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/transport.h"
#include "peer.h"

/* Packets of several calls of ibv_post_send() are sent together if the application polls. */

#define AT_ONCE 4 /* calls whose packets are sent at once */
#define POSTS	(AT_ONCE + 3)
#define BYTES	64

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	peer_settle(&peer);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	struct peer *peer = *state;

	if (peer->qp)
		peer_close(peer);
	return 0;
}

static void post(struct peer *peer, const void *from, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)from, BYTES, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

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
	/* A poll has been made since. */
	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	peer_settle(peer);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE);
}

static void roce_posts_of_thread_that_does_not_poll_are_sent_at_once(void **state)
{
	struct peer *peer = *state;

	peer->node->engine.is_polled = false;
	post_many(peer);
	assert_int_equal(arrived(peer), POSTS);
	peer->node->engine.is_polled = true;
}

/* The engine thread ticks while threads serve, so that it sends what waits. */
static void roce_posts_wait_if_engine_thread_ticks(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;

	engine->is_polled = false;
	engine->serve.is_thread_away = true;
	post_many(peer);
	assert_int_equal(arrived(peer), AT_ONCE);
	engine->serve.is_parked = true;
	post(peer, peer->node->buf, peer->node->mr->lkey);
	assert_int_equal(arrived(peer), POSTS - AT_ONCE + 1);
	engine->serve.is_thread_away = false;
	engine->serve.is_parked = false;
	engine->is_polled = true;
}

static void roce_posts_that_wait_prevent_sleep(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;

	post_many(peer);
	assert_true(roce_transport.sleep(engine, true));
	peer_settle(peer);
	assert_false(roce_transport.sleep(engine, true));
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

#define POSTS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POSTS_TEST(roce_posts_of_polling_thread_wait_for_its_poll),
		POSTS_TEST(roce_posts_of_thread_that_does_not_poll_are_sent_at_once),
		POSTS_TEST(roce_posts_wait_if_engine_thread_ticks),
		POSTS_TEST(roce_posts_that_wait_prevent_sleep),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_qp_enters_err),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_qp_is_destroyed),
		POSTS_TEST(roce_posts_that_wait_are_sent_before_mr_is_deregistered),
	};

	return cmocka_run_group_tests_name("posts", tests, NULL, NULL);
}
