/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of unacknowledged PSNs, by its rules alone: what it grows to, what it forgets and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "peer.h"
#include "roce/qp.h"

#define MS CLOCK_NS_PER_MS

static struct roce_qp *rqp;

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, 0);
	rqp = roce_qp_of(to_qp(peer.qp));
	rqp->roce->now_ns = peer.world.now_ns;
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

/* The shortest round trip counts for its era and the next: a path that has become longer is believed after that. */
static void the_shortest_round_trip_is_forgotten(void **state)
{
	(void)state;
	assert_int_equal(window_shortest_rtt_ns(rqp), 0);
	window_measured(rqp, 2 * MS);
	window_measured(rqp, MS);
	window_measured(rqp, 3 * MS);
	assert_int_equal(window_shortest_rtt_ns(rqp), MS);
	rqp->roce->now_ns += 10 * CLOCK_NS_PER_S;
	window_measured(rqp, 5 * MS);
	assert_int_equal(window_shortest_rtt_ns(rqp), MS);
	rqp->roce->now_ns += 10 * CLOCK_NS_PER_S;
	window_measured(rqp, 7 * MS);
	assert_int_equal(window_shortest_rtt_ns(rqp), 5 * MS);
	/* What takes no time at all takes some. */
	window_measured(rqp, 0);
	assert_int_equal(window_shortest_rtt_ns(rqp), 1);
}

/* Where nothing is lost it grows, in time to all that there is, but beyond rxe's only if nothing piles up. */
static void it_grows_to_the_most(void **state)
{
	uint32_t before = rqp->tx.window.psns;

	(void)state;
	window_acked(rqp, 1);
	assert_true(rqp->tx.window.psns > before);
	for (int i = 0; i < 10000; i++)
		window_acked(rqp, 8);
	assert_int_equal(rqp->tx.window.psns, WINDOW_PSNS);
	window_measured(rqp, MS);
	for (int i = 0; i < 100000; i++)
		window_acked(rqp, 8);
	assert_int_equal(rqp->tx.window.psns, WINDOW_MAX_PSNS);
}

/* A socket that holds little lets little be under way; but something always may be. */
static void a_small_socket_bounds_it(void **state)
{
	uint32_t before = rqp->tx.window.psns;

	(void)state;
	rqp->roce->link->rx_bytes = 1;
	for (int i = 0; i < 1000; i++)
		window_acked(rqp, 8);
	assert_int_equal(rqp->tx.window.psns, before);
	for (int i = 0; i < 100; i++)
		window_timed_out(rqp);
	assert_true(rqp->tx.window.psns > 0);
	before = rqp->tx.window.psns;
	window_acked(rqp, 1000);
	assert_true(rqp->tx.window.psns <= before + 4);
}

/* Losses of long ago are no reason to take those of now for too many. */
static void counts_of_losses_fade(void **state)
{
	uint32_t losses;

	(void)state;
	for (int i = 0; i < 8; i++) {
		rqp->tx.window.is_recovering = false;
		window_lost(rqp);
	}
	losses = rqp->tx.window.losses;
	assert_true(losses > 0);
	for (int i = 0; i < 1000; i++)
		window_acked(rqp, 8);
	assert_true(rqp->tx.window.losses <= losses / 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_shortest_round_trip_is_forgotten),
		TEST(it_grows_to_the_most),
		TEST(a_small_socket_bounds_it),
		TEST(counts_of_losses_fade),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
