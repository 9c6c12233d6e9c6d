/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_SHORTAGE_H
#define USRDMA_TESTS_API_SHORTAGE_H

#include <errno.h>
#include <stdbool.h>

/*
 * A machine that has no more of something: the C library's calls for memory, descriptors and threads, by which the libraries
 * come to theirs, fail when a test says so. Not with a sanitizer, which has these calls itself, nor without glibc.
 */

/* Skips a test where nothing can be lacking. */
void shortage_needed(void);

/*
 * From now on this thread's nth call (from 1) that can fail with this errno does, once: ENOMEM: memory, ENFILE:
 * descriptors, EAGAIN: threads.
 */
void shortage_of(int error, unsigned int nth);

/* From now on each of them does. */
void shortage_that_lasts(int error);

/* Ends it; whether it was felt. errno stays. */
bool shortage_was_felt(void);

/*
 * Asserts that `call`, whichever one of the things that it needs is lacking, answers NULL with this errno, or does without
 * it, and that it works when nothing lacks. `undo` is for what it made. What it did without once it may never ask for again,
 * so that the same number is then another thing.
 */
#define starve_null(call, undo, wanted)                                  \
	do {                                                             \
		unsigned int nth = 1, refused = 0;                       \
		bool is_felt, does_without = false;                      \
		do {                                                     \
			shortage_of(wanted, nth);                        \
			errno = 0;                                       \
			__typeof__(call) made = call;                    \
			is_felt = shortage_was_felt();                   \
			if (made) {                                      \
				does_without = is_felt && !does_without; \
				undo(made);                              \
			} else {                                         \
				assert_int_equal(errno, wanted);         \
				assert_true(is_felt);                    \
				does_without = false;                    \
				refused++;                               \
			}                                                \
			nth += !does_without;                            \
		} while (is_felt);                                       \
		assert_true(refused > 0);                                \
	} while (0)

/* The same of a call that answers an errno, until it works. */
#define starve(call, wanted)                                       \
	do {                                                       \
		unsigned int nth = 0;                              \
		int error;                                         \
		while (shortage_of(wanted, ++nth), error = call) { \
			assert_int_equal(error, wanted);           \
			assert_true(shortage_was_felt());          \
		}                                                  \
		shortage_was_felt();                               \
		assert_true(nth > 1);                              \
	} while (0)

/* … and of one that answers -1, for which anything else is that it works. */
#define starve_minus1(call, wanted) starve((errno = 0, (call) == -1 ? errno : 0), wanted)

#endif
