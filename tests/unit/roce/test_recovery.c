/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "peer.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/* The requester after a loss: what goes again, to peers of both kinds. */

#define PSN(n)		psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME	0x1f
#define NAK_SEQUENCE	0x60
#define MS		UINT64_C(1000000)
#define RTT_NS		(1 * MS)
#define FIRST_WINDOW	30u
#define MESSAGE_PACKETS 800u

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, 0);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static void wait_ns(struct peer *peer, uint64_t ns)
{
	uint64_t until_ns = peer->world.now_ns + ns;

	while (peer->world.now_ns < until_ns) {
		peer->world.now_ns += 50000;
		world_turn(&peer->world);
	}
}

/* A round trip later. */
static void answer(struct peer *peer, uint32_t n, uint8_t syndrome)
{
	wait_ns(peer, RTT_NS);
	peer_answer(peer, PSN(n), syndrome);
}

/* The next packets are [first, end); whether the last asks for an ACK. */
static bool expect_packets(struct peer *peer, uint32_t first, uint32_t end)
{
	struct packet packet = {0};

	for (uint32_t n = first; n < end; n++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.psn, PSN(n));
	}
	return packet.wants_ack;
}

/* All that comes, from `first` on; where it ends. */
static uint32_t take_rest(struct peer *peer, uint32_t first)
{
	struct packet packet;

	while (peer_next(peer, &packet))
		assert_int_equal(packet.psn, PSN(first++));
	return first;
}

static void expect_nothing(struct peer *peer)
{
	struct packet packet;

	assert_false(peer_next(peer, &packet));
}

/* Its first window is out, and round trips are known. What is out now: [answer, answer). */
static uint32_t start(struct peer *peer)
{
	peer_post_send(peer, IBV_WR_RDMA_WRITE, MESSAGE_PACKETS * PEER_MTU, 0);
	expect_packets(peer, 0, FIRST_WINDOW);
	answer(peer, FIRST_WINDOW - 1, ACK_SYNDROME);
	expect_packets(peer, FIRST_WINDOW, 3 * FIRST_WINDOW);
	expect_nothing(peer);
	return FIRST_WINDOW;
}

static const struct roce_keeping *keeping(const struct peer *peer)
{
	return &roce_qp_of(to_qp(peer->qp))->tx.keeping;
}

static void one_that_keeps_is_sent_what_is_missing(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer);

	/* Lost in the midst of a train. */
	answer(peer, first + 5, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 5, first + 6));
	/* Behind it new ones, as far as the window goes. */
	assert_in_range(take_rest(peer, 3 * FIRST_WINDOW), 3 * FIRST_WINDOW + 5,
			3 * FIRST_WINDOW + 10);
	/* The other loss of that window. */
	answer(peer, first + 50, NAK_SEQUENCE);
	assert_true(keeping(peer)->is_known);
	expect_packets(peer, first + 50, first + 51);
}

static void one_that_keeps_is_sent_more_meanwhile(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end, then, window;

	answer(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	answer(peer, first + 20, NAK_SEQUENCE);
	expect_packets(peer, first + 20, first + 21);
	then = take_rest(peer, end);
	/* While nothing is heard it goes on as fast as before, and no faster. */
	wait_ns(peer, RTT_NS / 2);
	then = take_rest(peer, then);
	window = roce_qp_of(to_qp(peer->qp))->tx.window.psns;
	assert_in_range(then - end, window / 3, window * 2 / 3);
	wait_ns(peer, RTT_NS / 2);
	then = take_rest(peer, then);
	assert_in_range(then - end, window * 3 / 4, window);
}

static void one_that_drops_is_sent_everything(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;
	struct packet packet;

	answer(peer, first + 5, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 5, first + 6));
	end = take_rest(peer, 3 * FIRST_WINDOW);
	/* It took that one, and no other. */
	answer(peer, first + 5, ACK_SYNDROME);
	assert_false(keeping(peer)->is_known);
	expect_packets(peer, first + 6, end);
	take_rest(peer, end);
	answer(peer, end - 1, ACK_SYNDROME);
	first = end;
	while (peer_next(peer, &packet))
		end = psn_sub(packet.psn, PSN(0)) + 1;
	/* So the next loss costs everything, as far as the window goes, and the one after it is tried again. */
	answer(peer, first + 9, NAK_SEQUENCE);
	expect_packets(peer, first + 9, first + 39);
	while (peer_next(peer, &packet))
		;
	answer(peer, end - 1, ACK_SYNDROME);
	first = end;
	while (peer_next(peer, &packet))
		end = psn_sub(packet.psn, PSN(0)) + 1;
	answer(peer, first + 3, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 3, first + 4));
	take_rest(peer, end);
}

static void it_may_say_so_by_another_nak(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;

	answer(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	answer(peer, first + 6, NAK_SEQUENCE);
	expect_packets(peer, first + 6, end);
}

/* The first two packets, of which the first has a RETH, make one train; the others of the first window another. */
static void a_train_is_lost_as_a_whole(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, MESSAGE_PACKETS * PEER_MTU, 0);
	expect_packets(peer, 0, FIRST_WINDOW);
	answer(peer, 0, NAK_SEQUENCE);
	assert_true(expect_packets(peer, 0, 2));
	expect_nothing(peer);
	answer(peer, 5, ACK_SYNDROME);
	assert_true(keeping(peer)->is_known);
}

static void what_went_again_a_moment_ago_is_not_lost_yet(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;

	answer(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	answer(peer, first + 6, NAK_SEQUENCE);
	expect_packets(peer, first + 6, end);
	end = take_rest(peer, end);
	/* Of the packets that were out before. */
	peer_answer(peer, PSN(first + 8), NAK_SEQUENCE);
	take_rest(peer, end);
	wait_ns(peer, RTT_NS / 2);
	answer(peer, first + 10, NAK_SEQUENCE);
	expect_packets(peer, first + 10, first + 25);
}

static void with_reads_out_everything_goes_again(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 10 * PEER_MTU, 0);
	peer_post_send(peer, IBV_WR_RDMA_READ, PEER_MTU, 0);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4 * PEER_MTU, 0);
	while (peer_next(peer, &packet))
		;
	answer(peer, 5, NAK_SEQUENCE);
	expect_packets(peer, 5, 15);
	expect_nothing(peer);
}

static void the_first_timeout_of_one_that_keeps_is_a_lost_repair(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer);
	struct packet packet;
	uint32_t window;

	answer(peer, first + 5, NAK_SEQUENCE);
	answer(peer, first + 20, NAK_SEQUENCE);
	while (peer_next(peer, &packet))
		;
	window = roce_qp_of(to_qp(peer->qp))->tx.window.psns;
	while (!peer_counter(peer, ROCE_TIMEOUTS)) {
		while (peer_next(peer, &packet))
			;
		wait_ns(peer, RTT_NS / 10);
	}
	expect_packets(peer, first + 20, first + 21);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.window.psns, window);
	/* The second is the network's end, for all that is known. */
	while (peer_counter(peer, ROCE_TIMEOUTS) < 2)
		wait_ns(peer, RTT_NS / 10);
	assert_in_range(roce_qp_of(to_qp(peer->qp))->tx.window.psns, 1, 8);
}

/* The process had no processor for a while: its timer is due, and the answer is there. */
static void answers_that_wait_are_heard_before_a_timeout(void **state)
{
	struct peer *peer = *state;
	uint32_t end_psn = PSN(3 * FIRST_WINDOW);
	struct packet ack = {
		.opcode = OPCODE(RC, ACK), .psn = psn_prev(end_psn), .syndrome = ACK_SYNDROME};

	start(peer);
	peer_send(peer, ack, NULL, 0);
	peer->world.now_ns += 100 * MS;
	/* Timers first. */
	world_turn(&peer->world);
	assert_int_equal(peer_counter(peer, ROCE_TIMEOUTS), 0);
	assert_int_equal(peer_counter(peer, ROCE_PACKETS_RESENT), 0);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.una_psn, end_psn);
	/* Silence is one all the same. */
	peer->world.now_ns += 100 * MS;
	world_turn(&peer->world);
	assert_int_equal(peer_counter(peer, ROCE_TIMEOUTS), 1);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(one_that_keeps_is_sent_what_is_missing),
		on_peer(one_that_keeps_is_sent_more_meanwhile),
		on_peer(one_that_drops_is_sent_everything),
		on_peer(it_may_say_so_by_another_nak),
		on_peer(a_train_is_lost_as_a_whole),
		on_peer(what_went_again_a_moment_ago_is_not_lost_yet),
		on_peer(with_reads_out_everything_goes_again),
		on_peer(the_first_timeout_of_one_that_keeps_is_a_lost_repair),
		on_peer(answers_that_wait_are_heard_before_a_timeout),
	};

	return cmocka_run_group_tests_name("roce-recovery", tests, NULL, NULL);
}
