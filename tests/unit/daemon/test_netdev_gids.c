/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev_gids.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ADDRS_MAX 600

static struct netdev dev;
static uint8_t addrs[ADDRS_MAX][16];
static size_t addr_count;

static int setup(void **state)
{
	(void)state;
	dev = (struct netdev){.dev_id = 7, .node_guid = 0x020304fffe050607ull};
	addr_count = 0;
	return 0;
}

static void add(const char *text)
{
	uint8_t ipv4[4];

	assert_true(addr_count < ADDRS_MAX);
	if (inet_pton(AF_INET, text, ipv4) == 1)
		gid_from_ipv4(addrs[addr_count++], ipv4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, addrs[addr_count++]), 1);
}

static void take_away(size_t index)
{
	memmove(addrs[index], addrs[index + 1], (addr_count - index - 1) * 16);
	addr_count--;
}

static bool update(void)
{
	return netdev_gids_update(&dev, (const uint8_t(*)[16])addrs, addr_count);
}

static void expect(uint32_t index, const char *text)
{
	char got[INET6_ADDRSTRLEN];

	assert_true(index < dev.gid_count);
	assert_true(dev.gids[index].is_valid);
	assert_int_equal(dev.gids[index].ifindex, 7);
	inet_ntop(AF_INET6, dev.gids[index].raw, got, sizeof(got));
	assert_string_equal(got, text);
}

static void netdev_gids_update_lists_addresses(void **state)
{
	(void)state;
	add("192.0.2.7");
	add("fe80::5");
	add("2001:db8::7");
	assert_true(update());
	assert_int_equal(dev.gid_count, 4);
	expect(0, "fe80::5");
	expect(1, "::ffff:192.0.2.7");
	expect(2, "2001:db8::7");
	expect(3, "::ffff:192.0.2.7");
	assert_false(update());
}

static void netdev_gids_update_without_link_local_makes_one(void **state)
{
	(void)state;
	add("10.0.0.1");
	assert_true(update());
	expect(0, "fe80::203:4ff:fe05:607");
	expect(1, "::ffff:10.0.0.1");
	assert_false(dev.gids[2].is_valid);
	expect(3, "::ffff:10.0.0.1");
	assert_int_equal(dev.gid_count, 4);
}

static void netdev_gids_update_ipv6_only_lists_them(void **state)
{
	(void)state;
	add("2001:db8::1");
	assert_true(update());
	expect(0, "fe80::203:4ff:fe05:607");
	expect(1, "2001:db8::1");
	assert_int_equal(dev.gid_count, 2);
}

static void netdev_gids_update_ipv4_precedes_ipv6(void **state)
{
	(void)state;
	add("2001:db8::1");
	add("2001:db8::2");
	add("10.0.0.1");
	add("10.0.0.2");
	assert_true(update());
	expect(1, "::ffff:10.0.0.1");
	expect(2, "::ffff:10.0.0.2");
	expect(3, "2001:db8::1");
	expect(4, "2001:db8::2");
}

/* An address keeps its index while other addresses are added and removed. */
static void netdev_gids_update_keeps_indices(void **state)
{
	(void)state;
	add("fe80::5");
	add("10.0.0.1");
	add("10.0.0.2");
	add("10.0.0.3");
	assert_true(update());
	expect(3, "::ffff:10.0.0.3");
	take_away(1);
	assert_true(update());
	assert_false(dev.gids[1].is_valid);
	expect(2, "::ffff:10.0.0.2");
	expect(3, "::ffff:10.0.0.3");
	add("10.0.0.4");
	assert_true(update());
	expect(1, "::ffff:10.0.0.4");
	expect(2, "::ffff:10.0.0.2");
	take_away(0);
	assert_true(update());
	expect(0, "fe80::203:4ff:fe05:607");
	add("fe80::6");
	assert_true(update());
	expect(0, "fe80::6");
}

/* The second entry of an address is removed with the address, and is not reused before. */
static void netdev_gids_update_second_entry_follows_address(void **state)
{
	(void)state;
	add("10.0.0.1");
	assert_true(update());
	add("2001:db8::1");
	add("2001:db8::2");
	assert_true(update());
	expect(2, "2001:db8::1");
	expect(3, "::ffff:10.0.0.1");
	expect(4, "2001:db8::2");
	take_away(0);
	assert_true(update());
	assert_false(dev.gids[1].is_valid);
	assert_false(dev.gids[3].is_valid);
	expect(4, "2001:db8::2");
}

static void netdev_gids_update_too_many_addresses_are_dropped(void **state)
{
	char text[32];

	(void)state;
	for (int i = 0; i < ADDRS_MAX; i++) {
		snprintf(text, sizeof(text), "10.1.%d.%d", i / 250, i % 250 + 1);
		add(text);
	}
	assert_true(update());
	assert_int_equal(dev.gid_count, IPC_GIDS_MAX);
	assert_false(update());
	addr_count = 0;
	assert_true(update());
	assert_int_equal(dev.gid_count, 1);
	expect(0, "fe80::203:4ff:fe05:607");
}

static void netdev_guid_from_mac_and_name_are_stable(void **state)
{
	static const uint8_t mac[6] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
	static const uint8_t zero[6];

	(void)state;
	assert_int_equal(netdev_guid_from_mac(mac, 6), 0x505400fffe123456ull);
	assert_int_equal(netdev_guid_from_mac(zero, 6), 0);
	assert_int_equal(netdev_guid_from_mac(mac, 0), 0);
	assert_int_equal(netdev_guid_from_mac(mac, 4), 0);
	assert_int_equal(netdev_guid_from_name(1, "lo"), netdev_guid_from_name(1, "lo"));
	assert_int_not_equal(netdev_guid_from_name(1, "lo"), netdev_guid_from_name(2, "lo"));
	assert_int_not_equal(netdev_guid_from_name(1, "lo"), netdev_guid_from_name(1, "dummy0"));
	assert_int_not_equal(netdev_guid_from_name(0, ""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(netdev_gids_update_lists_addresses, setup),
		cmocka_unit_test_setup(netdev_gids_update_without_link_local_makes_one, setup),
		cmocka_unit_test_setup(netdev_gids_update_ipv6_only_lists_them, setup),
		cmocka_unit_test_setup(netdev_gids_update_ipv4_precedes_ipv6, setup),
		cmocka_unit_test_setup(netdev_gids_update_keeps_indices, setup),
		cmocka_unit_test_setup(netdev_gids_update_second_entry_follows_address, setup),
		cmocka_unit_test_setup(netdev_gids_update_too_many_addresses_are_dropped, setup),
		cmocka_unit_test_setup(netdev_guid_from_mac_and_name_are_stable, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
