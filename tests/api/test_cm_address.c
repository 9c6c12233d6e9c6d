/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <sys/un.h>

/* Ids and their addresses: creation, binding, listening, ports, resolution, devices. */

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct sockaddr_storage wildcard(sa_family_t family)
{
	struct sockaddr_storage addr = {.ss_family = family};

	return addr;
}

static void rdma_create_id_sets_members(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id;
	int context;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, &context, RDMA_PS_TCP), 0);
	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, &context);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	assert_null(id->verbs);
	assert_null(id->qp);
	assert_null(id->pd);
	assert_null(id->event);
	assert_int_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_get_dst_port(id), 0);
	assert_int_equal(rdma_get_src_port(NULL), 0);
	assert_int_equal(rdma_get_dst_port(NULL), 0);
	assert_int_equal(rdma_get_local_addr(id)->sa_family, 0);
	assert_int_equal(rdma_get_peer_addr(id)->sa_family, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_create_id_invalid_argument_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id;

	(void)state;
	assert_minus1_errno(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)0), EINVAL);
	assert_minus1_errno(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	assert_minus1_errno(rdma_destroy_id(NULL), EINVAL);
	rdma_destroy_event_channel(channel);
}

static void rdma_bind_addr_wildcard_selects_no_device(void **state)
{
	static const sa_family_t families[] = {AF_INET, AF_INET6};
	struct rdma_event_channel *channel = cm_channel();

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage addr = wildcard(families[i]);
		struct rdma_cm_id *id = cm_id(channel);

		assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
		assert_null(id->verbs);
		assert_int_not_equal(rdma_get_src_port(id), 0);
		assert_int_equal(rdma_get_local_addr(id)->sa_family, families[i]);
		assert_int_equal(rdma_listen(id, 1), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

/* A server that listens on 127.0.0.1 allocates its objects before the first client connects. */
static void rdma_bind_addr_loopback_selects_device(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addrs[CM_ADDRS_MAX];

	(void)state;
	assert_true(cm_addrs(addrs) >= CM_LOOPBACKS);
	for (int i = 0; i < CM_LOOPBACKS; i++) {
		struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
		struct rdma_cm_id *id = cm_id(channel);
		struct ibv_pd *pd;

		assert_int_equal(rdma_bind_addr(id, sa(&addrs[i])), 0);
		assert_non_null(id->verbs);
		pd = ibv_alloc_pd(id->verbs);
		assert_non_null(pd);
		assert_int_equal(rdma_create_srq(id, pd, &attr), 0);
		ends_create_qp(id);
		rdma_destroy_qp(id);
		rdma_destroy_srq(id);
		assert_int_equal(ibv_dealloc_pd(pd), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

/* An id of a connection request can use a PD of the listener's device. */
static void rdma_bind_addr_loopback_request_has_device_of_listener(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];

	(void)state;
	assert_true(cm_addrs(addrs) >= CM_LOOPBACKS);
	for (int i = 0; i < CM_LOOPBACKS; i++) {
		struct ends ends;

		ends_listen(&ends, &addrs[i], 1);
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		ends_request(&ends, NULL);
		assert_ptr_equal(ends.passive->verbs, ends.listener->verbs);
		ends_close(&ends);
	}
}

static struct rdma_addrinfo *passive_info(const char *node)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_family = AF_INET}, *info;

	assert_int_equal(rdma_getaddrinfo(node, NULL, &hints, &info), 0);
	return info;
}

static void expect_device_after_bind(struct sockaddr *addr)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, addr), 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* librpma and other servers use id->verbs between rdma_bind_addr() and rdma_listen(). */
static void rdma_bind_addr_synchronous_loopback_without_port_selects_device(void **state)
{
	struct rdma_addrinfo *info = passive_info("127.0.0.1");
	struct sockaddr_storage addr = cm_loopback(0);

	(void)state;
	expect_device_after_bind(sa(&addr));
	expect_device_after_bind(info->ai_src_addr);
	rdma_freeaddrinfo(info);
	/* Only the result of the look-up itself is libfabric's. */
	info = passive_info("localhost");
	memcpy(&addr, info->ai_src_addr, info->ai_src_len);
	expect_device_after_bind(sa(&addr));
	rdma_freeaddrinfo(info);
}

/* libfabric enumerates devices in this way: see ADR 0027. */
static void rdma_bind_addr_localhost_of_getaddrinfo_defers_device(void **state)
{
	struct rdma_addrinfo *info = passive_info("localhost");
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_cm_id *id;
	int mask;

	(void)state;
	for (int step = 0; step < 4; step++) {
		assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(id, info->ai_src_addr), 0);
		assert_null(id->verbs);
		if (step == 0)
			assert_int_equal(rdma_listen(id, 1), 0);
		else if (step == 1)
			ends_create_qp(id);
		else if (step == 2)
			assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
		else
			assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_src_addr, 1000), 0);
		assert_non_null(id->verbs);
		rdma_destroy_ep(id);
	}
	rdma_freeaddrinfo(info);
}

static void rdma_bind_addr_own_address_selects_its_device(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);
	struct ibv_context **devices;
	int device_count, found;

	(void)state;
	devices = rdma_get_devices(&device_count);
	assert_non_null(devices);
	assert_true(device_count > 0);
	assert_null(devices[device_count]);
	for (size_t i = 0; i < count; i++) {
		struct rdma_cm_id *id = cm_id(channel);

		assert_int_equal(rdma_bind_addr(id, sa(&addrs[i])), 0);
		assert_non_null(id->verbs);
		assert_non_null(id->pd);
		assert_ptr_equal(id->pd->context, id->verbs);
		assert_int_equal(id->port_num, 1);
		/* One context for each device, shared by all ids and rdma_get_devices(). */
		found = 0;
		for (int d = 0; d < device_count; d++)
			found += devices[d] == id->verbs;
		assert_int_equal(found, 1);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_free_devices(devices);
	devices = rdma_get_devices(NULL);
	assert_non_null(devices);
	rdma_free_devices(devices);
	rdma_destroy_event_channel(channel);
}

static void rdma_bind_addr_invalid_address_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage foreign = cm_loopback(0);
	struct sockaddr_storage good = cm_loopback(0);
	struct sockaddr_ib ib = {.sib_family = AF_IB};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	/* TEST-NET-3 (RFC 5737): no host has the address. */
	((struct sockaddr_in *)&foreign)->sin_addr.s_addr = htonl(0xcb007101);
	assert_minus1_errno(rdma_bind_addr(id, sa(&foreign)), EADDRNOTAVAIL);
	assert_minus1_errno(rdma_bind_addr(id, (struct sockaddr *)&ib), ENODEV);
	assert_minus1_errno(rdma_bind_addr(id, (struct sockaddr *)&un), EINVAL);
	assert_minus1_errno(rdma_bind_addr(id, NULL), EINVAL);
	assert_minus1_errno(rdma_bind_addr(NULL, sa(&good)), EINVAL);
	assert_int_equal(rdma_bind_addr(id, sa(&good)), 0);
	assert_minus1_errno(rdma_bind_addr(id, sa(&good)), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_bind_addr_used_port_fails_with_eaddrinuse(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(0);
	struct sockaddr_storage any = wildcard(AF_INET);
	struct rdma_cm_id *first = cm_id(channel);
	struct rdma_cm_id *second = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_bind_addr(first, sa(&addr)), 0);
	cm_set_port(&addr, rdma_get_src_port(first));
	cm_set_port(&any, rdma_get_src_port(first));
	assert_minus1_errno(rdma_bind_addr(second, sa(&addr)), EADDRINUSE);
	assert_minus1_errno(rdma_bind_addr(second, sa(&any)), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_bind_addr(second, sa(&addr)), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_listen_twice_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 0);
	assert_minus1_errno(rdma_listen(ends.listener, 1), EINVAL);
	assert_minus1_errno(rdma_listen(NULL, 1), EINVAL);
	assert_minus1_errno(rdma_resolve_addr(ends.listener, NULL, sa(&ends.addr), 100), EINVAL);
	ends_close(&ends);
}

static void rdma_resolve_addr_selects_device_and_source(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		const struct ibv_sa_path_rec *path;
		struct ends ends;

		ends_listen(&ends, &addrs[i], 1);
		ends_resolve(&ends);
		assert_non_null(ends.active->verbs);
		assert_non_null(ends.active->pd);
		assert_int_equal(ends.active->port_num, 1);
		assert_int_equal(rdma_get_local_addr(ends.active)->sa_family, addrs[i].ss_family);
		assert_int_not_equal(rdma_get_src_port(ends.active), 0);
		assert_int_equal(rdma_get_dst_port(ends.active), rdma_get_src_port(ends.listener));
		assert_int_equal(ends.active->route.num_paths, 1);
		path = ends.active->route.path_rec;
		assert_non_null(path);
		assert_int_equal(path->pkey, 0xffff);
		assert_true(path->mtu >= IBV_MTU_256 && path->mtu <= IBV_MTU_4096);
		assert_memory_equal(&path->sgid, &ends.active->route.addr.addr.ibaddr.sgid, 16);
		assert_memory_equal(&path->dgid, &ends.active->route.addr.addr.ibaddr.dgid, 16);
		ends_close(&ends);
	}
}

static void rdma_resolve_addr_given_source_is_used(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage src = cm_loopback(0);
	struct sockaddr_storage dst = cm_loopback(CM_PORT_NOBODY);
	struct sockaddr_storage other = wildcard(AF_INET6);
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_minus1_errno(rdma_resolve_addr(id, sa(&other), sa(&dst), 1000), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(id, sa(&src), sa(&dst), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr,
			 htonl(INADDR_LOOPBACK));
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_resolve_addr_invalid_argument_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage dst = cm_loopback(CM_PORT_NOBODY);
	struct sockaddr_ib ib = {.sib_family = AF_IB};
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_minus1_errno(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	assert_minus1_errno(rdma_resolve_addr(NULL, NULL, sa(&dst), 100), EINVAL);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, (struct sockaddr *)&ib, 100), ENODEV);
	assert_minus1_errno(rdma_resolve_addr(id, (struct sockaddr *)&ib, sa(&dst), 100), ENODEV);
	assert_minus1_errno(rdma_resolve_route(id, 100), EINVAL);
	assert_minus1_errno(rdma_resolve_route(NULL, 100), EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&dst), 100), 0);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&dst), 100), EINVAL);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_minus1_errno(rdma_resolve_route(id, 0), EINVAL);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* Without a route the error is returned by the call or reported by an event. */
static void rdma_resolve_addr_without_route_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage dst = {.ss_family = AF_INET6};
	struct rdma_cm_id *id = cm_id(channel);
	struct rdma_cm_event *event;

	(void)state;
	/* 0100::/64 (RFC 6666) is the discard prefix. */
	((struct sockaddr_in6 *)&dst)->sin6_addr.s6_addr[0] = 1;
	((struct sockaddr_in6 *)&dst)->sin6_addr.s6_addr[15] = 1;
	if (rdma_resolve_addr(id, NULL, sa(&dst), 1000) == 0) {
		event = cm_get(channel, RDMA_CM_EVENT_ADDR_ERROR);
		assert_true(event->status < 0);
		rdma_ack_cm_event(event);
	} else {
		assert_true(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENODEV);
	}
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_id_sets_members),
		cmocka_unit_test(rdma_create_id_invalid_argument_fails),
		cmocka_unit_test(rdma_bind_addr_wildcard_selects_no_device),
		cmocka_unit_test(rdma_bind_addr_loopback_selects_device),
		cmocka_unit_test(rdma_bind_addr_loopback_request_has_device_of_listener),
		cmocka_unit_test(rdma_bind_addr_synchronous_loopback_without_port_selects_device),
		cmocka_unit_test(rdma_bind_addr_localhost_of_getaddrinfo_defers_device),
		cmocka_unit_test(rdma_bind_addr_own_address_selects_its_device),
		cmocka_unit_test(rdma_bind_addr_invalid_address_fails),
		cmocka_unit_test(rdma_bind_addr_used_port_fails_with_eaddrinuse),
		cmocka_unit_test(rdma_listen_twice_fails),
		cmocka_unit_test(rdma_resolve_addr_selects_device_and_source),
		cmocka_unit_test(rdma_resolve_addr_given_source_is_used),
		cmocka_unit_test(rdma_resolve_addr_invalid_argument_fails),
		cmocka_unit_test(rdma_resolve_addr_without_route_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
