/* SPDX-License-Identifier: BSD-2-Clause */

/* Doorbells between a process that polls or sleeps and its peer. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/barrier.h"
#include "core/transport.h"
#include "pair.h"

static struct pair pair;
static struct ibv_qp *qps[2];

static int setup(void **state)
{
	(void)state;
	barrier_register();
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close_connected(&pair, qps);
	return 0;
}

static bool sleeps(int node, bool want_doorbell)
{
	return local_transport.sleep(&pair.nodes[node].engine, want_doorbell);
}

/* Reads one doorbell message that the other node has sent. */
static bool has_doorbell(int node)
{
	const struct peer *peer = local_qp_of(to_qp(qps[node]))->peer;
	char byte;

	return recv(peer->doorbell_fd, &byte, 1, MSG_DONTWAIT) == 1;
}

static void send_from(int node)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr receive = {.num_sge = 0}, *bad_receive;

	assert_int_equal(ibv_post_recv(qps[!node], &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(qps[node], &send, &bad_send), 0);
}

static void drop_doorbells(void)
{
	for (int i = 0; i < 2; i++) {
		while (has_doorbell(i))
			;
	}
}

static void local_doorbell_rings_once_for_reader_that_sleeps(void **state)
{
	(void)state;
	assert_false(sleeps(1, true));
	drop_doorbells();
	send_from(0);
	assert_true(has_doorbell(1));
	send_from(0);
	assert_false(has_doorbell(1));
	pair_settle(&pair);
}

static void local_doorbell_stays_silent_for_reader_that_polls(void **state)
{
	(void)state;
	assert_false(sleeps(1, true));
	assert_false(sleeps(1, false));
	drop_doorbells();
	send_from(0);
	assert_false(has_doorbell(1));
	/* The reader finds the message when it ceases to poll. */
	assert_true(sleeps(1, true));
	pair_settle(&pair);
	assert_false(sleeps(1, true));
	drop_doorbells();
	send_from(0);
	assert_true(has_doorbell(1));
	pair_settle(&pair);
}

/* A thread that returns from a wait with an event replies soon (docs/adr/0045). */
static void local_doorbell_of_responses_waits_for_reply_or_next_run(void **state)
{
	struct engine *engine = &pair.nodes[1].engine;

	(void)state;
	assert_false(sleeps(0, true));
	drop_doorbells();
	send_from(0);
	assert_false(engine_turn_before_reply(engine, true));
	assert_false(has_doorbell(0));
	assert_false(engine_turn(engine));
	assert_true(has_doorbell(0));
	pair_settle(&pair);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(local_doorbell_rings_once_for_reader_that_sleeps),
		TEST(local_doorbell_stays_silent_for_reader_that_polls),
		TEST(local_doorbell_of_responses_waits_for_reply_or_next_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
