/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/addrinfo.h"

/* Result of the name service; 0: the real result. */
static int name_service;

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	return name_service ? name_service : __real_getaddrinfo(node, service, hints, found);
}

static void rcm_addrinfo_service_needs_node_and_service_to_match(void **state)
{
	static const struct {
		int qp_type, ps, ret;
		enum ibv_qp_type want_type;
		enum rdma_port_space want_ps;
	} cases[] = {
		{0, 0, 0, IBV_QPT_RC, RDMA_PS_TCP},
		{IBV_QPT_RC, 0, 0, IBV_QPT_RC, RDMA_PS_TCP},
		{IBV_QPT_UC, 0, 0, IBV_QPT_UC, RDMA_PS_TCP},
		{IBV_QPT_UD, 0, 0, IBV_QPT_UD, RDMA_PS_UDP},
		{0, RDMA_PS_UDP, 0, IBV_QPT_UD, RDMA_PS_UDP},
		{0, RDMA_PS_IPOIB, 0, IBV_QPT_UD, RDMA_PS_IPOIB},
		{IBV_QPT_XRC_RECV, RDMA_PS_TCP, 0, IBV_QPT_XRC_RECV, RDMA_PS_TCP},
		{IBV_QPT_UD, RDMA_PS_IB, 0, IBV_QPT_UD, RDMA_PS_IB},
		{IBV_QPT_UD, RDMA_PS_TCP, EAI_SOCKTYPE, 0, 0},
		{IBV_QPT_RC, RDMA_PS_UDP, EAI_SOCKTYPE, 0, 0},
		{IBV_QPT_RAW_PACKET, 0, EAI_SOCKTYPE, 0, 0},
		{0, 12345, EAI_SOCKTYPE, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_addrinfo hints = {.ai_qp_type = cases[i].qp_type,
					      .ai_port_space = cases[i].ps};
		struct rcm_service service;

		assert_int_equal(rcm_addrinfo_service(&hints, &service), cases[i].ret);
		if (cases[i].ret)
			continue;
		assert_int_equal(service.qp_type, cases[i].want_type);
		assert_int_equal(service.ps, cases[i].want_ps);
	}
}

static void rdma_getaddrinfo_without_node_and_service_fails(void **state)
{
	struct rdma_addrinfo *res;

	(void)state;
	errno = 0;
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void rdma_getaddrinfo_active_side_returns_destination(void **state)
{
	struct rdma_addrinfo *res;
	struct sockaddr_in *sin;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", NULL, &res), 0);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in));
	sin = (struct sockaddr_in *)(void *)res->ai_dst_addr;
	assert_int_equal(sin->sin_family, AF_INET);
	assert_int_equal(ntohs(sin->sin_port), 7471);
	assert_int_equal(ntohl(sin->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(res->ai_src_len, 0);
	assert_null(res->ai_src_addr);
	assert_string_equal(res->ai_dst_canonname, "127.0.0.1");
	assert_null(res->ai_next);
	assert_int_equal(res->ai_route_len, 0);
	assert_int_equal(res->ai_connect_len, 0);
	rdma_freeaddrinfo(res);
}

static void rdma_getaddrinfo_passive_side_returns_source(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *res;
	struct sockaddr_in *sin;

	(void)state;
	assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &res), 0);
	assert_int_equal(res->ai_flags, RAI_PASSIVE);
	assert_int_equal(res->ai_dst_len, 0);
	assert_null(res->ai_dst_addr);
	sin = (struct sockaddr_in *)(void *)res->ai_src_addr;
	assert_int_equal(sin->sin_addr.s_addr, INADDR_ANY);
	assert_int_equal(ntohs(sin->sin_port), 7471);
	rdma_freeaddrinfo(res);

	hints.ai_flags |= RAI_FAMILY | RAI_NUMERICHOST | RAI_NOROUTE;
	hints.ai_family = AF_INET6;
	assert_int_equal(rdma_getaddrinfo("::1", NULL, &hints, &res), 0);
	assert_int_equal(res->ai_family, AF_INET6);
	assert_int_equal(res->ai_src_len, sizeof(struct sockaddr_in6));
	assert_string_equal(res->ai_src_canonname, "::1");
	rdma_freeaddrinfo(res);
}

static void rdma_getaddrinfo_source_of_hints_is_returned(void **state)
{
	struct sockaddr_in src = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct rdma_addrinfo hints = {.ai_src_addr = (struct sockaddr *)&src,
				      .ai_src_len = sizeof(src)};
	struct rdma_addrinfo *res;

	(void)state;
	src.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	assert_int_equal(res->ai_src_len, sizeof(src));
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_ptr_not_equal(res->ai_src_addr, &src);
	rdma_freeaddrinfo(res);

	/* Without a name only the hints are used. */
	hints.ai_dst_addr = (struct sockaddr *)&src;
	hints.ai_dst_len = sizeof(src);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_int_equal(res->ai_family, AF_INET);
	assert_memory_equal(res->ai_dst_addr, &src, sizeof(src));
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	rdma_freeaddrinfo(res);
}

static void rdma_getaddrinfo_invalid_address_in_hints_fails(void **state)
{
	struct sockaddr_ib ib = {.sib_family = AF_IB};
	struct sockaddr_in src = {.sin_family = AF_INET};
	struct rdma_addrinfo hints = {.ai_src_addr = (struct sockaddr *)&src,
				      .ai_src_len = sizeof(src) - 1};
	struct rdma_addrinfo *res;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
	hints.ai_src_len = 1;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
	hints.ai_src_addr = (struct sockaddr *)&ib;
	hints.ai_src_len = sizeof(ib);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
}

static void rdma_getaddrinfo_errors_are_documented_codes(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = 1 << 20};
	struct rdma_addrinfo *res;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_BADFLAGS);
	hints.ai_flags = RAI_FAMILY;
	hints.ai_family = AF_IB;
	assert_int_equal(rdma_getaddrinfo("fe80::1", NULL, &hints, &res), EAI_FAMILY);
	hints.ai_family = AF_INET6;
	assert_int_not_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	hints.ai_flags = RAI_NUMERICHOST;
	hints.ai_family = 0;
	assert_int_equal(rdma_getaddrinfo("not-a-number", NULL, &hints, &res), EAI_NONAME);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "no-such-service", &hints, &res),
			 EAI_SERVICE);
	hints.ai_qp_type = IBV_QPT_UD;
	hints.ai_port_space = RDMA_PS_TCP;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_SOCKTYPE);
	hints = (struct rdma_addrinfo){.ai_flags = RAI_SA};
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_SYSTEM);
	assert_int_equal(errno, EOPNOTSUPP);
}

static void rdma_event_str_every_event_has_its_name(void **state)
{
	(void)state;
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED),
			    "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			    "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	for (int event = 0; event <= RDMA_CM_EVENT_INTERNAL; event++)
		assert_memory_equal(rdma_event_str((enum rdma_cm_event_type)event),
				    "RDMA_CM_EVENT_", 14);
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT");
}

static void rdma_getaddrinfo_resolver_error_is_returned(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *res = &hints;

	(void)state;
	name_service = EAI_AGAIN;
	assert_int_equal(rdma_getaddrinfo("somebody", "7471", &hints, &res), EAI_AGAIN);
	name_service = EAI_FAIL;
	assert_int_equal(rdma_getaddrinfo("somebody", "7471", &hints, &res), EAI_FAIL);
	name_service = EAI_MEMORY;
	assert_int_equal(rdma_getaddrinfo("somebody", "7471", &hints, &res), EAI_MEMORY);
	name_service = EAI_NONAME;
	assert_int_equal(rdma_getaddrinfo("somebody", "7471", &hints, &res), EAI_NONAME);
	name_service = 0;
	assert_ptr_equal(res, &hints);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rcm_addrinfo_service_needs_node_and_service_to_match),
		cmocka_unit_test(rdma_getaddrinfo_without_node_and_service_fails),
		cmocka_unit_test(rdma_getaddrinfo_active_side_returns_destination),
		cmocka_unit_test(rdma_getaddrinfo_passive_side_returns_source),
		cmocka_unit_test(rdma_getaddrinfo_source_of_hints_is_returned),
		cmocka_unit_test(rdma_getaddrinfo_invalid_address_in_hints_fails),
		cmocka_unit_test(rdma_getaddrinfo_errors_are_documented_codes),
		cmocka_unit_test(rdma_getaddrinfo_resolver_error_is_returned),
		cmocka_unit_test(rdma_event_str_every_event_has_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
