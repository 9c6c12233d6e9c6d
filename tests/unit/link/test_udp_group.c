/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast with real sockets, in a network namespace of its own. A member receives datagrams of
 * its groups, also of more groups than one socket can join; a non-member receives none.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/route.h>
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
#include "link/udp_socket.h"
#include "link/udp_group.h"

/* The kernel's structure: its header conflicts with the C library's. */
struct ipv6_route {
	struct in6_addr dst;
	struct in6_addr src;
	struct in6_addr gateway;
	uint32_t type;
	uint16_t dst_len;
	uint16_t src_len;
	uint32_t metric;
	unsigned long info;
	uint32_t flags;
	int ifindex;
};

#define ROUTE_IS_LOCAL 0x80000000u /* RTF_LOCAL, from the same header */

#define WAIT_MS 5000
#define LO	1u
#define MANY	60

static const uint8_t ipv4_lo[GID_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
static const uint8_t ipv6_lo[GID_BYTES] = {[15] = 1};
static const uint8_t ipv4_group[GID_BYTES] = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3};
static const uint8_t ipv6_group[GID_BYTES] = {0xff, 0x0e, [15] = 7};

/* Two sockets of one port, as the daemon delegates them. */
struct fixture {
	struct link *link;
	struct link *other;
	struct link_path path;
};

static void network_open(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	struct ipv6_route route = {.dst.s6_addr = {0xff},
				   .dst_len = 8,
				   .metric = 1,
				   .type = RTN_LOCAL,
				   .flags = RTF_UP | ROUTE_IS_LOCAL,
				   .ifindex = LO};
	int ipv4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ipv6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(ioctl(ipv4, SIOCSIFFLAGS, &request), 0);
	/* IPv6 groups are delivered over lo only with a route there. */
	assert_int_equal(ioctl(ipv6, SIOCADDRT, &route), 0);
	close(ipv4);
	close(ipv6);
}

static int group_setup(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -1;
	network_open();
	return 0;
}

static struct link *open_link(void)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(PACKET_UDP_PORT)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct link *link;
	int one = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(udp_socket_prepare_rx(fd), 0);
	link = udp_link_open(fd);
	assert_non_null(link);
	return link;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->link = open_link();
	f->other = open_link();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	link_close(f->link);
	link_close(f->other);
	free(f);
	return 0;
}

/* Sends one marked datagram to the group. */
static void send_to(struct fixture *f, const uint8_t from[GID_BYTES],
		    const uint8_t group[GID_BYTES], uint8_t mark)
{
	struct link_tx tx = {.path = &f->path, .hdr_bytes = 12, .hdr = {[11] = mark}};

	memcpy(f->path.local_gid, from, GID_BYTES);
	memcpy(f->path.remote_gid, group, GID_BYTES);
	f->path.remote_qpn = 0xffffff;
	f->path.ifindex = LO;
	f->path.hop_limit = 1;
	assert_int_equal(link_path_open(f->other, &f->path), 0);
	assert_int_equal(link_send(f->other, &tx, 1), 1);
	link_path_close(f->other, &f->path);
}

static void expect(struct link *link, const uint8_t from[GID_BYTES], const uint8_t group[GID_BYTES],
		   uint8_t mark)
{
	struct pollfd pollfd = {.fd = link_fd(link), .events = POLLIN};
	struct link_rx rx;

	assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
	assert_int_equal(link_recv(link, &rx, 1), 1);
	assert_memory_equal(rx.local_gid, group, GID_BYTES);
	assert_memory_equal(rx.remote_gid, from, GID_BYTES);
	assert_int_equal(rx.ifindex, LO);
	assert_int_equal(rx.len, 12);
	assert_int_equal(rx.bytes[11], mark);
}

/* Delivery over lo is complete when the send returns. */
static void expect_nothing(struct link *link)
{
	struct link_rx rx;

	assert_int_equal(link_recv(link, &rx, 1), 0);
}

static void members_hear(struct fixture *f, const uint8_t from[GID_BYTES],
			 const uint8_t group[GID_BYTES])
{
	send_to(f, from, group, 1);
	expect_nothing(f->link);
	assert_int_equal(link_join(f->link, LO, group), 0);
	assert_int_equal(link_join(f->link, LO, group), -EADDRINUSE);
	send_to(f, from, group, 2);
	expect(f->link, from, group, 2);
	expect_nothing(f->other);
	assert_int_equal(link_join(f->other, LO, group), 0);
	send_to(f, from, group, 3);
	expect(f->link, from, group, 3);
	expect(f->other, from, group, 3);
	link_leave(f->link, LO, group);
	send_to(f, from, group, 4);
	expect(f->other, from, group, 4);
	expect_nothing(f->link);
	link_leave(f->other, LO, group);
	send_to(f, from, group, 5);
	expect_nothing(f->other);
}

static void link_join_ipv4_group_receives(void **state)
{
	members_hear(*state, ipv4_lo, ipv4_group);
}

static void link_join_ipv6_group_receives(void **state)
{
	members_hear(*state, ipv6_lo, ipv6_group);
}

static int receives_all(struct link *link)
{
	socklen_t len = sizeof(int);
	int value = -1;

	assert_int_equal(getsockopt(link_fd(link), IPPROTO_IP, IP_MULTICAST_ALL, &value, &len), 0);
	return value;
}

static void many_groups(struct fixture *f, const uint8_t from[GID_BYTES],
			const uint8_t first[GID_BYTES])
{
	uint8_t group[GID_BYTES];

	memcpy(group, first, GID_BYTES);
	for (group[15] = 1; group[15] <= MANY; group[15]++)
		assert_int_equal(link_join(f->link, LO, group), 0);
	for (group[15] = 1; group[15] <= MANY; group[15]++) {
		send_to(f, from, group, group[15]);
		expect(f->link, from, group, group[15]);
		expect_nothing(f->other);
	}
	/*
	 * In another order than they were joined: every socket except the first becomes empty at
	 * another time.
	 */
	for (group[15] = MANY; group[15] > 0; group[15] -= 2)
		link_leave(f->link, LO, group);
	for (group[15] = 1; group[15] < MANY; group[15] += 2) {
		send_to(f, from, group, group[15]);
		expect(f->link, from, group, group[15]);
		link_leave(f->link, LO, group);
		send_to(f, from, group, group[15]);
		expect_nothing(f->link);
	}
	assert_int_equal(receives_all(f->link), 0);
}

static void link_join_above_socket_limit_uses_another_socket(void **state)
{
	struct fixture *f = *state;

	many_groups(f, ipv4_lo, ipv4_group);
	many_groups(f, ipv6_lo, ipv6_group);
}

static void link_join_unknown_interface_fails(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(link_join(f->link, 99, ipv4_group), -ENODEV);
	assert_int_equal(link_join(f->link, 99, ipv6_group), -ENODEV);
	/* Not a member: no group to leave. */
	link_leave(f->link, LO, ipv4_group);
	link_leave(f->link, LO, ipv6_group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(link_join_ipv4_group_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(link_join_ipv6_group_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(link_join_above_socket_limit_uses_another_socket,
						setup, teardown),
		cmocka_unit_test_setup_teardown(link_join_unknown_interface_fails, setup, teardown),
	};

	return cmocka_run_group_tests_name("udp_group", tests, group_setup, NULL);
}
