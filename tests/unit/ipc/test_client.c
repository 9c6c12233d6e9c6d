/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/client.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdpass.h"
#include "descriptors.h"

/*
 * A client whose other end is controlled by the test: the daemon's reply is written before the
 * call.
 */
static struct ipc_client client;
static int far_end;

static int setup(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	client = (struct ipc_client){.fd = pair[0], .page_fd = -1, .seq = 41};
	pthread_mutex_init(&client.lock, NULL);
	ipc_queue_init(&client.queue);
	far_end = pair[1];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ipc_client_close(&client);
	if (far_end >= 0)
		close(far_end);
	return 0;
}

static void response(const void *reply, uint32_t len, const int *fds, int nfds)
{
	assert_int_equal(ipc_send(far_end, reply, len, fds, nfds), 0);
}

static int connect_peer(void)
{
	struct ipc_connect_peer request = {.hdr.type = IPC_CONNECT_PEER, .slot = 5};
	struct ipc_reply reply;

	return ipc_call(&client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
}

static struct ipc_reply good_answer(void)
{
	return (struct ipc_reply){
		.hdr = {.type = IPC_CONNECT_PEER, .seq = 42, .len = sizeof(struct ipc_reply)}};
}

static void ipc_call_returns_reply(void **state)
{
	struct ipc_reply reply = good_answer();
	struct ipc_connect_peer seen;
	int nfds;

	(void)state;
	response(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(connect_peer(), 0);
	assert_int_equal(fdpass_recv(far_end, &seen, sizeof(seen), NULL, 0, &nfds, 0),
			 sizeof(seen));
	assert_int_equal(seen.hdr.seq, 42);
	assert_int_equal(seen.hdr.len, sizeof(seen));
	assert_int_equal(seen.slot, 5);

	reply.hdr.seq = 43;
	reply.hdr.status = -ENOENT;
	response(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(connect_peer(), -ENOENT);
	assert_true(client.fd >= 0);
}

static void ipc_call_fd_passes_descriptors(void **state)
{
	struct ipc_segment request = {.hdr.type = IPC_SEGMENT, .segment_bytes = 4096};
	struct ipc_reply reply = good_answer();
	int segment = client.fd, got[2], nfds, passed = -1;

	(void)state;
	reply.hdr.type = IPC_SEGMENT;
	response(&reply, sizeof(reply), &far_end, 1);
	assert_int_equal(ipc_call_fd(&client, &request, sizeof(request), &segment, 1, &reply,
				     sizeof(reply), &passed),
			 0);
	assert_true(passed >= 0);
	close(passed);
	assert_int_equal(fdpass_recv(far_end, &request, sizeof(request), got, 2, &nfds, 0),
			 sizeof(request));
	assert_int_equal(nfds, 1);
	fdpass_close(got, nfds);
	/* An invalid descriptor: an error of this call, not of the connection. */
	segment = -1;
	assert_int_equal(ipc_call_fd(&client, &request, sizeof(request), &segment, 1, &reply,
				     sizeof(reply), &passed),
			 -EBADF);
	assert_true(client.fd >= 0);
	/* A caller that does not accept a reply's descriptor cannot have intended this call. */
	assert_int_equal(ipc_call(&client, &request, sizeof(request), &segment, 1, &reply,
				  sizeof(reply)),
			 -EINVAL);
}

/* If the process has no free descriptor for the reply's descriptor, only this call fails. */
static void ipc_call_fd_without_free_descriptor_fails_with_emfile(void **state)
{
	struct ipc_segment request = {.hdr.type = IPC_SEGMENT, .segment_bytes = 4096};
	struct ipc_reply reply = good_answer();
	int segment = client.fd, lowest, passed = -1;
	struct rlimit before, none;

	(void)state;
	reply.hdr.type = IPC_SEGMENT;
	response(&reply, sizeof(reply), &far_end, 1);
	lowest = dup(client.fd);
	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){(rlim_t)lowest, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(ipc_call_fd(&client, &request, sizeof(request), &segment, 1, &reply,
				     sizeof(reply), &passed),
			 -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(passed, -1);
	assert_true(client.fd >= 0);
	reply = good_answer();
	reply.hdr.seq = 43;
	response(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(connect_peer(), 0);
}

/* The same for a push: the message was received. */
static void ipc_recv_without_free_descriptor_returns_message(void **state)
{
	struct ipc_delegate push = {.hdr = {.type = IPC_DELEGATE, .len = sizeof(push)}, .slot = 3},
			    got;
	int fds[IPC_FDS_MAX], nfds, lowest;
	struct rlimit before, none;

	(void)state;
	response(&push, sizeof(push), &far_end, 1);
	lowest = dup(client.fd);
	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){(rlim_t)lowest, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), sizeof(got));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(nfds, FDPASS_LOST);
	assert_int_equal(got.slot, 3);
}

static void ipc_call_wrong_size_fails_with_einval(void **state)
{
	struct ipc_connect_peer request = {.hdr.type = IPC_CONNECT_PEER};
	struct ipc_reply reply;

	(void)state;
	assert_int_equal(ipc_call(&client, &request, 16, NULL, 0, &reply, sizeof(reply)), -EINVAL);
	assert_int_equal(ipc_call(&client, &request, sizeof(request), NULL, 0, &reply, 8), -EINVAL);
	assert_int_equal(ipc_call(&client, &request, sizeof(request), &far_end, 1, &reply,
				  sizeof(reply)),
			 -EINVAL);
	request.hdr.type = IPC_TYPE_COUNT;
	assert_int_equal(ipc_call(&client, &request, sizeof(request), NULL, 0, &reply,
				  sizeof(reply)),
			 -EINVAL);
}

/* After any protocol error of the daemon the client is dead, and later calls fail immediately. */
static void expect_death(void)
{
	assert_int_equal(connect_peer(), -ENODEV);
	assert_int_equal(client.fd, -1);
	assert_true(ipc_client_is_lost(&client));
	assert_int_equal(connect_peer(), -ENODEV);
}

static void ipc_call_wrong_sequence_number_fails(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.seq = 41;
	response(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void ipc_call_wrong_reply_type_fails(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.type = IPC_SEGMENT;
	response(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void ipc_call_positive_status_fails(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.status = ENOENT;
	response(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void ipc_call_short_reply_fails(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	response(&reply, sizeof(reply) - 1, NULL, 0);
	expect_death();
}

static void ipc_call_long_reply_fails(void **state)
{
	struct {
		struct ipc_reply reply;
		uint32_t more;
	} msg = {.reply = good_answer()};

	(void)state;
	msg.reply.hdr.len = sizeof(msg);
	response(&msg, sizeof(msg), NULL, 0);
	expect_death();
}

static void ipc_call_unexpected_descriptors_are_closed(void **state)
{
	struct ipc_reply reply = good_answer();
	int before = count_descriptors();

	(void)state;
	response(&reply, sizeof(reply), &far_end, 1);
	expect_death();
	/* The client's descriptor is closed, and received descriptors are not kept. */
	assert_int_equal(count_descriptors(), before - 1);
}

static void ipc_call_closed_connection_fails_with_enodev(void **state)
{
	(void)state;
	close(far_end);
	far_end = -1;
	expect_death();
}

/*
 * A daemon that rejects a client sends a reply and closes the connection before it reads the
 * request.
 */
static void ipc_call_reply_before_close_is_returned(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.status = -EDQUOT;
	response(&reply, sizeof(reply), NULL, 0);
	close(far_end);
	far_end = -1;
	assert_int_equal(connect_peer(), -EDQUOT);
	expect_death();
}

static void ipc_recv_returns_message_and_descriptors(void **state)
{
	struct ipc_peer peer = {.hdr = {.type = IPC_PEER, .len = sizeof(peer)}, .slot = 3};
	struct ipc_peer got;
	int two[2] = {far_end, far_end}, fds[IPC_FDS_MAX], nfds;

	(void)state;
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EAGAIN);
	response(&peer, sizeof(peer), two, 2);
	assert_int_equal(ipc_recv(client.fd, false, &got, sizeof(got), fds, &nfds), sizeof(got));
	assert_int_equal(nfds, 2);
	assert_int_equal(got.slot, 3);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	fdpass_close(fds, nfds);
}

static void ipc_recv_malformed_message_fails(void **state)
{
	struct ipc_peer peer = {.hdr = {.type = IPC_PEER, .len = sizeof(peer)}};
	struct ipc_peer got;
	int many[FDPASS_MAX], fds[IPC_FDS_MAX], nfds, before = count_descriptors();

	(void)state;
	for (int i = 0; i < FDPASS_MAX; i++)
		many[i] = far_end;
	response(&peer, sizeof(peer), many, 1);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	response(&peer, sizeof(peer), many, 4);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	response(&peer, sizeof(peer), many, FDPASS_MAX);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	response(&peer, sizeof(peer) - 4, many, 2);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	response(&peer, sizeof(peer), many, 2);
	assert_int_equal(ipc_recv(client.fd, true, &got, 32, fds, &nfds), -EPROTO);
	assert_int_equal(nfds, 0);
	assert_int_equal(count_descriptors(), before);
	close(far_end);
	far_end = -1;
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -ENODEV);
}

/* In a fork()ed child the copy of the lock is held by a thread that does not exist in the child. */
static void ipc_client_forget_in_forked_child_releases_lock(void **state)
{
	int status;
	pid_t child;

	(void)state;
	pthread_mutex_lock(&client.lock);
	child = fork();
	if (child == 0) {
		ipc_client_forget(&client);
		_exit(client.fd == -1 && connect_peer() == -ENODEV ? 0 : 1);
	}
	pthread_mutex_unlock(&client.lock);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Requests with these slots, so that the test recognises them. */
static int tell_in_order(uint32_t slot)
{
	struct ipc_connect_peer request = {.hdr.type = IPC_CONNECT_PEER, .slot = slot};
	struct ipc_queued *memory = malloc(sizeof(*memory));

	assert_non_null(memory);
	return ipc_send_in_order(&client, &request, sizeof(request), memory);
}

/* The slot of the next request that the daemon receives; 0: no request. */
static uint32_t received_slot(void)
{
	struct ipc_connect_peer seen = {0};
	int nfds;

	if (fdpass_recv(far_end, &seen, sizeof(seen), NULL, 0, &nfds, MSG_DONTWAIT) < 0)
		return 0;
	assert_int_equal(seen.hdr.len, sizeof(seen));
	return seen.slot;
}

static void *hold_lock(void *arg)
{
	pthread_barrier_t *const steps = arg;

	pthread_mutex_lock(&client.lock);
	pthread_barrier_wait(steps);
	pthread_barrier_wait(steps);
	pthread_mutex_unlock(&client.lock);
	return NULL;
}

static void ipc_client_queued_requests_are_sent_before_later_call(void **state)
{
	struct ipc_reply reply = good_answer();
	pthread_barrier_t steps;
	pthread_t holder;

	(void)state;
	assert_int_equal(tell_in_order(1), 0);
	assert_int_equal(received_slot(), 1);
	/* Another thread waits for a reply. */
	pthread_barrier_init(&steps, NULL, 2);
	assert_int_equal(pthread_create(&holder, NULL, hold_lock, &steps), 0);
	pthread_barrier_wait(&steps);
	assert_int_equal(tell_in_order(2), -EAGAIN);
	assert_int_equal(tell_in_order(3), -EAGAIN);
	assert_int_equal(ipc_flush(&client), -EAGAIN);
	pthread_barrier_wait(&steps);
	assert_int_equal(pthread_join(holder, NULL), 0);
	pthread_barrier_destroy(&steps);
	assert_int_equal(received_slot(), 0);
	reply.hdr.seq = client.seq + 3;
	response(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(connect_peer(), 0);
	assert_int_equal(received_slot(), 2);
	assert_int_equal(received_slot(), 3);
	assert_int_equal(received_slot(), 5);
	assert_int_equal(ipc_flush(&client), 0);
}

static void *call_and_get_reply(void *arg)
{
	*(int *)arg = connect_peer();
	return NULL;
}

/*
 * The caller that waits for a reply sends the requests that other threads queued during the wait.
 */
static void ipc_client_waiting_caller_sends_queued_requests_afterwards(void **state)
{
	struct ipc_reply reply = good_answer();
	struct ipc_connect_peer seen;
	pthread_t caller;
	int nfds, ret = 1;

	(void)state;
	assert_int_equal(pthread_create(&caller, NULL, call_and_get_reply, &ret), 0);
	/* The call is in progress when its request arrives. */
	assert_int_equal(fdpass_recv(far_end, &seen, sizeof(seen), NULL, 0, &nfds, 0),
			 sizeof(seen));
	assert_int_equal(tell_in_order(2), -EAGAIN);
	assert_int_equal(received_slot(), 0);
	response(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(pthread_join(caller, NULL), 0);
	assert_int_equal(ret, 0);
	assert_int_equal(received_slot(), 2);
}

static void ipc_client_queued_requests_wait_for_full_send_buffer(void **state)
{
	uint32_t notified = 0;
	int ret;

	(void)state;
	do {
		ret = tell_in_order(++notified);
	} while (!ret);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(tell_in_order(++notified), -EAGAIN);
	assert_int_equal(ipc_flush(&client), -EAGAIN);
	for (uint32_t slot = 1; slot <= notified; slot++) {
		uint32_t seen = received_slot();

		if (!seen) {
			assert_int_equal(ipc_flush(&client), 0);
			seen = received_slot();
		}
		assert_int_equal(seen, slot);
	}
	assert_int_equal(received_slot(), 0);
}

static void ipc_client_queued_requests_end_with_connection(void **state)
{
	(void)state;
	close(far_end);
	far_end = -1;
	assert_int_equal(tell_in_order(1), 0);
	assert_int_equal(client.fd, -1);
	assert_int_equal(tell_in_order(2), 0);
	assert_int_equal(ipc_flush(&client), 0);
}

static void ipc_client_queued_request_must_have_type_without_reply(void **state)
{
	struct ipc_device_get request = {.hdr.type = IPC_DEVICE_GET};
	struct ipc_queued *memory = malloc(sizeof(*memory));

	(void)state;
	assert_int_equal(ipc_send_in_order(&client, &request, sizeof(request), memory), -EINVAL);
	assert_int_equal(received_slot(), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ipc_call_returns_reply),
		CASE(ipc_call_fd_passes_descriptors),
		CASE(ipc_call_fd_without_free_descriptor_fails_with_emfile),
		CASE(ipc_recv_without_free_descriptor_returns_message),
		CASE(ipc_call_wrong_size_fails_with_einval),
		CASE(ipc_call_wrong_sequence_number_fails),
		CASE(ipc_call_wrong_reply_type_fails),
		CASE(ipc_call_positive_status_fails),
		CASE(ipc_call_short_reply_fails),
		CASE(ipc_call_long_reply_fails),
		CASE(ipc_call_unexpected_descriptors_are_closed),
		CASE(ipc_call_closed_connection_fails_with_enodev),
		CASE(ipc_call_reply_before_close_is_returned),
		CASE(ipc_recv_returns_message_and_descriptors),
		CASE(ipc_recv_malformed_message_fails),
		CASE(ipc_client_forget_in_forked_child_releases_lock),
		CASE(ipc_client_queued_requests_are_sent_before_later_call),
		CASE(ipc_client_waiting_caller_sends_queued_requests_afterwards),
		CASE(ipc_client_queued_requests_wait_for_full_send_buffer),
		CASE(ipc_client_queued_requests_end_with_connection),
		CASE(ipc_client_queued_request_must_have_type_without_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
