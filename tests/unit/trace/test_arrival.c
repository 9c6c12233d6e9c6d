/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/usrdma/trace/model_arrival.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/fault.h"

#define BURST	 100
#define MANY	 200000
#define START_NS UINT64_C(5000000000)

static const struct item note = {.kind = ITEM_FAULT,
				 .side = 1,
				 .time_ns = START_NS,
				 .note = {.status = FAULT_PACKET_RECEIVE, .opcode = FAULT_DROP}};

static struct item packet(uint64_t sent_ns, uint64_t arrival_ns)
{
	return (struct item){.kind = ITEM_PACKET,
			     .time_ns = sent_ns,
			     .arrival_ns = arrival_ns,
			     .is_sent = true,
			     .is_received = arrival_ns != 0};
}

/* The packet that the last item, a note, dropped. */
static struct item *find(struct item *items, uint32_t count)
{
	uint32_t *order = malloc(count * sizeof(*order));
	struct arrivals arrivals;
	struct item *found;

	assert_non_null(order);
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	assert_int_equal(arrivals_open(&arrivals, items, order, count), 0);
	found = arrivals_dropped(&arrivals, &items[count - 1]);
	arrivals_close(&arrivals);
	free(order);
	return found;
}

/* The whole burst has one time of sending; the third packet has arrived when the rule fires. */
static void arrivals_dropped_in_a_burst_ignores_packets_that_arrive_later(void **state)
{
	struct item items[BURST + 1];

	(void)state;
	for (uint32_t i = 0; i < BURST; i++)
		items[i] = packet(START_NS - 1000, START_NS + i - 2);
	items[BURST] = note;
	assert_ptr_equal(find(items, BURST + 1), &items[2]);
}

static void arrivals_dropped_of_reordered_packets_returns_the_latest(void **state)
{
	struct item items[] = {
		packet(START_NS - 30, START_NS - 20),
		packet(START_NS - 29, START_NS - 5),
		packet(START_NS - 28, START_NS - 15),
		packet(START_NS - 27, 0),
		note,
	};

	(void)state;
	assert_ptr_equal(find(items, 5), &items[1]);
}

static void arrivals_dropped_ignores_own_packets_notes_and_old_ones(void **state)
{
	struct item items[] = {
		packet(START_NS - 2000000, START_NS - 1900000),
		packet(START_NS - 20, START_NS - 10),
		packet(START_NS - 20, START_NS - 10),
		note,
	};

	(void)state;
	items[1].side = note.side;
	items[2].kind = ITEM_COMPLETION;
	assert_null(find(items, 4));
	assert_null(find(items + 3, 1));
}

/* Without a trace of the sender, the time of the item is that of the arrival. */
static void arrivals_dropped_finds_packets_that_only_the_receiver_recorded(void **state)
{
	struct item items[] = {packet(START_NS - 30, 0), packet(START_NS - 20, 0), note};

	(void)state;
	for (int i = 0; i < 2; i++) {
		items[i].is_sent = false;
		items[i].is_received = true;
	}
	assert_ptr_equal(find(items, 3), &items[1]);
}

static void arrivals_open_without_drop_sorts_nothing(void **state)
{
	struct item items[] = {packet(START_NS - 30, START_NS - 20), note};

	(void)state;
	items[1].note.opcode = FAULT_DELAY;
	assert_null(find(items, 2));
}

/*
 * A trace file of another person: a search of all preceding packets for each note would take
 * minutes.
 */
static void arrivals_dropped_of_many_packets_takes_short_time(void **state)
{
	struct item *items = calloc(MANY + 1, sizeof(*items));
	uint32_t *order = malloc((MANY + 1) * sizeof(*order));
	struct arrivals arrivals;

	(void)state;
	assert_true(items && order);
	for (uint32_t i = 0; i <= MANY; i++) {
		items[i] = i < MANY ? packet(START_NS - MANY + i, START_NS + 1 + i) : note;
		order[i] = i;
	}
	assert_int_equal(arrivals_open(&arrivals, items, order, MANY + 1), 0);
	for (uint32_t i = 0; i < MANY; i++)
		assert_null(arrivals_dropped(&arrivals, &items[MANY]));
	arrivals_close(&arrivals);
	free(order);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrivals_dropped_in_a_burst_ignores_packets_that_arrive_later),
		cmocka_unit_test(arrivals_dropped_of_reordered_packets_returns_the_latest),
		cmocka_unit_test(arrivals_dropped_ignores_own_packets_notes_and_old_ones),
		cmocka_unit_test(arrivals_dropped_finds_packets_that_only_the_receiver_recorded),
		cmocka_unit_test(arrivals_open_without_drop_sorts_nothing),
		cmocka_unit_test(arrivals_dropped_of_many_packets_takes_short_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
