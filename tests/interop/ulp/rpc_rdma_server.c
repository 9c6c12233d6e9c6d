/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rpc_rdma_server.h"

#define CREDITS		     (ULP_DEPTH / 2)
#define INLINE_BYTES_DEFAULT 1024 /* of a client without private data */

enum header_fault { FAULT_NONE, FAULT_IGNORE, FAULT_VERSION, FAULT_CHUNK };

void rpcrdma_accept(struct rpcrdma_server *server)
{
	uint8_t own[RPCRDMA_PRIVATE_BYTES];
	const uint8_t *theirs = server->ulp.ulp.private_data;

	rpcrdma_fill_private(own, PRIVATE_INVALIDATES);
	ulp_accept(&server->ulp, own, sizeof(own), RPCRDMA_INLINE_BYTES);
	server->reply_inline_bytes = INLINE_BYTES_DEFAULT;
	server->invalidates = false;
	if (ulp_get_be(theirs, 4) == RPCRDMA_PRIVATE_MAGIC && theirs[PRIVATE_VERSION] == 1) {
		server->reply_inline_bytes = (theirs[PRIVATE_RECEIVE_SIZE] + 1u) * 1024;
		server->invalidates = theirs[PRIVATE_FLAGS] & PRIVATE_INVALIDATES;
		ulp_say("connected, the client's sizes are %u and %u KiB, remote invalidation: %s",
			theirs[PRIVATE_SEND_SIZE] + 1u, theirs[PRIVATE_RECEIVE_SIZE] + 1u,
			server->invalidates ? "yes" : "no");
	} else {
		ulp_say("connected, a client without private data");
	}
	if (server->reply_inline_bytes > RPCRDMA_INLINE_BYTES)
		server->reply_inline_bytes = RPCRDMA_INLINE_BYTES;
	server->call_mr = ulp_region(&server->ulp.ulp, RPCRDMA_STREAM_MAX);
	server->reply_mr = ulp_region(&server->ulp.ulp, RPCRDMA_STREAM_MAX);
}

static uint64_t chunk_bytes(const struct rpcrdma_chunk *chunk)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < chunk->count; i++)
		bytes += chunk->segments[i].bytes;
	return bytes;
}

static void parse_segment(struct xdr *header, struct rpcrdma_chunk *chunk)
{
	struct rpcrdma_segment *segment = &chunk->segments[chunk->count];

	if (chunk->count == RPCRDMA_SEGMENTS_MAX) {
		header->is_bad = true;
		return;
	}
	segment->rkey = xdr_get(header);
	segment->bytes = xdr_get(header);
	segment->addr = xdr_get64(header);
	chunk->count++;
}

/*
 * A list of segments, each with its position. NFS has one read chunk: all segments have the same
 * position.
 */
static void parse_read_list(struct xdr *header, struct rpcrdma_call *call)
{
	while (xdr_get_bool(header)) {
		uint32_t position = xdr_get(header);

		if (call->read.is_present && position != call->read_position)
			header->is_bad = true;
		call->read_position = position;
		call->read.is_present = true;
		parse_segment(header, &call->read);
	}
}

static void parse_chunk(struct xdr *header, struct rpcrdma_chunk *chunk)
{
	uint32_t count = xdr_get(header);

	chunk->is_present = true;
	while (!header->is_bad && chunk->count < count)
		parse_segment(header, chunk);
}

/*
 * A list of chunks. The results of NFS version 3 have at most one item that may be in a write
 * chunk.
 */
static void parse_write_list(struct xdr *header, struct rpcrdma_call *call)
{
	if (!xdr_get_bool(header))
		return;
	parse_chunk(header, &call->write);
	if (xdr_get_bool(header))
		header->is_bad = true;
}

/*
 * The message of an RDMA_MSG begins inline. That of an RDMA_NOMSG is in a read chunk at position 0.
 */
static bool is_read_position_valid(const struct rpcrdma_call *call, uint32_t type,
				   size_t inline_bytes)
{
	if (type == RDMA_NOMSG)
		return call->read.is_present && !call->read_position && !inline_bytes;
	return !call->read.is_present || (call->read_position && call->read_position % 4 == 0 &&
					  call->read_position <= inline_bytes);
}

/* Parses the transport header. Behind it, `header` is at the inline part of the message. */
static enum header_fault parse_header(struct xdr *header, struct rpcrdma_call *call)
{
	uint32_t version, type;

	memset(call, 0, sizeof(*call));
	if (xdr_left(header) < RPCRDMA_HEADER_MIN)
		return FAULT_IGNORE;
	call->xid = xdr_get(header);
	version = xdr_get(header);
	xdr_get(header); /* the credits that the client asks for */
	type = xdr_get(header);
	if (version != RPCRDMA_VERSION)
		return FAULT_VERSION;
	if (type == RDMA_DONE || type == RDMA_ERROR)
		return FAULT_IGNORE;
	if (type != RDMA_MSG && type != RDMA_NOMSG)
		return FAULT_CHUNK;
	parse_read_list(header, call);
	parse_write_list(header, call);
	if (xdr_get_bool(header))
		parse_chunk(header, &call->reply);
	if (header->is_bad || xdr_left(header) % 4 ||
	    !is_read_position_valid(call, type, xdr_left(header)) ||
	    chunk_bytes(&call->read) > RPCRDMA_PAYLOAD_MAX)
		return FAULT_CHUNK;
	return FAULT_NONE;
}

static uint8_t *post_reads(struct rpcrdma_server *server, const struct rpcrdma_chunk *chunk,
			   uint8_t *at)
{
	for (unsigned int i = 0; i < chunk->count; i++) {
		const struct rpcrdma_segment *segment = &chunk->segments[i];
		struct ulp_transfer transfer = {.at = at,
						.mr = server->call_mr,
						.bytes = segment->bytes,
						.remote_addr = segment->addr,
						.rkey = segment->rkey};

		if (!segment->bytes)
			continue;
		ulp_transfer(&server->ulp, IBV_WR_RDMA_READ, &transfer);
		at += segment->bytes;
	}
	return at;
}

/*
 * Copies the inline part, and inserts the read chunk at its position, with the padding that the
 * chunk omits.
 */
static void assemble_message(struct rpcrdma_server *server, struct rpcrdma_call *call,
			     struct xdr *inlined)
{
	uint8_t *start = server->call_mr->addr, *at = start;
	size_t before = call->read.is_present ? call->read_position : xdr_left(inlined);

	memcpy(at, xdr_get_fixed(inlined, before), before);
	at = post_reads(server, &call->read, at + before);
	while ((size_t)(at - start) % 4)
		*at++ = 0;
	memcpy(at, inlined->at, xdr_left(inlined));
	call->message = (struct xdr){.at = start, .end = at + xdr_left(inlined)};
	server->read_chunks += call->read.is_present;
}

static void begin_header(struct rpcrdma_server *server, struct xdr *header, uint32_t xid,
			 uint32_t type)
{
	*header = (struct xdr){.at = server->ulp.ulp.send_buf,
			       .end = server->ulp.ulp.send_buf + server->reply_inline_bytes};
	xdr_put(header, xid);
	xdr_put(header, RPCRDMA_VERSION);
	xdr_put(header, CREDITS);
	xdr_put(header, type);
}

static void send_error(struct rpcrdma_server *server, uint32_t xid, uint32_t error)
{
	struct xdr header;

	begin_header(server, &header, xid, RDMA_ERROR);
	xdr_put(&header, error);
	if (error == ERR_VERS) {
		xdr_put(&header, RPCRDMA_VERSION); /* the lowest and the highest version */
		xdr_put(&header, RPCRDMA_VERSION);
	}
	server->errors++;
	ulp_say("xid %08x: RDMA_ERROR %u", xid, error);
	ulp_reply(&server->ulp, (size_t)(header.at - server->ulp.ulp.send_buf), 0);
}

void rpcrdma_refuse(struct rpcrdma_server *server, const struct rpcrdma_call *call)
{
	send_error(server, call->xid, ERR_CHUNK);
}

bool rpcrdma_next(struct rpcrdma_server *server, struct rpcrdma_call *call)
{
	enum header_fault fault;
	uint8_t *message;
	size_t bytes;

	do {
		struct xdr header;

		if (!ulp_next(&server->ulp, &message, &bytes))
			return false;
		header = (struct xdr){.at = message, .end = message + bytes};
		fault = parse_header(&header, call);
		if (fault == FAULT_NONE)
			assemble_message(server, call, &header);
		else if (fault == FAULT_IGNORE)
			ulp_say("ignored a message of %zu bytes", bytes);
		else
			send_error(server, call->xid,
				   fault == FAULT_VERSION ? ERR_VERS : ERR_CHUNK);
		ulp_release(&server->ulp.ulp, message);
	} while (fault != FAULT_NONE);
	server->calls++;
	return ulp_settle(&server->ulp);
}

struct xdr rpcrdma_begin_reply(struct rpcrdma_server *server)
{
	uint8_t *start = server->reply_mr->addr;

	return (struct xdr){.at = start, .end = start + RPCRDMA_STREAM_MAX};
}

/* Writes to the segments in their order, and stores how many bytes each one contains. */
static void write_to_chunk(struct rpcrdma_server *server, struct rpcrdma_chunk *chunk,
			   const struct rpcrdma_payload *data)
{
	uint32_t done = 0;

	for (unsigned int i = 0; i < chunk->count; i++) {
		struct rpcrdma_segment *segment = &chunk->segments[i];
		struct ulp_transfer transfer = {.at = data->at + done,
						.mr = data->mr,
						.remote_addr = segment->addr,
						.rkey = segment->rkey};

		if (segment->bytes > data->bytes - done)
			segment->bytes = data->bytes - done;
		if (!segment->bytes)
			continue;
		transfer.bytes = segment->bytes;
		ulp_transfer(&server->ulp, IBV_WR_RDMA_WRITE, &transfer);
		done += segment->bytes;
	}
}

static void put_chunk(struct xdr *header, const struct rpcrdma_chunk *chunk)
{
	xdr_put(header, chunk->count);
	for (unsigned int i = 0; i < chunk->count; i++) {
		xdr_put(header, chunk->segments[i].rkey);
		xdr_put(header, chunk->segments[i].bytes);
		xdr_put64(header, chunk->segments[i].addr);
	}
}

/* One of the keys of the call, or 0. The client invalidates the others itself. */
static uint32_t key_to_invalidate(const struct rpcrdma_server *server,
				  const struct rpcrdma_call *call)
{
	const struct rpcrdma_chunk *chunks[] = {&call->write, &call->reply, &call->read};

	for (unsigned int i = 0; server->invalidates && i < 3; i++)
		if (chunks[i]->count)
			return chunks[i]->segments[0].rkey;
	return 0;
}

static void send_reply(struct rpcrdma_server *server, const struct rpcrdma_call *call,
		       const struct rpcrdma_payload *stream)
{
	uint32_t rkey = key_to_invalidate(server, call);
	struct xdr header;

	begin_header(server, &header, call->xid, call->reply.is_present ? RDMA_NOMSG : RDMA_MSG);
	xdr_put(&header, 0); /* no read list */
	xdr_put(&header, call->write.is_present);
	if (call->write.is_present) {
		put_chunk(&header, &call->write);
		xdr_put(&header, 0);
	}
	xdr_put(&header, call->reply.is_present);
	if (call->reply.is_present)
		put_chunk(&header, &call->reply);
	else
		xdr_put_fixed(&header, stream->at, stream->bytes);
	if (header.is_bad) {
		send_error(server, call->xid, ERR_CHUNK);
		return;
	}
	server->invalidations += rkey != 0;
	ulp_reply(&server->ulp, (size_t)(header.at - server->ulp.ulp.send_buf), rkey);
}

void rpcrdma_reply(struct rpcrdma_server *server, struct rpcrdma_call *call, struct xdr *reply,
		   const struct rpcrdma_payload *payload)
{
	struct rpcrdma_payload none = {.mr = server->reply_mr}, stream = none;

	if (!call->write.is_present) {
		xdr_put_fixed(reply, payload->at, payload->bytes);
		payload = &none;
	}
	stream.at = server->reply_mr->addr;
	stream.bytes = (uint32_t)(reply->at - stream.at);
	if (reply->is_bad || chunk_bytes(&call->write) < payload->bytes ||
	    (call->reply.is_present && chunk_bytes(&call->reply) < stream.bytes)) {
		send_error(server, call->xid, ERR_CHUNK);
		return;
	}
	write_to_chunk(server, &call->write, payload);
	server->write_chunks += call->write.is_present && payload->bytes;
	/* The reply chunk is used whenever there is one, as the kernel's server does. */
	if (call->reply.is_present)
		write_to_chunk(server, &call->reply, &stream);
	server->reply_chunks += call->reply.is_present;
	send_reply(server, call, &stream);
}
