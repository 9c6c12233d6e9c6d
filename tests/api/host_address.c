/* SPDX-License-Identifier: BSD-2-Clause */
#include "host_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#define ADDRESS_TRIES	 4000
#define ADDRESS_RETRY_MS 10

/* Whether an id can be bound to the address. */
static bool host_has_address(const struct sockaddr_storage *addr)
{
	struct sockaddr_storage any_port = *addr;
	struct rdma_cm_id *id;
	int err = 0;

	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
	else
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	if (rdma_bind_addr(id, (struct sockaddr *)&any_port))
		err = errno;
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_true(!err || err == EADDRNOTAVAIL || err == ENODEV);
	return !err;
}

static void host_wait_presence(const struct sockaddr_storage *addr, bool is_wanted)
{
	for (int i = 0; host_has_address(addr) != is_wanted; i++) {
		if (i == ADDRESS_TRIES)
			fail_msg("the daemon %s the address", is_wanted ? "does not have" : "has");
		poll(NULL, 0, ADDRESS_RETRY_MS);
	}
}

void host_wait_address(const struct sockaddr_storage *addr)
{
	host_wait_presence(addr, true);
}

void host_wait_no_address(const struct sockaddr_storage *addr)
{
	host_wait_presence(addr, false);
}
