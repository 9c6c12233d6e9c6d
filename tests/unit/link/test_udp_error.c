/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors, in a network namespace of its own in which the RoCE port is unbound. The link
 * reports them if requested, with the quoted packet, and continues to send.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/udp.h"

#define WAIT_MS	      5000
#define PAYLOAD_BYTES 256

static const uint8_t ipv4_lo[GID_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
static const uint8_t ipv6_lo[GID_BYTES] = {[15] = 1};

static struct link *udp;
static int rx_fd;

static int namespace_open(void **state)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd, ret;

	(void)state;
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return ret;
}

/* A link that receives on another port than it sends to. */
static int setup(void **state)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6};

	(void)state;
	rx_fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(rx_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	udp = udp_link_open(rx_fd);
	assert_non_null(udp);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	link_close(udp);
	return 0;
}

static void open_path(struct link_path *path, const uint8_t gid[GID_BYTES], uint32_t qpn)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->local_gid, gid, GID_BYTES);
	memcpy(path->remote_gid, gid, GID_BYTES);
	path->remote_qpn = qpn;
	assert_int_equal(link_path_open(udp, path), 0);
}

static void send_one(const struct link_path *path, uint8_t mark)
{
	static uint8_t payload[PAYLOAD_BYTES];
	struct iovec iov = {payload, sizeof(payload)};
	struct link_tx tx = {
		.path = path,
		.payload = &iov,
		.payload_count = 1,
		.hdr_bytes = BTH_BYTES,
		.trailer_bytes = ICRC_BYTES,
		.payload_bytes = PAYLOAD_BYTES,
		.hdr[0] = mark,
	};

	memset(payload, mark, sizeof(payload));
	assert_int_equal(link_send(udp, &tx, 1), 1);
}

static bool is_readable(int timeout_ms)
{
	struct pollfd fd = {.fd = link_fd(udp), .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}

static void expect_error(struct link_error *error, const uint8_t gid[GID_BYTES])
{
	assert_true(is_readable(WAIT_MS));
	assert_true(link_errors(udp, error));
	assert_int_equal(error->error, -ECONNREFUSED);
	assert_memory_equal(error->remote_gid, gid, GID_BYTES);
	assert_int_equal(error->len, BTH_BYTES + PAYLOAD_BYTES + ICRC_BYTES);
}

static void come_back(const uint8_t gid[GID_BYTES])
{
	struct link_error error;
	struct link_path path;

	assert_int_equal(link_report_errors(udp), 0);
	open_path(&path, gid, 1);
	assert_false(is_readable(0));
	send_one(&path, 7);
	expect_error(&error, gid);
	assert_int_equal(error.bytes[0], 7);
	assert_int_equal(error.bytes[BTH_BYTES], 7);
	assert_int_equal(error.bytes[BTH_BYTES + PAYLOAD_BYTES - 1], 7);
	assert_false(link_errors(udp, &error));
	assert_false(is_readable(0));
}

static void link_errors_ipv4_port_unreachable_is_reported(void **state)
{
	(void)state;
	come_back(ipv4_lo);
}

static void link_errors_ipv6_port_unreachable_is_reported(void **state)
{
	(void)state;
	come_back(ipv6_lo);
}

/* An error of an earlier datagram does not prevent a later send, and each error is reported. */
static void link_errors_pending_error_does_not_prevent_send(void **state)
{
	struct link_error error;
	struct link_path path;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(link_report_errors(udp), 0);
	open_path(&path, ipv4_lo, 1);
	for (uint8_t i = 1; i <= 5; i++) {
		send_one(&path, i);
		assert_true(is_readable(WAIT_MS));
	}
	while (is_readable(0) && link_errors(udp, &error))
		seen |= 1u << error.bytes[0];
	assert_int_equal(seen, 0x3e);
	assert_false(is_readable(0));
}

static void link_errors_each_socket_has_its_own(void **state)
{
	struct link_path here, there;
	struct link_error error;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(link_report_errors(udp), 0);
	open_path(&here, ipv4_lo, 1);
	open_path(&there, ipv6_lo, 0x8001);
	send_one(&here, 1);
	send_one(&there, 2);
	while (seen != 6) {
		assert_true(is_readable(WAIT_MS));
		if (link_errors(udp, &error))
			seen |= 1u << error.bytes[0];
	}
	/* Closing a path discards its errors. */
	send_one(&here, 3);
	assert_true(is_readable(WAIT_MS));
	link_path_close(udp, &here);
	assert_false(is_readable(0));
	assert_false(link_errors(udp, &error));
}

/* The descriptor is still readable for received datagrams, which are not errors. */
static void link_errors_received_datagrams_are_no_errors(void **state)
{
	struct sockaddr_in6 addr;
	socklen_t len = sizeof(addr);
	struct link_error error;
	struct link_path path;
	struct link_rx rx;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(link_report_errors(udp), 0);
	open_path(&path, ipv6_lo, 1);
	assert_int_equal(getsockname(rx_fd, (struct sockaddr *)&addr, &len), 0);
	memcpy(&addr.sin6_addr, ipv6_lo, GID_BYTES);
	assert_int_equal(sendto(fd, "abc", 3, 0, (struct sockaddr *)&addr, len), 3);
	close(fd);
	assert_true(is_readable(WAIT_MS));
	assert_false(link_errors(udp, &error));
	send_one(&path, 9);
	while (!link_errors(udp, &error))
		assert_true(is_readable(WAIT_MS));
	assert_int_equal(error.bytes[0], 9);
	assert_int_equal(link_recv(udp, &rx, 1), 1);
	assert_int_equal(rx.len, 3);
	assert_false(is_readable(0));
}

static void link_errors_not_requested_are_not_reported(void **state)
{
	struct link_error error;
	struct link_path path;

	(void)state;
	open_path(&path, ipv4_lo, 1);
	assert_int_equal(link_fd(udp), rx_fd);
	send_one(&path, 1);
	send_one(&path, 2);
	assert_false(link_errors(udp, &error));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(link_errors_ipv4_port_unreachable_is_reported),
		TEST(link_errors_ipv6_port_unreachable_is_reported),
		TEST(link_errors_pending_error_does_not_prevent_send),
		TEST(link_errors_each_socket_has_its_own),
		TEST(link_errors_received_datagrams_are_no_errors),
		TEST(link_errors_not_requested_are_not_reported),
	};

	return cmocka_run_group_tests(tests, namespace_open, NULL);
}
