/* SPDX-License-Identifier: BSD-2-Clause */

/* Iteration over arrays of buffers, empty ones among them. */

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/user_fault.h"
#include "rsocket/iov.h"

static void iov_bytes_sum_is_limited(void **state)
{
	struct iovec iov[] = {{NULL, 3}, {NULL, 0}, {NULL, 4}};
	size_t bytes;

	(void)state;
	assert_int_equal(iov_bytes(iov, 3, &bytes), 0);
	assert_int_equal(bytes, 7);
	assert_int_equal(iov_bytes(NULL, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(iov_bytes(NULL, 1, &bytes), -EFAULT);
	assert_int_equal(iov_bytes(iov, -1, &bytes), -EINVAL);
	assert_int_equal(iov_bytes(iov, IOV_MAX + 1, &bytes), -EINVAL);
	iov[0].iov_len = SSIZE_MAX;
	assert_int_equal(iov_bytes(iov, 3, &bytes), -EINVAL);
}

static void iov_read_and_write_copy_every_byte(void **state)
{
	char text[] = "abcdefghij", read[11] = {0};

	(void)state;
	for (size_t step = 1; step <= 10; step++) {
		struct iovec iov[] = {{text, 3}, {text, 0}, {text + 3, 1}, {text + 4, 6}};
		struct iov_cursor cursor = {.iov = iov, .count = 4};

		memset(read, 0, sizeof(read));
		for (size_t at = 0; at < 10; at += step)
			assert_int_equal(
				iov_read(&cursor, read + at, step < 10 - at ? step : 10 - at), 0);
		assert_string_equal(read, text);
	}
	{
		struct iovec iov[] = {{read, 4}, {NULL, 0}, {read + 4, 6}};
		struct iov_cursor cursor = {.iov = iov, .count = 3};

		memset(read, 0, sizeof(read));
		assert_int_equal(iov_write(&cursor, "ABC", 3), 0);
		iov_skip(&cursor, 2);
		assert_int_equal(iov_write(&cursor, "FGHIJ", 5), 0);
		assert_memory_equal(read, "ABC\0\0FGHIJ", 10);
		/* Beyond the end a write has no effect. */
		assert_int_equal(iov_write(&cursor, "XYZ", 3), 0);
	}
}

static void iov_read_and_write_inaccessible_buffer_fail(void **state)
{
	char text[] = "abc", read[8];
	void *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[] = {{text, 3}, {none, 5}};
	struct iov_cursor reader = {.iov = iov, .count = 2}, writer = reader;

	(void)state;
	/* cmocka has replaced the handler of faults. */
	user_fault_forget();
	assert_true(none != MAP_FAILED);
	assert_int_equal(iov_read(&reader, read, 8), -EFAULT);
	assert_int_equal(iov_write(&writer, "ABCDEFGH", 8), -EFAULT);
	assert_string_equal(text, "ABC");
	munmap(none, 4096);
}

static void iov_together_finds_contiguous_bytes(void **state)
{
	char text[] = "abcdef";
	struct iovec iov[] = {{NULL, 0}, {text, 2}, {text + 2, 4}};
	struct iov_cursor cursor = {.iov = iov, .count = 3};

	(void)state;
	assert_ptr_equal(iov_together(&cursor, 2), text);
	assert_null(iov_together(&cursor, 3));
	assert_null(iov_together(&cursor, 0));
	iov_skip(&cursor, 3);
	assert_ptr_equal(iov_together(&cursor, 3), text + 3);
	assert_null(iov_together(&cursor, 4));
	iov_skip(&cursor, 3);
	assert_null(iov_together(&cursor, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(iov_bytes_sum_is_limited),
		cmocka_unit_test(iov_read_and_write_copy_every_byte),
		cmocka_unit_test(iov_read_and_write_inaccessible_buffer_fail),
		cmocka_unit_test(iov_together_finds_contiguous_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
