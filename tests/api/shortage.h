/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_SHORTAGE_H
#define USRDMA_TESTS_API_SHORTAGE_H

#include <errno.h>
#include <stdbool.h>

/*
 * Simulates a shortage of a resource: the C library's calls for memory, descriptors and threads
 * fail when a test requests it. Not available with a sanitizer, which replaces these calls itself,
 * nor without glibc.
 */

/* Skips a test if no shortage can be simulated. */
void shortage_needed(void);

/*
 * The nth call (from 1) of this thread that can fail with this errno fails once. ENOMEM: memory,
 * ENFILE, EMFILE: descriptors, EAGAIN: threads.
 */
void shortage_of(int error, unsigned int nth);

/* Every call of this thread that can fail with this errno fails from now on. */
void shortage_that_lasts(int error);

/* Ends the shortage; returns whether a call failed because of it. errno is kept. */
bool shortage_was_felt(void);

/*
 * Asserts that `call` returns NULL with this errno, or succeeds, when any one of its allocations
 * fails, and that it succeeds without a shortage. `undo` destroys the result. An allocation that is
 * optional may not be repeated in the next call, so the same number can then refer to another
 * allocation.
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

/* The same for a call that returns an errno; ends when the call succeeds. */
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

/* The same for a call that returns -1; any other result is success. */
#define starve_minus1(call, wanted) starve((errno = 0, (call) == -1 ? errno : 0), wanted)

#endif
