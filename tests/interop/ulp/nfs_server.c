/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RPC over RDMA version 1 (RFC 8166), with NFS version 3 (RFC 1813) as the upper layer (RFC 8267):
 * a server for one client at a time.
 *
 *	nfs_server ADDRESS PORT CONTENT WRITTEN CONNECTIONS
 *
 * The exported directory contains the file `read` with the content of the local file CONTENT, and
 * the empty file `written`. When the last of CONNECTIONS connections has ended, the server stores
 * the content of `written` in the local file WRITTEN, and ends with status 0. The MOUNT protocol,
 * from which the client gets the file handle of the directory, is in tests/interop/mountd.py.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs_server.h"

#define RPC_CALL	   0
#define RPC_REPLY	   1
#define RPC_ACCEPTED	   0
#define RPC_DENIED	   1
#define RPC_MISMATCH	   0 /* reasons of RPC_DENIED */
#define RPC_AUTH_ERROR	   1
#define AUTH_REJECTED	   2
#define VERIFIER_BYTES_MAX 400

struct rpc_header {
	uint32_t xid;
	uint32_t program;
	uint32_t version;
	uint32_t procedure;
	uint32_t flavor;
};

static unsigned int counts[NFS_PROCEDURES_COUNT];

static void load_content(uint8_t *data, const char *path, size_t bytes)
{
	FILE *stream = fopen(path, "rb");

	ulp_require(stream && fread(data, 1, bytes, stream) == bytes, "reading '%s' failed", path);
	fclose(stream);
}

static size_t content_bytes(const char *path)
{
	FILE *stream = fopen(path, "rb");
	long bytes;

	ulp_require(stream && !fseek(stream, 0, SEEK_END), "opening '%s': %s", path,
		    strerror(errno));
	bytes = ftell(stream);
	fclose(stream);
	ulp_require(bytes > 0 && bytes <= (long)NFS_WRITTEN_MAX,
		    "'%s' has %ld bytes (1 to %u bytes)", path, bytes, NFS_WRITTEN_MAX);
	return (size_t)bytes;
}

static void make_files(struct nfs_file *files, const char *path)
{
	size_t bytes = content_bytes(path);

	files[NFS_ROOT].name = ".";
	files[NFS_ROOT].mode = 0755;
	files[NFS_READ_FILE].name = "read";
	files[NFS_READ_FILE].mode = 0444;
	files[NFS_READ_FILE].data = calloc(1, bytes);
	files[NFS_READ_FILE].bytes = (uint32_t)bytes;
	files[NFS_WRITTEN_FILE].name = "written";
	files[NFS_WRITTEN_FILE].mode = 0644;
	files[NFS_WRITTEN_FILE].data = calloc(1, NFS_WRITTEN_MAX);
	files[NFS_WRITTEN_FILE].capacity = NFS_WRITTEN_MAX;
	ulp_require(files[NFS_READ_FILE].data && files[NFS_WRITTEN_FILE].data, "no memory");
	load_content(files[NFS_READ_FILE].data, path, bytes);
	for (unsigned int id = NFS_ROOT; id < NFS_FILE_END; id++) {
		nfs_touch(&files[id]);
		files[id].accessed = files[id].modified;
	}
}

static void store_written(const struct nfs_file *file, const char *path)
{
	FILE *stream = fopen(path, "wb");

	ulp_require(stream && fwrite(file->data, 1, file->bytes, stream) == file->bytes &&
			    !fclose(stream),
		    "writing '%s': %s", path, strerror(errno));
}

/* Reads the header of a call. Returns false if the message is not a call of RPC version 2. */
static bool parse_rpc(struct xdr *message, struct rpc_header *header, uint32_t *rpc_version)
{
	size_t bytes;
	uint32_t type;

	header->xid = xdr_get(message);
	type = xdr_get(message);
	*rpc_version = xdr_get(message);
	header->program = xdr_get(message);
	header->version = xdr_get(message);
	header->procedure = xdr_get(message);
	header->flavor = xdr_get(message);
	xdr_get_opaque(message, RPC_CREDENTIALS_MAX, &bytes);
	xdr_get(message); /* flavor of the verifier */
	xdr_get_opaque(message, VERIFIER_BYTES_MAX, &bytes);
	return !message->is_bad && type == RPC_CALL;
}

static void put_denial(struct xdr *reply, uint32_t reason)
{
	xdr_put(reply, RPC_DENIED);
	xdr_put(reply, reason);
	if (reason == RPC_AUTH_ERROR) {
		xdr_put(reply, AUTH_REJECTED);
		return;
	}
	xdr_put(reply, RPC_VERSION); /* the lowest and the highest version */
	xdr_put(reply, RPC_VERSION);
}

static enum rpc_accept execute(struct nfs_call *call, const struct rpc_header *header)
{
	if (header->program != PROGRAM_NFS)
		return RPC_PROGRAM_UNAVAILABLE;
	if (header->version != NFS_VERSION)
		return RPC_PROGRAM_MISMATCH;
	return nfs_execute(call, header->procedure);
}

/* The accept_stat is before the result, and is known after it. */
static void put_accepted(struct nfs_call *call, const struct rpc_header *header)
{
	struct xdr *reply = &call->reply, status, result;
	enum rpc_accept accept;

	xdr_put(reply, RPC_ACCEPTED);
	xdr_put(reply, AUTH_NONE); /* no verifier */
	xdr_put(reply, 0);
	status = *reply;
	xdr_put(reply, RPC_SUCCESS);
	result = *reply;
	accept = execute(call, header);
	xdr_put(&status, accept);
	if (accept == RPC_SUCCESS) {
		counts[header->procedure]++;
		return;
	}
	*reply = result;
	if (accept == RPC_PROGRAM_MISMATCH) {
		xdr_put(reply, NFS_VERSION); /* the lowest and the highest version */
		xdr_put(reply, NFS_VERSION);
	}
	ulp_say("xid %08x: program %u version %u procedure %u is not accepted: %u", header->xid,
		header->program, header->version, header->procedure, accept);
}

static void serve_client(struct rpcrdma_server *server, struct nfs_file *files)
{
	struct rpcrdma_call transport;

	while (rpcrdma_next(server, &transport)) {
		struct nfs_call call = {.files = files, .args = transport.message};
		struct rpc_header header;
		uint32_t rpc_version;
		bool is_call = parse_rpc(&call.args, &header, &rpc_version);

		if (!is_call || header.xid != transport.xid) {
			rpcrdma_refuse(server, &transport);
			continue;
		}
		call.reply = rpcrdma_begin_reply(server);
		xdr_put(&call.reply, header.xid);
		xdr_put(&call.reply, RPC_REPLY);
		if (rpc_version != RPC_VERSION)
			put_denial(&call.reply, RPC_MISMATCH);
		else if (header.flavor != AUTH_NONE && header.flavor != AUTH_SYS)
			put_denial(&call.reply, RPC_AUTH_ERROR);
		else
			put_accepted(&call, &header);
		rpcrdma_reply(server, &transport, &call.reply, &call.payload);
	}
}

static void serve(struct rpcrdma_server *server, struct nfs_file *files)
{
	rpcrdma_accept(server);
	for (unsigned int id = NFS_READ_FILE; id < NFS_FILE_END; id++) {
		struct nfs_file *file = &files[id];
		size_t bytes = file->capacity ? file->capacity : file->bytes;

		file->mr = ibv_reg_mr(server->ulp.ulp.id->pd, file->data, bytes,
				      IBV_ACCESS_LOCAL_WRITE);
		ulp_require(file->mr, "ibv_reg_mr: %s", strerror(errno));
	}
	serve_client(server, files);
	for (unsigned int id = NFS_READ_FILE; id < NFS_FILE_END; id++)
		ulp_require(!ibv_dereg_mr(files[id].mr), "ibv_dereg_mr: %s", strerror(errno));
	ulp_close(&server->ulp);
	ulp_say("disconnected");
}

static void report(const struct rpcrdma_server *server)
{
	for (uint32_t i = 0; i < NFS_PROCEDURES_COUNT; i++)
		if (counts[i])
			ulp_say("%s: %u", nfs_procedure_name(i), counts[i]);
	ulp_say("%u calls, %u read chunks, %u write chunks, %u reply chunks, %u SENDs with "
		"Invalidate, %u errors",
		server->calls, server->read_chunks, server->write_chunks, server->reply_chunks,
		server->invalidations, server->errors);
}

int main(int argc, char **argv)
{
	struct nfs_file files[NFS_FILE_END] = {0};
	struct rpcrdma_server server = {0};
	unsigned long connections;

	ulp_require(argc == 6, "usage: nfs_server ADDRESS PORT CONTENT WRITTEN CONNECTIONS");
	connections = strtoul(argv[5], NULL, 10);
	ulp_require(connections, "invalid number of connections '%s' (at least 1)", argv[5]);
	make_files(files, argv[3]);
	ulp_listen(&server.ulp, argv[1], argv[2]);
	while (connections--)
		serve(&server, files);
	ulp_stop_listening(&server.ulp);
	store_written(&files[NFS_WRITTEN_FILE], argv[4]);
	report(&server);
	free(files[NFS_READ_FILE].data);
	free(files[NFS_WRITTEN_FILE].data);
	return 0;
}
