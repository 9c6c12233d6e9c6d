/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_RPC_RDMA_SERVER_H
#define USRDMA_TESTS_RPC_RDMA_SERVER_H

#include "rpc_rdma.h"
#include "ulp_server.h"
#include "xdr.h"

/*
 * The responder of RPC over RDMA version 1 (RFC 8166), for one client at a time. It executes one
 * call after the other. Remote invalidation is used if the client supports it (RFC 8797).
 */
#define RPCRDMA_SEGMENTS_MAX 8
#define RPCRDMA_PAYLOAD_MAX  (64u << 10)
#define RPCRDMA_STREAM_MAX   (RPCRDMA_PAYLOAD_MAX + RPCRDMA_INLINE_BYTES)

struct rpcrdma_segment {
	uint32_t rkey;
	uint32_t bytes;
	uint64_t addr;
};

/*
 * In a reply, the segments of a write chunk and of a reply chunk contain the bytes that were
 * written.
 */
struct rpcrdma_chunk {
	bool is_present;
	unsigned int count;
	struct rpcrdma_segment segments[RPCRDMA_SEGMENTS_MAX];
};

struct rpcrdma_call {
	uint32_t xid;
	uint32_t read_position;
	struct rpcrdma_chunk read;
	struct rpcrdma_chunk write;
	struct rpcrdma_chunk reply;
	/* The RPC message, with the data of its read chunk. Valid until the next call. */
	struct xdr message;
};

/* Data at the end of a result that may be written to a write chunk instead. */
struct rpcrdma_payload {
	const struct ibv_mr *mr;
	uint8_t *at;
	uint32_t bytes;
};

struct rpcrdma_server {
	struct ulp_server ulp;
	struct ibv_mr *call_mr;
	struct ibv_mr *reply_mr;
	size_t reply_inline_bytes; /* the longest message that the client receives */
	bool invalidates;
	/* For the report at the end, of all connections. */
	unsigned int calls;
	unsigned int read_chunks;
	unsigned int write_chunks;
	unsigned int reply_chunks;
	unsigned int invalidations;
	unsigned int errors;
};

/* Waits for a client and accepts it. server->ulp listens. */
void rpcrdma_accept(struct rpcrdma_server *server);
/*
 * Waits for a valid call, and answers invalid ones with RDMA_ERROR. Returns false when the client
 * has disconnected.
 */
bool rpcrdma_next(struct rpcrdma_server *server, struct rpcrdma_call *call);
/* Begins the RPC message of a reply. */
struct xdr rpcrdma_begin_reply(struct rpcrdma_server *server);
/* Sends the reply. The payload may have 0 bytes. It must stay unchanged until the next call. */
void rpcrdma_reply(struct rpcrdma_server *server, struct rpcrdma_call *call, struct xdr *reply,
		   const struct rpcrdma_payload *payload);
/* Answers the call with RDMA_ERROR: its message is not an RPC call. */
void rpcrdma_refuse(struct rpcrdma_server *server, const struct rpcrdma_call *call);

#endif
