/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The copies keep aligned words whole, which another thread reads and writes: by chance, and after
 * each instruction.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/user_copy.h"
#include "../../words.h"
#include "../caught.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef bool copy_fn(void *to, const void *from, size_t bytes);

/*
 * Blocks of each length and alignment, which cross the end of a cache line if they are long enough.
 */
#define BLOCK_MAX    34u
#define BLOCK_COPIES 500u
#define BLOCKS	     (8 * (BLOCK_MAX - 1))

static void check_block(copy_fn *copy, bool is_to, const struct words_block *block, size_t *torn)
{
	_Alignas(8) uint8_t ours[BLOCK_MAX + 8];
	uint8_t *here = ours + (uintptr_t)block->at % 8;

	for (unsigned int copies = 0; copies < BLOCK_COPIES; copies++) {
		if (is_to) {
			memset(ours, (int)copies, sizeof(ours));
			assert_true(copy(block->at, ours + 3, block->bytes));
		} else {
			assert_true(copy(here, block->at, block->bytes));
			*torn += words_count_torn(here, block->bytes);
		}
	}
}

static void check_words(copy_fn *copy, bool is_to)
{
	static _Alignas(64) uint8_t shared[BLOCKS][128];
	static struct words_block blocks[BLOCKS];
	struct words_thread thread;
	size_t torn = 0;

	caught_assume();
	memset(shared, 0, sizeof(shared));
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i].bytes = 2 + i / 8;
		blocks[i].at = shared[i] + 64 - blocks[i].bytes / 2 / 8 * 8 + i % 8;
	}
	assert_int_equal(words_begin(&thread, &blocks[0], !is_to), 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		thread.block = &blocks[i];
		check_block(copy, is_to, &blocks[i], &torn);
	}
	torn += words_end(&thread);
	print_message("%zu words torn\n", torn);
	assert_int_equal(torn, 0);
}

static void user_copy_to_keeps_words_of_the_destination_whole(void **state)
{
	(void)state;
	check_words(user_copy_to, true);
}

static void user_copy_from_keeps_words_of_the_source_whole(void **state)
{
	(void)state;
	check_words(user_copy_from, false);
}

static void user_copy_to_ordered_keeps_words_of_the_destination_whole(void **state)
{
	(void)state;
	check_words(user_copy_to_ordered, true);
}

/*
 * Not with ThreadSanitizer: a step may stop its runtime while it holds the lock of its event
 * buffer, which it acquires again when the handler returns.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

/*
 * The same with certainty: the processor raises SIGTRAP after each instruction of the copy. The
 * handler examines the destination, or changes the source.
 */
#define TRAP_FLAG	0x100UL
#define STEP_LENGTH_MAX 100u

static struct steps {
	_Alignas(64) uint8_t shared[128];
	uint8_t *at;
	size_t bytes;
	bool is_to;
	uint8_t value;
	size_t steps;
	size_t torn;  /* words that are partly new, counted after each step */
	size_t early; /* steps after which the last word is new and another byte is old */
} steps;

static void set_trap_flag(bool is_set)
{
	unsigned long flags = __readeflags();

	__writeeflags(is_set ? flags | TRAP_FLAG : flags & ~TRAP_FLAG);
}

static void on_step(int number)
{
	(void)number;
	steps.steps++;
	if (steps.is_to) {
		steps.torn += words_count_torn(steps.at, steps.bytes);
		steps.early += steps.at[steps.bytes - 1] && memchr(steps.at, 0, steps.bytes);
	} else {
		words_store(steps.at, steps.bytes, ++steps.value);
	}
}

static void step_one(copy_fn *copy, size_t shift, size_t bytes)
{
	_Alignas(8) uint8_t ours[128];
	uint8_t *at = steps.shared + shift;
	bool is_copied;

	memset(ours, steps.is_to, sizeof(ours));
	memset(steps.shared, 0, sizeof(steps.shared));
	steps.at = at;
	steps.bytes = bytes;
	set_trap_flag(true);
	is_copied = steps.is_to ? copy(at, ours + 3, bytes) : copy(ours + shift, at, bytes);
	set_trap_flag(false);
	assert_true(is_copied);
	if (steps.is_to)
		assert_memory_equal(at, ours, bytes);
	else
		steps.torn += words_count_torn(ours + shift, bytes);
}

static void step_all(copy_fn *copy, bool is_to, bool is_ordered)
{
	caught_assume();
	steps = (struct steps){.is_to = is_to};
	signal(SIGTRAP, on_step);
	for (size_t bytes = 2; bytes <= STEP_LENGTH_MAX; bytes += bytes < 20 ? 1 : 7) {
		for (size_t shift = 0; shift < 8; shift++)
			step_one(copy, shift, bytes);
	}
	signal(SIGTRAP, SIG_DFL);
	print_message("%zu steps, %zu words torn, %zu last words early\n", steps.steps, steps.torn,
		      steps.early);
	assert_true(steps.steps > 1000);
	assert_int_equal(steps.torn, 0);
	if (is_ordered)
		assert_int_equal(steps.early, 0);
}

#else

/* Other processors than x86 have no flag that a process can set. */
static void step_all(copy_fn *copy, bool is_to, bool is_ordered)
{
	(void)copy;
	(void)is_to;
	(void)is_ordered;
	skip();
}

#endif

static void user_copy_to_each_instruction_stores_whole_words(void **state)
{
	(void)state;
	step_all(user_copy_to, true, false);
}

static void user_copy_from_each_instruction_loads_whole_words(void **state)
{
	(void)state;
	step_all(user_copy_from, false, false);
}

static void user_copy_to_ordered_each_instruction_stores_whole_words_in_order(void **state)
{
	(void)state;
	step_all(user_copy_to_ordered, true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user_copy_to_keeps_words_of_the_destination_whole),
		cmocka_unit_test(user_copy_from_keeps_words_of_the_source_whole),
		cmocka_unit_test(user_copy_to_ordered_keeps_words_of_the_destination_whole),
		cmocka_unit_test(user_copy_to_each_instruction_stores_whole_words),
		cmocka_unit_test(user_copy_from_each_instruction_loads_whole_words),
		cmocka_unit_test(user_copy_to_ordered_each_instruction_stores_whole_words_in_order),
	};

	return cmocka_run_group_tests_name("user_words", tests, NULL, NULL);
}
