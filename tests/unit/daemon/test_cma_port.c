/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cma_port.h"

#define TCP   0x0106
#define UDP   0x0111
#define ROOT  0
#define FIRST 40000
#define RANGE 4

static void open_ports(struct cma_ports *ports)
{
	assert_int_equal(cma_ports_open(ports), 0);
	ports->ephemeral_first = FIRST;
	ports->ephemeral_last = FIRST + RANGE - 1;
	ports->ephemeral_next = FIRST;
}

/* 127.0.0.1 plus the value of the letter, or the wildcard address. */
static struct sockaddr_storage ipv4(const char *letter, uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_storage any = {0};

	addr.sin_addr.s_addr = htonl(letter ? INADDR_LOOPBACK + (uint32_t)letter[0] : INADDR_ANY);
	memcpy(&any, &addr, sizeof(addr));
	return any;
}

/* A wildcard with this port; 0 selects any port. */
static struct cma_binding unbound(uint16_t port)
{
	return (struct cma_binding){.addr = ipv4(NULL, port)};
}

static uint16_t port_of(const struct cma_binding *binding)
{
	return cma_addr_port((const struct sockaddr *)&binding->addr);
}

static int aim(struct cma_ports *ports, struct cma_binding *binding, const char *host,
	       uint16_t port)
{
	struct sockaddr_storage peer = ipv4(host, port);

	return cma_port_aim(ports, binding, (const struct sockaddr *)&peer);
}

/* Connects a binding to a peer: 0 or -errno. */
static int connect_to(struct cma_ports *ports, struct cma_binding *binding, const char *host,
		      uint16_t port)
{
	*binding = unbound(0);
	assert_int_equal(aim(ports, binding, host, port), 0);
	return cma_port_bind(ports, binding, TCP, ROOT);
}

static void cma_port_bind_clients_share_ephemeral_range(void **state)
{
	struct cma_binding to_a[RANGE + 1], to_b[RANGE + 1], same_host, elsewhere;
	struct cma_ports ports;
	uint32_t seen = 0;

	(void)state;
	open_ports(&ports);
	for (int i = 0; i < RANGE; i++) {
		assert_int_equal(connect_to(&ports, &to_a[i], "a", 7000), 0);
		seen |= 1u << (port_of(&to_a[i]) - FIRST);
	}
	assert_int_equal(seen, (1u << RANGE) - 1);
	assert_int_equal(connect_to(&ports, &to_a[RANGE], "a", 7000), -EADDRNOTAVAIL);
	/* Another address, and another port of the same address. */
	seen = 0;
	for (int i = 0; i < RANGE; i++) {
		assert_int_equal(connect_to(&ports, &to_b[i], "b", 7000), 0);
		seen |= 1u << (port_of(&to_b[i]) - FIRST);
	}
	assert_int_equal(seen, (1u << RANGE) - 1);
	assert_int_equal(connect_to(&ports, &to_b[RANGE], "b", 7000), -EADDRNOTAVAIL);
	assert_int_equal(connect_to(&ports, &same_host, "a", 7001), 0);
	/* A released port is free for its peer only, and then for that peer again. */
	cma_port_release(&ports, &to_a[2]);
	assert_int_equal(connect_to(&ports, &to_a[RANGE], "a", 7000), 0);
	assert_int_equal(port_of(&to_a[RANGE]), FIRST + 2);
	assert_int_equal(connect_to(&ports, &elsewhere, "b", 7000), -EADDRNOTAVAIL);
	cma_port_release(&ports, &same_host);
	cma_port_release(&ports, &to_a[RANGE]);
	for (int i = 0; i < RANGE; i++) {
		cma_port_release(&ports, &to_a[i]);
		cma_port_release(&ports, &to_b[i]);
	}
	assert_int_equal(ports.table.count, 0);
	cma_ports_close(&ports);
}

static void cma_port_bind_prefers_free_port(void **state)
{
	struct cma_binding to_a, to_b;
	struct cma_ports ports;

	(void)state;
	open_ports(&ports);
	assert_int_equal(connect_to(&ports, &to_a, "a", 7000), 0);
	ports.ephemeral_next = port_of(&to_a);
	assert_int_equal(connect_to(&ports, &to_b, "b", 7000), 0);
	assert_int_not_equal(port_of(&to_a), port_of(&to_b));
	cma_port_release(&ports, &to_a);
	cma_port_release(&ports, &to_b);
	cma_ports_close(&ports);
}

/* A port that is bound or listening is exclusive, and a shared port cannot be bound. */
static void cma_port_listen_needs_exclusive_port(void **state)
{
	struct cma_binding bound[RANGE], late, other_space;
	struct cma_ports ports;

	(void)state;
	open_ports(&ports);
	/*
	 * A fixed port to a peer; a fixed port; any port without a peer; any port to a peer, which
	 * then listens.
	 */
	bound[0] = unbound(FIRST);
	assert_int_equal(aim(&ports, &bound[0], "a", 7000), 0);
	bound[1] = unbound(FIRST + 1);
	bound[2] = unbound(0);
	bound[3] = unbound(0);
	assert_int_equal(aim(&ports, &bound[3], "a", 7000), 0);
	for (int i = 0; i < RANGE; i++)
		assert_int_equal(cma_port_bind(&ports, &bound[i], TCP, ROOT), 0);
	assert_int_equal(cma_port_listen(&ports, &bound[3]), 0);
	assert_int_equal(connect_to(&ports, &late, "b", 7000), -EADDRNOTAVAIL);
	other_space = unbound(0);
	assert_int_equal(cma_port_bind(&ports, &other_space, UDP, ROOT), 0);
	cma_port_unlisten(&bound[3]);
	assert_int_equal(connect_to(&ports, &late, "b", 7000), 0);
	assert_int_equal(port_of(&late), port_of(&bound[3]));
	cma_port_release(&ports, &bound[2]);
	bound[2] = unbound(port_of(&late));
	assert_int_equal(cma_port_bind(&ports, &bound[2], TCP, ROOT), -EADDRINUSE);
	cma_port_release(&ports, &late);
	cma_port_release(&ports, &other_space);
	for (int i = 0; i < RANGE; i++)
		cma_port_release(&ports, &bound[i]);
	cma_ports_close(&ports);
}

static void cma_port_connect_again_moves_to_new_peer(void **state)
{
	struct cma_binding to_a[RANGE], to_b, by_number;
	struct cma_ports ports;

	(void)state;
	open_ports(&ports);
	for (int i = 0; i < RANGE; i++)
		assert_int_equal(connect_to(&ports, &to_a[i], "a", 7000), 0);
	assert_int_equal(connect_to(&ports, &to_b, "b", 7000), 0);
	assert_int_equal(aim(&ports, &to_b, "a", 7000), -EADDRINUSE);
	/* It still has its peer: no other user of its port may connect there. */
	assert_int_equal(port_of(&to_a[0]), port_of(&to_b));
	assert_int_equal(aim(&ports, &to_a[0], "b", 7000), -EADDRINUSE);
	assert_int_equal(aim(&ports, &to_b, "b", 7000), 0);
	assert_int_equal(aim(&ports, &to_b, "c", 7000), 0);
	by_number = unbound(FIRST + RANGE);
	assert_int_equal(cma_port_bind(&ports, &by_number, TCP, ROOT), 0);
	assert_int_equal(aim(&ports, &by_number, "a", 7000), 0);
	assert_false(by_number.is_outgoing);
	cma_port_release(&ports, &by_number);
	cma_port_release(&ports, &to_b);
	for (int i = 0; i < RANGE; i++)
		cma_port_release(&ports, &to_a[i]);
	cma_ports_close(&ports);
}

#define CROWD	    10000
#define STEPS_BOUND 16 /* a port, an address or a peer for each lookup of a case */

/* The address of the number: 10.0.0.0 plus the number. */
static struct sockaddr_storage numbered(uint32_t number, uint16_t port)
{
	struct sockaddr_storage addr = ipv4("a", port);

	((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(0x0a000000 + number);
	return addr;
}

/*
 * Each operation of a port that examines other bindings, with a new binding like those that are
 * bound.
 */
static void assert_steps_are_bounded(struct cma_ports *ports, struct sockaddr_storage addr)
{
	struct cma_binding reusing = {.addr = addr, .is_reuse = true}, exclusive = {.addr = addr};

	ports->steps = 0;
	assert_int_equal(cma_port_bind(ports, &exclusive, TCP, ROOT), -EADDRINUSE);
	assert_int_equal(cma_port_bind(ports, &reusing, TCP, ROOT), 0);
	assert_int_equal(cma_port_listen(ports, &reusing), 0);
	assert_ptr_equal(cma_port_find_listener(ports, TCP, (struct sockaddr *)&addr, 1), &reusing);
	cma_port_release(ports, &reusing);
	assert_true(ports->steps < STEPS_BOUND);
}

static void cma_port_bind_examines_no_more_with_many_bindings(void **state)
{
	struct cma_binding *crowd = calloc(CROWD, sizeof(*crowd));
	struct cma_ports ports;

	(void)state;
	assert_non_null(crowd);
	open_ports(&ports);
	/* At one address of one port, and at as many addresses of another port. */
	for (uint32_t i = 0; i < CROWD; i++) {
		bool is_same = i < CROWD / 2;

		crowd[i].is_reuse = true;
		crowd[i].addr = numbered(is_same ? 0 : i, is_same ? 5555 : 5556);
		assert_int_equal(cma_port_bind(&ports, &crowd[i], TCP, ROOT), 0);
	}
	assert_steps_are_bounded(&ports, numbered(0, 5555));
	assert_steps_are_bounded(&ports, numbered(CROWD - 1, 5556));
	assert_steps_are_bounded(&ports, ipv4(NULL, 5556));
	for (int i = 0; i < CROWD; i++)
		cma_port_release(&ports, &crowd[i]);
	assert_int_equal(ports.addrs.count, 0);
	cma_ports_close(&ports);
	free(crowd);
}

static void cma_port_aim_examines_no_more_with_many_peers(void **state)
{
	struct cma_binding *crowd = calloc(CROWD, sizeof(*crowd));
	struct sockaddr_storage peer;
	struct cma_ports ports;

	(void)state;
	assert_non_null(crowd);
	open_ports(&ports);
	ports.ephemeral_last = FIRST;
	for (uint32_t i = 0; i < CROWD; i++) {
		crowd[i] = unbound(0);
		peer = numbered(i, 7000);
		assert_int_equal(cma_port_aim(&ports, &crowd[i], (struct sockaddr *)&peer), 0);
		ports.steps = 0;
		assert_int_equal(cma_port_bind(&ports, &crowd[i], TCP, ROOT), 0);
		assert_true(ports.steps < STEPS_BOUND);
	}
	ports.steps = 0;
	peer = numbered(CROWD, 7000);
	assert_int_equal(cma_port_aim(&ports, &crowd[0], (struct sockaddr *)&peer), 0);
	peer = numbered(CROWD - 1, 7000);
	assert_int_equal(cma_port_aim(&ports, &crowd[0], (struct sockaddr *)&peer), -EADDRINUSE);
	assert_true(ports.steps < STEPS_BOUND);
	for (int i = 0; i < CROWD; i++)
		cma_port_release(&ports, &crowd[i]);
	assert_int_equal(ports.peers.count, 0);
	cma_ports_close(&ports);
	free(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cma_port_bind_clients_share_ephemeral_range),
		cmocka_unit_test(cma_port_bind_prefers_free_port),
		cmocka_unit_test(cma_port_listen_needs_exclusive_port),
		cmocka_unit_test(cma_port_connect_again_moves_to_new_peer),
		cmocka_unit_test(cma_port_bind_examines_no_more_with_many_bindings),
		cmocka_unit_test(cma_port_aim_examines_no_more_with_many_peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
