/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2) work as IPv4, and are reported in the form that
 * the application used.
 */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct sockaddr_storage mapped(const struct sockaddr_storage *plain)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)plain;
	struct sockaddr_storage addr = {.ss_family = AF_INET6};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;

	in6->sin6_port = in->sin_port;
	memset(in6->sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(in6->sin6_addr.s6_addr + 12, &in->sin_addr, sizeof(in->sin_addr));
	return addr;
}

/* Compares the address without its port. */
static void assert_shows(const struct sockaddr *shown, struct sockaddr_storage *given)
{
	const struct sockaddr_in6 *is = (const struct sockaddr_in6 *)(const void *)shown;
	const struct sockaddr_in6 *want = (const struct sockaddr_in6 *)(const void *)given;

	assert_int_equal(shown->sa_family, given->ss_family);
	if (shown->sa_family == AF_INET6)
		assert_memory_equal(&is->sin6_addr, &want->sin6_addr, sizeof(is->sin6_addr));
	else
		assert_int_equal(((const struct sockaddr_in *)(const void *)shown)->sin_addr.s_addr,
				 ((const struct sockaddr_in *)given)->sin_addr.s_addr);
}

/* 127.0.0.1 and, if there is one, an address of another interface. */
static size_t plain_addrs(struct sockaddr_storage addrs[2])
{
	struct sockaddr_storage all[CM_ADDRS_MAX];
	size_t count = cm_addrs(all), found = 0;

	for (size_t i = 0; i < count; i++) {
		if (all[i].ss_family == AF_INET)
			addrs[found++] = all[i];
	}
	return found;
}

/* The listener uses one form of the address, the client's destination the other. */
static void connect_to(struct sockaddr_storage *listen, struct sockaddr_storage *dst)
{
	struct ends ends;

	ends_listen(&ends, listen, 1);
	assert_shows(rdma_get_local_addr(ends.listener), listen);
	ends.addr = *dst;
	cm_set_port(&ends.addr, rdma_get_src_port(ends.listener));
	ends_resolve(&ends);
	assert_shows(rdma_get_peer_addr(ends.active), dst);
	assert_shows(rdma_get_local_addr(ends.active), dst);
	assert_int_equal(rdma_get_dst_port(ends.active), rdma_get_src_port(ends.listener));
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	assert_shows(rdma_get_local_addr(ends.passive), listen);
	assert_shows(rdma_get_peer_addr(ends.passive), listen);
	assert_int_equal(rdma_get_dst_port(ends.passive), rdma_get_src_port(ends.active));
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	ends_close(&ends);
}

static void rdma_connect_v4_mapped_and_ipv4_addresses_connect(void **state)
{
	struct sockaddr_storage plain[2];
	size_t count = plain_addrs(plain);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_storage as_mapped = mapped(&plain[i]);

		connect_to(&as_mapped, &as_mapped);
		connect_to(&as_mapped, &plain[i]);
		connect_to(&plain[i], &as_mapped);
	}
}

static void rdma_bind_addr_v4_mapped_and_ipv4_share_port(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage plain = cm_loopback(0), as_mapped;
	struct rdma_cm_id *first = cm_id(channel), *second = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_bind_addr(first, sa(&plain)), 0);
	cm_set_port(&plain, rdma_get_src_port(first));
	as_mapped = mapped(&plain);
	assert_minus1_errno(rdma_bind_addr(second, sa(&as_mapped)), EADDRINUSE);
	/* The form of the failed call is not reported after a later success. */
	cm_set_port(&plain, 0);
	assert_int_equal(rdma_bind_addr(second, sa(&plain)), 0);
	assert_int_equal(rdma_get_local_addr(second)->sa_family, AF_INET);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_resolve_addr_v4_mapped_addresses_keep_family(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage plain = cm_loopback(0), as_mapped = mapped(&plain);
	struct sockaddr_storage any6 = {.ss_family = AF_INET6};
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, sa(&plain), sa(&as_mapped), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_shows(rdma_get_local_addr(id), &plain);
	assert_shows(rdma_get_peer_addr(id), &as_mapped);
	assert_int_equal(rdma_destroy_id(id), 0);

	id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(id, sa(&as_mapped), sa(&plain), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_shows(rdma_get_local_addr(id), &as_mapped);
	assert_shows(rdma_get_peer_addr(id), &plain);
	assert_int_equal(rdma_destroy_id(id), 0);

	/*
	 * With :: as the source, an IPv4 peer is reached through its mapped address. The source is
	 * bound before the call or passed to it.
	 */
	id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(id, sa(&any6), sa(&as_mapped), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_shows(rdma_get_local_addr(id), &as_mapped);
	assert_int_equal(rdma_destroy_id(id), 0);

	id = cm_id(channel);
	assert_int_equal(rdma_bind_addr(id, sa(&any6)), 0);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&plain), 1000), EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&as_mapped), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_shows(rdma_get_local_addr(id), &as_mapped);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_connect_v4_mapped_and_ipv4_addresses_connect),
		cmocka_unit_test(rdma_bind_addr_v4_mapped_and_ipv4_share_port),
		cmocka_unit_test(rdma_resolve_addr_v4_mapped_addresses_keep_family),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
