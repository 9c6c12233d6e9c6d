/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_ADDRINFO_H
#define USRDMA_RDMACM_ADDRINFO_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* The QP type and port space of a request for address information; neither is 0. */
struct rcm_service {
	enum ibv_qp_type qp_type;
	enum rdma_port_space ps;
};

/*
 * Sets QP type and port space from the hints, with defaults for the members that are 0. hints may
 * be NULL. 0 or EAI_SOCKTYPE.
 */
int rcm_addrinfo_service(const struct rdma_addrinfo *hints, struct rcm_service *service)
	__attribute__((warn_unused_result));

/*
 * Converts a return value of rdma_getaddrinfo() to an errno; 0 for 0. For EAI_SYSTEM it returns
 * errno.
 */
int rcm_addrinfo_errno(int code) __attribute__((warn_unused_result));

/*
 * Whether this is the object ai_src_addr of this thread's last look-up, for "localhost",
 * RAI_PASSIVE and no service (ADR 0027).
 */
bool rcm_addrinfo_is_localhost(const struct sockaddr *addr) __attribute__((warn_unused_result));

#endif
