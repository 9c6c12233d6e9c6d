/* SPDX-License-Identifier: BSD-2-Clause */

/* No rsocket can be made, and no call takes an ordinary descriptor for one. */

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <cmocka.h>

#define REFUSES(call)                                \
	do {                                         \
		errno = 0;                           \
		assert_true((call) == -1);           \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)

static void no_socket_is_made(void **state)
{
	(void)state;
	REFUSES(rsocket(AF_INET, SOCK_STREAM, 0));
	REFUSES(rsocket(AF_INET6, SOCK_DGRAM, 0));
	REFUSES(rsocket(-1, -1, -1));
}

static void connection_calls(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t length = sizeof(addr);
	int value = 0;

	(void)state;
	REFUSES(rbind(0, (struct sockaddr *)&addr, length));
	REFUSES(rlisten(0, 1));
	REFUSES(raccept(0, (struct sockaddr *)&addr, &length));
	REFUSES(rconnect(0, (struct sockaddr *)&addr, length));
	REFUSES(rshutdown(0, SHUT_RDWR));
	REFUSES(rclose(0));
	REFUSES(rgetpeername(0, (struct sockaddr *)&addr, &length));
	REFUSES(rgetsockname(0, (struct sockaddr *)&addr, &length));
	REFUSES(rsetsockopt(0, SOL_RDMA, RDMA_INLINE, &value, sizeof(value)));
	REFUSES(rgetsockopt(0, SOL_RDMA, RDMA_INLINE, &value, &length));
	REFUSES(rfcntl(0, F_GETFL));
	assert_int_equal(length, sizeof(addr));
}

static void data_calls(void **state)
{
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)state;
	REFUSES(rrecv(0, &byte, 1, 0));
	REFUSES(rrecvfrom(0, &byte, 1, 0, NULL, NULL));
	REFUSES(rrecvmsg(0, &msg, 0));
	REFUSES(rsend(0, &byte, 1, 0));
	REFUSES(rsendto(0, &byte, 1, 0, NULL, 0));
	REFUSES(rsendmsg(0, &msg, 0));
	REFUSES(rread(0, &byte, 1));
	REFUSES(rreadv(0, &iov, 1));
	REFUSES(rwrite(0, &byte, 1));
	REFUSES(rwritev(0, &iov, 1));
	REFUSES(riomap(0, &byte, 1, PROT_READ, 0, -1));
	REFUSES(riounmap(0, &byte, 1));
	errno = 0;
	assert_true(riowrite(0, &byte, 1, 0, 0) == (size_t)-1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(byte, 'x');
}

static void waiting_calls(void **state)
{
	struct pollfd fd = {.fd = 0, .events = POLLIN};
	struct timeval none = {0, 0};
	fd_set set;

	(void)state;
	FD_ZERO(&set);
	REFUSES(rpoll(&fd, 1, 0));
	REFUSES(rselect(0, &set, NULL, NULL, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_socket_is_made),
		cmocka_unit_test(connection_calls),
		cmocka_unit_test(data_calls),
		cmocka_unit_test(waiting_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
