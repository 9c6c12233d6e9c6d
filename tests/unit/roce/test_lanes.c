/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "roce/lanes.h"

/*
 * The order of the packets of a batch, which are all ahead, all in order, or of several sequences.
 */

#define LONG  1052u
#define SHORT 32u
#define ACK   20u
#define MIXED 500

static const struct link_path path = {.src_port = 0xc001};
static const struct link_path other_path = {.src_port = 0xc002};

/* The lane that a packet joins, and whether it is ahead. */
static void expect_lane(struct lanes *lanes, struct lane_range *range, uint32_t bytes,
			bool may_overtake, unsigned int want, bool want_ahead)
{
	bool is_ahead;

	assert_int_equal(lanes_join(lanes, range, &path, bytes, may_overtake, &is_ahead), want);
	assert_int_equal(is_ahead, want_ahead);
}

static void lanes_join_permitted_packet_overtakes(void **state)
{
	struct lanes lanes = {0};
	struct lane_range range = {0};

	(void)state;
	lanes_begin(&lanes);
	expect_lane(&lanes, &range, LONG, true, 0, false);
	expect_lane(&lanes, &range, SHORT, true, 1, false);
	expect_lane(&lanes, &range, LONG, true, 0, true);
	expect_lane(&lanes, &range, SHORT, true, 1, false);
}

static void lanes_join_other_packet_follows(void **state)
{
	struct lanes lanes = {0};
	struct lane_range range = {0};

	(void)state;
	lanes_begin(&lanes);
	expect_lane(&lanes, &range, LONG, false, 0, false);
	expect_lane(&lanes, &range, SHORT, false, 1, false);
	expect_lane(&lanes, &range, LONG, false, 2, false);
	expect_lane(&lanes, &range, LONG, false, 2, false);
	/* No later packet precedes one that must follow. */
	expect_lane(&lanes, &range, SHORT, true, 3, false);
	expect_lane(&lanes, &range, LONG, true, 2, true);
}

static void lanes_join_sequences_are_independent(void **state)
{
	struct lanes lanes = {0};
	struct lane_range a = {0}, b = {0};

	(void)state;
	lanes_begin(&lanes);
	expect_lane(&lanes, &a, LONG, false, 0, false);
	expect_lane(&lanes, &a, SHORT, false, 1, false);
	expect_lane(&lanes, &b, LONG, false, 0, false);
	expect_lane(&lanes, &b, SHORT, false, 1, false);
}

static void lanes_join_other_flow_has_own_lane(void **state)
{
	struct lanes lanes = {0};
	struct lane_range a = {0}, b = {0};
	bool is_ahead;

	(void)state;
	lanes_begin(&lanes);
	expect_lane(&lanes, &a, LONG, true, 0, false);
	assert_int_equal(lanes_join(&lanes, &b, &other_path, LONG, true, &is_ahead), 1);
}

/* The requests behind an ACK: with lanes_follow() the ACK, which is shorter, is sent first. */
static void lanes_follow_keeps_requests_behind(void **state)
{
	static const uint8_t want[] = {0, 1};
	struct lanes lanes = {0};
	uint8_t lane_of[2], order[2];
	bool is_ahead;

	(void)state;
	for (int follows = 0; follows < 2; follows++) {
		struct lane_range acks = {0}, requests = {0};

		lanes_begin(&lanes);
		lane_of[0] = (uint8_t)lanes_join(&lanes, &acks, &path, ACK, false, &is_ahead);
		if (follows)
			lanes_follow(&lanes, &requests, &acks);
		lane_of[1] = (uint8_t)lanes_join(&lanes, &requests, &path, SHORT, false, &is_ahead);
		assert_int_equal(lanes_order(&lanes, lane_of, 2, order), !follows);
	}
	assert_memory_equal(order, want, sizeof(want));
	/* Ranges of an earlier batch have no effect. */
	{
		struct lane_range old = {.batch = lanes.batch}, requests = {0};

		lanes_begin(&lanes);
		lanes_follow(&lanes, &requests, &old);
		expect_lane(&lanes, &requests, LONG, false, 0, false);
	}
}

/* Requests that were there before the ACK stay before it. */
static void lanes_follow_keeps_earlier_requests_before(void **state)
{
	struct lanes lanes = {0};
	struct lane_range acks = {0}, requests = {0};
	uint8_t lane_of[3], order[3];
	bool is_ahead;

	(void)state;
	lanes_begin(&lanes);
	lane_of[0] = (uint8_t)lanes_join(&lanes, &requests, &path, SHORT, false, &is_ahead);
	lane_of[1] = (uint8_t)lanes_join(&lanes, &acks, &path, ACK, false, &is_ahead);
	lanes_follow(&lanes, &requests, &acks);
	lane_of[2] = (uint8_t)lanes_join(&lanes, &requests, &path, LONG, false, &is_ahead);
	assert_false(lanes_order(&lanes, lane_of, 3, order));
}

static void lanes_begin_forgets_ranges(void **state)
{
	struct lanes lanes = {.batch = UINT32_MAX};
	struct lane_range range = {0};

	(void)state;
	lanes_begin(&lanes);
	expect_lane(&lanes, &range, LONG, false, 0, false);
	expect_lane(&lanes, &range, SHORT, false, 1, false);
	lanes_begin(&lanes);
	expect_lane(&lanes, &range, LONG, false, 0, false);
}

/*
 * An ACK and packets of other queue pairs that have one lane each follow, the longest first, so
 * that few bursts are needed.
 */
static void lanes_order_puts_other_lanes_behind(void **state)
{
	static const uint8_t want[] = {2, 4, 3, 5, 1, 0};
	static const uint8_t ends[] = {0, 1, 2};
	struct lanes lanes = {0};
	struct lane_range acks = {0}, other = {0}, requests = {0};
	uint8_t lane_of[6], order[6];
	bool is_ahead;

	(void)state;
	lanes_begin(&lanes);
	lane_of[0] = (uint8_t)lanes_join(&lanes, &acks, &path, ACK, false, &is_ahead);
	lane_of[1] = (uint8_t)lanes_join(&lanes, &other, &path, ACK + 4, false, &is_ahead);
	for (int i = 2; i < 6; i++)
		lane_of[i] = (uint8_t)lanes_join(&lanes, &requests, &path, i % 2 ? SHORT : LONG,
						 true, &is_ahead);
	assert_true(lanes_order(&lanes, lane_of, 6, order));
	assert_memory_equal(order, want, sizeof(want));
	assert_int_equal(lanes.count, 4);
	/*
	 * The end of the burst before it, as the second packet is shorter and the third is longer.
	 */
	lanes_begin(&lanes);
	lane_of[0] = (uint8_t)lanes_join(&lanes, &requests, &path, LONG, false, &is_ahead);
	lane_of[1] = (uint8_t)lanes_join(&lanes, &acks, &path, ACK, false, &is_ahead);
	lane_of[2] = (uint8_t)lanes_join(&lanes, &requests, &path, SHORT, false, &is_ahead);
	assert_false(lanes_order(&lanes, lane_of, 3, order));
	assert_memory_equal(order, ends, sizeof(ends));
	/* One length needs no other order. */
	lanes_begin(&lanes);
	for (int i = 0; i < 6; i++)
		lane_of[i] = (uint8_t)lanes_join(&lanes, i % 2 ? &other : &requests, &path, LONG,
						 true, &is_ahead);
	assert_false(lanes_order(&lanes, lane_of, 6, order));
}

/*
 * Random packets: a packet is marked as ahead if and only if one of its sequence that precedes it
 * is sent later, and no packet that may not overtake does.
 */
static void lanes_order_marks_overtaking_packets(void **state)
{
	(void)state;
	srand(62);
	for (int run = 0; run < MIXED; run++) {
		struct lane_range ranges[3] = {0};
		struct lanes lanes = {0};
		uint8_t lane_of[LANES_MAX], order[LANES_MAX], place[LANES_MAX];
		int sequence[LANES_MAX], n = 1 + rand() % LANES_MAX;
		bool may_overtake[LANES_MAX], is_ahead[LANES_MAX];

		lanes_begin(&lanes);
		for (int i = 0; i < n; i++) {
			sequence[i] = rand() % 3;
			may_overtake[i] = rand() % 4;
			lane_of[i] = (uint8_t)lanes_join(&lanes, &ranges[sequence[i]],
							 sequence[i] ? &path : &other_path,
							 16u + 4u * (unsigned)(rand() % 12),
							 may_overtake[i], &is_ahead[i]);
		}
		assert_true(lanes.count <= n);
		(void)lanes_order(&lanes, lane_of, n, order);
		for (int i = 0; i < n; i++)
			place[order[i]] = (uint8_t)i;
		for (int i = 0; i < n; i++) {
			bool overtakes = false;

			for (int before = 0; before < i; before++)
				overtakes |= sequence[before] == sequence[i] &&
					     place[before] > place[i];
			assert_int_equal(is_ahead[i], overtakes);
			assert_true(may_overtake[i] || !overtakes);
			/*
			 * The packets of a lane are sent together, in the order in which they
			 * joined it.
			 */
			for (int before = 0; before < i; before++)
				assert_true(lane_of[before] != lane_of[i] ||
					    (place[before] < place[i] &&
					     lane_of[order[place[i] - 1]] == lane_of[i]));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_join_permitted_packet_overtakes),
		cmocka_unit_test(lanes_join_other_packet_follows),
		cmocka_unit_test(lanes_join_sequences_are_independent),
		cmocka_unit_test(lanes_join_other_flow_has_own_lane),
		cmocka_unit_test(lanes_follow_keeps_requests_behind),
		cmocka_unit_test(lanes_follow_keeps_earlier_requests_before),
		cmocka_unit_test(lanes_begin_forgets_ranges),
		cmocka_unit_test(lanes_order_puts_other_lanes_behind),
		cmocka_unit_test(lanes_order_marks_overtaking_packets),
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
