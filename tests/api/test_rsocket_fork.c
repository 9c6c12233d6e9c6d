/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

/* A fork()ed child's use of its copies of rsockets and repoll sets does not affect the parent. */

static struct streams streams;

static int open_streams(void **state)
{
	(void)state;
	streams_open(&streams);
	return 0;
}

static int close_streams(void **state)
{
	(void)state;
	streams_close(&streams);
	return 0;
}

/* Runs `body` in a child, which must exit with status 0; SIGALRM ends a child that hangs. */
static void in_child(int (*body)(void))
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		alarm(PATIENCE_MS / 1000);
		_exit(body());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void streams_work(uint8_t seed)
{
	rs_send_pattern(streams.active, 100000, seed);
	rs_receive_pattern(streams.passive, 100000, seed);
	rs_send_pattern(streams.passive, 1000, seed);
	rs_receive_pattern(streams.active, 1000, seed);
}

static int close_all_and_open(void)
{
	char byte = 0;

	closefrom(3);
	/* The numbers of the rsockets' descriptors refer to other files now. */
	for (int fd = 3; fd < 40; fd++)
		if (open("/dev/null", O_RDWR) != fd)
			return 1;
	if (!refuses_minus1(rsend(streams.active, &byte, 1, 0), ENODEV))
		return 2;
	for (int fd = 3; fd < 40; fd++)
		if (write(fd, "x", 1) != 1)
			return 3;
#ifndef __SANITIZE_ADDRESS__
	/*
	 * LeakSanitizer would report the copies of the parent's objects, which are unreachable in
	 * the child.
	 */
	exit(0);
#endif
	return 0;
}

static void rclose_all_in_forked_child_leaves_streams_of_parent(void **state)
{
	(void)state;
	in_child(close_all_and_open);
	streams_work(1);
}

static int set_fd;

static int use_each_call(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int own = repoll_create(0);

	if (!refuses_minus1(rread(streams.passive, &event, 1), ENODEV) ||
	    !refuses_minus1(rshutdown(streams.active, SHUT_RDWR), ENODEV) ||
	    !refuses(repoll_ctl(own, EPOLL_CTL_ADD, streams.active, &event), ENODEV) ||
	    !refuses(repoll_ctl(set_fd, EPOLL_CTL_MOD, streams.passive, &event), ENODEV))
		return 1;
	/* The parent's rsockets are not members of the copy of the set. */
	if (repoll_wait(set_fd, &event, 1, 0))
		return 2;
	return rclose(set_fd) || rclose(own) || fcntl(set_fd, F_GETFD) != -1 ? 3 : 0;
}

static void repoll_create_in_forked_child_fails_with_enodev(void **state)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = streams.passive};

	(void)state;
	set_fd = repoll_create(0);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, streams.passive, &event), 0);
	rs_send_pattern(streams.active, 10, 1);
	in_child(use_each_call);
	assert_int_equal(repoll_wait(set_fd, &event, 1, -1), 1);
	rs_receive_pattern(streams.passive, 10, 1);
	assert_int_equal(rclose(set_fd), 0);
	streams_work(2);
}

/*
 * EINTR: fork() blocks all signals of its thread since glibc 2.41. If a child ends in this time,
 * the kernel interrupts another thread for the SIGCHLD, although it is ignored.
 */
static void *wait_for_bytes(void *arg)
{
	struct epoll_event event;
	int count;

	do {
		count = repoll_wait(*(int *)arg, &event, 1, -1);
	} while (count < 0 && errno == EINTR);
	return (void *)(intptr_t)count;
}

/* The sum of the values of this process's eventfds. */
static unsigned long count_events(void)
{
	DIR *dir = opendir("/proc/self/fdinfo");
	unsigned long sum = 0;
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char path[300], line[100];
		unsigned long count;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "eventfd-count: %lx", &count) == 1)
				sum += count;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return sum;
}

/*
 * The child has copies of the waits of its parent's threads, and of the eventfds that wake them.
 * Both processes share the values of the eventfds.
 */
static int close_member_and_set(void)
{
	unsigned long before = count_events();

	if (rclose(streams.passive))
		return 1;
	/* A thread of the parent may signal another one just now; that thread takes the signal. */
	for (int tries = 0; count_events() > before; tries++) {
		if (tries >= PATIENCE_MS / 20)
			return 2;
		poll(NULL, 0, 10);
	}
	return rclose(set_fd) ? 3 : 0;
}

static void rclose_in_forked_child_wakes_no_thread_of_parent(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	pthread_t threads[3];

	(void)state;
	set_fd = repoll_create(EPOLL_CLOEXEC);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, streams.passive, &event), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_bytes, &set_fd), 0);
	for (int round = 0; round < 20; round++) {
		in_child(close_member_and_set);
		poll(NULL, 0, 1);
	}
	rs_send_pattern(streams.active, 10, 1);
	for (int i = 0; i < 3; i++) {
		void *ret;

		pthread_join(threads[i], &ret);
		assert_int_equal((intptr_t)ret, 1);
	}
	rs_receive_pattern(streams.passive, 10, 1);
	assert_int_equal(rclose(set_fd), 0);
}

static atomic_bool is_over;

/* Holds the lock of the rsocket most of the time. */
static void *ask_again_and_again(void *arg)
{
	char byte;

	(void)arg;
	while (!is_over)
		(void)!rrecv(streams.passive, &byte, 1, MSG_DONTWAIT);
	return NULL;
}

static int poll_and_close(void)
{
	struct pollfd pollfd = {.fd = streams.passive, .events = POLLIN};
	fd_set in;

	if (rpoll(&pollfd, 1, -1) != 1 || pollfd.revents != POLLNVAL)
		return 1;
	FD_ZERO(&in);
	FD_SET(streams.passive, &in);
	if (!refuses_minus1(rselect(streams.passive + 1, &in, NULL, NULL, NULL), EBADF))
		return 2;
	return rclose(streams.passive);
}

/* A thread of the parent holds the rsocket's lock during some of these fork() calls. */
static void rsend_in_forked_child_needs_no_lock_of_parent(void **state)
{
	pthread_t thread;

	(void)state;
	is_over = false;
	assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, NULL), 0);
	for (int round = 0; round < 50; round++)
		in_child(poll_and_close);
	is_over = true;
	pthread_join(thread, NULL);
	streams_work(3);
}

static atomic_bool is_changing;

static void *change_again_and_again(void *arg)
{
	struct epoll_event event = {.events = EPOLLIN};
	int set = *(int *)arg;

	while (!is_over) {
		(void)repoll_ctl(set, EPOLL_CTL_ADD, streams.passive, &event);
		(void)repoll_wait(set, &event, 1, 0);
		(void)repoll_ctl(set, EPOLL_CTL_DEL, streams.passive, NULL);
		is_changing = true;
	}
	return NULL;
}

static int close_set_and_make_one(void)
{
	int own;

	if (rclose(streams.passive) || rclose(set_fd))
		return 1;
	own = repoll_create(0);
	return own < 0 || rclose(own) ? 2 : 0;
}

/* Lists of the library that a thread changes during fork() are consistent in the child. */
static void repoll_wait_in_forked_child_has_consistent_lists(void **state)
{
	pthread_t thread;

	(void)state;
	is_over = false;
	set_fd = repoll_create(0);
	assert_int_equal(pthread_create(&thread, NULL, change_again_and_again, &set_fd), 0);
	while (!is_changing)
		poll(NULL, 0, 1);
	for (int round = 0; round < 50; round++)
		in_child(close_set_and_make_one);
	is_over = true;
	pthread_join(thread, NULL);
	assert_int_equal(rclose(set_fd), 0);
	streams_work(4);
}

/*
 * Accepts one connection, forks a child that keeps its copies, reports the child's process ID, and
 * is killed.
 */
static void be_a_server(int listener_report, int report)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 1), connection;
	pid_t keeper;

	if (write(listener_report, &addr, sizeof(addr)) != sizeof(addr))
		_exit(1);
	connection = rs_accept(listener);
	if (rsend(connection, "x", 1, 0) != 1)
		_exit(2);
	keeper = fork();
	if (!keeper)
		while (true)
			pause();
	if (write(report, &keeper, sizeof(keeper)) != sizeof(keeper))
		_exit(3);
	kill(getpid(), SIGKILL);
}

static void rrecv_killed_peer_with_forked_child_ends(void **state)
{
	int addr_pipe[2], pid_pipe[2], connection, status;
	struct sockaddr_storage addr;
	pid_t server, keeper;
	char byte;

	(void)state;
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer ends the child of a process with threads when the child creates one. */
	skip();
#endif
	assert_false(pipe(addr_pipe) || pipe(pid_pipe));
	fflush(NULL);
	server = fork();
	assert_true(server >= 0);
	if (!server)
		be_a_server(addr_pipe[1], pid_pipe[1]);
	/*
	 * Without these copies a server that ends early is an end of file, and not a wait without
	 * end.
	 */
	close(addr_pipe[1]);
	close(pid_pipe[1]);
	assert_int_equal(read(addr_pipe[0], &addr, sizeof(addr)), sizeof(addr));
	connection = rs_connect(&addr);
	assert_int_equal(rrecv(connection, &byte, 1, 0), 1);
	assert_int_equal(read(pid_pipe[0], &keeper, sizeof(keeper)), sizeof(keeper));
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_minus1_errno(rrecv(connection, &byte, 1, 0), ECONNRESET);
	assert_int_equal(kill(keeper, SIGKILL), 0);
	rs_close(connection);
	close(addr_pipe[0]);
	close(pid_pipe[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rclose_all_in_forked_child_leaves_streams_of_parent),
		TEST(repoll_create_in_forked_child_fails_with_enodev),
		TEST(rclose_in_forked_child_wakes_no_thread_of_parent),
		TEST(rsend_in_forked_child_needs_no_lock_of_parent),
		TEST(repoll_wait_in_forked_child_has_consistent_lists),
		cmocka_unit_test(rrecv_killed_peer_with_forked_child_ends),
	};

	return cmocka_run_group_tests_name("rsocket_fork", tests, NULL, NULL);
}
