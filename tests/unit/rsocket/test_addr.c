/* SPDX-License-Identifier: BSD-2-Clause */

/* Conversion of addresses: IPv4-mapped addresses, short buffers, other families. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/addr.h"

static struct sockaddr_in6 v6(const char *text)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};

	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return in6;
}

static void addr_take_v4_mapped_becomes_ipv4(void **state)
{
	struct sockaddr_in6 in6 = v6("::ffff:10.0.0.1");
	struct sockaddr_storage addr;
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;

	(void)state;
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in6, sizeof(in6), AF_INET6), 0);
	assert_int_equal(addr.ss_family, AF_INET);
	assert_int_equal(in->sin_port, htons(7));
	assert_int_equal(in->sin_addr.s_addr, inet_addr("10.0.0.1"));
	addr_show(&addr, AF_INET6);
	assert_memory_equal(&addr, &in6, sizeof(in6));
	/* An AF_INET socket reports it as IPv4. */
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in6, sizeof(in6), AF_INET6), 0);
	addr_show(&addr, AF_INET);
	assert_int_equal(addr.ss_family, AF_INET);
}

static void addr_show_ipv4_wildcard_becomes_ipv6_wildcard(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7)};
	struct sockaddr_in6 any = v6("::");
	struct sockaddr_storage addr = {0};

	(void)state;
	memcpy(&addr, &in, sizeof(in));
	addr_show(&addr, AF_INET6);
	assert_memory_equal(&addr, &any, sizeof(any));
}

static void addr_take_other_family_fails(void **state)
{
	struct sockaddr_in6 in6 = v6("::1");
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_storage addr;

	(void)state;
	assert_int_equal(addr_take(&addr, NULL, sizeof(in), AF_INET), -EINVAL);
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in, 1, AF_INET), -EINVAL);
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in, sizeof(in) - 1, AF_INET),
			 -EINVAL);
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in, sizeof(in), AF_INET6),
			 -EAFNOSUPPORT);
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in6, sizeof(in6) - 1, AF_INET6),
			 -EINVAL);
	assert_int_equal(addr_take(&addr, (struct sockaddr *)&in6, sizeof(in6), AF_INET),
			 -EAFNOSUPPORT);
}

static void addr_give_short_buffer_is_truncated(void **state)
{
	struct sockaddr_storage addr = {.ss_family = AF_INET};
	uint8_t buffer[sizeof(struct sockaddr_in) + 4];
	socklen_t bytes = 4;

	(void)state;
	memset(buffer, 0xee, sizeof(buffer));
	addr_give(&addr, (struct sockaddr *)buffer, &bytes);
	assert_int_equal(bytes, sizeof(struct sockaddr_in));
	assert_int_equal(buffer[3], 0);
	assert_int_equal(buffer[4], 0xee);
	bytes = sizeof(buffer);
	addr_give(&addr, (struct sockaddr *)buffer, &bytes);
	assert_int_equal(bytes, sizeof(struct sockaddr_in));
	assert_int_equal(buffer[sizeof(struct sockaddr_in)], 0xee);
}

static void addr_is_equal_compares_address_and_port(void **state)
{
	struct sockaddr_storage a = {0}, b = {0};
	struct sockaddr_in6 in6 = v6("fd00::1");

	(void)state;
	memcpy(&a, &in6, sizeof(in6));
	in6.sin6_flowinfo = 1;
	memcpy(&b, &in6, sizeof(in6));
	assert_true(addr_is_equal(&a, &b));
	((struct sockaddr_in6 *)&b)->sin6_port = htons(8);
	assert_false(addr_is_equal(&a, &b));
	b.ss_family = AF_INET;
	assert_false(addr_is_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addr_take_v4_mapped_becomes_ipv4),
		cmocka_unit_test(addr_show_ipv4_wildcard_becomes_ipv6_wildcard),
		cmocka_unit_test(addr_take_other_family_fails),
		cmocka_unit_test(addr_give_short_buffer_is_truncated),
		cmocka_unit_test(addr_is_equal_compares_address_and_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
