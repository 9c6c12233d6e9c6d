/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/cma_port.h"

#define TCP	 0x0106
#define UDP	 0x0111
#define FIRST	 40000
#define RANGE	 256 /* of which 8 are reserved, and 2 are the least of a user */
#define RESERVED 8
#define LEAST	 2
#define STEPS	 1024 /* twice the ports that one bind examines, and their peers */
#define ROOT	 0
#define USER	 1000
#define DAEMON	 2000

static struct cma_ports ports;
static struct cma_binding bindings[8 * RANGE];
static unsigned bound;

static int open_range(void **state)
{
	(void)state;
	bound = 0;
	if (cma_ports_open(&ports))
		return -1;
	ports.daemon_uid = DAEMON;
	ports.ephemeral_first = ports.ephemeral_next = FIRST;
	ports.ephemeral_last = FIRST + RANGE - 1;
	return 0;
}

static int close_range(void **state)
{
	(void)state;
	while (bound > 0)
		cma_port_release(&ports, &bindings[--bound]);
	assert_int_equal(ports.users.count + ports.table.count, 0);
	for (int i = 0; i < CMA_PORT_SPACES; i++)
		assert_int_equal(ports.spaces[i].used, 0);
	cma_ports_close(&ports);
	return 0;
}

/* Binds the next binding; 0 selects any port. The peer's number 0: the binding does not connect. */
static int bind_for(uid_t uid, uint32_t ps, uint16_t number, uint16_t peer)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(number)};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(peer)};
	struct cma_binding *binding = &bindings[bound];
	int ret;

	*binding = (struct cma_binding){.is_reuse = number != 0};
	memcpy(&binding->addr, &addr, sizeof(addr));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (peer)
		assert_int_equal(cma_port_aim(&ports, binding, (struct sockaddr *)&to), 0);
	ret = cma_port_bind(&ports, binding, ps, uid);
	bound += !ret;
	return ret;
}

/* Binds any ports until that fails. Returns their number. */
static unsigned bind_all(uid_t uid, uint32_t ps, int error)
{
	unsigned before = bound;
	int ret;

	while (!(ret = bind_for(uid, ps, 0, 0)))
		;
	assert_int_equal(ret, error);
	return bound - before;
}

static void cma_port_bind_leaves_each_further_user_half(void **state)
{
	unsigned left = RANGE - RESERVED, previous = RANGE;

	(void)state;
	for (uid_t uid = USER; left > 0; uid++) {
		unsigned count = bind_all(uid, TCP, -EDQUOT);

		assert_true(count <= previous && (count >= LEAST || count == left));
		assert_true(count <= LEAST || count <= left - count + 1);
		previous = count;
		left -= count;
	}
	assert_int_equal(bind_all(USER - 1, TCP, -EDQUOT), 0);
	/* The other port space is not affected, and root gets the reserved ports. */
	assert_int_equal(bind_all(USER, UDP, -EDQUOT), (RANGE - RESERVED) / 2);
	assert_int_equal(bind_all(ROOT, TCP, -EADDRNOTAVAIL), RESERVED);
}

static void cma_port_bind_daemons_user_has_no_limit(void **state)
{
	(void)state;
	assert_int_equal(bind_all(DAEMON, TCP, -EADDRNOTAVAIL), RANGE);
	assert_int_equal(bind_for(USER, TCP, 0, 0), -EDQUOT);
}

static void cma_port_bind_counts_ephemeral_ports_bound_by_number(void **state)
{
	uint16_t number = FIRST;

	(void)state;
	while (!bind_for(USER, TCP, number, 0))
		number++;
	assert_int_equal(number - FIRST, (RANGE - RESERVED) / 2);
	assert_int_equal(bind_for(USER, TCP, number, 0), -EDQUOT);
	assert_int_equal(bind_for(USER, TCP, 0, 0), -EDQUOT);
	/*
	 * Another binding of the user's own port adds no port. Ports outside the range are not
	 * limited.
	 */
	assert_int_equal(bind_for(USER, TCP, FIRST, 0), 0);
	assert_int_equal(bind_for(USER, TCP, FIRST - 1, 0), 0);
	assert_int_equal(bind_for(USER, TCP, FIRST + RANGE, 0), 0);
	/* A port of another user would count for this user later. */
	assert_int_equal(bind_for(USER + 1, TCP, number, 0), 0);
	assert_int_equal(bind_for(USER, TCP, number, 0), -EDQUOT);
	cma_port_release(&ports, &bindings[0]);
	cma_port_release(&ports, &bindings[1]);
	assert_int_equal(bind_for(USER, TCP, number, 0), 0);
}

static void cma_port_release_counts_port_for_next_binding(void **state)
{
	unsigned count;

	(void)state;
	assert_int_equal(bind_for(USER + 1, TCP, FIRST, 0), 0);
	assert_int_equal(bind_for(USER, TCP, FIRST, 0), 0);
	cma_port_release(&ports, &bindings[0]);
	assert_int_equal(ports.spaces[0].used, 1);
	count = bind_all(USER, TCP, -EDQUOT);
	assert_int_equal(count, (RANGE - RESERVED) / 2 - 1);
}

static void cma_port_bind_at_limit_shares_own_ports_only(void **state)
{
	(void)state;
	assert_int_equal(bind_for(USER + 1, TCP, 0, 7000), 0);
	while (!bind_for(USER, TCP, 0, 7000))
		;
	assert_int_equal(bind_for(USER, TCP, 0, 7000), -EDQUOT);
	for (uint16_t peer = 7001; peer < 7010; peer++) {
		assert_int_equal(bind_for(USER, TCP, 0, peer), 0);
		assert_ptr_not_equal(bindings[bound - 1].port, bindings[0].port);
	}
	assert_int_equal(bind_for(USER, TCP, 0, 0), -EDQUOT);
}

static void cma_port_bind_at_limit_examines_few_ports(void **state)
{
	unsigned tries = 0;
	int ret;

	(void)state;
	ports.ephemeral_last = FIRST + 8 * RANGE - 1;
	assert_int_equal(bind_for(USER, TCP, 0, 7001), 0);
	while (!bind_for(USER, TCP, 0, 7000))
		;
	assert_int_equal(bound, 4 * (RANGE - RESERVED) + 1);
	/* Each port connects to this peer. */
	ports.steps = 0;
	assert_int_equal(bind_for(USER, TCP, 0, 7000), -EDQUOT);
	assert_true(ports.steps < STEPS);
	/* One port does not; a later bind finds it. */
	cma_port_release(&ports, &bindings[--bound]);
	assert_int_equal(bind_for(USER, TCP, 0, 7002), 0);
	do {
		ports.steps = 0;
		ret = bind_for(USER, TCP, 0, 7000);
		assert_true(ports.steps < STEPS);
	} while (ret && ++tries < 8);
	assert_int_equal(ret, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cma_port_bind_leaves_each_further_user_half,
						open_range, close_range),
		cmocka_unit_test_setup_teardown(cma_port_bind_daemons_user_has_no_limit, open_range,
						close_range),
		cmocka_unit_test_setup_teardown(cma_port_bind_counts_ephemeral_ports_bound_by_number,
						open_range, close_range),
		cmocka_unit_test_setup_teardown(cma_port_release_counts_port_for_next_binding,
						open_range, close_range),
		cmocka_unit_test_setup_teardown(cma_port_bind_at_limit_shares_own_ports_only,
						open_range, close_range),
		cmocka_unit_test_setup_teardown(cma_port_bind_at_limit_examines_few_ports,
						open_range, close_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
