/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client that sends valid and invalid messages of RPC over RDMA version 1 (RFC 8166) to
 * nfs_server, and checks the replies.
 *
 *	nfs_probe ADDRESS PORT CONTENT
 *
 * CONTENT is the content of the file `read`. The file `written` contains at the end what ulp_fill()
 * makes with the seed 1.
 */
#include <stdio.h>
#include <string.h>

#include "nfs_probe.h"

#define CHUNK_TOO_LONG (RPCRDMA_PAYLOAD_MAX + 4)
#define FLAVOR_UNKNOWN 99

static void check_transport_headers(struct probe *probe)
{
	probe_begin(probe, 2, RDMA_MSG);
	probe_put_zeros(probe, 3);
	probe_expect_error(probe, ERR_VERS);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSGP);
	probe_put_zeros(probe, 5);
	probe_expect_error(probe, ERR_CHUNK);
	/* The first word of a list is neither 0 nor 1. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put(probe, 2);
	probe_put_zeros(probe, 2);
	probe_expect_error(probe, ERR_CHUNK);
	/* The message ends in a list. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_read_segment(probe, 40, 0, 4);
	probe_expect_error(probe, ERR_CHUNK);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put(probe, 0);
	probe_put(probe, 1);
	probe_put(probe, UINT32_MAX); /* segments */
	probe_expect_error(probe, ERR_CHUNK);
	/* A long message without a chunk that contains it. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_NOMSG);
	probe_put_zeros(probe, 3);
	probe_expect_error(probe, ERR_CHUNK);
	/* The xid of the RPC message is another one. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 3);
	probe_put_nfs(probe, PROCEDURE_NULL);
	probe->ulp.send_buf[RPCRDMA_HEADER_MIN + 3] ^= 1;
	probe_expect_error(probe, ERR_CHUNK);
	/* Without RPC message. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 3);
	probe_expect_error(probe, ERR_CHUNK);
}

/* A WRITE of 4 bytes with one or two segments in its read list. */
static void check_read_list(struct probe *probe, uint32_t position, uint32_t other_position,
			    uint32_t bytes)
{
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_read_segment(probe, position, 0, bytes);
	if (other_position)
		probe_put_read_segment(probe, other_position, 0, 4);
	probe_put_zeros(probe, 3);
	probe_put_write(probe, 0, 4);
	probe_expect_error(probe, ERR_CHUNK);
}

static void check_chunk_lists(struct probe *probe)
{
	check_read_list(probe, 0, 0, 4);
	check_read_list(probe, 42, 0, 4);
	check_read_list(probe, 4000, 0, 4);
	check_read_list(probe, UINT32_MAX - 3, 0, 4);
	check_read_list(probe, 80, 40, 4);
	check_read_list(probe, 80, 0, CHUNK_TOO_LONG);
	check_read_list(probe, 80, 80, UINT32_MAX);
	/* More segments than the server accepts, and two write chunks. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 1);
	probe_put(probe, 1);
	probe_put(probe, RPCRDMA_SEGMENTS_MAX + 1);
	for (unsigned int i = 0; i <= RPCRDMA_SEGMENTS_MAX; i++)
		probe_put_segment(probe, 0, 4096);
	probe_put_zeros(probe, 2);
	probe_put_read(probe, 0, 100);
	probe_expect_error(probe, ERR_CHUNK);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 1);
	for (unsigned int i = 0; i < 2; i++) {
		probe_put(probe, 1);
		probe_put(probe, 1);
		probe_put_segment(probe, 0, 4096);
	}
	probe_put_zeros(probe, 2);
	probe_put_read(probe, 0, 100);
	probe_expect_error(probe, ERR_CHUNK);
}

/* The server ignores a message that is too short for a header, and one that needs no response. */
static void check_ignored(struct probe *probe)
{
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_send(probe);
	ulp_wait_sent(&probe->ulp);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_DONE);
	probe_put_zeros(probe, 3);
	probe_send(probe);
	ulp_wait_sent(&probe->ulp);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 3);
	probe_put_nfs(probe, PROCEDURE_NULL);
	probe_expect_failure(probe, RPC_SUCCESS);
}

static void begin_inline(struct probe *probe)
{
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 3);
}

static void check_rpc(struct probe *probe)
{
	begin_inline(probe);
	probe_put_rpc_header(probe, RPC_VERSION + 1, PROGRAM_NFS, NFS_VERSION, PROCEDURE_NULL);
	probe_expect_denied(probe, 0);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_NULL);
	ulp_put_be(probe->call.at - 16, FLAVOR_UNKNOWN, 4);
	probe_expect_denied(probe, 1);
	begin_inline(probe);
	probe_put_rpc_header(probe, RPC_VERSION, PROGRAM_NFS + 1, NFS_VERSION, PROCEDURE_NULL);
	probe_expect_failure(probe, RPC_PROGRAM_UNAVAILABLE);
	begin_inline(probe);
	probe_put_rpc_header(probe, RPC_VERSION, PROGRAM_NFS, NFS_VERSION + 1, PROCEDURE_NULL);
	probe_expect_failure(probe, RPC_PROGRAM_MISMATCH);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_CREATE);
	probe_expect_failure(probe, RPC_PROCEDURE_UNAVAILABLE);
	begin_inline(probe);
	probe_put_nfs(probe, NFS_PROCEDURES_COUNT);
	probe_expect_failure(probe, RPC_PROCEDURE_UNAVAILABLE);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_NULL);
	probe_put(probe, 0); /* more than the arguments */
	probe_expect_failure(probe, RPC_GARBAGE_ARGS);
}

static void check_procedures(struct probe *probe)
{
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_LOOKUP);
	probe_put_handle(probe, NFS_ROOT);
	probe_put(probe, UINT32_MAX); /* the length of the name */
	probe_expect_failure(probe, RPC_GARBAGE_ARGS);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_LOOKUP);
	probe_put_handle(probe, NFS_ROOT);
	xdr_put_opaque(&probe->call, "missing", 7);
	probe_expect_status(probe, NFS_NOENT);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_ACCESS);
	probe_put_handle(probe, NFS_FILE_END);
	probe_put(probe, 1);
	probe_expect_status(probe, NFS_STALE);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_ACCESS);
	xdr_put_opaque(&probe->call, "usrdma", 6);
	probe_put(probe, 1);
	probe_expect_status(probe, NFS_BADHANDLE);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_READDIR);
	probe_put_handle(probe, NFS_ROOT);
	xdr_put64(&probe->call, UINT64_MAX); /* cookie */
	xdr_put64(&probe->call, 0);
	probe_put(probe, 4096);
	probe_expect_status(probe, NFS_BAD_COOKIE);
	begin_inline(probe);
	probe_put_nfs(probe, PROCEDURE_READDIR);
	probe_put_handle(probe, NFS_ROOT);
	xdr_put64(&probe->call, 0);
	xdr_put64(&probe->call, 0);
	probe_put(probe, 100);
	probe_expect_status(probe, NFS_TOOSMALL);
	begin_inline(probe);
	probe_put_write(probe, UINT64_MAX - 3, 4);
	probe_put(probe, 0);
	probe_expect_status(probe, NFS_NOSPC);
	begin_inline(probe);
	probe_put_write(probe, 0, 8); /* of 8 bytes, with 4 */
	probe_put(probe, 0);
	probe_expect_failure(probe, RPC_GARBAGE_ARGS);
	begin_inline(probe);
	probe_put_read(probe, UINT64_MAX, UINT32_MAX);
	probe_expect_accepted(probe, RPC_SUCCESS);
	probe_expect_read(probe, 0, true);
	probe_end(probe);
	/* More than fits in an inline reply. */
	begin_inline(probe);
	probe_put_read(probe, 0, RPCRDMA_INLINE_BYTES);
	probe_expect_error(probe, ERR_CHUNK);
}

static void check_content(struct probe *probe, const uint8_t *got, size_t bytes)
{
	ulp_require(!memcmp(got, probe->content, bytes), "check %zu: the data is wrong",
		    probe->checks);
}

/* Checks a chunk of the reply: the bytes of each segment are given, up to a 0. */
static void expect_chunk(struct probe *probe, const uint32_t *bytes, unsigned int segments)
{
	probe_expect(probe, "chunk", 1);
	probe_expect(probe, "segments", segments);
	for (unsigned int i = 0; i < segments; i++) {
		probe_expect(probe, "rkey", probe->data->rkey);
		probe_expect(probe, "bytes of the segment", bytes[i]);
		xdr_get64(&probe->reply);
	}
}

/* 1000 bytes in three segments, of which the last one is not filled. */
static void check_write_chunk(struct probe *probe)
{
	static const uint32_t filled[] = {501, 0, 499};

	memset(probe->data->addr, 0, PROBE_DATA_BYTES);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 1);
	probe_put(probe, 1);
	probe_put(probe, 3);
	probe_put_segment(probe, 0, 501);
	probe_put_segment(probe, 0, 0);
	probe_put_segment(probe, 501, 4096);
	probe_put_zeros(probe, 2);
	probe_put_read(probe, 0, 1000);
	probe_exchange(probe, RDMA_MSG);
	probe_expect(probe, "read list", 0);
	expect_chunk(probe, filled, 3);
	probe_expect(probe, "end of the write list", 0);
	probe_expect(probe, "reply chunk", 0);
	probe_expect_rpc_header(probe, RPC_SUCCESS);
	probe_expect_read(probe, 1000, false);
	probe_end(probe);
	check_content(probe, probe->data->addr, 1000);
	ulp_require(!((uint8_t *)probe->data->addr)[1000], "bytes after the data were written");
	/* The chunk is too short. */
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 1);
	probe_put(probe, 1);
	probe_put(probe, 1);
	probe_put_segment(probe, 0, 999);
	probe_put_zeros(probe, 2);
	probe_put_read(probe, 0, 1000);
	probe_expect_error(probe, ERR_CHUNK);
}

/*
 * The reply with its data is in the reply chunk: the header has 24 bytes, the result 104 bytes
 * before the data.
 */
static void check_reply_chunk(struct probe *probe)
{
	static const uint32_t filled[] = {4096, 24 + 104 + 8000 - 4096};

	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 2);
	probe_put(probe, 1);
	probe_put(probe, 2);
	probe_put_segment(probe, 0, 4096);
	probe_put_segment(probe, 4096, 65536);
	probe_put_read(probe, 0, 8000);
	probe_exchange(probe, RDMA_NOMSG);
	probe_expect(probe, "read list", 0);
	probe_expect(probe, "write list", 0);
	expect_chunk(probe, filled, 2);
	probe_end(probe);
	probe->reply = (struct xdr){.at = probe->data->addr,
				    .end = (uint8_t *)probe->data->addr + filled[0] + filled[1]};
	probe_expect_rpc_header(probe, RPC_SUCCESS);
	probe_expect_read(probe, 8000, false);
	ulp_require(xdr_left(&probe->reply) == 8000, "%zu bytes of data", xdr_left(&probe->reply));
	check_content(probe, probe->reply.at, 8000);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	probe_put_zeros(probe, 2);
	probe_put(probe, 1);
	probe_put(probe, 1);
	probe_put_segment(probe, 0, 8000);
	probe_put_read(probe, 0, 8000);
	probe_expect_error(probe, ERR_CHUNK);
}

static void expect_written(struct probe *probe)
{
	probe_expect_accepted(probe, RPC_SUCCESS);
	probe_expect(probe, "NFS status", NFS_OK);
	ulp_release(&probe->ulp, probe->message);
}

/* 1001 bytes in two segments without padding, then a call that is a read chunk itself. */
static void check_read_chunk(struct probe *probe)
{
	uint8_t *data = probe->data->addr;
	uint32_t bytes;

	ulp_fill(data, 2001, 1);
	probe_begin(probe, RPCRDMA_VERSION, RDMA_MSG);
	/* The RPC header has 40 bytes, the arguments before the data 40 bytes. */
	probe_put_read_segment(probe, 80, 0, 501);
	probe_put_read_segment(probe, 80, 501, 500);
	probe_put_zeros(probe, 3);
	probe_put_write(probe, 0, 1001);
	expect_written(probe);
	/*
	 * The RPC message is made in the memory of the chunk, with the xid of the next transport
	 * header.
	 */
	probe->xid++;
	probe->call = (struct xdr){.at = data + 4096, .end = data + PROBE_DATA_BYTES};
	probe_put_write(probe, 1001, 1000);
	xdr_put_fixed(&probe->call, data + 1001, 1000);
	bytes = (uint32_t)(probe->call.at - data - 4096);
	probe->xid--;
	probe_begin(probe, RPCRDMA_VERSION, RDMA_NOMSG);
	probe_put_read_segment(probe, 0, 4096, bytes);
	probe_put_zeros(probe, 3);
	expect_written(probe);
}

static void load_content(struct probe *probe, const char *path)
{
	static uint8_t content[RPCRDMA_PAYLOAD_MAX];
	FILE *stream = fopen(path, "rb");

	ulp_require(stream, "opening '%s' failed", path);
	probe->content_bytes = fread(content, 1, sizeof(content), stream);
	fclose(stream);
	ulp_require(probe->content_bytes > 8000, "'%s' has only %zu bytes", path,
		    probe->content_bytes);
	probe->content = content;
}

int main(int argc, char **argv)
{
	uint8_t private_data[RPCRDMA_PRIVATE_BYTES];
	struct probe probe = {.xid = 0x70726f00};

	ulp_require(argc == 4, "usage: nfs_probe ADDRESS PORT CONTENT");
	rpcrdma_fill_private(private_data, 0);
	ulp_connect(&probe.ulp, argv[1], argv[2], private_data, sizeof(private_data),
		    RPCRDMA_INLINE_BYTES);
	probe.data = ulp_region(&probe.ulp, PROBE_DATA_BYTES);
	load_content(&probe, argv[3]);
	check_transport_headers(&probe);
	check_chunk_lists(&probe);
	check_ignored(&probe);
	check_rpc(&probe);
	check_procedures(&probe);
	check_write_chunk(&probe);
	check_reply_chunk(&probe);
	check_read_chunk(&probe);
	ulp_disconnect(&probe.ulp);
	ulp_say("%zu calls: all replies are right", probe.checks);
	return 0;
}
