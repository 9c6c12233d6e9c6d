/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/*
 * Uses the kernel's routes of the test's network namespace: the route to each own address must be
 * local.
 */
static uv_loop_t loop;

static void on_change(void *ctx, uint32_t dev_id, uint32_t what)
{
	(void)ctx;
	(void)dev_id;
	(void)what;
}

static int setup(void **state)
{
	(void)state;
	return uv_loop_init(&loop) || netdev_open(&loop, on_change, NULL);
}

static int teardown(void **state)
{
	(void)state;
	netdev_close();
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage out = {0};

	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&out)->sin_addr) == 1)
		out.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&out)->sin6_addr) == 1)
		out.ss_family = AF_INET6;
	assert_int_not_equal(out.ss_family, AF_UNSPEC);
	return out;
}

static int route(const struct sockaddr_storage *dst, const struct sockaddr_storage *src,
		 struct sockaddr_storage *out, const struct netdev **dev)
{
	uint8_t hop_limit = 0;
	int ret = netdev_route((const struct sockaddr *)dst, (const struct sockaddr *)src, out, dev,
			       &hop_limit);

	assert_true(ret || hop_limit);
	return ret;
}

static bool is_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
			      &((const struct sockaddr_in *)b)->sin_addr, 4) == 0;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
}

/* Calls check() for every address of every interface that is a device. */
static int for_each_own(void (*check)(const struct sockaddr_storage *addr, const char *name))
{
	struct ifaddrs *all, *one;
	int count = 0;

	assert_int_equal(getifaddrs(&all), 0);
	for (one = all; one; one = one->ifa_next) {
		struct sockaddr_storage addr = {0};
		size_t len = sizeof(struct sockaddr_in);

		if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
			continue;
		if (one->ifa_addr->sa_family == AF_INET6)
			len = sizeof(struct sockaddr_in6);
		else if (one->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&addr, one->ifa_addr, len);
		check(&addr, one->ifa_name);
		count++;
	}
	freeifaddrs(all);
	return count;
}

static void check_leads_home(const struct sockaddr_storage *addr, const char *name)
{
	const struct netdev *dev = netdev_by_addr((const struct sockaddr *)addr);
	struct sockaddr_storage src;

	assert_non_null(dev);
	assert_string_equal(dev->name, name);
	assert_int_equal(route(addr, NULL, &src, &dev), 0);
	assert_string_equal(dev->name, name);
	assert_true(is_same_address(&src, addr));
	assert_int_equal(route(addr, addr, &src, &dev), 0);
	assert_true(is_same_address(&src, addr));
	assert_int_equal(((struct sockaddr_in *)&src)->sin_port, 0);
}

static void netdev_route_own_address_uses_its_device(void **state)
{
	(void)state;
	if (for_each_own(check_leads_home) == 0)
		skip();
}

static void netdev_route_loopback_net_uses_loopback(void **state)
{
	struct sockaddr_storage dst = address("127.0.0.77"), src;
	struct sockaddr_storage any = address("0.0.0.0");
	const struct netdev *dev;

	(void)state;
	if (!netdev_loopback())
		skip();
	assert_int_equal(route(&dst, &any, &src, &dev), 0);
	assert_true(dev->is_loopback);
	assert_true(is_same_address(&src, &dst));
	assert_int_equal(route(&dst, &dst, &src, &dev), 0);
}

static void netdev_route_invalid_destination_fails(void **state)
{
	struct sockaddr_storage v4 = address("127.0.0.1"), v6 = address("::1"), src;
	struct sockaddr_storage foreign = address("198.51.100.7"), other = {.ss_family = AF_UNIX};
	struct sockaddr_storage group = address("239.1.1.1"), group6 = address("ff0e::1");
	const struct netdev *dev;

	(void)state;
	if (!netdev_loopback())
		skip();
	assert_int_equal(route(&v4, &foreign, &src, &dev), -EADDRNOTAVAIL);
	assert_int_equal(route(&v4, &v6, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&v6, &v4, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&other, NULL, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&v4, &other, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&group, &v6, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&group6, &v4, &src, &dev), -EAFNOSUPPORT);
	assert_int_equal(route(&group, &foreign, &src, &dev), -EADDRNOTAVAIL);
}

/* For any routes: a group is reached through the device of the given address. */
static void check_leads_to_groups(const struct sockaddr_storage *addr, const char *name)
{
	struct sockaddr_storage group = address(addr->ss_family == AF_INET ? "239.1.1.1" :
									     "ff0e::1");
	const struct netdev *dev;
	struct sockaddr_storage src;

	/* IPv6 groups are delivered over lo only with a route there. */
	if (addr->ss_family == AF_INET6 && !strcmp(name, "lo"))
		return;
	assert_int_equal(route(&group, addr, &src, &dev), 0);
	assert_string_equal(dev->name, name);
	assert_true(is_same_address(&src, addr));
}

static void netdev_route_group_uses_multicast_device(void **state)
{
	(void)state;
	if (for_each_own(check_leads_to_groups) == 0)
		skip();
}

static void netdev_route_link_local_group_needs_scope(void **state)
{
	struct sockaddr_storage group = address("ff02::1"), own = address("::1"), src;
	const struct netdev *dev;

	(void)state;
	if (!netdev_by_addr((struct sockaddr *)&own))
		skip();
	((struct sockaddr_in6 *)&group)->sin6_scope_id = 0xfffff;
	assert_int_equal(route(&group, &own, &src, &dev), -EADDRNOTAVAIL);
}

static void netdev_from_cursor_returns_devices_in_order(void **state)
{
	const struct netdev *dev, *last = NULL;
	uint32_t cursor = 0, count = 0;

	(void)state;
	while ((dev = netdev_from_cursor(cursor, &cursor))) {
		assert_true(!last || !last->is_loopback);
		assert_ptr_equal(netdev_by_id(dev->dev_id), dev);
		assert_int_not_equal(dev->node_guid, 0);
		assert_true(dev->gid_count > 0 && dev->gids[0].is_valid);
		last = dev;
		count++;
	}
	assert_true(count == 0 || (netdev_loopback() == NULL) == !last->is_loopback);
	assert_null(netdev_by_id(UINT32_MAX));
	assert_null(netdev_by_id(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(netdev_route_own_address_uses_its_device, setup,
						teardown),
		cmocka_unit_test_setup_teardown(netdev_route_loopback_net_uses_loopback, setup,
						teardown),
		cmocka_unit_test_setup_teardown(netdev_route_invalid_destination_fails, setup,
						teardown),
		cmocka_unit_test_setup_teardown(netdev_route_group_uses_multicast_device, setup,
						teardown),
		cmocka_unit_test_setup_teardown(netdev_route_link_local_group_needs_scope, setup,
						teardown),
		cmocka_unit_test_setup_teardown(netdev_from_cursor_returns_devices_in_order, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
