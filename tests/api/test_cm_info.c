/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Information that an application asks for: addresses of names, endpoints from such addresses, the
 * addresses of an id and the devices; and the release of each.
 */
#include "cm_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <string.h>

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct ibv_qp_init_attr init_attr(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return attr;
}

static struct rdma_addrinfo *info_of(struct sockaddr_storage *addr)
{
	struct rdma_addrinfo hints = {
		.ai_port_space = RDMA_PS_TCP, .ai_dst_addr = sa(addr), .ai_dst_len = sizeof(*addr)};
	struct rdma_addrinfo *info;

	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	return info;
}

static void rdma_create_ep_without_attributes_has_no_qp(void **state)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);
	struct rdma_addrinfo *info = info_of(&addr);
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	assert_non_null(id->verbs);
	assert_null(id->qp);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

/* The PD can be deallocated only when the QP that uses it is destroyed. */
static void rdma_destroy_ep_destroys_qp_of_given_pd(void **state)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);
	struct rdma_addrinfo *info = info_of(&addr);
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_cm_id *first, *id;
	struct ibv_pd *pd;

	(void)state;
	assert_int_equal(rdma_create_ep(&first, info, NULL, NULL), 0);
	pd = ibv_alloc_pd(first->verbs);
	assert_non_null(pd);
	assert_int_equal(rdma_create_ep(&id, info, pd, &attr), 0);
	assert_ptr_equal(id->pd, pd);
	assert_ptr_equal(id->qp->pd, pd);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	rdma_destroy_ep(id);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	rdma_destroy_ep(first);
	rdma_freeaddrinfo(info);
}

static void rdma_create_ep_without_pd_uses_default_pd(void **state)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);
	struct rdma_addrinfo *info = info_of(&addr);
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_cm_id *ids[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_create_ep(&ids[i], info, NULL, &attr), 0);
		assert_non_null(ids[i]->pd);
		assert_ptr_equal(ids[i]->qp->pd, ids[i]->pd);
	}
	assert_ptr_equal(ids[0]->pd, ids[1]->pd);
	for (int i = 0; i < 2; i++)
		rdma_destroy_ep(ids[i]);
	rdma_freeaddrinfo(info);
}

static bool is_zero(const struct sockaddr *addr, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)addr)[i])
			return false;
	return true;
}

static void rdma_get_local_addr_unbound_id_is_zero(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_true(is_zero(rdma_get_local_addr(id), sizeof(addr)));
	assert_true(is_zero(rdma_get_peer_addr(id), sizeof(addr)));
	assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
	assert_false(is_zero(rdma_get_local_addr(id), sizeof(addr)));
	assert_true(is_zero(rdma_get_peer_addr(id), sizeof(addr)));
	assert_int_equal(rdma_get_dst_port(id), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* The local address and port of each side are those of the peer of the other side. */
static void rdma_get_peer_addr_is_local_addr_of_other_side(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		size_t bytes = addrs[i].ss_family == AF_INET ?
				       sizeof(struct sockaddr_in) :
				       offsetof(struct sockaddr_in6, sin6_scope_id);
		struct ends ends;

		ends_open(&ends, &addrs[i]);
		assert_memory_equal(rdma_get_local_addr(ends.active),
				    rdma_get_peer_addr(ends.passive), bytes);
		assert_memory_equal(rdma_get_local_addr(ends.passive),
				    rdma_get_peer_addr(ends.active), bytes);
		assert_memory_equal(rdma_get_peer_addr(ends.active), &ends.addr, bytes);
		assert_int_equal(rdma_get_src_port(ends.active), rdma_get_dst_port(ends.passive));
		assert_int_equal(rdma_get_dst_port(ends.active), rdma_get_src_port(ends.passive));
		ends_close(&ends);
	}
}

static void rdma_free_devices_keeps_devices_open(void **state)
{
	struct ibv_context **devices;
	struct ibv_device_attr attr;
	struct ibv_context *first;
	int count;

	(void)state;
	devices = rdma_get_devices(&count);
	assert_non_null(devices);
	assert_true(count > 0);
	first = devices[0];
	rdma_free_devices(devices);
	assert_int_equal(ibv_query_device(first, &attr), 0);
	devices = rdma_get_devices(NULL);
	assert_ptr_equal(devices[0], first);
	rdma_free_devices(devices);
}

/* Every pointer of an entry refers to memory, as in the results for other transports. */
static struct rdma_addrinfo *full_entry(void)
{
	struct sockaddr_storage src = cm_loopback(0);
	struct rdma_addrinfo hints = {
		.ai_port_space = RDMA_PS_TCP, .ai_src_addr = sa(&src), .ai_src_len = sizeof(src)};
	struct rdma_addrinfo *info;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
	assert_non_null(info->ai_src_addr);
	assert_non_null(info->ai_dst_addr);
	assert_non_null(info->ai_dst_canonname);
	if (!info->ai_src_canonname)
		info->ai_src_canonname = strdup("source");
	info->ai_route = strdup("route");
	info->ai_connect = strdup("connect");
	return info;
}

static void free_a_list_of_three(void *arg)
{
	struct rdma_addrinfo *list = NULL;

	(void)arg;
	for (int i = 0; i < 3; i++) {
		struct rdma_addrinfo *info = full_entry();

		info->ai_next = list;
		list = info;
	}
	rdma_freeaddrinfo(list);
}

/*
 * The allocator's caches are full after the first steps: from then on the number of bytes in use is
 * constant.
 */
static void uses_constant_memory(void (*step)(void *arg), void *arg)
{
	size_t before;

	for (int i = 0; i < 10; i++)
		step(arg);
	before = mallinfo2().uordblks;
	for (int i = 0; i < 100; i++)
		step(arg);
	assert_int_equal(mallinfo2().uordblks, before);
}

static void rdma_freeaddrinfo_frees_whole_list(void **state)
{
	(void)state;
	uses_constant_memory(free_a_list_of_three, NULL);
}

static void acknowledge_an_event(void *arg)
{
	struct rdma_cm_id *id = arg;

	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), 0);
	cm_pass(id->channel, id, RDMA_CM_EVENT_USER);
}

static void rdma_ack_cm_event_frees_event(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	uses_constant_memory(acknowledge_an_event, id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* As on Linux: without node and service the addresses of the hints are returned, here none. */
static void rdma_getaddrinfo_hints_alone_succeeds(void **state)
{
	struct rdma_addrinfo hints = {0}, *info = NULL;

	(void)state;
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	assert_null(info->ai_src_addr);
	assert_null(info->ai_dst_addr);
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	rdma_freeaddrinfo(info);
	assert_minus1_errno(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
}

static void expect_address(const char *node, const char *service, int family, uint16_t port)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	const struct sockaddr_in6 *sin6;
	const struct sockaddr_in *sin;

	assert_int_equal(rdma_getaddrinfo(node, service, &hints, &info), 0);
	sin = (const struct sockaddr_in *)(const void *)info->ai_dst_addr;
	sin6 = (const struct sockaddr_in6 *)(const void *)info->ai_dst_addr;
	if (family)
		assert_int_equal(info->ai_family, family);
	if (info->ai_family == AF_INET)
		assert_int_equal(ntohl(sin->sin_addr.s_addr), INADDR_LOOPBACK);
	else
		assert_memory_equal(&sin6->sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback));
	assert_int_equal(ntohs(info->ai_family == AF_INET ? sin->sin_port : sin6->sin6_port), port);
	rdma_freeaddrinfo(info);
}

/* Whether the name of a service is known depends on /etc/services. */
static void rdma_getaddrinfo_names_and_numbers_are_resolved(void **state)
{
	struct servent *service = getservbyname("http", "tcp");

	(void)state;
	expect_address("127.0.0.1", "7471", AF_INET, 7471);
	expect_address("::1", "7471", AF_INET6, 7471);
	expect_address("localhost", "7471", 0, 7471);
	if (service)
		expect_address("127.0.0.1", "http", AF_INET, ntohs((uint16_t)service->s_port));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_ep_without_attributes_has_no_qp),
		cmocka_unit_test(rdma_destroy_ep_destroys_qp_of_given_pd),
		cmocka_unit_test(rdma_create_ep_without_pd_uses_default_pd),
		cmocka_unit_test(rdma_get_local_addr_unbound_id_is_zero),
		cmocka_unit_test(rdma_get_peer_addr_is_local_addr_of_other_side),
		cmocka_unit_test(rdma_free_devices_keeps_devices_open),
		cmocka_unit_test(rdma_freeaddrinfo_frees_whole_list),
		cmocka_unit_test(rdma_ack_cm_event_frees_event),
		cmocka_unit_test(rdma_getaddrinfo_hints_alone_succeeds),
		cmocka_unit_test(rdma_getaddrinfo_names_and_numbers_are_resolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
