/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/ring_memory.h"
#include "rsocket/stream.h"
#include "rsocket/stream_iomap.h"

/* Limits the queue sizes to those of the device. */
static int limit_queues(struct stream *stream)
{
	struct rsock_sizes *sizes = &stream->sock.sizes;
	struct ibv_device_attr attr;
	int ret = ibv_query_device(stream->id->verbs, &attr);

	if (ret)
		return -ret;
	if (sizes->sq_entries > attr.max_qp_wr)
		sizes->sq_entries = (uint16_t)attr.max_qp_wr;
	if (sizes->rq_entries > attr.max_qp_wr)
		sizes->rq_entries = (uint16_t)attr.max_qp_wr;
	return sizes->sq_entries > STREAM_CONTROLS ? 0 : -ENOTSUP;
}

static int create_cq(struct stream *stream)
{
	const struct rsock_sizes *sizes = &stream->sock.sizes;
	int ret;

	stream->comp_channel = ibv_create_comp_channel(stream->id->verbs);
	if (!stream->comp_channel)
		return errno ? -errno : -ENOMEM;
	stream->sock.context = stream->id->verbs;
	if (fcntl(stream->comp_channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	ret = rsock_watch(&stream->sock, stream->comp_channel->fd);
	if (ret)
		return ret;
	stream->cq = ibv_create_cq(stream->id->verbs, sizes->sq_entries + sizes->rq_entries, stream,
				   stream->comp_channel, 0);
	return stream->cq ? 0 : errno ? -errno : -ENOMEM;
}

/*
 * Creates the queue pair with the requested inline size, or without inline data if the device does
 * not support that size.
 */
static int stream_endpoint_create_qp(struct stream *stream)
{
	struct rsock_sizes *sizes = &stream->sock.sizes;
	struct ibv_qp_init_attr attr = {
		.qp_context = stream,
		.send_cq = stream->cq,
		.recv_cq = stream->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap =
			{
				.max_send_wr = sizes->sq_entries,
				.max_recv_wr = sizes->rq_entries,
				.max_send_sge = 2,
				.max_recv_sge = 1,
				.max_inline_data = sizes->inline_bytes,
			},
	};
	int ret = rdma_create_qp(stream->id, NULL, &attr);

	if (ret && sizes->inline_bytes) {
		attr.cap.max_inline_data = 0;
		ret = rdma_create_qp(stream->id, NULL, &attr);
	}
	if (ret)
		return -errno;
	if (sizes->inline_bytes > attr.cap.max_inline_data)
		sizes->inline_bytes = (uint16_t)attr.cap.max_inline_data;
	stream->tx.inline_bytes = sizes->inline_bytes;
	stream->tx.data_max = sizes->sq_entries - (unsigned)STREAM_CONTROLS;
	return 0;
}

/* Buffers consist of whole pages that they do not share with other data. */
static int map_memory(struct stream *stream, size_t bytes, bool is_peers, uint8_t **memory,
		      struct ibv_mr **mr)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | (is_peers ? IBV_ACCESS_REMOTE_WRITE : 0);
	int ret;

	*memory = ring_memory_alloc(bytes);
	if (!*memory)
		return -errno;
	*mr = ibv_reg_mr(stream->id->pd, *memory, bytes, access);
	if (*mr)
		return 0;
	ret = errno ? -errno : -ENOMEM;
	ring_memory_free(*memory, bytes);
	*memory = NULL;
	return ret;
}

static void unmap_memory(uint8_t **memory, struct ibv_mr **mr)
{
	size_t bytes;

	if (!*memory)
		return;
	bytes = (*mr)->length;
	if (ibv_dereg_mr(*mr))
		log_warn(
			"cannot deregister the memory of an rsocket; a peer may still write to it: %m");
	else
		ring_memory_free(*memory, bytes);
	*memory = NULL;
	*mr = NULL;
}

static size_t table_bytes(const struct stream *stream)
{
	return PROTO_GRANTS * PROTO_SGE_BYTES + (size_t)stream->iomap_entries * PROTO_IOMAP_BYTES;
}

static int map_buffers(struct stream *stream)
{
	struct rsock_sizes *sizes = &stream->sock.sizes;
	struct stream_tx *tx = &stream->tx;
	struct stream_rx *rx = &stream->rx;
	int ret;

	tx->ring_bytes = sizes->send_bytes;
	tx->free_bytes = tx->ring_bytes;
	ret = map_memory(stream, tx->ring_bytes + STREAM_CONTROLS * PROTO_SGE_BYTES, false,
			 &tx->ring, &tx->mr);
	if (ret)
		return ret;
	rx->ring_bytes = sizes->receive_bytes;
	rx->rq_entries = sizes->rq_entries;
	ret = map_memory(stream, rx->ring_bytes, true, &rx->ring, &rx->mr);
	if (ret)
		return ret;
	stream->iomap_entries = sizes->iomap_entries;
	return map_memory(stream, table_bytes(stream), true, &stream->table, &stream->table_mr);
}

/*
 * The private data grants the first half. The second half is accounted as read, so that the first
 * grant message covers it.
 */
static void grant_first_half(struct stream_rx *rx)
{
	rx->granted_bytes = rx->ring_bytes / 2;
	rx->read_bytes = rx->ring_bytes - rx->granted_bytes;
	rx->grant_at = rx->granted_bytes;
}

int stream_endpoint_open(struct stream *stream)
{
	int ret = limit_queues(stream);

	if (!ret)
		ret = create_cq(stream);
	if (!ret)
		ret = stream_endpoint_create_qp(stream);
	if (!ret)
		ret = map_buffers(stream);
	if (!ret)
		ret = stream_iomap_open(stream);
	if (!ret)
		ret = stream_post_receives(stream, stream->sock.sizes.rq_entries);
	if (ret) {
		stream_endpoint_close(stream);
		return ret;
	}
	grant_first_half(&stream->rx);
	return 0;
}

void stream_endpoint_close(struct stream *stream)
{
	struct ibv_comp_channel *channel = stream->comp_channel;

	/* The queue pair is destroyed first: afterwards neither side writes to the buffers. */
	rdma_destroy_qp(stream->id);
	stream_iomap_free(stream);
	unmap_memory(&stream->tx.ring, &stream->tx.mr);
	unmap_memory(&stream->rx.ring, &stream->rx.mr);
	unmap_memory(&stream->table, &stream->table_mr);
	if (stream->cq) {
		ibv_ack_cq_events(stream->cq, stream->events_unacked);
		if (ibv_destroy_cq(stream->cq))
			log_warn("cannot destroy the completion queue of rsocket %d: %m",
				 stream->sock.fd);
		stream->cq = NULL;
		stream->events_unacked = 0;
	}
	if (channel) {
		/*
		 * stream_disown() of a child that another thread forks at this time must not use a
		 * freed channel.
		 */
		stream->comp_channel = NULL;
		rsock_unwatch(&stream->sock, channel->fd);
		ibv_destroy_comp_channel(channel);
	}
	memset(&stream->tx, 0, sizeof(stream->tx));
	memset(&stream->rx, 0, sizeof(stream->rx));
}

void stream_conn_format(const struct stream *stream, uint8_t out[PROTO_CONN_BYTES])
{
	const struct stream_rx *rx = &stream->rx;
	struct proto_conn conn = {
		.is_big_endian = proto_host_is_big_endian(),
		.has_iomap = true,
		.credits = rx->rq_entries,
		.iomap_entries = stream->iomap_entries,
		.table = {.addr = (uintptr_t)stream->table,
			  .key = stream->table_mr->rkey,
			  .length = PROTO_GRANTS},
		.ring = {.addr = (uintptr_t)rx->ring,
			 .key = rx->mr->rkey,
			 .length = rx->ring_bytes / 2},
	};

	proto_conn_encode(out, &conn);
}

void stream_conn_learn(struct stream *stream, const struct proto_conn *conn)
{
	struct stream_tx *tx = &stream->tx;

	tx->swaps = conn->is_big_endian != proto_host_is_big_endian();
	tx->sequence_limit = conn->credits;
	tx->grants[0] = conn->ring;
	tx->fresh = 1;
	tx->peer_table = conn->table;
	tx->peer_entry = 1 % conn->table.length;
	tx->peer_iomap_addr = conn->table.addr + (uint64_t)conn->table.length * PROTO_SGE_BYTES;
	tx->peer_iomap_entries = conn->iomap_entries;
}
