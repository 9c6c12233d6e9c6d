/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream_iomap.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "rsocket/iov.h"
#include "rsocket/wait.h"

#define NO_INDEX (-1)

/* Memory registered by riomap(), until riounmap() or the end of the stream. */
struct mapping {
	struct list_head node;
	struct ibv_mr *mr;
	uint64_t offset;
	int index; /* in the peer's table; NO_INDEX: not for the peer */
	bool is_pending;
};

/* Guarded by the lock of the stream. */
struct stream_iomap {
	struct list_head mappings;
	unsigned pending;
	struct mapping **sent;	   /* by index; length: entries of the peer's table */
	struct proto_iomap *known; /* entries that the peer sent, by index */
};

int stream_iomap_open(struct stream *stream)
{
	struct stream_iomap *iomap = calloc(1, sizeof(*iomap));

	if (!iomap)
		return -ENOMEM;
	list_init(&iomap->mappings);
	stream->iomap = iomap;
	if (!stream->iomap_entries)
		return 0;
	iomap->known = calloc(stream->iomap_entries, sizeof(*iomap->known));
	return iomap->known ? 0 : -ENOMEM;
}

static void stream_iomap_unmap(struct stream_iomap *iomap, struct mapping *mapping)
{
	list_del(&mapping->node);
	if (mapping->is_pending)
		iomap->pending--;
	if (mapping->index != NO_INDEX)
		iomap->sent[mapping->index] = NULL;
	if (ibv_dereg_mr(mapping->mr))
		log_warn("cannot deregister memory of riomap(): %m");
	free(mapping);
}

void stream_iomap_free(struct stream *stream)
{
	struct stream_iomap *iomap = stream->iomap;
	struct mapping *mapping, *next;

	if (!iomap)
		return;
	list_for_each_entry_safe(mapping, next, &iomap->mappings, node)
		stream_iomap_unmap(iomap, mapping);
	free(iomap->sent);
	free(iomap->known);
	free(iomap);
	stream->iomap = NULL;
}

/* The entry is copied when its message arrives; the peer may overwrite the table at any time. */
void stream_iomap_learn(struct stream *stream, uint32_t index)
{
	const uint8_t *entries = stream->table + PROTO_GRANTS * PROTO_SGE_BYTES;

	if (index < stream->iomap_entries)
		stream->iomap->known[index] =
			proto_iomap_decode(entries + index * PROTO_IOMAP_BYTES);
}

bool stream_iomap_is_pending(const struct stream *stream)
{
	return stream->iomap && stream->iomap->pending;
}

static struct mapping *next_pending(struct stream_iomap *iomap)
{
	struct mapping *mapping;

	list_for_each_entry(mapping, &iomap->mappings, node)
		if (mapping->is_pending)
			return mapping;
	return NULL;
}

/*
 * Sending an entry does not consume a credit. rdma-core's sender consumes one, which its receiver
 * does not return; without both, the counters of both sides agree.
 */
static int send_entry(struct stream *stream, struct mapping *mapping)
{
	struct stream_tx *tx = &stream->tx;
	struct proto_iomap entry = {
		.offset = mapping->offset,
		.sge = {.addr = (uintptr_t)mapping->mr->addr,
			.key = mapping->mr->rkey,
			.length = (uint32_t)mapping->mr->length},
	};
	uint8_t bytes[PROTO_IOMAP_BYTES];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct iov_cursor cursor = {.iov = &iov, .count = 1};
	struct stream_write write = {
		.work = STREAM_WORK_DATA,
		.bytes = sizeof(bytes),
		.addr = tx->peer_iomap_addr + (uint64_t)mapping->index * PROTO_IOMAP_BYTES,
		.key = tx->peer_table.key,
		.has_imm = true,
		.imm = proto_imm(PROTO_OP_IOMAP, (uint32_t)mapping->index),
	};
	int ret;

	proto_iomap_encode(bytes, &entry, tx->swaps);
	mapping->is_pending = false;
	stream->iomap->pending--;
	tx->data_in_flight++;
	tx->free_bytes -= write.bytes;
	rsock_unlock(&stream->sock);
	ret = stream_send_write(stream, &write, &cursor);
	rsock_lock(&stream->sock);
	return ret;
}

int stream_iomap_notify(struct stream *stream, int flags, uint64_t deadline_ns)
{
	int ret = 0;

	while (!ret && stream->iomap->pending) {
		ret = stream_await_room(stream, flags, deadline_ns);
		if (!ret && stream->iomap->pending)
			ret = send_entry(stream, next_pending(stream->iomap));
	}
	return ret;
}

/* A free index of the peer's table, or -ENOMEM. */
static int free_index(struct stream *stream)
{
	struct stream_iomap *iomap = stream->iomap;

	if (!iomap->sent && stream->tx.peer_iomap_entries) {
		iomap->sent = calloc(stream->tx.peer_iomap_entries, sizeof(struct mapping *));
		if (!iomap->sent)
			return -ENOMEM;
	}
	for (int i = 0; i < stream->tx.peer_iomap_entries; i++)
		if (!iomap->sent[i])
			return i;
	return -ENOMEM;
}

static int map_locked(struct stream *stream, void *buf, size_t len, int prot, uint64_t offset)
{
	bool is_peers = prot & PROT_WRITE;
	struct mapping *mapping;
	int index = NO_INDEX;
	int ret;

	if (stream->phase != STREAM_CONNECTED)
		return stream_was_connected(stream) ? -ECONNRESET : -ENOTCONN;
	if (is_peers) {
		index = free_index(stream);
		if (index < 0)
			return index;
	}
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return -ENOMEM;
	mapping->mr = ibv_reg_mr(stream->id->pd, buf, len,
				 IBV_ACCESS_LOCAL_WRITE | (is_peers ? IBV_ACCESS_REMOTE_WRITE : 0));
	if (!mapping->mr) {
		ret = errno ? -errno : -ENOMEM;
		free(mapping);
		return ret;
	}
	mapping->offset = offset;
	mapping->index = index;
	mapping->is_pending = is_peers;
	list_add_tail(&mapping->node, &stream->iomap->mappings);
	if (is_peers) {
		stream->iomap->sent[index] = mapping;
		stream->iomap->pending++;
	}
	return 0;
}

int stream_riomap(struct rsock *sock, void *buf, size_t len, int prot, off_t *offset)
{
	int ret;

	if (prot & ~PROT_WRITE || !buf || !len || len > UINT32_MAX || *offset < -1)
		return -EINVAL;
	if (*offset == -1)
		*offset = (off_t)(uintptr_t)buf;
	rsock_lock(sock);
	ret = map_locked(stream_of(sock), buf, len, prot, (uint64_t)*offset);
	rsock_unlock(sock);
	return ret;
}

int stream_riounmap(struct rsock *sock, void *buf, size_t len)
{
	struct stream *stream = stream_of(sock);
	struct mapping *mapping;
	int ret = -EINVAL;

	rsock_lock(sock);
	if (stream->iomap) {
		list_for_each_entry(mapping, &stream->iomap->mappings, node) {
			if (mapping->mr->addr != buf || mapping->mr->length != len)
				continue;
			stream_iomap_unmap(stream->iomap, mapping);
			ret = 0;
			break;
		}
	}
	rsock_unlock(sock);
	return ret;
}

/*
 * Finds the remote address of an offset, and the number of bytes from there on. -EINVAL: no entry
 * contains the offset.
 */
static int find_known(const struct stream *stream, uint64_t offset, struct proto_sge *place)
{
	for (unsigned i = 0; i < stream->iomap_entries; i++) {
		const struct proto_iomap *known = &stream->iomap->known[i];

		if (offset < known->offset || offset - known->offset >= known->sge.length)
			continue;
		*place = known->sge;
		place->addr += offset - known->offset;
		place->length -= (uint32_t)(offset - known->offset);
		return 0;
	}
	return -EINVAL;
}

/* Prepares the next write of the remaining data and allocates its space in the ring. Locked. */
static int take_piece(struct stream *stream, size_t left, uint64_t offset,
		      struct iov_cursor *cursor, struct stream_write *write)
{
	struct stream_tx *tx = &stream->tx;
	struct proto_sge place;
	uint32_t bytes = left < STREAM_MESSAGE_BYTES ? (uint32_t)left : STREAM_MESSAGE_BYTES;
	int ret = find_known(stream, offset, &place);

	if (ret)
		return ret;
	if (bytes > place.length)
		bytes = place.length;
	*write = (struct stream_write){
		.work = STREAM_WORK_DATA,
		.addr = place.addr,
		.key = place.key,
	};
	write->inline_data = bytes <= tx->inline_bytes ? iov_together(cursor, bytes) : NULL;
	if (!write->inline_data) {
		if (bytes > tx->free_bytes)
			bytes = tx->free_bytes;
		tx->free_bytes -= bytes;
	}
	write->bytes = bytes;
	tx->data_in_flight++;
	return 0;
}

static ssize_t stream_iomap_write_all(struct stream *stream, const struct iovec *iov,
				      uint64_t offset, int flags, uint64_t deadline_ns)
{
	struct iov_cursor cursor = {.iov = iov, .count = 1};
	size_t written = 0;
	int ret = 0;

	while (!ret && written < iov->iov_len) {
		struct stream_write write;

		rsock_lock(&stream->sock);
		ret = stream_await_room(stream, flags, deadline_ns);
		if (!ret)
			ret = take_piece(stream, iov->iov_len - written, offset + written, &cursor,
					 &write);
		rsock_unlock(&stream->sock);
		if (!ret)
			ret = stream_send_write(stream, &write, &cursor);
		if (!ret)
			written += write.bytes;
	}
	return written ? (ssize_t)written : ret;
}

ssize_t stream_riowrite(struct rsock *sock, const void *buf, size_t count, off_t offset, int flags)
{
	struct stream *stream = stream_of(sock);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = count};
	uint64_t deadline_ns;
	ssize_t ret;

	if (offset < 0 || count > SSIZE_MAX)
		return -EINVAL;
	ret = stream_lock_send(stream, flags);
	if (ret)
		return ret;
	rsock_lock(sock);
	deadline_ns = stream_send_deadline(stream);
	ret = stream_await_connected(stream, flags, deadline_ns);
	/* Processes entries that the peer has sent but that were not read yet. */
	if (!ret)
		rsock_progress(sock, false);
	if (!ret && stream_iomap_is_pending(stream))
		ret = stream_iomap_notify(stream, flags, deadline_ns);
	rsock_unlock(sock);
	if (!ret)
		ret = stream_iomap_write_all(stream, &iov, (uint64_t)offset, flags, deadline_ns);
	stream_unlock_send(stream);
	return ret;
}
