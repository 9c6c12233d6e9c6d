/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Several threads on one rsocket, several concurrent threads on many rsockets, and the use in a
 * fork()ed child.
 */

enum { CHUNK = 3001 };

struct flow {
	int socket;
	size_t bytes;
	bool is_good;
};

/* A thread polls if the stream is full or empty, so that all kinds of waits occur concurrently. */
static bool await(int socket, short events)
{
	struct pollfd pollfd = {.fd = socket, .events = events};

	return errno == EAGAIN && rpoll(&pollfd, 1, PATIENCE_MS) == 1;
}

static void *send_flow(void *arg)
{
	struct flow *flow = arg;
	uint8_t *bytes = malloc(flow->bytes);
	size_t sent = 0;
	int flags = 0;

	pattern_fill(bytes, flow->bytes, 1);
	while (sent < flow->bytes) {
		size_t part = flow->bytes - sent < CHUNK ? flow->bytes - sent : CHUNK;
		ssize_t count = rsend(flow->socket, bytes + sent, part, flags);

		if (count < 0 && !await(flow->socket, POLLOUT))
			break;
		sent += count > 0 ? (size_t)count : 0;
		flags ^= MSG_DONTWAIT;
	}
	flow->is_good = sent == flow->bytes;
	free(bytes);
	return NULL;
}

static void *receive_flow(void *arg)
{
	struct flow *flow = arg;
	uint8_t *bytes = malloc(flow->bytes);
	size_t received = 0;
	int flags = 0;

	while (received < flow->bytes) {
		ssize_t count = rrecv(flow->socket, bytes + received, flow->bytes - received,
				      flags);

		if (!count || (count < 0 && !await(flow->socket, POLLIN)))
			break;
		received += count > 0 ? (size_t)count : 0;
		flags ^= MSG_DONTWAIT;
	}
	flow->is_good = received == flow->bytes && pattern_holds(bytes, flow->bytes, 1);
	free(bytes);
	return NULL;
}

static atomic_bool has_ended;

static void *poll_all_the_time(void *arg)
{
	struct pollfd pollfd = {.fd = *(int *)arg, .events = POLLIN | POLLOUT};

	while (!atomic_load(&has_ended)) {
		rpoll(&pollfd, 1, 1);
		rs_get(*(int *)arg, SOL_SOCKET, SO_ERROR);
	}
	return NULL;
}

/* One sender, one receiver and one polling thread on either side of one connection. */
static void rsend_both_directions_at_once_deliver_all(void **state)
{
	const size_t bytes = 2000003;
	struct streams streams;
	pthread_t threads[6];

	(void)state;
	atomic_store(&has_ended, false);
	streams_open(&streams);
	{
		struct flow flows[] = {{streams.active, bytes, false},
				       {streams.passive, bytes, false},
				       {streams.active, bytes, false},
				       {streams.passive, bytes, false}};

		assert_int_equal(pthread_create(&threads[0], NULL, send_flow, &flows[0]), 0);
		assert_int_equal(pthread_create(&threads[1], NULL, send_flow, &flows[1]), 0);
		assert_int_equal(pthread_create(&threads[2], NULL, receive_flow, &flows[2]), 0);
		assert_int_equal(pthread_create(&threads[3], NULL, receive_flow, &flows[3]), 0);
		assert_int_equal(
			pthread_create(&threads[4], NULL, poll_all_the_time, &streams.active), 0);
		assert_int_equal(
			pthread_create(&threads[5], NULL, poll_all_the_time, &streams.passive), 0);
		for (int i = 0; i < 4; i++) {
			assert_int_equal(pthread_join(threads[i], NULL), 0);
			assert_true(flows[i].is_good);
		}
	}
	atomic_store(&has_ended, true);
	assert_int_equal(pthread_join(threads[4], NULL), 0);
	assert_int_equal(pthread_join(threads[5], NULL), 0);
	streams_close(&streams);
}

static void *connect_and_talk(void *arg)
{
	struct sockaddr_storage *addr = arg;

	for (uint8_t i = 0; i < 10; i++) {
		int fd = rs_connect(addr);

		rs_send_pattern(fd, 1000, i);
		assert_int_equal(rshutdown(fd, SHUT_WR), 0);
		rs_receive_pattern(fd, 1000, 1);
		rs_close(fd);
	}
	return NULL;
}

static void *accept_and_talk(void *arg)
{
	uint8_t bytes[1000];

	for (int i = 0; i < 20; i++) {
		int fd = raccept(*(int *)arg, NULL, NULL);

		assert_true(fd >= 0);
		assert_int_equal(rrecv(fd, bytes, sizeof(bytes), MSG_WAITALL), 1000);
		assert_int_equal(rrecv(fd, bytes, 1, 0), 0);
		rs_send_pattern(fd, 1000, 1);
		rs_close(fd);
	}
	return NULL;
}

/* Two threads repeatedly accept the connections of four threads. */
static void raccept_concurrent_threads_accept_all(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 2);
	pthread_t threads[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < 4 ? connect_and_talk : accept_and_talk,
						i < 4 ? (void *)&addr : (void *)&listener),
				 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	rs_close(listener);
}

static int finish(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/*
 * ThreadSanitizer confuses a child's threads with those of its parent, which have the same stacks.
 */
#ifdef __SANITIZE_THREAD__
static const bool child_may_start_threads = false;
#else
static const bool child_may_start_threads = true;
#endif

/* In the child: its parent's rsockets are closed, and it can create its own. */
static int be_a_child(struct streams *parents)
{
	struct streams own;
	char byte = 0;

	if (rsend(parents->active, &byte, 1, 0) != -1 || errno != ENODEV)
		return 1;
	if (raccept(parents->listener, NULL, NULL) != -1 || errno != ENODEV)
		return 2;
	if (rs_look(parents->passive, POLLIN) != POLLNVAL)
		return 3;
	if (rclose(parents->active) || rclose(parents->passive) || rclose(parents->listener))
		return 4;
	if (rclose(parents->active) != -1 || errno != EBADF)
		return 5;
	if (!child_may_start_threads)
		return 0;
	streams_open(&own);
	rs_send_pattern(own.active, 1000, 1);
	rs_receive_pattern(own.passive, 1000, 1);
	streams_close(&own);
	return 0;
}

static void rsocket_forked_child_leaves_connections_of_parent(void **state)
{
	struct streams streams;
	pid_t child;

	(void)state;
	streams_open(&streams);
	rs_send_pattern(streams.active, 500, 1);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(be_a_child(&streams));
	assert_int_equal(finish(child), 0);
	rs_receive_pattern(streams.passive, 500, 1);
	rs_send_pattern(streams.passive, 100000, 2);
	rs_receive_pattern(streams.active, 100000, 2);
	streams_close(&streams);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsend_both_directions_at_once_deliver_all),
		cmocka_unit_test(raccept_concurrent_threads_accept_all),
		cmocka_unit_test(rsocket_forked_child_leaves_connections_of_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
