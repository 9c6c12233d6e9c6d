/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/usrdma/trace/model_arrival.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BURST 100

static const struct item note = {.kind = ITEM_FAULT, .side = 1, .time_ns = 5000000000};

static struct item packet(uint64_t sent_ns, uint64_t arrival_ns)
{
	return (struct item){.kind = ITEM_PACKET, .time_ns = sent_ns, .arrival_ns = arrival_ns};
}

static struct item *find(struct item *items, uint32_t count)
{
	uint32_t order[BURST];

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	return model_last_arrival(items, order, count, &note);
}

/* The whole burst has one time of sending; the third packet has arrived when the rule fires. */
static void model_last_arrival_in_a_burst_ignores_packets_that_arrive_later(void **state)
{
	struct item items[BURST];

	(void)state;
	for (uint32_t i = 0; i < BURST; i++)
		items[i] = packet(note.time_ns - 1000, note.time_ns + i - 2);
	assert_ptr_equal(find(items, BURST), &items[2]);
}

static void model_last_arrival_of_reordered_packets_returns_the_latest(void **state)
{
	struct item items[] = {
		packet(note.time_ns - 30, note.time_ns - 20),
		packet(note.time_ns - 29, note.time_ns - 5),
		packet(note.time_ns - 28, note.time_ns - 15),
		packet(note.time_ns - 27, 0),
	};

	(void)state;
	assert_ptr_equal(find(items, 4), &items[1]);
}

static void model_last_arrival_ignores_own_packets_notes_and_old_ones(void **state)
{
	struct item items[] = {
		packet(note.time_ns - 2000000000, note.time_ns - 1900000000),
		packet(note.time_ns - 20, note.time_ns - 10),
		packet(note.time_ns - 20, note.time_ns - 10),
	};

	(void)state;
	items[1].side = note.side;
	items[2].kind = ITEM_COMPLETION;
	assert_null(find(items, 3));
	assert_null(find(items, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_last_arrival_in_a_burst_ignores_packets_that_arrive_later),
		cmocka_unit_test(model_last_arrival_of_reordered_packets_returns_the_latest),
		cmocka_unit_test(model_last_arrival_ignores_own_packets_notes_and_old_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
