/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_ADDRINFO_H
#define USRDMA_RDMACM_ADDRINFO_H

#include <rdma/rdma_cma.h>

/* What a caller asks for, completed: a QP type and the port space that goes with it. */
struct rcm_service {
	enum ibv_qp_type qp_type;
	enum rdma_port_space ps;
};

/* Completes what hints (which may be NULL) leave open. 0 or EAI_SOCKTYPE. */
int rcm_addrinfo_service(const struct rdma_addrinfo *hints, struct rcm_service *service)
	__attribute__((warn_unused_result));

#endif
