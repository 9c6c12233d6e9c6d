/* SPDX-License-Identifier: BSD-2-Clause */
/* The order in which users are served: deficit round robin over CPU time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/fair_queue.h"

#define QUANTUM ((uint64_t)FAIR_QUANTUM_NS)

static struct fair_queue queue;
static struct fair_flow alice, bob, carol;

static int open_queue(void **state)
{
	(void)state;
	fair_queue_init(&queue);
	fair_flow_init(&alice);
	fair_flow_init(&bob);
	fair_flow_init(&carol);
	return 0;
}

/* Serves the next flow for this time, and checks which one it is. */
static void serve(const struct fair_flow *expected, uint64_t used_ns, bool has_more)
{
	struct fair_flow *flow = fair_queue_next(&queue);

	assert_ptr_equal(flow, expected);
	fair_queue_begin(flow);
	fair_queue_charge(flow, used_ns, has_more);
}

static void fair_queue_next_flow_that_used_its_time_waits_for_the_other(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	serve(&alice, QUANTUM + 1, true);
	fair_queue_add(&queue, &bob);
	serve(&bob, 1, false);
	serve(&alice, 1, false);
	assert_null(fair_queue_next(&queue));
}

static void fair_queue_next_flow_within_its_time_is_served_again(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	fair_queue_add(&queue, &bob);
	serve(&alice, QUANTUM / 2, true);
	serve(&alice, QUANTUM / 2, true);
	serve(&bob, 1, false);
}

static void fair_queue_next_fresh_flow_is_served_before_backlogged_ones(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	fair_queue_add(&queue, &carol);
	serve(&alice, QUANTUM, true);
	serve(&carol, QUANTUM, true);
	serve(&alice, QUANTUM / 2, true);
	fair_queue_add(&queue, &bob);
	serve(&bob, 1, false);
	serve(&alice, QUANTUM / 2, true);
	serve(&carol, QUANTUM, true);
}

/*
 * A user who sends one request after the other gets no more time than one whose requests are all
 * present.
 */
static void fair_queue_add_flow_that_was_idle_for_a_moment_is_not_fresh(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	fair_queue_add(&queue, &bob);
	serve(&alice, QUANTUM / 4, false);
	serve(&bob, QUANTUM / 4, true);
	fair_queue_add(&queue, &alice);
	serve(&bob, QUANTUM, true);
	serve(&alice, QUANTUM / 4, true);
}

static void fair_queue_charge_long_work_costs_several_rounds(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	fair_queue_add(&queue, &bob);
	serve(&alice, 4 * QUANTUM, true);
	for (int round = 0; round < 4; round++)
		serve(&bob, QUANTUM, true);
	serve(&alice, QUANTUM, true);
}

static void fair_queue_next_indebted_flow_alone_is_served(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	serve(&alice, UINT64_MAX, true);
	serve(&alice, UINT64_MAX, true);
	serve(&alice, 1, false);
	assert_null(fair_queue_next(&queue));
}

static void fair_queue_add_work_added_while_served_remains(void **state)
{
	struct fair_flow *flow;

	(void)state;
	fair_queue_add(&queue, &alice);
	flow = fair_queue_next(&queue);
	fair_queue_begin(flow);
	fair_queue_add(&queue, &alice);
	fair_queue_charge(flow, 1, false);
	serve(&alice, 1, false);
	assert_null(fair_queue_next(&queue));
}

static void fair_queue_remove_flow_is_not_served(void **state)
{
	(void)state;
	fair_queue_add(&queue, &alice);
	fair_queue_add(&queue, &bob);
	fair_queue_remove(&alice);
	serve(&bob, 1, false);
	assert_null(fair_queue_next(&queue));
}

/* Of 100 s, each of three backlogged flows gets a third, whatever its pieces of work cost. */
static void fair_queue_next_backlogged_flows_get_equal_time(void **state)
{
	struct fair_flow *flows[] = {&alice, &bob, &carol};
	const uint64_t costs[] = {QUANTUM / 7, QUANTUM, 5 * QUANTUM};
	uint64_t used[3] = {0}, total = 0;

	(void)state;
	for (int i = 0; i < 3; i++)
		fair_queue_add(&queue, flows[i]);
	while (total < 100000 * QUANTUM) {
		struct fair_flow *flow = fair_queue_next(&queue);

		for (int i = 0; i < 3; i++) {
			if (flow != flows[i])
				continue;
			used[i] += costs[i];
			total += costs[i];
			fair_queue_charge(flow, costs[i], true);
		}
	}
	for (int i = 0; i < 3; i++)
		assert_in_range(used[i], total / 3 - 10 * QUANTUM, total / 3 + 10 * QUANTUM);
}

#define CASE(function) cmocka_unit_test_setup(function, open_queue)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fair_queue_next_flow_that_used_its_time_waits_for_the_other),
		CASE(fair_queue_next_flow_within_its_time_is_served_again),
		CASE(fair_queue_next_fresh_flow_is_served_before_backlogged_ones),
		CASE(fair_queue_add_flow_that_was_idle_for_a_moment_is_not_fresh),
		CASE(fair_queue_charge_long_work_costs_several_rounds),
		CASE(fair_queue_next_indebted_flow_alone_is_served),
		CASE(fair_queue_add_work_added_while_served_remains),
		CASE(fair_queue_remove_flow_is_not_served),
		CASE(fair_queue_next_backlogged_flows_get_equal_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
