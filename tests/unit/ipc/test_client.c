/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdpass.h"

/* A client whose other end is in the test's hand: what the daemon would answer is put there before the call. */
static struct ipc_client client;
static int far_end;

static int setup(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	client = (struct ipc_client){.fd = pair[0], .seq = 41};
	pthread_mutex_init(&client.lock, NULL);
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

static int open_fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void answer(const void *reply, uint32_t len, const int *fds, int nfds)
{
	assert_int_equal(ipc_send(far_end, reply, len, fds, nfds), 0);
}

static int introduce(void)
{
	struct ipc_introduce request = {.hdr.type = IPC_INTRODUCE, .slot = 5};
	struct ipc_reply reply;

	return ipc_call(&client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
}

static struct ipc_reply good_answer(void)
{
	return (struct ipc_reply){
		.hdr = {.type = IPC_INTRODUCE, .seq = 42, .len = sizeof(struct ipc_reply)}};
}

static void test_call(void **state)
{
	struct ipc_reply reply = good_answer();
	struct ipc_introduce seen;
	int nfds;

	(void)state;
	answer(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(introduce(), 0);
	assert_int_equal(fdpass_recv(far_end, &seen, sizeof(seen), NULL, 0, &nfds, 0),
			 sizeof(seen));
	assert_int_equal(seen.hdr.seq, 42);
	assert_int_equal(seen.hdr.len, sizeof(seen));
	assert_int_equal(seen.slot, 5);

	reply.hdr.seq = 43;
	reply.hdr.status = -ENOENT;
	answer(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(introduce(), -ENOENT);
	assert_true(client.fd >= 0);
}

static void test_call_with_descriptors(void **state)
{
	struct ipc_segment request = {.hdr.type = IPC_SEGMENT, .segment_bytes = 4096};
	struct ipc_reply reply = good_answer();
	int fds[2] = {client.fd, client.fd}, got[2], nfds;

	(void)state;
	reply.hdr.type = IPC_SEGMENT;
	answer(&reply, sizeof(reply), NULL, 0);
	assert_int_equal(
		ipc_call(&client, &request, sizeof(request), fds, 2, &reply, sizeof(reply)), 0);
	assert_int_equal(fdpass_recv(far_end, &request, sizeof(request), got, 2, &nfds, 0),
			 sizeof(request));
	assert_int_equal(nfds, 2);
	fdpass_close(got, nfds);
	/* A descriptor that is none: an error of this call, not the end of the connection. */
	fds[1] = -1;
	assert_int_equal(ipc_call(&client, &request, sizeof(request), fds, 2, &reply,
				  sizeof(reply)),
			 -EBADF);
	assert_true(client.fd >= 0);
}

static void test_wrong_sizes_are_the_callers_fault(void **state)
{
	struct ipc_introduce request = {.hdr.type = IPC_INTRODUCE};
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

/* Whatever the daemon gets wrong, the client is dead afterwards and says so at once the next time. */
static void expect_death(void)
{
	assert_int_equal(introduce(), -ENODEV);
	assert_int_equal(client.fd, -1);
	assert_int_equal(introduce(), -ENODEV);
}

static void test_wrong_seq(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.seq = 41;
	answer(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void test_wrong_type(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.type = IPC_SEGMENT;
	answer(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void test_positive_status(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.status = ENOENT;
	answer(&reply, sizeof(reply), NULL, 0);
	expect_death();
}

static void test_short_answer(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	answer(&reply, sizeof(reply) - 1, NULL, 0);
	expect_death();
}

static void test_long_answer(void **state)
{
	struct {
		struct ipc_reply reply;
		uint32_t more;
	} msg = {.reply = good_answer()};

	(void)state;
	msg.reply.hdr.len = sizeof(msg);
	answer(&msg, sizeof(msg), NULL, 0);
	expect_death();
}

static void test_answer_with_descriptors(void **state)
{
	struct ipc_reply reply = good_answer();
	int before = open_fd_count();

	(void)state;
	answer(&reply, sizeof(reply), &far_end, 1);
	expect_death();
	/* The client's own is closed, what came along is not kept. */
	assert_int_equal(open_fd_count(), before - 1);
}

static void test_end_of_stream(void **state)
{
	(void)state;
	close(far_end);
	far_end = -1;
	expect_death();
}

/* A daemon that turns a client away answers first and hangs up with the request unread. */
static void test_last_word_is_heard(void **state)
{
	struct ipc_reply reply = good_answer();

	(void)state;
	reply.hdr.status = -EDQUOT;
	answer(&reply, sizeof(reply), NULL, 0);
	close(far_end);
	far_end = -1;
	assert_int_equal(introduce(), -EDQUOT);
	expect_death();
}

static void test_recv(void **state)
{
	struct ipc_peer peer = {.hdr = {.type = IPC_PEER, .len = sizeof(peer)}, .slot = 3};
	struct ipc_peer got;
	int two[2] = {far_end, far_end}, fds[IPC_FDS_MAX], nfds;

	(void)state;
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EAGAIN);
	answer(&peer, sizeof(peer), two, 2);
	assert_int_equal(ipc_recv(client.fd, false, &got, sizeof(got), fds, &nfds), sizeof(got));
	assert_int_equal(nfds, 2);
	assert_int_equal(got.slot, 3);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	fdpass_close(fds, nfds);
}

static void test_recv_malformed(void **state)
{
	struct ipc_peer peer = {.hdr = {.type = IPC_PEER, .len = sizeof(peer)}};
	struct ipc_peer got;
	int many[FDPASS_MAX], fds[IPC_FDS_MAX], nfds, before = open_fd_count();

	(void)state;
	for (int i = 0; i < FDPASS_MAX; i++)
		many[i] = far_end;
	answer(&peer, sizeof(peer), many, 1);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	answer(&peer, sizeof(peer), many, 4);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	answer(&peer, sizeof(peer), many, FDPASS_MAX);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	answer(&peer, sizeof(peer) - 4, many, 2);
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -EPROTO);
	answer(&peer, sizeof(peer), many, 2);
	assert_int_equal(ipc_recv(client.fd, true, &got, 32, fds, &nfds), -EPROTO);
	assert_int_equal(nfds, 0);
	assert_int_equal(open_fd_count(), before);
	close(far_end);
	far_end = -1;
	assert_int_equal(ipc_recv(client.fd, true, &got, sizeof(got), fds, &nfds), -ENODEV);
}

/* In a fork()ed child, whose copy of the lock is held for ever by a thread that the child does not have. */
static void test_forget(void **state)
{
	int status;
	pid_t child;

	(void)state;
	pthread_mutex_lock(&client.lock);
	child = fork();
	if (child == 0) {
		ipc_client_forget(&client);
		_exit(client.fd == -1 && introduce() == -ENODEV ? 0 : 1);
	}
	pthread_mutex_unlock(&client.lock);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_call),
		CASE(test_call_with_descriptors),
		CASE(test_wrong_sizes_are_the_callers_fault),
		CASE(test_wrong_seq),
		CASE(test_wrong_type),
		CASE(test_positive_status),
		CASE(test_short_answer),
		CASE(test_long_answer),
		CASE(test_answer_with_descriptors),
		CASE(test_end_of_stream),
		CASE(test_last_word_is_heard),
		CASE(test_recv),
		CASE(test_recv_malformed),
		CASE(test_forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
