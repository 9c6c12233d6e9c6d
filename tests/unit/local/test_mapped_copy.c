/* SPDX-License-Identifier: BSD-2-Clause */

/* The restartable sequences that move bytes in mapped memory. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/guarded_copy.h"
#include "local/mapped_copy.h"

#define BYTES 1024u
#define ADDS  3000000u

static _Atomic uint64_t words[GUARDS];
static struct guard guards[GUARDS];

static int setup(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < GUARDS; i++) {
		atomic_store(&words[i], i << 40 | 7);
		guards[i] = (struct guard){&words[i], i << 40 | 7};
	}
	return 0;
}

static enum guarded_outcome write_again(void *to, const void *from, size_t bytes)
{
	enum guarded_outcome outcome;

	do
		outcome = mapped_write(guards, to, from, bytes);
	while (outcome == GUARDED_PREEMPTED);
	return outcome;
}

static enum guarded_outcome read_again(void *to, const void *from, size_t bytes)
{
	enum guarded_outcome outcome;

	do
		outcome = mapped_read(guards, to, from, bytes);
	while (outcome == GUARDED_PREEMPTED);
	return outcome;
}

static void fill(uint8_t *bytes, size_t count, uint8_t first)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(first + i * 7);
}

/*
 * All lengths and alignments of source and destination: the bytes arrive and their neighbours are
 * unchanged.
 */
static void mapped_copy_moves_all_lengths_and_alignments(void **state)
{
	static uint8_t from[BYTES], to[BYTES], expected[BYTES];

	(void)state;
	fill(from, BYTES, 3);
	for (size_t bytes = 1; bytes <= 300; bytes++) {
		for (size_t shift = 0; shift < 64; shift++) {
			uint8_t *there = to + 64 + shift % 8;
			const uint8_t *here = from + 64 + shift / 8;

			fill(to, BYTES, 100);
			memcpy(expected, to, BYTES);
			memcpy(expected + (there - to), here, bytes);
			assert_int_equal(write_again(there, here, bytes), GUARDED_CALLED);
			assert_memory_equal(to, expected, BYTES);

			fill(to, BYTES, 100);
			assert_int_equal(read_again(there, here, bytes), GUARDED_CALLED);
			assert_memory_equal(to, expected, BYTES);
		}
	}
}

static void mapped_copy_moves_the_longest_part(void **state)
{
	uint8_t *from = malloc(MAPPED_COPY_BYTES), *to = calloc(1, MAPPED_COPY_BYTES);

	(void)state;
	fill(from, MAPPED_COPY_BYTES, 9);
	assert_int_equal(write_again(to, from, MAPPED_COPY_BYTES), GUARDED_CALLED);
	assert_memory_equal(to, from, MAPPED_COPY_BYTES);
	memset(to, 0, MAPPED_COPY_BYTES);
	assert_int_equal(read_again(to, from, MAPPED_COPY_BYTES), GUARDED_CALLED);
	assert_memory_equal(to, from, MAPPED_COPY_BYTES);
	free(from);
	free(to);
}

static void mapped_copy_executes_atomics(void **state)
{
	uint64_t word = 40, original = 0;

	(void)state;
	while (mapped_fetch_add(guards, &word, 2, &original) == GUARDED_PREEMPTED)
		;
	assert_int_equal(original, 40);
	assert_int_equal(word, 42);
	while (mapped_compare_swap(guards, &word, 41, 1, &original) == GUARDED_PREEMPTED)
		;
	assert_int_equal(original, 42);
	assert_int_equal(word, 42);
	while (mapped_compare_swap(guards, &word, 42, 1, &original) == GUARDED_PREEMPTED)
		;
	assert_int_equal(original, 42);
	assert_int_equal(word, 1);
}

static void mapped_copy_changed_word_prevents_access(void **state)
{
	uint64_t word = 40, original = 0, other = 41;

	(void)state;
	for (int i = 0; i < GUARDS; i++) {
		atomic_fetch_add(&words[i], 1);
		assert_int_equal(write_again(&word, &other, sizeof(word)), GUARDED_CHANGED);
		assert_int_equal(read_again(&other, &word, sizeof(word)), GUARDED_CHANGED);
		while (mapped_fetch_add(guards, &word, 1, &original) != GUARDED_CHANGED)
			;
		while (mapped_compare_swap(guards, &word, 40, 1, &original) != GUARDED_CHANGED)
			;
		assert_int_equal(word, 40);
		assert_int_equal(other, 41);
		atomic_fetch_sub(&words[i], 1);
	}
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

/*
 * Signals abort the sequence at any instruction. An addition whose sequence was aborted was not
 * executed.
 */
static void mapped_copy_commits_once(void **state)
{
	const struct itimerval every = {.it_interval.tv_usec = 50, .it_value.tv_usec = 50};
	const struct itimerval off = {0};
	uint64_t word = 0, original = 0;

	(void)state;
	signals = 0;
	signal(SIGALRM, on_signal);
	assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
	for (unsigned int done = 0; done < ADDS;) {
		uint64_t before = word;

		if (mapped_fetch_add(guards, &word, 1, &original) != GUARDED_CALLED) {
			assert_int_equal(word, before);
			continue;
		}
		assert_int_equal(original, done);
		done++;
	}
	assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
	assert_int_equal(word, ADDS);
	print_message("%d signals\n", (int)signals);
}

/* Without a registered area nothing is accessed: no access is unguarded. */
static void mapped_copy_without_rseq_never_accesses(void **state)
{
	uint64_t word = 40, original = 0, other = 41;

	(void)state;
	assert_int_equal(mapped_write(guards, &word, &other, sizeof(word)), GUARDED_CHANGED);
	assert_int_equal(mapped_fetch_add(guards, &word, 1, &original), GUARDED_CHANGED);
	assert_int_equal(word, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(mapped_copy_moves_all_lengths_and_alignments, setup),
		cmocka_unit_test_setup(mapped_copy_moves_the_longest_part, setup),
		cmocka_unit_test_setup(mapped_copy_executes_atomics, setup),
		cmocka_unit_test_setup(mapped_copy_changed_word_prevents_access, setup),
		cmocka_unit_test_setup(mapped_copy_commits_once, setup),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test_setup(mapped_copy_without_rseq_never_accesses, setup),
	};

	return guarded_copy_is_available() ? cmocka_run_group_tests(tests, NULL, NULL) :
					     cmocka_run_group_tests(without, NULL, NULL);
}
