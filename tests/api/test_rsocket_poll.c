/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * rpoll() and rselect(): rsockets together with other descriptors, and several concurrent threads.
 */

static struct streams streams;
static int event_fd;

static int open_streams(void **state)
{
	(void)state;
	streams_open(&streams);
	event_fd = eventfd(0, EFD_NONBLOCK);
	return event_fd < 0 ? -1 : 0;
}

static int close_streams(void **state)
{
	(void)state;
	streams_close(&streams);
	return close(event_fd);
}

static void rpoll_mixed_descriptors_are_reported(void **state)
{
	struct pollfd fds[] = {
		{.fd = streams.passive, .events = POLLIN | POLLOUT},
		{.fd = event_fd, .events = POLLIN},
		{.fd = -1, .events = POLLIN, .revents = 99},
		{.fd = streams.listener, .events = POLLIN},
		{.fd = 1 << 20, .events = POLLIN},
	};

	(void)state;
	assert_int_equal(rpoll(fds, 4, 0), 1);
	assert_int_equal(fds[0].revents, POLLOUT);
	assert_int_equal(fds[1].revents, 0);
	assert_int_equal(fds[2].revents, 0);
	assert_int_equal(fds[3].revents, 0);
	eventfd_write(event_fd, 1);
	rs_send_pattern(streams.active, 1, 0);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	assert_int_equal(rpoll(fds, 5, -1), 3);
	assert_int_equal(fds[0].revents, POLLIN | POLLOUT);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(fds[4].revents, POLLNVAL);
}

static void rpoll_ordinary_descriptors_are_reported(void **state)
{
	struct pollfd pollfd = {.fd = event_fd, .events = POLLIN};

	(void)state;
	assert_int_equal(rpoll(&pollfd, 1, 0), 0);
	assert_int_equal(rpoll(&pollfd, 1, 2), 0);
	eventfd_write(event_fd, 1);
	assert_int_equal(rpoll(&pollfd, 1, -1), 1);
	assert_int_equal(rpoll(NULL, 0, 1), 0);
	assert_minus1_errno(rpoll(NULL, 1, 1), EFAULT);
}

static void rpoll_timeout_returns_0(void **state)
{
	struct pollfd fds[] = {{.fd = streams.passive, .events = POLLIN},
			       {.fd = event_fd, .events = POLLIN}};

	(void)state;
	assert_int_equal(rpoll(fds, 2, 3), 0);
	assert_int_equal(fds[0].revents, 0);
}

/* More descriptors than fit on the stack. */
static void rpoll_many_descriptors_succeed(void **state)
{
	enum { PAIRS = 20 };
	struct pollfd fds[2 * PAIRS];
	struct streams many[PAIRS];

	(void)state;
	for (int i = 0; i < PAIRS; i++) {
		streams_open(&many[i]);
		fds[2 * i] = (struct pollfd){.fd = many[i].passive, .events = POLLIN};
		fds[2 * i + 1] = (struct pollfd){.fd = event_fd, .events = POLLIN};
	}
	assert_int_equal(rpoll(fds, 2 * PAIRS, 0), 0);
	rs_send_pattern(many[17].active, 1, 0);
	assert_int_equal(rpoll(fds, 2 * PAIRS, PATIENCE_MS), 1);
	assert_int_equal(fds[34].revents, POLLIN);
	for (int i = 0; i < PAIRS; i++)
		streams_close(&many[i]);
}

static void *write_event(void *arg)
{
	eventfd_write(*(int *)arg, 1);
	return NULL;
}

static void rpoll_any_descriptor_wakes(void **state)
{
	struct pollfd fds[] = {{.fd = streams.passive, .events = POLLIN},
			       {.fd = event_fd, .events = POLLIN}};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, write_event, &event_fd), 0);
	assert_int_equal(rpoll(fds, 2, -1), 1);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static atomic_uint woken;

static void *poll_for_input(void *arg)
{
	short events = rs_await(*(int *)arg, POLLIN);

	atomic_fetch_add(&woken, 1);
	return (void *)(intptr_t)events;
}

/* All threads that wait for an rsocket are woken when one of them processes its completion. */
static void rpoll_several_threads_are_woken(void **state)
{
	enum { THREADS = 4, ROUNDS = 30 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];
		void *ret;

		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, poll_for_input,
							&streams.passive),
					 0);
		rs_send_pattern(streams.active, 10, (uint8_t)round);
		for (int i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(threads[i], &ret), 0);
			assert_true((intptr_t)ret & POLLIN);
		}
		rs_receive_pattern(streams.passive, 10, (uint8_t)round);
	}
}

static void *poll_to_the_end(void *arg)
{
	struct pollfd pollfd = {.fd = *(int *)arg, .events = POLLIN};

	return rpoll(&pollfd, 1, -1) == 1 ? (void *)(intptr_t)pollfd.revents : NULL;
}

static void rclose_wakes_rpoll(void **state)
{
	(void)state;
	/*
	 * The thread may call before, during and after the close: the call must return each time.
	 */
	for (int round = 0; round < 20; round++) {
		int fd = streams.passive;
		pthread_t thread;
		void *ret;

		assert_int_equal(pthread_create(&thread, NULL, poll_to_the_end, &fd), 0);
		rs_close(streams.passive);
		assert_int_equal(pthread_join(thread, &ret), 0);
		assert_true((intptr_t)ret & (POLLNVAL | POLLIN | POLLHUP));
		streams.passive = rs_stream(AF_INET);
	}
}

static void on_signal(int number)
{
	(void)number;
}

static void *poll_forever(void *arg)
{
	struct pollfd pollfd = {.fd = *(int *)arg, .events = POLLIN};

	return rpoll(&pollfd, 1, -1) < 0 ? (void *)(intptr_t)errno : NULL;
}

/* As with poll(2): no handler is called. */
static void rpoll_in_stopped_process_goes_on_waiting(void **state)
{
	pid_t parent = getpid(), child;
	pthread_t thread;
	void *ret;
	int status;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, poll_to_the_end, &streams.passive), 0);
	child = fork();
	for (int round = 0; !child && round < 10; round++) {
		poll(NULL, 0, 5);
		kill(parent, SIGSTOP);
		poll(NULL, 0, 1);
		kill(parent, SIGCONT);
	}
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	rs_send_pattern(streams.active, 1, 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, POLLIN);
}

/* As with poll(2), regardless of SA_RESTART. */
static void rpoll_signal_fails_with_eintr(void **state)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t thread;
	void *ret = NULL;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_forever, &streams.passive), 0);
	while (pthread_tryjoin_np(thread, &ret)) {
		pthread_kill(thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
	assert_int_equal((intptr_t)ret, EINTR);
}

static void rselect_mixed_descriptors_are_reported(void **state)
{
	struct timeval time = {.tv_sec = 10};
	fd_set in, out, except;
	int most = streams.passive > event_fd ? streams.passive : event_fd;

	(void)state;
	most = streams.active > most ? streams.active : most;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(streams.passive, &in);
	FD_SET(event_fd, &in);
	FD_SET(streams.active, &out);
	FD_SET(streams.active, &except);
	assert_int_equal(rselect(most + 1, &in, &out, &except, &time), 1);
	assert_false(FD_ISSET(streams.passive, &in));
	assert_false(FD_ISSET(event_fd, &in));
	assert_true(FD_ISSET(streams.active, &out));
	assert_false(FD_ISSET(streams.active, &except));
	assert_true(time.tv_sec == 9 || time.tv_sec == 10);
	rs_send_pattern(streams.active, 1, 0);
	eventfd_write(event_fd, 1);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	FD_SET(streams.passive, &in);
	FD_SET(event_fd, &in);
	assert_int_equal(rselect(most + 1, &in, NULL, NULL, NULL), 2);
	assert_true(FD_ISSET(streams.passive, &in) && FD_ISSET(event_fd, &in));
}

static void rselect_invalid_set_fails(void **state)
{
	struct timeval time = {.tv_usec = -1};
	fd_set in;
	int fd = dup(event_fd);

	(void)state;
	FD_ZERO(&in);
	assert_minus1_errno(rselect(1, &in, NULL, NULL, &time), EINVAL);
	time = (struct timeval){.tv_usec = 2000};
	assert_minus1_errno(rselect(-1, &in, NULL, NULL, &time), EINVAL);
	assert_int_equal(rselect(0, NULL, NULL, NULL, &time), 0);
	assert_int_equal(time.tv_usec, 0);
	FD_SET(fd, &in);
	close(fd);
	assert_minus1_errno(rselect(fd + 1, &in, NULL, NULL, NULL), EBADF);
}

/* As with select(2), the microseconds may exceed a second. */
static void rselect_microseconds_above_a_second_succeed(void **state)
{
	struct timeval time = {.tv_usec = 30 * 1000000};
	fd_set out;

	(void)state;
	FD_ZERO(&out);
	FD_SET(streams.active, &out);
	assert_int_equal(rselect(streams.active + 1, NULL, &out, NULL, &time), 1);
	assert_in_range(time.tv_sec, 25, 30);
	assert_in_range(time.tv_usec, 0, 999999);
	time = (struct timeval){.tv_sec = INT64_MAX, .tv_usec = 1000001};
	assert_int_equal(rselect(streams.active + 1, NULL, &out, NULL, &time), 1);
	assert_true(time.tv_sec > INT32_MAX);
}

/* Programs that pass the limit of descriptors as nfds, although their sets are smaller. */
static void rselect_reads_no_further_than_sets(void **state)
{
	struct timeval time = {.tv_sec = 10};
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *pages;
	fd_set *out;

	(void)state;
	pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, (size_t)page, PROT_NONE), 0);
	out = (fd_set *)(void *)(pages + page - sizeof(*out));
	FD_ZERO(out);
	FD_SET(streams.active, out);
	assert_int_equal(rselect(INT_MAX, NULL, out, NULL, &time), 1);
	assert_true(FD_ISSET(streams.active, out));
	assert_int_equal(munmap(pages, 2 * (size_t)page), 0);
}

static void rselect_end_of_stream_is_readable(void **state)
{
	fd_set in;

	(void)state;
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	FD_ZERO(&in);
	FD_SET(streams.passive, &in);
	assert_int_equal(rselect(streams.passive + 1, &in, NULL, NULL, NULL), 1);
	assert_true(FD_ISSET(streams.passive, &in));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rpoll_mixed_descriptors_are_reported),
		CASE(rpoll_ordinary_descriptors_are_reported),
		CASE(rpoll_timeout_returns_0),
		CASE(rpoll_many_descriptors_succeed),
		CASE(rpoll_any_descriptor_wakes),
		CASE(rpoll_several_threads_are_woken),
		CASE(rclose_wakes_rpoll),
		CASE(rpoll_in_stopped_process_goes_on_waiting),
		CASE(rpoll_signal_fails_with_eintr),
		CASE(rselect_mixed_descriptors_are_reported),
		CASE(rselect_invalid_set_fails),
		CASE(rselect_microseconds_above_a_second_succeed),
		CASE(rselect_reads_no_further_than_sets),
		CASE(rselect_end_of_stream_is_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
