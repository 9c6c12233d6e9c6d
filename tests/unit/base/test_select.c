/* SPDX-License-Identifier: BSD-2-Clause */

/* Conversion of descriptor sets to the form of poll(2) and back, and of times. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/select.h"

static void select_begin_each_descriptor_is_listed_once(void **state)
{
	fd_set in, out, except;
	fd_set *const sets[] = {&in, &out, &except};
	struct select_call call;

	(void)state;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(0, &in);
	FD_SET(63, &in);
	FD_SET(63, &out);
	FD_SET(64, &except);
	FD_SET(700, &out);
	FD_SET(701, &out);
	assert_int_equal(select_begin(&call, 701, sets), 0);
	assert_int_equal(call.count, 4);
	assert_int_equal(call.fds[0].fd, 0);
	assert_int_equal(call.fds[0].events, POLLIN);
	assert_int_equal(call.fds[1].fd, 63);
	assert_int_equal(call.fds[1].events, POLLIN | POLLOUT);
	assert_int_equal(call.fds[2].fd, 64);
	assert_int_equal(call.fds[2].events, POLLPRI);
	assert_int_equal(call.fds[3].fd, 700);
	call.fds[0].revents = POLLHUP;
	call.fds[1].revents = POLLERR;
	assert_int_equal(select_report(&call), 3);
	select_end(&call);
	assert_true(FD_ISSET(0, &in) && FD_ISSET(63, &in) && FD_ISSET(63, &out));
	assert_false(FD_ISSET(64, &except) || FD_ISSET(700, &out));
	/* Bits beyond nfds are unchanged. */
	assert_true(FD_ISSET(701, &out));
}

static void select_answer_invalid_descriptor_leaves_sets_unchanged(void **state)
{
	fd_set in;
	fd_set *const sets[] = {&in, NULL, NULL};
	struct select_call call;

	(void)state;
	FD_ZERO(&in);
	FD_SET(3, &in);
	FD_SET(5, &in);
	assert_int_equal(select_begin(&call, 6, sets), 0);
	call.fds[1].revents = POLLNVAL;
	assert_int_equal(select_report(&call), -EBADF);
	select_end(&call);
	assert_true(FD_ISSET(3, &in) && FD_ISSET(5, &in));
	assert_int_equal(select_begin(&call, -1, sets), -EINVAL);
	assert_int_equal(select_begin(&call, 0, sets), 0);
	assert_int_equal(call.count, 0);
	select_end(&call);
}

/* A set as long as the process's descriptor table, with a descriptor beyond FD_SETSIZE. */
static void select_begin_descriptor_beyond_fd_setsize_is_listed(void **state)
{
	struct rlimit limit;
	struct select_call call;
	unsigned long *words;
	int fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fd = fcntl(0, F_DUPFD, FD_SETSIZE + 100);
	if (fd < 0)
		skip();
	words = calloc(4096 / 8 / sizeof(*words), sizeof(*words));
	assert_non_null(words);
	words[fd / 64] = 1ul << fd % 64;
	assert_int_equal(select_begin(&call, INT_MAX, (fd_set *[]){(fd_set *)words, NULL, NULL}),
			 0);
	assert_int_equal(call.count, 1);
	assert_int_equal(call.fds[0].fd, fd);
	assert_int_equal(select_report(&call), 0);
	assert_int_equal(words[fd / 64], 0);
	select_end(&call);
	free(words);
	close(fd);
}

static int ms_of(time_t seconds, long nanoseconds)
{
	struct timespec time = {.tv_sec = seconds, .tv_nsec = nanoseconds};
	int ms, ret = select_timeout_ms(&time, &ms);

	return ret ? ret : ms;
}

static void select_timeout_ms_rounds_up(void **state)
{
	int ms = 0;

	(void)state;
	assert_int_equal(select_timeout_ms(NULL, &ms), 0);
	assert_int_equal(ms, -1);
	assert_int_equal(ms_of(0, 0), 0);
	assert_int_equal(ms_of(0, 1), 1);
	assert_int_equal(ms_of(2, 999000001), 3000);
	assert_int_equal(ms_of(INT64_MAX, 0), INT_MAX);
	assert_int_equal(ms_of(-1, 0), -EINVAL);
	assert_int_equal(ms_of(0, -1), -EINVAL);
	assert_int_equal(ms_of(0, 1000000000), -EINVAL);
}

static void select_timespec_normalizes_microseconds(void **state)
{
	struct timeval timeout = {.tv_sec = 1, .tv_usec = 2500000};
	struct timespec time;

	(void)state;
	assert_int_equal(select_timespec(&timeout, &time), 0);
	assert_int_equal(time.tv_sec, 3);
	assert_int_equal(time.tv_nsec, 500000000);
	timeout.tv_sec = INT64_MAX;
	assert_int_equal(select_timespec(&timeout, &time), 0);
	assert_true(time.tv_sec == INT64_MAX);
	assert_int_equal(select_timespec(&(struct timeval){.tv_sec = -1}, &time), -EINVAL);
	assert_int_equal(select_timespec(&(struct timeval){.tv_usec = -1}, &time), -EINVAL);
}

static void select_take_subtracts_elapsed_time(void **state)
{
	struct timeval timeout = {.tv_sec = 1, .tv_usec = 2500000};

	(void)state;
	select_take(&timeout, 1600000000);
	assert_int_equal(timeout.tv_sec, 1);
	assert_int_equal(timeout.tv_usec, 900000);
	select_take(&timeout, 5000000000);
	assert_int_equal(timeout.tv_sec, 0);
	assert_int_equal(timeout.tv_usec, 0);
	timeout = (struct timeval){.tv_sec = INT64_MAX, .tv_usec = 1000001};
	select_take(&timeout, 1000);
	assert_true(timeout.tv_sec == INT64_MAX);
	assert_int_equal(timeout.tv_usec, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(select_begin_each_descriptor_is_listed_once),
		cmocka_unit_test(select_answer_invalid_descriptor_leaves_sets_unchanged),
		cmocka_unit_test(select_begin_descriptor_beyond_fd_setsize_is_listed),
		cmocka_unit_test(select_timeout_ms_rounds_up),
		cmocka_unit_test(select_timespec_normalizes_microseconds),
		cmocka_unit_test(select_take_subtracts_elapsed_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
