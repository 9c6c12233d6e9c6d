/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_REFUSAL_H
#define USRDMA_TESTS_API_REFUSAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * Assertions that a call fails with an errno. The call and the errno are in one assertion, because
 * tests/abi/errnos.py searches for this form. Calls that return the errno are tested with
 * assert_int_equal().
 */

/* Asserts that `call` returns NULL with this errno. */
#define assert_null_errno(call, wanted)          \
	do {                                     \
		errno = 0;                       \
		assert_null(call);               \
		assert_int_equal(errno, wanted); \
	} while (0)

/* Asserts that `call` returns -1 with this errno. */
#define assert_minus1_errno(call, wanted)        \
	do {                                     \
		errno = 0;                       \
		assert_int_equal(call, -1);      \
		assert_int_equal(errno, wanted); \
	} while (0)

/* As predicates, for a child or a thread, which cannot assert; a mismatch is printed. */
#define refuses(call, wanted)	   refusal_was(#call, call, wanted)
#define refuses_null(call, wanted) refusal_was(#call, (errno = 0, (call) ? 0 : errno), wanted)
#define refuses_minus1(call, wanted) \
	refusal_was(#call, (errno = 0, (call) == -1 ? errno : 0), wanted)

static inline bool refusal_was(const char *call, int error, int wanted)
{
	if (error != wanted)
		fprintf(stderr, "%s answers %d, not %d\n", call, error, wanted);
	return error == wanted;
}

#endif
