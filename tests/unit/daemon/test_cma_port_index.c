/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "daemon/cma_port_index.h"

/*
 * Random operations on a few addresses, ports and peers. Each result is compared with the
 * definition of a conflict between two bindings, which the model applies to all pairs.
 */
#define PS	 0x0106
#define BINDINGS 12
#define PORTS	 2
#define FIRST	 40000
#define STEPS	 200000

static uint64_t seed;
static struct random dice;
static struct cma_ports ports;
static struct cma_binding bindings[BINDINGS];

static struct sockaddr *sa(const struct cma_binding *binding)
{
	return (struct sockaddr *)&binding->addr;
}

static struct sockaddr_storage some_addr(uint16_t port)
{
	static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_storage addr = {0};
	uint32_t host = random_below(&dice, 3);

	if (random_below(&dice, 2)) {
		in.sin_addr.s_addr = htonl(host ? 0x0a000000 + host : INADDR_ANY);
		memcpy(&addr, &in, sizeof(in));
	} else {
		if (host == 1)
			memcpy(&in6.sin6_addr, link_local, sizeof(link_local));
		in6.sin6_addr.s6_addr[15] = (uint8_t)host;
		memcpy(&addr, &in6, sizeof(in6));
	}
	cma_addr_set_port(&addr, port);
	return addr;
}

static uint32_t some_device(const struct sockaddr_storage *addr)
{
	return cma_addr_is_link_local((const struct sockaddr *)addr) ? 1 + random_below(&dice, 2) :
								       0;
}

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	uint8_t gid_a[GID_BYTES], gid_b[GID_BYTES];

	gid_from_sockaddr(gid_a, a);
	gid_from_sockaddr(gid_b, b);
	return !memcmp(gid_a, gid_b, GID_BYTES);
}

static bool is_same_peer(const struct cma_port_peer *a, const struct cma_port_peer *b)
{
	return a->number == b->number && !memcmp(a->gid, b->gid, GID_BYTES);
}

/* Whether some request would match both bindings of one port. */
static bool do_overlap(const struct cma_binding *a, const struct cma_binding *b)
{
	bool is_wild_a = cma_addr_is_wildcard(sa(a)), is_wild_b = cma_addr_is_wildcard(sa(b));

	if (a->addr.ss_family != b->addr.ss_family)
		return (is_wild_a && !a->is_family_only) || (is_wild_b && !b->is_family_only);
	if (is_wild_a || is_wild_b)
		return true;
	return a->dev_id == b->dev_id && is_same_host(sa(a), sa(b));
}

static bool is_on(const struct cma_binding *other, const struct cma_binding *binding, uint16_t port)
{
	return other != binding && other->port && cma_addr_port(sa(other)) == port;
}

static bool model_is_taken(const struct cma_binding *binding)
{
	for (int i = 0; i < BINDINGS; i++) {
		const struct cma_binding *other = &bindings[i];
		bool is_shared = binding->is_reuse && other->is_reuse && !other->is_listening;

		if (is_on(other, binding, cma_addr_port(sa(binding))) && !is_shared &&
		    do_overlap(binding, other))
			return true;
	}
	return false;
}

static bool model_may_listen(const struct cma_binding *binding)
{
	for (int i = 0; i < BINDINGS; i++) {
		const struct cma_binding *other = &bindings[i];

		if (is_on(other, binding, cma_addr_port(sa(binding))) && other->is_listening &&
		    do_overlap(binding, other))
			return false;
	}
	return true;
}

static bool model_may_share(const struct cma_binding *binding, uint16_t port,
			    const struct cma_port_peer *peer)
{
	for (int i = 0; i < BINDINGS; i++) {
		const struct cma_binding *other = &bindings[i];

		if (is_on(other, binding, port) && (!other->is_outgoing || other->is_listening ||
						    is_same_peer(&other->peer, peer)))
			return false;
	}
	return true;
}

static const struct cma_binding *model_listener(const struct sockaddr *addr, uint32_t dev_id)
{
	const struct cma_binding *wildcard = NULL;

	for (int i = 0; i < BINDINGS; i++) {
		const struct cma_binding *other = &bindings[i];

		if (!is_on(other, NULL, cma_addr_port(addr)) || !other->is_listening)
			continue;
		if (!cma_addr_is_wildcard(sa(other))) {
			if (is_same_host(sa(other), addr) &&
			    (!other->dev_id || other->dev_id == dev_id))
				return other;
		} else if (other->addr.ss_family == addr->sa_family || !other->is_family_only) {
			wildcard = other;
		}
	}
	return wildcard;
}

static bool is_any_shareable(const struct cma_binding *binding)
{
	for (uint16_t port = FIRST; port < FIRST + PORTS; port++) {
		if (model_may_share(binding, port, &binding->peer))
			return true;
	}
	return false;
}

static struct sockaddr_storage some_peer(struct cma_port_peer *peer)
{
	struct sockaddr_storage addr = some_addr((uint16_t)(7000 + random_below(&dice, 2)));

	peer->number = cma_addr_port((struct sockaddr *)&addr);
	gid_from_sockaddr(peer->gid, (struct sockaddr *)&addr);
	return addr;
}

static void bind_some(struct cma_binding *binding)
{
	struct sockaddr_storage peer_addr;
	bool is_free;

	*binding = (struct cma_binding){
		.is_reuse = random_below(&dice, 2),
		.is_family_only = random_below(&dice, 2),
	};
	if (random_below(&dice, 2)) {
		binding->addr = some_addr((uint16_t)(FIRST + random_below(&dice, PORTS)));
		binding->dev_id = some_device(&binding->addr);
		is_free = !model_is_taken(binding);
		assert_int_equal(cma_port_bind(&ports, binding, PS, 0), is_free ? 0 : -EADDRINUSE);
		return;
	}
	binding->addr = some_addr(0);
	binding->dev_id = some_device(&binding->addr);
	peer_addr = some_peer(&binding->peer);
	is_free = is_any_shareable(binding);
	assert_int_equal(cma_port_aim(&ports, binding, (struct sockaddr *)&peer_addr), 0);
	assert_int_equal(cma_port_bind(&ports, binding, PS, 0), is_free ? 0 : -EADDRNOTAVAIL);
}

static void aim_some(struct cma_binding *binding)
{
	uint16_t port = cma_addr_port(sa(binding));
	struct cma_port_peer peer = {0};
	struct sockaddr_storage addr = some_peer(&peer);
	bool is_possible = !binding->is_outgoing || model_may_share(binding, port, &peer);

	assert_int_equal(cma_port_aim(&ports, binding, (struct sockaddr *)&addr),
			 is_possible ? 0 : -EADDRINUSE);
}

static void change_some(struct cma_binding *binding)
{
	switch (random_below(&dice, 5)) {
	case 0:
		cma_port_release(&ports, binding);
		break;
	case 1:
		aim_some(binding);
		break;
	case 2:
		if (!binding->is_listening)
			cma_port_set_reuse(binding, true);
		break;
	case 3:
		if (!binding->is_listening)
			cma_port_set_family_only(binding, random_below(&dice, 2));
		break;
	default:
		if (binding->is_listening)
			cma_port_unlisten(binding);
		else
			assert_int_equal(cma_port_listen(&ports, binding),
					 model_may_listen(binding) ? 0 : -EADDRINUSE);
	}
}

static void cma_port_index_agrees_with_pairwise_rules(void **state)
{
	(void)state;
	print_message("# seed %llu\n", (unsigned long long)seed);
	random_init_repeatable(&dice, seed);
	assert_int_equal(cma_ports_open(&ports), 0);
	ports.ephemeral_first = ports.ephemeral_next = FIRST;
	ports.ephemeral_last = FIRST + PORTS - 1;
	for (int i = 0; i < STEPS; i++) {
		struct cma_binding *binding = &bindings[random_below(&dice, BINDINGS)];
		struct sockaddr_storage addr =
			some_addr((uint16_t)(FIRST + random_below(&dice, PORTS)));
		uint32_t dev_id = 1 + random_below(&dice, 2);

		if (binding->port)
			change_some(binding);
		else
			bind_some(binding);
		assert_ptr_equal(cma_port_find_listener(&ports, PS, (struct sockaddr *)&addr,
							dev_id),
				 model_listener((struct sockaddr *)&addr, dev_id));
	}
	for (int i = 0; i < BINDINGS; i++)
		cma_port_release(&ports, &bindings[i]);
	assert_int_equal(ports.table.count + ports.addrs.count + ports.peers.count, 0);
	cma_ports_close(&ports);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cma_port_index_agrees_with_pairwise_rules),
	};

	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
