/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LIMIT  4096u
#define BLOCKS 200u
#define ROUNDS 20000

static struct pages pages;

static int set_up(void **state)
{
	(void)state;
	return pages_init(&pages, LIMIT);
}

static int tear_down(void **state)
{
	(void)state;
	pages_fini(&pages);
	return 0;
}

static struct span *take(uint64_t count, uint64_t align, enum span_state wanted)
{
	enum span_state before = SPAN_STATES;
	struct span *span = pages_alloc(&pages, count, align, &before);

	assert_non_null(span);
	assert_int_equal(before, wanted);
	assert_int_equal(span->state, SPAN_USED);
	assert_int_equal(span->count, count);
	assert_int_equal(span->first % align, 0);
	return span;
}

/* The spans cover [0, top), free neighbours have different states, and the counts are right. */
static void check_spans(void)
{
	uint64_t count[SPAN_STATES] = {0}, page = 0;
	enum span_state before = SPAN_USED;

	while (page < pages.top) {
		struct span *span = pages_at(&pages, page);

		assert_non_null(span);
		assert_int_equal(span->first, page);
		assert_true(span->count > 0);
		assert_true(span->state == SPAN_USED || span->state != before);
		assert_ptr_equal(pages_find(&pages, page + span->count / 2), span);
		assert_ptr_equal(pages_find(&pages, page + span->count - 1), span);
		before = span->state;
		count[span->state] += span->count;
		page += span->count;
	}
	assert_int_equal(page, pages.top);
	assert_memory_equal(count, pages.count, sizeof(count));
}

static void pages_alloc_adjacent_blocks_without_gaps(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < LIMIT / 4; i++)
		assert_int_equal(take(4, 1, SPAN_UNMAPPED)->first, i * 4);
	check_spans();
}

static void pages_alloc_beyond_limit_fails(void **state)
{
	enum span_state before;
	struct span *span;

	(void)state;
	assert_null(pages_alloc(&pages, LIMIT + 1, 1, &before));
	assert_null(pages_alloc(&pages, UINT64_MAX - 1, 1, &before));
	span = take(LIMIT, 1, SPAN_UNMAPPED);
	assert_null(pages_alloc(&pages, 1, 1, &before));
	pages_free(&pages, span, SPAN_UNMAPPED);
	take(1, 1, SPAN_UNMAPPED);
	check_spans();
}

static void pages_free_merges_neighbours_of_one_state(void **state)
{
	struct span *a = take(3, 1, SPAN_UNMAPPED), *b = take(5, 1, SPAN_UNMAPPED);
	struct span *c = take(7, 1, SPAN_UNMAPPED), *merged;

	(void)state;
	pages_free(&pages, a, SPAN_DIRTY);
	pages_free(&pages, c, SPAN_DIRTY);
	check_spans();
	merged = pages_free(&pages, b, SPAN_DIRTY);
	assert_int_equal(merged->first, 0);
	assert_int_equal(merged->count, 15);
	check_spans();
	assert_ptr_equal(pages_largest(&pages, SPAN_DIRTY), merged);
	assert_null(pages_largest(&pages, SPAN_CLEAN));
	take(15, 1, SPAN_DIRTY);
}

static void pages_free_keeps_neighbours_of_other_states(void **state)
{
	struct span *a = take(3, 1, SPAN_UNMAPPED), *b = take(5, 1, SPAN_UNMAPPED);

	(void)state;
	pages_free(&pages, a, SPAN_DIRTY);
	assert_int_equal(pages_free(&pages, b, SPAN_CLEAN)->count, 5);
	check_spans();
	/* A free span may get another state. */
	assert_int_equal(pages_free(&pages, pages_at(&pages, 3), SPAN_DIRTY)->count, 8);
	check_spans();
}

static void pages_alloc_prefers_memory_that_is_filled(void **state)
{
	struct span *unmapped = take(8, 1, SPAN_UNMAPPED), *kept = take(1, 1, SPAN_UNMAPPED);
	struct span *clean = take(8, 1, SPAN_UNMAPPED), *kept_too = take(1, 1, SPAN_UNMAPPED);
	struct span *dirty = take(8, 1, SPAN_UNMAPPED);

	(void)state;
	(void)kept;
	(void)kept_too;
	pages_free(&pages, unmapped, SPAN_UNMAPPED);
	pages_free(&pages, clean, SPAN_CLEAN);
	pages_free(&pages, dirty, SPAN_DIRTY);
	take(8, 1, SPAN_DIRTY);
	take(8, 1, SPAN_CLEAN);
	assert_int_equal(take(8, 1, SPAN_UNMAPPED)->first, 0);
}

static void pages_alloc_aligned_keeps_the_rest_free(void **state)
{
	(void)state;
	take(1, 1, SPAN_UNMAPPED);
	assert_int_equal(take(4, 64, SPAN_UNMAPPED)->first, 64);
	assert_int_equal(pages.count[SPAN_UNMAPPED], 63);
	assert_int_equal(take(63, 1, SPAN_UNMAPPED)->first, 1);
	check_spans();
}

static void pages_split_returns_second_part(void **state)
{
	struct span *span = take(10, 1, SPAN_UNMAPPED), *rest;

	(void)state;
	span->is_changed = true;
	rest = pages_split(&pages, span, 4);
	assert_non_null(rest);
	assert_int_equal(span->count, 4);
	assert_int_equal(rest->first, 4);
	assert_int_equal(rest->count, 6);
	assert_true(rest->is_changed && span->is_changed);
	check_spans();
	pages_free(&pages, rest, SPAN_DIRTY);
	check_spans();
}

static void pages_find_page_without_span_returns_null(void **state)
{
	(void)state;
	assert_null(pages_find(&pages, 0));
	assert_null(pages_at(&pages, 0));
	take(3000, 1, SPAN_UNMAPPED);
	assert_int_equal(pages_find(&pages, 1500)->first, 0);
	assert_null(pages_at(&pages, 1500));
	assert_null(pages_find(&pages, 3000));
	assert_null(pages_find(&pages, LIMIT * 2));
}

/* Random calls. Each span has one block. */
static void pages_alloc_and_pages_free_random_calls_keep_blocks_apart(void **state)
{
	const char *given = getenv("USRDMA_TEST_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) :
				    (unsigned int)time(NULL);
	struct span *blocks[BLOCKS] = {NULL};
	uint64_t sum = 0;

	(void)state;
	printf("# USRDMA_TEST_SEED=%u\n", seed);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int i = (unsigned int)rand_r(&seed) % BLOCKS;
		enum span_state before;

		if (blocks[i]) {
			enum span_state states[] = {SPAN_DIRTY, SPAN_CLEAN, SPAN_UNMAPPED};

			sum -= blocks[i]->count;
			pages_free(&pages, blocks[i], states[rand_r(&seed) % 3]);
			blocks[i] = NULL;
		} else {
			blocks[i] = pages_alloc(&pages, (uint64_t)rand_r(&seed) % 60 + 1,
						1u << rand_r(&seed) % 6, &before);
			sum += blocks[i] ? blocks[i]->count : 0;
		}
		assert_int_equal(pages.count[SPAN_USED], sum);
		if (round % 100 == 0)
			check_spans();
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (blocks[i])
			pages_free(&pages, blocks[i], SPAN_UNMAPPED);
	while (pages_largest(&pages, SPAN_DIRTY))
		pages_free(&pages, pages_largest(&pages, SPAN_DIRTY), SPAN_UNMAPPED);
	while (pages_largest(&pages, SPAN_CLEAN))
		pages_free(&pages, pages_largest(&pages, SPAN_CLEAN), SPAN_UNMAPPED);
	check_spans();
	assert_int_equal(pages_at(&pages, 0)->count, pages.top);
}

/* The notes belong to pages, not to spans. */
static void pages_keep_outlives_the_span(void **state)
{
	enum span_state before;
	struct span *first, *second, *kept[2];

	(void)state;
	first = pages_alloc(&pages, 8, 1, &before);
	second = pages_alloc(&pages, 8, 1, &before);
	kept[0] = pages_keep(&pages, first->first + 2, 1);
	kept[1] = pages_keep(&pages, first->first + 2, 6);
	assert_true(pages_are_kept(&pages, first));
	assert_false(pages_are_kept(&pages, second));
	pages_free(&pages, first, SPAN_DIRTY);
	first = pages_alloc(&pages, 2, 1, &before);
	assert_int_equal(first->first + 8, second->first);
	assert_false(pages_are_kept(&pages, first));
	pages_free(&pages, first, SPAN_DIRTY);
	first = pages_alloc(&pages, 3, 1, &before);
	pages_unkeep(&pages, kept[1]);
	assert_true(pages_are_kept(&pages, first));
	pages_unkeep(&pages, kept[0]);
	assert_false(pages_are_kept(&pages, first));
	kept[0] = pages_keep(&pages, first->first, 1);
	kept[1] = pages_keep(&pages, first->first, 1);
	pages_forget_kept(&pages);
	assert_false(pages_are_kept(&pages, first));
	pages_unkeep(&pages, kept[0]);
	kept[0] = pages_keep(&pages, first->first, 1);
	pages_unkeep(&pages, kept[1]);
	assert_true(pages_are_kept(&pages, first));
	pages_unkeep(&pages, kept[0]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(pages_alloc_adjacent_blocks_without_gaps),
		CASE(pages_alloc_beyond_limit_fails),
		CASE(pages_free_merges_neighbours_of_one_state),
		CASE(pages_free_keeps_neighbours_of_other_states),
		CASE(pages_alloc_prefers_memory_that_is_filled),
		CASE(pages_alloc_aligned_keeps_the_rest_free),
		CASE(pages_split_returns_second_part),
		CASE(pages_find_page_without_span_returns_null),
		CASE(pages_keep_outlives_the_span),
		CASE(pages_alloc_and_pages_free_random_calls_keep_blocks_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
