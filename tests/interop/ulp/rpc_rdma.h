/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_RPC_RDMA_H
#define USRDMA_TESTS_RPC_RDMA_H

#include <stdint.h>

#include "ulp.h"

/*
 * Constants of RPC over RDMA version 1 (RFC 8166), of its private data (RFC 8797) and of RPC (RFC
 * 5531).
 */
#define RPCRDMA_VERSION	      1
#define RPCRDMA_HEADER_MIN    28 /* xid, version, credits, type, and three empty lists */
#define RPCRDMA_INLINE_BYTES  4096
#define RPCRDMA_PRIVATE_BYTES 8
#define RPCRDMA_PRIVATE_MAGIC 0xf6ab0e18 /* RFC 8797 §4 */

/* Offsets in the private data. The sizes are in KiB, minus 1. */
#define PRIVATE_VERSION	     4
#define PRIVATE_FLAGS	     5
#define PRIVATE_SEND_SIZE    6
#define PRIVATE_RECEIVE_SIZE 7
#define PRIVATE_INVALIDATES  0x01 /* a flag: remote invalidation is supported */

#define RDMA_MSG   0
#define RDMA_NOMSG 1
#define RDMA_MSGP  2
#define RDMA_DONE  3
#define RDMA_ERROR 4

#define ERR_VERS  1
#define ERR_CHUNK 2

#define RPC_VERSION	    2
#define RPC_CREDENTIALS_MAX 400
#define AUTH_NONE	    0
#define AUTH_SYS	    1
#define PROGRAM_NFS	    100003

static inline void rpcrdma_fill_private(uint8_t data[RPCRDMA_PRIVATE_BYTES], uint8_t flags)
{
	ulp_put_be(data, RPCRDMA_PRIVATE_MAGIC, 4);
	data[PRIVATE_VERSION] = 1;
	data[PRIVATE_FLAGS] = flags;
	data[PRIVATE_SEND_SIZE] = RPCRDMA_INLINE_BYTES / 1024 - 1;
	data[PRIVATE_RECEIVE_SIZE] = RPCRDMA_INLINE_BYTES / 1024 - 1;
}

#endif
