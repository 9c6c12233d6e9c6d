/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lent socket comes back in groups that its last holder joined; the daemon takes it out of all of them, and out of nobody
 * else's. In a network namespace of its own.
 */
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/roce_groups.h"
#include "link/udp_group.h"

#define LO     1u
#define GROUPS 12

static const uint8_t ipv4_first[GID_BYTES] = {[10] = 0xff, [11] = 0xff, 239, 250, 3};
static const uint8_t ipv6_first[GID_BYTES] = {0xff, 0x0e, 0xab, [14] = 0xcd};

static int group_setup(void **state)
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

static int open_socket(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static void join(int fd, const uint8_t first[GID_BYTES], int count)
{
	uint8_t group[GID_BYTES];

	memcpy(group, first, GID_BYTES);
	for (int i = 0; i < count; i++, group[15]++)
		assert_int_equal(udp_group_join(fd, LO, group), 0);
}

static uint32_t charged_bytes(int fd)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t len = sizeof(memory);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len), 0);
	return memory[SK_MEMINFO_OPTMEM];
}

static void all_are_left(void **state)
{
	int fd = open_socket();

	(void)state;
	assert_int_equal(charged_bytes(fd), 0);
	join(fd, ipv4_first, GROUPS);
	join(fd, ipv6_first, GROUPS);
	assert_true(charged_bytes(fd) > 0);
	roce_groups_leave(fd);
	assert_int_equal(charged_bytes(fd), 0);
	/* None of them is left to leave. */
	assert_true(udp_group_leave(fd, LO, ipv4_first) < 0);
	assert_true(udp_group_leave(fd, LO, ipv6_first) < 0);
	close(fd);
}

static void others_stay(void **state)
{
	int fd = open_socket(), other = open_socket();

	(void)state;
	join(fd, ipv4_first, 2);
	join(other, ipv4_first, 1);
	join(other, ipv6_first, 1);
	roce_groups_leave(fd);
	assert_int_equal(charged_bytes(fd), 0);
	assert_int_equal(udp_group_leave(other, LO, ipv4_first), 0);
	assert_int_equal(udp_group_leave(other, LO, ipv6_first), 0);
	close(fd);
	close(other);
}

static void no_socket_is_no_matter(void **state)
{
	(void)state;
	roce_groups_leave(-1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_left),
		cmocka_unit_test(others_stay),
		cmocka_unit_test(no_socket_is_no_matter),
	};

	return cmocka_run_group_tests_name("roce_groups", tests, group_setup, NULL);
}
