/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Copies to and from application memory: every alignment and length, and memory that cannot be
 * accessed.
 */

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/user_copy.h"
#include "base/user_fault.h"
#include "base/util.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define LENGTH_MAX 200u
#define GUARD	   16u
#define AREA_BYTES (GUARD + 16 + LENGTH_MAX + GUARD)

typedef bool copy_fn(void *to, const void *from, size_t bytes);

static copy_fn *const copies[] = {user_copy_to, user_copy_to_ordered, user_copy_from};

/* With the handler, and with system calls: cmocka replaces the handler before each case. */
static int begin_caught(void **state)
{
	bool is_caught = *(const bool *)*state;
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	pthread_sigmask(is_caught ? SIG_UNBLOCK : SIG_BLOCK, &faults, NULL);
	return 0;
}

/*
 * To be called by each case, behind cmocka's signal(2). The handler of the first call stays in
 * place of cmocka's.
 */
static void require_caught(bool is_caught)
{
	static struct sigaction installed[2];
	static bool has_installed;
	const int numbers[] = {SIGSEGV, SIGBUS};

	if (!has_installed && is_caught) {
		assert_true(user_fault_examine());
		for (int i = 0; i < 2; i++)
			sigaction(numbers[i], NULL, &installed[i]);
		has_installed = true;
	}
	for (int i = 0; i < 2 && has_installed; i++)
		sigaction(numbers[i], &installed[i], NULL);
	assert_int_equal(user_fault_examine(), is_caught);
}

static void user_copy_any_length_writes_exactly_its_bytes(void **state)
{
	_Alignas(16) uint8_t to[AREA_BYTES];
	_Alignas(16) uint8_t from[AREA_BYTES];
	uint8_t expected[AREA_BYTES];

	require_caught(*(const bool *)*state);
	for (uint32_t i = 0; i < AREA_BYTES; i++)
		from[i] = (uint8_t)(i + 1);
	for (size_t copy = 0; copy < COUNT(copies); copy++) {
		for (uint32_t to_at = 0; to_at < 16; to_at += copy ? 3 : 1) {
			for (uint32_t from_at = 0; from_at < 16; from_at += copy == 2 ? 1 : 3) {
				for (uint32_t bytes = 0; bytes <= LENGTH_MAX;
				     bytes += bytes < 80 ? 1 : 7) {
					memset(to, 0xee, sizeof(to));
					memset(expected, 0xee, sizeof(expected));
					memcpy(expected + GUARD + to_at, from + from_at, bytes);
					assert_true(copies[copy](to + GUARD + to_at, from + from_at,
								 bytes));
					assert_memory_equal(to, expected, sizeof(to));
				}
			}
		}
	}
}

/* Memory whose second page cannot be accessed. */
static uint8_t *map_pair(const char *kind)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
	int fd;

	assert_true(at != MAP_FAILED);
	if (!strcmp(kind, "none")) {
		assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
	} else if (!strcmp(kind, "read-only")) {
		assert_int_equal(mprotect(at + page, page, PROT_READ), 0);
	} else if (!strcmp(kind, "unmapped")) {
		assert_int_equal(munmap(at + page, page), 0);
	} else if (!strcmp(kind, "guard")) {
		/* Before Linux 6.13 there are no guard pages. */
		if (madvise(at + page, page, MADV_GUARD_INSTALL))
			assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
	} else {
		fd = memfd_create("cut", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)page), 0);
		assert_true(mmap(at, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
				 0) == at);
		close(fd);
	}
	return at;
}

static void user_copy_to_inaccessible_page_fails(void **state)
{
	static const char *const kinds[] = {"none", "read-only", "unmapped", "guard", "cut"};
	static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 63, 64, 65, 128, 1000, 4096};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *other = calloc(1, 8192);
	uint64_t original;

	require_caught(*(const bool *)*state);
	for (size_t kind = 0; kind < COUNT(kinds); kind++) {
		bool is_readable = !strcmp(kinds[kind], "read-only");
		uint8_t *at = map_pair(kinds[kind]);

		for (size_t i = 0; i < COUNT(sizes); i++) {
			uint8_t *inside = at + page - sizes[i];

			/* The last byte, the first byte, and all bytes are in the second page. */
			for (size_t over = 1; over <= sizes[i];
			     over += over == 1 ? sizes[i] / 2 + 1 : sizes[i]) {
				assert_false(user_copy_to(inside + over, other, sizes[i]));
				assert_false(user_copy_to_ordered(inside + over, other, sizes[i]));
				assert_int_equal(user_copy_from(other, inside + over, sizes[i]),
						 is_readable);
			}
			assert_true(user_copy_to(inside, other, sizes[i]));
			assert_true(user_copy_to_ordered(inside, other, sizes[i]));
			assert_true(user_copy_from(other, inside, sizes[i]));
		}
		assert_false(user_exchange((uint64_t *)(void *)(at + page), 1, &original));
		assert_false(user_fetch_add((uint64_t *)(void *)(at + page), 1, &original));
		assert_false(user_compare_swap((uint64_t *)(void *)(at + page), 0, 1, &original));
		munmap(at, 2 * page);
	}
	free(other);
}

static void user_copy_keeps_errno(void **state)
{
	uint8_t *at = map_pair("none");
	uint8_t byte = 0;

	require_caught(*(const bool *)*state);
	errno = 4711;
	assert_false(user_copy_to(at + sysconf(_SC_PAGESIZE), &byte, 1));
	assert_false(user_copy_from(&byte, at + sysconf(_SC_PAGESIZE), 1));
	assert_true(user_copy_to(at, &byte, 1));
	assert_int_equal(errno, 4711);
}

/* The address of x86-64 is not canonical. The processor does not report it. */
static void user_copy_to_impossible_address_fails(void **state)
{
	uint8_t *at = (uint8_t *)(uintptr_t)0x8000000000000000;
	uint8_t bytes[64] = {0};

	require_caught(*(const bool *)*state);
	assert_false(user_copy_to(at, bytes, sizeof(bytes)));
	assert_false(user_copy_from(bytes, at, sizeof(bytes)));
	assert_false(user_copy_from(bytes, NULL, 1));
}

static void user_fetch_add_returns_original(void **state)
{
	uint64_t word = 5, original;

	require_caught(*(const bool *)*state);
	assert_true(user_fetch_add(&word, 3, &original));
	assert_int_equal(original, 5);
	assert_int_equal(word, 8);
	assert_true(user_compare_swap(&word, 7, 1, &original));
	assert_int_equal(original, 8);
	assert_int_equal(word, 8);
	assert_true(user_compare_swap(&word, 8, 1, &original));
	assert_int_equal(original, 8);
	assert_int_equal(word, 1);
	assert_true(user_exchange(&word, 9, &original));
	assert_int_equal(original, 1);
	assert_int_equal(word, 9);
}

static void user_gather_copies_pieces(void **state)
{
	uint8_t *at = map_pair("none");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct iovec pieces[] = {{at, 3}, {at + page - 2, 2}, {at + page, 4}};
	uint8_t to[9];

	require_caught(*(const bool *)*state);
	memcpy(at, "abc", 3);
	memcpy(at + page - 2, "de", 2);
	memset(to, 'x', sizeof(to));
	assert_true(user_gather(to, pieces, 2));
	assert_memory_equal(to, "abcdexxxx", sizeof(to));
	assert_false(user_gather(to, pieces, 3));
	assert_int_equal(user_gather_readable(to, pieces, 3, 8), 8);
	assert_memory_equal(to, "abcde\0\0\0x", sizeof(to));
	assert_true(user_scatter(pieces, 2, "ABCDE"));
	assert_memory_equal(at, "ABC", 3);
	assert_memory_equal(at + page - 2, "DE", 2);
	assert_false(user_scatter(pieces, 3, "ABCDEFGHI"));
}

static void user_last_word_bytes_is_aligned_and_largest(void **state)
{
	(void)state;
	for (uintptr_t end = 64; end < 72; end++) {
		for (size_t bytes = 1; bytes <= LENGTH_MAX; bytes++) {
			size_t word_bytes = user_last_word_bytes(end, bytes);

			assert_true(word_bytes <= bytes && end % word_bytes == 0);
			assert_true(word_bytes == 8 || word_bytes * 2 > bytes ||
				    end % (word_bytes * 2));
		}
	}
}

int main(void)
{
	static bool is_caught = true, is_called;
#define CASE(name, caught)                                 \
	{                                                  \
#name, name, begin_caught, NULL, &(caught) \
	}
	const struct CMUnitTest tests[] = {
		CASE(user_copy_any_length_writes_exactly_its_bytes, is_caught),
		CASE(user_copy_any_length_writes_exactly_its_bytes, is_called),
		CASE(user_copy_to_inaccessible_page_fails, is_caught),
		CASE(user_copy_to_inaccessible_page_fails, is_called),
		CASE(user_copy_keeps_errno, is_caught),
		CASE(user_copy_keeps_errno, is_called),
		CASE(user_copy_to_impossible_address_fails, is_caught),
		CASE(user_copy_to_impossible_address_fails, is_called),
		CASE(user_fetch_add_returns_original, is_caught),
		CASE(user_fetch_add_returns_original, is_called),
		CASE(user_gather_copies_pieces, is_caught),
		CASE(user_gather_copies_pieces, is_called),
		cmocka_unit_test(user_last_word_bytes_is_aligned_and_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
