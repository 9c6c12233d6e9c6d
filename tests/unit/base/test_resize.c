/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/resize.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT 65536

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

static void resize_memory_sets_size(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct stat stat;

	(void)state;
	assert_int_equal(resize_memory(fd, 2 * LIMIT), 0);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_size, 2 * LIMIT);
	assert_int_equal(resize_memory(-1, 1), -EBADF);
	close(fd);
}

static void resize_memory_above_file_size_limit_fails_without_signal(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct rlimit before, limit;
	sigset_t blocked, mask;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	signal(SIGXFSZ, count_signal);
	assert_int_equal(resize_memory(fd, LIMIT), 0);
	assert_int_equal(resize_memory(fd, LIMIT + 1), -EFBIG);
	assert_int_equal(signals, 0);

	/* A signal that was pending before is not lost. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGXFSZ);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &mask), 0);
	raise(SIGXFSZ);
	assert_int_equal(resize_memory(fd, LIMIT + 1), -EFBIG);
	assert_int_equal(signals, 0);
	assert_int_equal(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
	assert_int_equal(signals, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resize_memory_sets_size),
		cmocka_unit_test(resize_memory_above_file_size_limit_fails_without_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
