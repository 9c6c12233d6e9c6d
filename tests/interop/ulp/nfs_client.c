/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RPC over RDMA version 1 (RFC 8166), with NFS version 4.0 (RFC 7530) as the upper layer (RFC
 * 8267): the client.
 *
 *	nfs_client ADDRESS PORT FILE
 *
 * Calls NULL, gets the attributes of the root directory, once inline and once in a reply chunk,
 * writes a file of the root directory through a read list, reads it through a write list and
 * compares it. FILE exists and can be written.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc_rdma.h"
#include "ulp.h"
#include "xdr.h"

#define REPLY_BYTES	   4096
#define FILE_BYTES	   (64u << 10)
#define CREDITS		   16
#define PROCEDURE_NULL	   0
#define PROCEDURE_COMPOUND 1

#define STATUS_GRACE 10013
#define GRACE_TRIES  60 /* seconds */

enum nfs_operation {
	OP_GETATTR = 9,
	OP_LOOKUP = 15,
	OP_PUTROOTFH = 24,
	OP_READ = 25,
	OP_WRITE = 38,
};

/* The chunks of a call: NULL for none. */
struct chunks {
	const struct ibv_mr *read;
	uint32_t read_position; /* in the XDR stream */
	const struct ibv_mr *write;
	const struct ibv_mr *reply;
};

struct client {
	struct ulp ulp;
	uint8_t *rpc; /* the RPC message in the send buffer */
	struct xdr call;
	uint32_t xid;
	uint32_t credits;
	struct xdr reply;	/* the rest of the last reply */
	uint32_t written_bytes; /* of the write list */
};

static void put(struct client *client, uint32_t value)
{
	xdr_put(&client->call, value);
}

static void put_opaque(struct client *client, const char *text)
{
	xdr_put_opaque(&client->call, text, strlen(text));
}

static uint32_t get(struct client *client)
{
	uint32_t value = xdr_get(&client->reply);

	ulp_require(!client->reply.is_bad, "the reply is too short");
	return value;
}

static void skip_opaque(struct client *client, const char *name)
{
	size_t bytes, left = xdr_left(&client->reply);

	xdr_get_opaque(&client->reply, left, &bytes);
	ulp_require(!client->reply.is_bad, "%s is longer than the reply, %zu bytes remain", name,
		    left);
}

static void require_next(struct client *client, uint32_t wanted, const char *name)
{
	uint32_t got = get(client);

	ulp_require(got == wanted, "%s is %u, not %u", name, got, wanted);
}

static void put_segment(struct client *client, const struct ibv_mr *mr)
{
	put(client, mr->rkey);
	put(client, (uint32_t)mr->length);
	put(client, (uint32_t)((uintptr_t)mr->addr >> 32));
	put(client, (uint32_t)(uintptr_t)mr->addr);
}

/* Begins a message: the transport header and the header of the call. */
static void begin(struct client *client, uint32_t procedure, const struct chunks *chunks)
{
	client->call = (struct xdr){.at = client->ulp.send_buf,
				    .end = client->ulp.send_buf + RPCRDMA_INLINE_BYTES};
	put(client, ++client->xid);
	put(client, RPCRDMA_VERSION);
	put(client, CREDITS);
	put(client, RDMA_MSG);
	if (chunks->read) {
		put(client, 1);
		put(client, chunks->read_position);
		put_segment(client, chunks->read);
	}
	put(client, 0);
	if (chunks->write) {
		put(client, 1);
		put(client, 1); /* segments */
		put_segment(client, chunks->write);
	}
	put(client, 0);
	put(client, !!chunks->reply);
	if (chunks->reply) {
		put(client, 1);
		put_segment(client, chunks->reply);
	}
	client->rpc = client->call.at;
	put(client, client->xid);
	put(client, 0); /* a call */
	put(client, RPC_VERSION);
	put(client, PROGRAM_NFS);
	put(client, 4);
	put(client, procedure);
	put(client, AUTH_SYS); /* of root */
	put(client, 20);
	for (unsigned int i = 0; i < 5; i++)
		put(client, 0);
	put(client, AUTH_NONE); /* no verifier */
	put(client, 0);
}

/*
 * The segment of a chunk in the reply, which contains the number of bytes that were written to it.
 */
static uint32_t get_chunk(struct client *client)
{
	uint32_t bytes;

	require_next(client, 1, "number of segments");
	get(client);
	bytes = get(client);
	get(client);
	get(client);
	return bytes;
}

static void parse_transport_header(struct client *client, const struct chunks *chunks)
{
	uint32_t type, reply_bytes = 0;

	require_next(client, client->xid, "xid");
	require_next(client, RPCRDMA_VERSION, "version");
	client->credits = get(client);
	type = get(client);
	ulp_require(type == (chunks->reply ? RDMA_NOMSG : RDMA_MSG), "a reply of type %u", type);
	require_next(client, 0, "read list");
	client->written_bytes = 0;
	if (get(client)) {
		client->written_bytes = get_chunk(client);
		require_next(client, 0, "end of the write list");
	}
	if (get(client))
		reply_bytes = get_chunk(client);
	if (chunks->reply) {
		ulp_require(reply_bytes <= chunks->reply->length,
			    "%u bytes in a reply chunk of %zu bytes", reply_bytes,
			    chunks->reply->length);
		client->reply = (struct xdr){.at = chunks->reply->addr,
					     .end = (uint8_t *)chunks->reply->addr + reply_bytes};
		ulp_say("%u bytes in the reply chunk", reply_bytes);
	}
}

/*
 * Sends the call and parses the reply up to the result. The reply is valid until the slot is
 * released.
 */
static uint8_t *call(struct client *client, const struct chunks *chunks)
{
	uint8_t *message;
	size_t bytes;

	ulp_require(!client->call.is_bad, "the call is longer than %u bytes", RPCRDMA_INLINE_BYTES);
	ulp_send(&client->ulp, (size_t)(client->call.at - client->ulp.send_buf));
	bytes = ulp_receive(&client->ulp, &message);
	client->reply = (struct xdr){.at = message, .end = message + bytes};
	parse_transport_header(client, chunks);
	require_next(client, client->xid, "xid");
	require_next(client, 1, "message type");
	require_next(client, 0, "reply status");
	get(client); /* flavor of the verifier */
	skip_opaque(client, "verifier");
	require_next(client, 0, "accept status");
	return message;
}

static void begin_compound(struct client *client, uint32_t operations, const struct chunks *chunks)
{
	begin(client, PROCEDURE_COMPOUND, chunks);
	put_opaque(client, "usrdma");
	put(client, 0); /* minor version */
	put(client, operations);
	put(client, OP_PUTROOTFH);
}

/* Returns NULL if the server is in the grace period after its start. */
static uint8_t *compound(struct client *client, const struct chunks *chunks)
{
	uint8_t *message = call(client, chunks);
	uint32_t status = get(client);

	if (status == STATUS_GRACE) {
		ulp_release(&client->ulp, message);
		return NULL;
	}
	ulp_require(!status, "NFS status %u", status);
	skip_opaque(client, "tag");
	get(client); /* number of results */
	return message;
}

static void require_done(struct client *client, enum nfs_operation operation)
{
	require_next(client, operation, "operation");
	require_next(client, 0, "status of the operation");
}

/* The type of the root directory, the attribute 1, is 2. */
static void get_root_type(struct client *client, const struct ibv_mr *reply)
{
	struct chunks chunks = {.reply = reply};
	uint8_t *message;

	begin_compound(client, 2, &chunks);
	put(client, OP_GETATTR);
	put(client, 1);
	put(client, 1u << 1);
	message = compound(client, &chunks);
	ulp_require(message, "the server is in its grace period");
	require_done(client, OP_PUTROOTFH);
	require_done(client, OP_GETATTR);
	require_next(client, 1, "words of the bitmap");
	require_next(client, 1u << 1, "bitmap");
	require_next(client, 4, "bytes of the attributes");
	require_next(client, 2, "type of the root directory");
	ulp_release(&client->ulp, message);
	ulp_say("PUTROOTFH, GETATTR: a directory, %u credits", client->credits);
}

/*
 * Begins a compound that names the file, and the operation on it with the anonymous state ID and
 * offset 0.
 */
static void begin_file(struct client *client, const char *file, enum nfs_operation operation,
		       const struct chunks *chunks)
{
	begin_compound(client, 3, chunks);
	put(client, OP_LOOKUP);
	put_opaque(client, file);
	put(client, operation);
	for (unsigned int i = 0; i < 6; i++)
		put(client, 0);
}

static uint8_t *finish_file(struct client *client, enum nfs_operation operation,
			    const struct chunks *chunks)
{
	uint8_t *message = compound(client, chunks);

	if (!message)
		return NULL;
	require_done(client, OP_PUTROOTFH);
	require_done(client, OP_LOOKUP);
	require_done(client, operation);
	return message;
}

static uint8_t *try_to_write(struct client *client, const char *file, struct chunks *chunks)
{
	/*
	 * The position of the data is the length of the XDR stream before it: the message is made
	 * twice.
	 */
	for (unsigned int i = 0; i < 2; i++) {
		begin_file(client, file, OP_WRITE, chunks);
		put(client, 2); /* FILE_SYNC */
		put(client, FILE_BYTES);
		chunks->read_position = (uint32_t)(client->call.at - client->rpc);
	}
	return finish_file(client, OP_WRITE, chunks);
}

static void write_file(struct client *client, const char *file, const struct ibv_mr *mr)
{
	struct chunks chunks = {.read = mr};
	unsigned int tries = 0;
	uint8_t *message;

	ulp_fill(mr->addr, FILE_BYTES, 1);
	while (!(message = try_to_write(client, file, &chunks))) {
		ulp_require(++tries < GRACE_TRIES, "the grace period does not end");
		sleep(1);
	}
	require_next(client, FILE_BYTES, "written bytes");
	ulp_release(&client->ulp, message);
	ulp_say("WRITE of %u bytes in a read chunk", FILE_BYTES);
}

static void read_file(struct client *client, const char *file, const struct ibv_mr *mr)
{
	struct chunks chunks = {.write = mr};
	uint8_t *message;
	size_t wrong;

	memset(mr->addr, 0, FILE_BYTES);
	begin_file(client, file, OP_READ, &chunks);
	put(client, FILE_BYTES);
	message = finish_file(client, OP_READ, &chunks);
	ulp_require(message, "the server is in its grace period");
	get(client); /* end of file */
	require_next(client, FILE_BYTES, "read bytes");
	ulp_release(&client->ulp, message);
	wrong = ulp_count_wrong(mr->addr, FILE_BYTES, 1);
	ulp_require(client->written_bytes == FILE_BYTES && !wrong,
		    "%u bytes in the write chunk, %zu are wrong", client->written_bytes, wrong);
	ulp_say("READ of %u bytes in a write chunk: all bytes are right", FILE_BYTES);
}

static void call_null(struct client *client)
{
	struct chunks none = {0};

	begin(client, PROCEDURE_NULL, &none);
	ulp_release(&client->ulp, call(client, &none));
	ulp_say("NULL");
}

int main(int argc, char **argv)
{
	uint8_t private_data[RPCRDMA_PRIVATE_BYTES];
	struct client client = {.xid = 0x75730000};
	struct ibv_mr *data, *reply;

	ulp_require(argc == 4, "usage: nfs_client ADDRESS PORT FILE");
	rpcrdma_fill_private(private_data, 0);
	ulp_connect(&client.ulp, argv[1], argv[2], private_data, sizeof(private_data),
		    RPCRDMA_INLINE_BYTES);
	ulp_require(ulp_get_be(client.ulp.private_data, 4) == RPCRDMA_PRIVATE_MAGIC,
		    "private data without the magic number");
	ulp_say("connected, the server's sizes are %u and %u KiB",
		client.ulp.private_data[PRIVATE_SEND_SIZE] + 1u,
		client.ulp.private_data[PRIVATE_RECEIVE_SIZE] + 1u);
	data = ulp_region(&client.ulp, FILE_BYTES);
	reply = ulp_region(&client.ulp, REPLY_BYTES);
	call_null(&client);
	get_root_type(&client, NULL);
	get_root_type(&client, reply);
	write_file(&client, argv[3], data);
	read_file(&client, argv[3], data);
	ulp_disconnect(&client.ulp);
	ulp_say("disconnected");
	return 0;
}
