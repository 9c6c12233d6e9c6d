/* SPDX-License-Identifier: BSD-2-Clause */

/* Doorbells between a process that polls or sleeps and its peer. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../with_locks.h"
#include "base/barrier.h"
#include "core/engine/transport.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/qp.h"
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
	struct engine *engine = &pair.nodes[node].engine;
	bool is_busy;

	WITH_LOCKS(engine, is_busy = local_transport.sleep(engine, want_doorbell));
	return is_busy;
}

static struct peer *peer_of(int node)
{
	return local_qp_of(to_qp(qps[node]))->peer;
}

/* Reads one doorbell message that the other node has sent. */
static bool has_doorbell(int node)
{
	char byte;

	return recv(peer_of(node)->doorbell->fd, &byte, 1, MSG_DONTWAIT) == 1;
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
	engine_lock(engine);
	assert_false(engine_turn_before_reply(engine, true));
	engine_unlock(engine);
	assert_false(has_doorbell(0));
	engine_lock(engine);
	assert_false(engine_turn(engine));
	engine_unlock(engine);
	assert_true(has_doorbell(0));
	pair_settle(&pair);
}

/* The reader would wake while the writer still holds engine.lock. */
static void local_doorbell_rings_after_unlock(void **state)
{
	struct engine *engine = &pair.nodes[0].engine;

	(void)state;
	peer_of(0)->is_doorbell_checked = false;
	assert_false(sleeps(1, true));
	drop_doorbells();
	engine_lock(engine);
	send_from(0);
	assert_false(has_doorbell(1));
	engine_unlock(engine);
	assert_true(has_doorbell(1));
	pair_settle(&pair);
}

/* After peer_free() nothing may refer to a doorbell through which descriptors can be sent. */
static void local_doorbell_with_descriptors_rings_at_once(void **state)
{
	struct engine *engine = &pair.nodes[0].engine;

	(void)state;
	peer_of(0)->is_doorbell_checked = true;
	assert_false(sleeps(1, true));
	drop_doorbells();
	engine_lock(engine);
	send_from(0);
	assert_true(has_doorbell(1));
	engine_unlock(engine);
	pair_settle(&pair);
}

/* The peer's object may be freed between the release of the lock and the system call. */
static void local_doorbell_of_freed_peer_is_closed_after_the_ring(void **state)
{
	struct engine *engine = &pair.nodes[0].engine;
	int ends[2];
	struct doorbell *doorbell;
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	doorbell = doorbell_new(ends[0]);
	assert_non_null(doorbell);
	engine_lock(engine);
	doorbell_ring_late(engine, doorbell);
	doorbell_put(doorbell);
	engine_unlock(engine);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), 0);
	close(ends[1]);
}

/* Functions set errno before they release engine.lock. */
static void local_doorbell_of_ended_peer_keeps_errno(void **state)
{
	struct engine *engine = &pair.nodes[0].engine;
	struct doorbell *doorbell;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	close(ends[1]);
	doorbell = doorbell_new(ends[0]);
	assert_non_null(doorbell);
	engine_lock(engine);
	doorbell_ring_late(engine, doorbell);
	doorbell_put(doorbell);
	errno = ENOMEM;
	engine_unlock(engine);
	assert_int_equal(errno, ENOMEM);
}

static void local_doorbell_beyond_wakes_max_rings_at_once(void **state)
{
	struct engine *engine = &pair.nodes[0].engine;
	struct doorbell *doorbells[WAKES_MAX + 1];
	int ends[WAKES_MAX + 1][2];
	char byte;

	(void)state;
	engine_lock(engine);
	for (int i = 0; i <= WAKES_MAX; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends[i]), 0);
		doorbells[i] = doorbell_new(ends[i][0]);
		assert_non_null(doorbells[i]);
		doorbell_ring_late(engine, doorbells[i]);
		assert_int_equal(recv(ends[i][1], &byte, 1, MSG_DONTWAIT), i < WAKES_MAX ? -1 : 1);
	}
	engine_unlock(engine);
	for (int i = 0; i <= WAKES_MAX; i++) {
		assert_int_equal(recv(ends[i][1], &byte, 1, MSG_DONTWAIT), i < WAKES_MAX ? 1 : -1);
		doorbell_put(doorbells[i]);
		close(ends[i][1]);
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(local_doorbell_rings_once_for_reader_that_sleeps),
		TEST(local_doorbell_stays_silent_for_reader_that_polls),
		TEST(local_doorbell_of_responses_waits_for_reply_or_next_run),
		TEST(local_doorbell_rings_after_unlock),
		TEST(local_doorbell_with_descriptors_rings_at_once),
		TEST(local_doorbell_of_freed_peer_is_closed_after_the_ring),
		TEST(local_doorbell_of_ended_peer_keeps_errno),
		TEST(local_doorbell_beyond_wakes_max_rings_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
