/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_RESOLVE_H
#define USRDMA_RDMACM_RESOLVE_H

#include "rdmacm/id.h"

/*
 * Implement rdma_bind_addr(), rdma_resolve_addr() and rdma_resolve_route(). src may be NULL. 0 or
 * -errno.
 */
int rcm_bind(struct rcm_id *id, const struct sockaddr *addr) __attribute__((warn_unused_result));
int rcm_resolve_addr(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		     int timeout_ms) __attribute__((warn_unused_result));
int rcm_resolve_route(struct rcm_id *id, int timeout_ms) __attribute__((warn_unused_result));

#endif
