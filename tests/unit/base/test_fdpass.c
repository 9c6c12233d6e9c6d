/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "descriptors.h"

static void fdpass_send_descriptors_are_received(void **state)
{
	int pair[2], ends[2], got[FDPASS_MAX], nfds;
	char buffer[16];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fdpass_send(pair[0], "hello", 5, ends, 2, 0), 0);
	assert_int_equal(fdpass_recv(pair[1], buffer, sizeof(buffer), got, 2, &nfds, 0), 5);
	assert_memory_equal(buffer, "hello", 5);
	assert_int_equal(nfds, 2);
	assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(got[1], "x", 1), 1);
	assert_int_equal(read(ends[0], buffer, 1), 1);
	fdpass_close(got, nfds);
	fdpass_close(ends, 2);
	fdpass_close(pair, 2);
}

static void fdpass_recv_too_many_descriptors_closes_surplus(void **state)
{
	int pair[2], fds[FDPASS_MAX], got[FDPASS_MAX], nfds, before;
	char buffer[16];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (int i = 0; i < FDPASS_MAX; i++)
		fds[i] = pair[0];
	before = count_descriptors();
	for (int fds_max = 0; fds_max < FDPASS_MAX; fds_max++) {
		assert_int_equal(fdpass_send(pair[0], "x", 1, fds, fds_max + 1, 0), 0);
		assert_int_equal(fdpass_recv(pair[1], buffer, 1, got, fds_max, &nfds, 0), -EPROTO);
		assert_int_equal(nfds, 0);
	}
	assert_int_equal(count_descriptors(), before);
	fdpass_close(pair, 2);
}

static void fdpass_invalid_length_fails(void **state)
{
	int pair[2], got[FDPASS_MAX], nfds, before;
	char buffer[16];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	before = count_descriptors();
	assert_int_equal(fdpass_send(pair[0], "toolong", 7, pair, 1, 0), 0);
	assert_int_equal(fdpass_recv(pair[1], buffer, 3, got, 4, &nfds, 0), -EMSGSIZE);
	assert_int_equal(nfds, 0);
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(fdpass_send(pair[0], "x", 1, pair, FDPASS_MAX + 1, 0), -EINVAL);
	assert_int_equal(fdpass_send(pair[0], "x", 1, pair, -1, 0), -EINVAL);
	assert_int_equal(fdpass_recv(pair[1], buffer, 3, got, 4, &nfds, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(fdpass_send(pair[0], "", 0, pair, 2, 0), 0);
	assert_int_equal(fdpass_recv(pair[1], buffer, 3, got, 4, &nfds, 0), -EPROTO);
	assert_int_equal(count_descriptors(), before);
	close(pair[0]);
	assert_int_equal(fdpass_recv(pair[1], buffer, 3, got, 4, &nfds, 0), 0);
	assert_int_equal(fdpass_send(pair[1], "x", 1, NULL, 0, 0), -EPIPE);
	close(pair[1]);
}

static void fdpass_message_with_descriptors_is_found_and_stays(void **state)
{
	int pair[2], ends[2], before;
	char buffer[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(pipe(ends), 0);
	before = count_descriptors();
	assert_false(fdpass_has_fds(pair[1]));
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_int_equal(fdpass_send(pair[0], "y", 1, ends, 2, 0), 0);
	assert_false(fdpass_has_fds(pair[1]));
	assert_int_equal(recv(pair[1], buffer, sizeof(buffer), 0), 1);
	assert_true(fdpass_has_fds(pair[1]));
	assert_true(fdpass_has_fds(pair[1]));
	assert_int_equal(count_descriptors(), before);
	fdpass_close(ends, 2);
	fdpass_close(pair, 2);
}

static void fdpass_refused_descriptors_cannot_be_sent(void **state)
{
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_false(fdpass_is_refused(pair[1]));
	if (fdpass_refuse(pair[1])) {
		assert_true(fdpass_is_refused(pair[1]));
		assert_int_equal(fdpass_send(pair[0], "x", 1, pair, 1, 0), -EPERM);
	}
	assert_int_equal(fdpass_send(pair[1], "x", 1, pair, 1, 0), 0);
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_false(fdpass_has_fds(pair[1]));
	fdpass_close(pair, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fdpass_send_descriptors_are_received),
		cmocka_unit_test(fdpass_recv_too_many_descriptors_closes_surplus),
		cmocka_unit_test(fdpass_invalid_length_fails),
		cmocka_unit_test(fdpass_message_with_descriptors_is_found_and_stays),
		cmocka_unit_test(fdpass_refused_descriptors_cannot_be_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
