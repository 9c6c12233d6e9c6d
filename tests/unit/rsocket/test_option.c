/* SPDX-License-Identifier: BSD-2-Clause */

/* The values that each option accepts, stores and returns, without a connection. */

#include "fake_sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/time.h>

#include "base/clock.h"

static struct fake_sock *fake;

static int make(void **state)
{
	(void)state;
	fake = fake_sock_new(SOCK_STREAM);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	rsock_put(&fake->sock);
	return 0;
}

static int set(int level, int name, int value)
{
	return option_set(&fake->sock, level, name, &value, sizeof(value));
}

static int get(int level, int name)
{
	int value = -1;
	socklen_t bytes = sizeof(value);

	assert_int_equal(option_get(&fake->sock, level, name, &value, &bytes), 0);
	assert_int_equal(bytes, sizeof(value));
	return value;
}

static void option_set_flag_is_stored_as_0_or_1(void **state)
{
	static const struct {
		int level;
		int name;
	} flags[] = {
		{SOL_SOCKET, SO_REUSEADDR},  {SOL_SOCKET, SO_KEEPALIVE},
		{SOL_SOCKET, SO_OOBINLINE},  {IPPROTO_TCP, TCP_NODELAY},
		{IPPROTO_TCP, TCP_CORK},     {IPPROTO_TCP, TCP_QUICKACK},
		{IPPROTO_IPV6, IPV6_V6ONLY}, {SOL_SOCKET, SO_BROADCAST},
		{SOL_SOCKET, SO_DONTROUTE},  {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		assert_int_equal(get(flags[i].level, flags[i].name), 0);
		assert_int_equal(set(flags[i].level, flags[i].name, 7), 0);
		assert_int_equal(fake->set_value, 1);
		assert_int_equal(get(flags[i].level, flags[i].name), 1);
		assert_int_equal(set(flags[i].level, flags[i].name, 0), 0);
		assert_int_equal(get(flags[i].level, flags[i].name), 0);
	}
}

static void option_set_number_below_minimum_fails(void **state)
{
	static const struct {
		int level;
		int name;
		int least;
	} numbers[] = {
		{SOL_SOCKET, SO_RCVLOWAT, 1},	    {SOL_SOCKET, SO_PRIORITY, 0},
		{IPPROTO_TCP, TCP_DEFER_ACCEPT, 0}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 0},
		{IPPROTO_TCP, TCP_SYNCNT, 1},	    {IPPROTO_TCP, TCP_MAXSEG, 0},
		{IPPROTO_TCP, TCP_KEEPIDLE, 1},	    {IPPROTO_TCP, TCP_KEEPINTVL, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, 1},	    {IPPROTO_IP, IP_TOS, 0},
		{IPPROTO_IPV6, IPV6_TCLASS, -1},    {SOL_SOCKET, SO_BUSY_POLL, 0},
		{IPPROTO_TCP, TCP_LINGER2, -1},	    {IPPROTO_TCP, TCP_WINDOW_CLAMP, 0},
		{IPPROTO_TCP, TCP_FASTOPEN, 0},	    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int level = numbers[i].level, name = numbers[i].name, least = numbers[i].least;

		assert_int_equal(set(level, name, least - 1), -EINVAL);
		assert_int_equal(set(level, name, least), 0);
		assert_int_equal(get(level, name), least);
		assert_int_equal(set(level, name, 12), 0);
		assert_int_equal(get(level, name), 12);
	}
}

/* As ip(7) describes, options of that level may have the length of one byte. */
static void option_set_ip_option_of_one_byte_succeeds(void **state)
{
	uint8_t tos = 0xb8;

	(void)state;
	assert_int_equal(option_set(&fake->sock, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
	assert_int_equal(fake->set_value, 0xb8);
	assert_int_equal(get(IPPROTO_IP, IP_TOS), 0xb8);
	assert_int_equal(option_set(&fake->sock, IPPROTO_IP, IP_TOS, &tos, 0), -EINVAL);
	assert_int_equal(option_set(&fake->sock, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos)),
			 -EINVAL);
}

/* A value that the kind of socket rejects is not stored. */
static void option_set_rejected_value_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(set(IPPROTO_IP, IP_TOS, 8), 0);
	fake->set_ret = -EPERM;
	assert_int_equal(set(IPPROTO_IP, IP_TOS, 16), -EPERM);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 100), -EPERM);
	fake->set_ret = 0;
	assert_int_equal(get(IPPROTO_IP, IP_TOS), 8);
	assert_int_equal(get(SOL_RDMA, RDMA_SQSIZE), 384);
}

static void option_get_buffer_size_is_twice_the_set_value(void **state)
{
	(void)state;
	assert_int_equal(get(SOL_SOCKET, SO_RCVBUF), 131072);
	assert_int_equal(set(SOL_SOCKET, SO_RCVBUF, 100000), 0);
	assert_int_equal(get(SOL_SOCKET, SO_RCVBUF), 200000);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), 131072);
	assert_int_equal(set(SOL_SOCKET, SO_SNDBUF, 1), 0);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), RSOCK_RING_MIN);
	assert_int_equal(set(SOL_SOCKET, SO_SNDBUF, -5), 0);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), RSOCK_RING_MIN);
	assert_int_equal(set(SOL_SOCKET, SO_SNDBUF, INT32_MAX), 0);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), RSOCK_RING_MAX);
}

static void option_set_queue_size_is_limited(void **state)
{
	(void)state;
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 100), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_SQSIZE), 100);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 1), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_SQSIZE), RSOCK_QUEUE_MIN);
	assert_int_equal(set(SOL_RDMA, RDMA_RQSIZE, 1 << 20), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_RQSIZE), RSOCK_QUEUE_MAX);
	assert_int_equal(set(SOL_RDMA, RDMA_INLINE, 0), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_INLINE), 0);
	assert_int_equal(set(SOL_RDMA, RDMA_IOMAPSIZE, 200), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_IOMAPSIZE), 128);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, -1), -EINVAL);
	assert_int_equal(set(SOL_RDMA, RDMA_IOMAPSIZE, -1), -EINVAL);
}

static void option_set_timeout_and_linger_are_returned(void **state)
{
	struct timeval time = {.tv_sec = 2, .tv_usec = 500000}, read;
	struct linger linger = {.l_onoff = 9, .l_linger = 3}, read_linger;
	socklen_t bytes = sizeof(read);

	(void)state;
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_int_equal(fake->sock.options.receive_timeout_ns, 2500000000u);
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_RCVTIMEO, &read, &bytes), 0);
	assert_int_equal(read.tv_sec, 2);
	assert_int_equal(read.tv_usec, 500000);
	assert_int_equal(fake->sock.options.send_timeout_ns, 0);
	time.tv_usec = 1000000;
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)),
			 -EDOM);
	/* A timeout that exceeds the range is infinite. */
	time = (struct timeval){.tv_sec = INT64_MAX, .tv_usec = 999999};
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_int_equal(fake->sock.options.receive_timeout_ns, 0);
	time = (struct timeval){.tv_sec = INT64_C(18446744073)};
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_int_equal(fake->sock.options.receive_timeout_ns, 0);
	time = (struct timeval){.tv_sec = 100 * 365 * INT64_C(86400)};
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_int_equal(fake->sock.options.receive_timeout_ns / CLOCK_NS_PER_S, time.tv_sec);
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_SNDTIMEO, &time, 4), -EINVAL);
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)),
			 0);
	bytes = sizeof(read_linger);
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_LINGER, &read_linger, &bytes), 0);
	assert_int_equal(read_linger.l_onoff, 1);
	assert_int_equal(read_linger.l_linger, 3);
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_LINGER, &linger, 4), -EINVAL);
}

static void option_set_read_only_option_fails(void **state)
{
	(void)state;
	fake->sock.error = ECONNRESET;
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), ECONNRESET);
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(get(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(get(SOL_SOCKET, SO_DOMAIN), AF_INET);
	assert_int_equal(get(SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
	assert_int_equal(set(SOL_SOCKET, SO_ERROR, 1), -ENOPROTOOPT);
	assert_int_equal(set(SOL_SOCKET, SO_TYPE, 1), -ENOPROTOOPT);
	assert_int_equal(set(IPPROTO_TCP, TCP_INFO, 1), -ENOPROTOOPT);
}

static void option_set_invalid_argument_fails(void **state)
{
	int value = 1;
	socklen_t bytes = sizeof(value);

	(void)state;
	assert_int_equal(set(SOL_SOCKET, SO_BINDTODEVICE, 1), -ENOTSUP);
	assert_int_equal(set(12345, 1, 1), -ENOTSUP);
	assert_int_equal(option_get(&fake->sock, 12345, 1, &value, &bytes), -ENOTSUP);
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_KEEPALIVE, NULL, 4), -EFAULT);
	assert_int_equal(option_set(&fake->sock, SOL_SOCKET, SO_KEEPALIVE, &value, 3), -EINVAL);
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_KEEPALIVE, NULL, &bytes), -EFAULT);
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_KEEPALIVE, &value, NULL), -EFAULT);
}

static void option_get_short_buffer_is_truncated(void **state)
{
	struct {
		uint16_t value;
		uint16_t guard;
	} read = {0, 0xeeee};
	socklen_t bytes = sizeof(read.value);

	(void)state;
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_TYPE, &read, &bytes), 0);
	assert_int_equal(bytes, 2);
	assert_int_equal(read.guard, 0xeeee);
}

/* Options of a datagram rsocket are those of its UDP socket, except the sizes of queues. */
static void option_get_datagram_rsocket_uses_udp_socket(void **state)
{
	int value;
	socklen_t bytes = sizeof(value);

	(void)state;
	rsock_put(&fake->sock);
	fake = fake_sock_new(SOCK_DGRAM);
	assert_int_equal(set(SOL_SOCKET, SO_BROADCAST, 1), -EDOM);
	assert_int_equal(option_get(&fake->sock, SOL_SOCKET, SO_BROADCAST, &value, &bytes), -EDOM);
	fake->passes_options = true;
	assert_int_equal(set(SOL_SOCKET, SO_BROADCAST, 1), 0);
	assert_int_equal(get(SOL_SOCKET, SO_BROADCAST), 4711);
	assert_int_equal(set(SOL_SOCKET, SO_RCVBUF, 50000), 0);
	assert_int_equal(fake->sock.sizes.receive_bytes, 100000);
	assert_int_equal(fake->passed, 5);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 64), 0);
	assert_int_equal(get(SOL_RDMA, RDMA_SQSIZE), 64);
	assert_int_equal(fake->passed, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(option_set_flag_is_stored_as_0_or_1, make, drop),
		cmocka_unit_test_setup_teardown(option_set_number_below_minimum_fails, make, drop),
		cmocka_unit_test_setup_teardown(option_set_ip_option_of_one_byte_succeeds, make,
						drop),
		cmocka_unit_test_setup_teardown(option_set_rejected_value_changes_nothing, make,
						drop),
		cmocka_unit_test_setup_teardown(option_get_buffer_size_is_twice_the_set_value, make,
						drop),
		cmocka_unit_test_setup_teardown(option_set_queue_size_is_limited, make, drop),
		cmocka_unit_test_setup_teardown(option_set_timeout_and_linger_are_returned, make,
						drop),
		cmocka_unit_test_setup_teardown(option_set_read_only_option_fails, make, drop),
		cmocka_unit_test_setup_teardown(option_set_invalid_argument_fails, make, drop),
		cmocka_unit_test_setup_teardown(option_get_short_buffer_is_truncated, make, drop),
		cmocka_unit_test_setup_teardown(option_get_datagram_rsocket_uses_udp_socket, make,
						drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
