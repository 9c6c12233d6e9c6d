/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control with events only: no queue pair, no network, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "roce/cc.h"
#include "wire/psn.h"

#define MS	  CLOCK_NS_PER_MS
#define FIRST_PSN 0xfffff0u
#define NAMES_MAX 64

/* A connection that always has its whole window outstanding. */
struct line {
	struct cc cc;
	struct rtt rtt;
	struct cc_conn conn;
	uint64_t now_ns;
};

static void line_fill(struct line *line)
{
	line->conn.max_psn = psn_add(line->conn.una_psn, line->cc.cwnd_pkts);
}

static void line_open(struct line *line, const struct cc_ops *ops)
{
	memset(line, 0, sizeof(*line));
	cc_init(&line->cc, ops);
	line->conn.una_psn = FIRST_PSN;
	line->conn.max_cwnd_pkts = CC_MAX_PKTS;
	line->conn.is_selective = true;
	line->conn.rtt = &line->rtt;
	line->now_ns = 1;
	line_fill(line);
}

static void line_rtt(struct line *line, uint64_t rtt_ns)
{
	line->now_ns += rtt_ns;
	rtt_add_sample(&line->rtt, line->now_ns, rtt_ns);
	cc_on_rtt_sample(&line->cc, rtt_ns);
}

static void line_ack(struct line *line, uint32_t pkts)
{
	line->conn.una_psn = psn_add(line->conn.una_psn, pkts);
	line->cc.ops->on_ack(&line->cc, &line->conn, pkts);
	line_fill(line);
}

static void line_ack_windows(struct line *line, uint32_t windows)
{
	while (windows--)
		line_ack(line, line->cc.cwnd_pkts);
}

static void line_lose(struct line *line)
{
	line->cc.ops->on_loss(&line->cc, &line->conn);
	line_fill(line);
}

/* Grows the window to `cwnd` on a path with a minimum round-trip time of 1 ms. */
static void line_grow(struct line *line, uint32_t cwnd)
{
	line_rtt(line, MS);
	for (int i = 0; i < 10000 && line->cc.cwnd_pkts < cwnd; i++)
		line_ack(line, 8);
	assert_true(line->cc.cwnd_pkts >= cwnd);
}

static void cc_find_returns_algorithm_by_name(void **state)
{
	char names[NAMES_MAX];

	(void)state;
	assert_ptr_equal(cc_find("westwood"), &cc_westwood);
	assert_ptr_equal(cc_find("newreno"), &cc_newreno);
	assert_null(cc_find("vegas"));
	assert_null(cc_find(""));
	cc_list_names(names, sizeof(names));
	assert_string_equal(names, "westwood, newreno");
	cc_list_names(names, 5);
	assert_string_equal(names, "west");
}

static void cc_max_cwnd_pkts_follows_receive_buffer(void **state)
{
	(void)state;
	assert_int_equal(cc_max_cwnd_pkts(0, 1024), CC_MAX_PKTS);
	assert_int_equal(cc_max_cwnd_pkts(UINT32_MAX, 256), CC_MAX_PKTS);
	assert_int_equal(cc_max_cwnd_pkts(1, 4096), CC_MIN_PKTS);
	assert_int_equal(cc_max_cwnd_pkts(100 * (1024 + 256), 1024), 100);
}

/*
 * Without a measured round-trip time the window stays at rxe's; with one and no queue it grows to
 * the maximum.
 */
static void cc_westwood_without_queue_grows_above_initial_window(void **state)
{
	struct line line;

	(void)state;
	line_open(&line, &cc_westwood);
	line_ack(&line, 1);
	assert_int_equal(line.cc.cwnd_pkts, CC_INITIAL_PKTS + 1);
	line_ack_windows(&line, 1000);
	assert_int_equal(line.cc.cwnd_pkts, CC_LIMIT_PKTS);
	line_rtt(&line, MS);
	line_ack_windows(&line, 1000);
	assert_int_equal(line.cc.cwnd_pkts, CC_MAX_PKTS);
}

/* A path with a queue. */
static void line_open_with_queue(struct line *line)
{
	line_open(line, &cc_westwood);
	line_rtt(line, MS);
	for (unsigned int i = 0; i <= CC_WESTWOOD_RTTS; i++)
		line_rtt(line, 3 * MS);
}

static void cc_westwood_rtt_of_twice_min_stops_growth_if_peer_does_not_buffer(void **state)
{
	struct line line;

	(void)state;
	line_open_with_queue(&line);
	line.conn.is_selective = false;
	line.conn.is_go_back_n = true;
	line_ack_windows(&line, 1000);
	assert_int_equal(line.cc.cwnd_pkts, CC_LIMIT_PKTS);
	/* A single short round trip shows that there is no queue. */
	line_rtt(&line, MS);
	line_ack_windows(&line, 1);
	assert_true(line.cc.cwnd_pkts > CC_LIMIT_PKTS);
}

/*
 * Another sender fills the queue. To get the same share, the window grows until packets are lost,
 * as that sender's does.
 */
static void cc_westwood_rtt_of_twice_min_ends_slow_start(void **state)
{
	struct line line;

	(void)state;
	line_open_with_queue(&line);
	line_ack_windows(&line, 2);
	assert_int_equal(line.cc.cwnd_pkts, CC_LIMIT_PKTS);
	line_ack_windows(&line, 10);
	assert_int_equal(line.cc.cwnd_pkts, CC_LIMIT_PKTS + 10 * 2);
	line_ack_windows(&line, 1000);
	assert_int_equal(line.cc.cwnd_pkts, CC_MAX_PKTS);
}

static void cc_westwood_window_is_limited_by_receive_buffer(void **state)
{
	struct line line;

	(void)state;
	line_open(&line, &cc_westwood);
	line.conn.max_cwnd_pkts = CC_MIN_PKTS;
	line_ack_windows(&line, 100);
	assert_int_equal(line.cc.cwnd_pkts, CC_INITIAL_PKTS);
	for (int i = 0; i < 100; i++)
		line.cc.ops->on_rto(&line.cc, &line.conn);
	assert_int_equal(line.cc.cwnd_pkts, CC_MIN_PKTS);
	line_ack(&line, 1000);
	assert_int_equal(line.cc.cwnd_pkts, CC_MIN_PKTS);
}

static void cc_westwood_random_loss_keeps_window(void **state)
{
	struct line line;
	uint32_t before;

	(void)state;
	line_open(&line, &cc_westwood);
	line_grow(&line, 200);
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, before);
	/* But it grows slowly from now on. */
	assert_int_equal(line.cc.ssthresh_pkts, before);
}

static void cc_westwood_congestion_shrinks_to_bandwidth_delay_product(void **state)
{
	struct line line;
	uint32_t before;

	(void)state;
	line_open(&line, &cc_westwood);
	line_grow(&line, 200);
	for (unsigned int i = 0; i < 2 * CC_WESTWOOD_RTTS; i++)
		line_rtt(&line, 1600 * MS / 1000);
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	/*
	 * 133 % of the minimum is without a queue: 133 / 160 of the window; the average is a little
	 * above 1.6 ms.
	 */
	assert_in_range(line.cc.cwnd_pkts, before * 78 / 100, before * 84 / 100);
	/* Never below 70 %, and once per window in flight. */
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, before);
	line_ack_windows(&line, 4);
	for (unsigned int i = 0; i < 8 * CC_WESTWOOD_RTTS; i++)
		line_rtt(&line, 100 * MS);
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, before * 70 / 100);
}

static void cc_westwood_frequent_loss_is_congestion(void **state)
{
	struct line line;
	uint32_t before;

	(void)state;
	line_open(&line, &cc_westwood);
	line_rtt(&line, MS);
	for (int i = 0; i < 3; i++)
		line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, CC_INITIAL_PKTS);
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, before * 70 / 100);
}

static void cc_westwood_old_losses_expire(void **state)
{
	struct line line;
	uint32_t losses;

	(void)state;
	line_open(&line, &cc_westwood);
	for (int i = 0; i < 8; i++)
		line_lose(&line);
	losses = line.cc.westwood.losses;
	assert_int_equal(losses, 8);
	for (int i = 0; i < 1000; i++)
		line_ack(&line, 8);
	assert_true(line.cc.westwood.losses <= losses / 4);
}

/* The window for a peer without a reorder buffer is set again after each loss. */
static void cc_westwood_go_back_n_limits_window_to_loss_distance(void **state)
{
	struct line line;

	(void)state;
	line_open(&line, &cc_westwood);
	line_grow(&line, 200);
	line.conn.is_selective = false;
	line.cc.westwood.delivered_pkts = 400;
	line.cc.westwood.losses = 3;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, 100);
}

static void cc_ecn_reduces_once_per_window(void **state)
{
	static const struct {
		const struct cc_ops *ops;
		uint32_t percent;
	} cases[] = {{&cc_westwood, 50}, {&cc_newreno, 50}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct line line;
		uint32_t before;

		line_open(&line, cases[i].ops);
		line_grow(&line, 100);
		before = line.cc.cwnd_pkts;
		line.cc.ops->on_ecn(&line.cc, &line.conn);
		assert_int_equal(line.cc.cwnd_pkts, before * cases[i].percent / 100);
		before = line.cc.cwnd_pkts;
		line.cc.ops->on_ecn(&line.cc, &line.conn);
		assert_int_equal(line.cc.cwnd_pkts, before);
		/* All outstanding packets are acknowledged. */
		line.conn.una_psn = line.cc.recovery_end_psn;
		line_ack(&line, 1);
		line.cc.ops->on_ecn(&line.cc, &line.conn);
		assert_true(line.cc.cwnd_pkts < before);
	}
}

/*
 * Repeated marks reduce the window below the minimum after losses; a loss or a timeout does not
 * increase it.
 */
static void cc_ecn_reduces_window_to_one_packet(void **state)
{
	static const struct cc_ops *const all[] = {&cc_westwood, &cc_newreno};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct line line;

		line_open(&line, all[i]);
		line_rtt(&line, MS);
		for (int mark = 0; mark < 20; mark++) {
			line.cc.ops->on_ecn(&line.cc, &line.conn);
			line.conn.una_psn = line.cc.recovery_end_psn;
			line.cc.is_in_recovery = false;
		}
		assert_int_equal(line.cc.cwnd_pkts, CC_MIN_MARKED_PKTS);
		line.conn.is_selective = false;
		for (int loss = 0; loss < 8; loss++)
			line_lose(&line);
		assert_int_equal(line.cc.cwnd_pkts, CC_MIN_MARKED_PKTS);
		line.cc.ops->on_rto(&line.cc, &line.conn);
		assert_int_equal(line.cc.cwnd_pkts, CC_MIN_MARKED_PKTS);
		line.cc.is_in_recovery = false;
		line_ack_windows(&line, 100);
		assert_true(line.cc.cwnd_pkts > CC_MIN_PKTS);
	}
}

static void cc_rto_restarts_from_minimum_window(void **state)
{
	static const struct cc_ops *const all[] = {&cc_westwood, &cc_newreno};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct line line;

		line_open(&line, all[i]);
		line_grow(&line, 100);
		line.cc.ops->on_rto(&line.cc, &line.conn);
		assert_int_equal(line.cc.cwnd_pkts, CC_MIN_PKTS);
		/* Slow start, although the recovery period is not over. */
		line.conn.una_psn = psn_add(line.conn.una_psn, 4);
		line.cc.ops->on_ack(&line.cc, &line.conn, 4);
		assert_int_equal(line.cc.cwnd_pkts, 2 * CC_MIN_PKTS);
	}
}

/* The round-trip time may be longer than the initial timeout. */
static void cc_westwood_rto_before_first_sample_is_no_congestion(void **state)
{
	struct line line;

	(void)state;
	line_open(&line, &cc_westwood);
	line.cc.ops->on_rto(&line.cc, &line.conn);
	assert_int_equal(line.cc.cwnd_pkts, CC_MIN_PKTS);
	assert_false(line.cc.is_in_recovery);
	line_rtt(&line, MS);
	line_ack_windows(&line, 6);
	assert_int_equal(line.cc.cwnd_pkts, CC_MIN_PKTS << 6);
	/* Slow start begins at once, also in the recovery period of an earlier loss. */
	line_open(&line, &cc_westwood);
	line_lose(&line);
	assert_true(line.cc.is_in_recovery);
	line.cc.ops->on_rto(&line.cc, &line.conn);
	line_ack(&line, CC_MIN_PKTS);
	assert_int_equal(line.cc.cwnd_pkts, 2 * CC_MIN_PKTS);
}

static void cc_newreno_loss_halves_window(void **state)
{
	struct line line;
	uint32_t before;

	(void)state;
	line_open(&line, &cc_newreno);
	line_grow(&line, 200);
	before = line.cc.cwnd_pkts;
	line_lose(&line);
	assert_int_equal(line.cc.cwnd_pkts, before / 2);
	/* One packet per window from then on. */
	line.conn.una_psn = line.cc.recovery_end_psn;
	line_ack(&line, 0);
	before = line.cc.cwnd_pkts;
	line_ack_windows(&line, 10);
	assert_int_equal(line.cc.cwnd_pkts, before + 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cc_find_returns_algorithm_by_name),
		cmocka_unit_test(cc_max_cwnd_pkts_follows_receive_buffer),
		cmocka_unit_test(cc_westwood_without_queue_grows_above_initial_window),
		cmocka_unit_test(cc_westwood_rtt_of_twice_min_stops_growth_if_peer_does_not_buffer),
		cmocka_unit_test(cc_westwood_rtt_of_twice_min_ends_slow_start),
		cmocka_unit_test(cc_westwood_rto_before_first_sample_is_no_congestion),
		cmocka_unit_test(cc_westwood_window_is_limited_by_receive_buffer),
		cmocka_unit_test(cc_westwood_random_loss_keeps_window),
		cmocka_unit_test(cc_westwood_congestion_shrinks_to_bandwidth_delay_product),
		cmocka_unit_test(cc_westwood_frequent_loss_is_congestion),
		cmocka_unit_test(cc_westwood_old_losses_expire),
		cmocka_unit_test(cc_westwood_go_back_n_limits_window_to_loss_distance),
		cmocka_unit_test(cc_ecn_reduces_once_per_window),
		cmocka_unit_test(cc_ecn_reduces_window_to_one_packet),
		cmocka_unit_test(cc_rto_restarts_from_minimum_window),
		cmocka_unit_test(cc_newreno_loss_halves_window),
	};

	return cmocka_run_group_tests_name("roce-cc", tests, NULL, NULL);
}
