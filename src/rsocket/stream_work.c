/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/librdmacm_calls.h"
#include "rsocket/stream.h"
#include "rsocket/stream_iomap.h"

/* Number of completions polled, and of receives posted, at a time. */
#define BATCH 32

#define WORK_SHIFT 56

static uint64_t wr_id_of(enum stream_work work, uint32_t bytes)
{
	return (uint64_t)work << WORK_SHIFT | bytes;
}

int stream_post_receives(struct stream *stream, unsigned count)
{
	struct ibv_recv_wr wrs[BATCH], *bad;

	while (count) {
		unsigned batch = count < BATCH ? count : BATCH;
		int ret;

		for (unsigned i = 0; i < batch; i++)
			wrs[i] = (struct ibv_recv_wr){
				.wr_id = wr_id_of(STREAM_WORK_RECEIVE, 0),
				.next = i + 1 < batch ? &wrs[i + 1] : NULL,
			};
		ret = ibv_post_recv(stream->id->qp, wrs, &bad);
		if (ret)
			return -ret;
		count -= batch;
	}
	return 0;
}

bool stream_has_control(const struct stream *stream)
{
	return stream->tx.controls_in_flight < STREAM_CONTROLS;
}

/* Posts a control message, with an entry for the peer's table if `entry` is not NULL. */
static int post_control(struct stream *stream, enum stream_work work, uint32_t imm,
			const uint8_t *entry, uint64_t addr)
{
	struct stream_tx *tx = &stream->tx;
	struct ibv_sge sge = {.length = PROTO_SGE_BYTES};
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id_of(work, 0),
					   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					   .imm_data = htobe32(imm),
				   },
			   *bad;
	int ret;

	if (entry) {
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = tx->peer_table.key;
	}
	if (entry && tx->inline_bytes >= PROTO_SGE_BYTES) {
		sge.addr = (uintptr_t)entry;
		wr.send_flags = IBV_SEND_INLINE;
	} else if (entry) {
		/*
		 * The control buffers follow the send ring, one for each control message that can
		 * be outstanding.
		 */
		uint8_t *buffer = tx->ring + tx->ring_bytes + PROTO_SGE_BYTES * tx->control_cursor;

		memcpy(buffer, entry, PROTO_SGE_BYTES);
		sge.addr = (uintptr_t)buffer;
		sge.lkey = tx->mr->lkey;
		tx->control_cursor = (tx->control_cursor + 1) % STREAM_CONTROLS;
	}
	ret = ibv_post_send(stream->id->qp, &wr, &bad);
	if (ret)
		return -ret;
	tx->controls_in_flight++;
	return 0;
}

int stream_post_control(struct stream *stream, enum proto_control control)
{
	return post_control(stream,
			    control == PROTO_CONTROL_DISCONNECT ? STREAM_WORK_DISCONNECT :
								  STREAM_WORK_CONTROL,
			    proto_imm(PROTO_OP_CONTROL, control), NULL, 0);
}

int stream_post_keepalive(struct stream *stream)
{
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id_of(STREAM_WORK_CONTROL, 0),
					   .opcode = IBV_WR_RDMA_WRITE,
				   },
			   *bad;
	int ret = ibv_post_send(stream->id->qp, &wr, &bad);

	if (!ret)
		stream->tx.controls_in_flight++;
	return -ret;
}

/* Grants the next half of the ring, and the messages up to the sequence number in `imm`. */
static int grant_half(struct stream *stream, uint32_t imm)
{
	struct stream_tx *tx = &stream->tx;
	struct stream_rx *rx = &stream->rx;
	uint32_t half = rx->ring_bytes / 2;
	struct proto_sge sge = {
		.addr = (uintptr_t)(rx->ring + rx->grant_at),
		.key = rx->mr->rkey,
		.length = half,
	};
	uint8_t entry[PROTO_SGE_BYTES];
	int ret;

	proto_sge_encode(entry, &sge, tx->swaps);
	ret = post_control(stream, STREAM_WORK_CONTROL, imm, entry,
			   tx->peer_table.addr + (uint64_t)tx->peer_entry * PROTO_SGE_BYTES);
	if (ret)
		return ret;
	rx->read_bytes -= half;
	rx->granted_bytes += half;
	rx->grant_at = rx->grant_at ? 0 : half;
	tx->peer_entry = (tx->peer_entry + 1) % tx->peer_table.length;
	return 0;
}

void stream_grant(struct stream *stream)
{
	struct stream_rx *rx = &stream->rx;

	while (stream->phase == STREAM_CONNECTED && stream_has_control(stream)) {
		uint32_t imm = proto_imm(PROTO_OP_GRANT, (uint16_t)(rx->sequence + rx->rq_entries));
		int ret;

		if (rx->read_bytes >= rx->ring_bytes / 2)
			ret = grant_half(stream, imm);
		else if ((uint16_t)(rx->sequence - rx->sequence_sent) >= rx->rq_entries / 2)
			ret = post_control(stream, STREAM_WORK_CONTROL, imm, NULL, 0);
		else
			return;
		rx->sequence_sent = rx->sequence;
		if (ret)
			stream_break(stream, -ret);
	}
}

static void stream_work_refuse(struct stream *stream, const char *what)
{
	log_warn("rsocket %d: the peer %s", stream->sock.fd, what);
	stream_break(stream, EPROTO);
}

static void on_data(struct stream *stream, uint32_t bytes)
{
	struct stream_rx *rx = &stream->rx;

	if (bytes > rx->granted_bytes) {
		stream_work_refuse(stream, "sent more than it was granted");
		return;
	}
	rx->sequence++;
	rx->granted_bytes -= bytes;
	rx->ready_bytes += bytes;
}

/* The entry is read only once. The peer overwrites it only after the granted memory is full. */
static void on_grant(struct stream *stream, uint32_t limit, uint32_t written_bytes)
{
	struct stream_tx *tx = &stream->tx;
	struct proto_sge sge;

	tx->sequence_limit = (uint16_t)limit;
	if (!written_bytes)
		return;
	sge = proto_sge_decode(stream->table + tx->fresh * PROTO_SGE_BYTES);
	if (written_bytes != PROTO_SGE_BYTES || tx->grants[tx->fresh].length) {
		stream_work_refuse(stream, "granted what it must not");
		return;
	}
	tx->grants[tx->fresh] = sge;
	tx->fresh = (tx->fresh + 1) % PROTO_GRANTS;
}

static void on_control(struct stream *stream, uint32_t control)
{
	if (control == PROTO_CONTROL_DISCONNECT ||
	    (control == PROTO_CONTROL_SHUTDOWN && !stream->can_write))
		stream_end(stream);
	else if (control == PROTO_CONTROL_SHUTDOWN)
		stream->can_read = false;
}

static void on_receive(struct stream *stream, const struct ibv_wc *wc)
{
	uint32_t imm;

	if (stream->phase != STREAM_CONNECTED)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		stream_break(stream, ECONNRESET);
		return;
	}
	stream->rx.to_post++;
	if (!(wc->wc_flags & IBV_WC_WITH_IMM)) {
		stream_work_refuse(stream, "sent a malformed message");
		return;
	}
	imm = be32toh(wc->imm_data);
	switch (proto_imm_op(imm)) {
	case PROTO_OP_DATA:
		on_data(stream, proto_imm_value(imm));
		break;
	case PROTO_OP_GRANT:
		on_grant(stream, proto_imm_value(imm), wc->byte_len);
		break;
	case PROTO_OP_IOMAP:
		stream_iomap_learn(stream, proto_imm_value(imm));
		break;
	case PROTO_OP_CONTROL:
		on_control(stream, proto_imm_value(imm));
		break;
	default:
		stream_work_refuse(stream, "sent a message of an unknown kind");
		break;
	}
}

/* The errno for the status of a failed send. */
static int error_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
		return EIO;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ETIMEDOUT;
	default:
		return ECONNRESET;
	}
}

static void on_sent(struct stream *stream, const struct ibv_wc *wc)
{
	struct stream_tx *tx = &stream->tx;
	enum stream_work work = (enum stream_work)(wc->wr_id >> WORK_SHIFT);

	if (work == STREAM_WORK_DATA) {
		tx->data_in_flight--;
		tx->free_bytes += (uint32_t)wc->wr_id;
	} else {
		tx->controls_in_flight--;
	}
	if (wc->status != IBV_WC_SUCCESS && stream->phase == STREAM_CONNECTED) {
		log_debug("rsocket %d: %s", stream->sock.fd, ibv_wc_status_str(wc->status));
		stream_break(stream, error_of(wc->status));
	} else if (work == STREAM_WORK_DISCONNECT) {
		stream_end(stream);
	}
}

static void stream_work_on_completion(struct stream *stream, const struct ibv_wc *wc)
{
	if (wc->wr_id >> WORK_SHIFT == STREAM_WORK_RECEIVE)
		on_receive(stream, wc);
	else
		on_sent(stream, wc);
}

/* Completed receives are posted again, as the granted credits require. */
static void post_again(struct stream *stream)
{
	unsigned count = stream->rx.to_post;
	int ret;

	stream->rx.to_post = 0;
	if (!count || stream->phase != STREAM_CONNECTED)
		return;
	ret = stream_post_receives(stream, count);
	if (ret)
		stream_break(stream, -ret);
}

static bool stream_work_take_events(struct stream *stream)
{
	unsigned before = stream->events_unacked;

	while (!usrdma_take_cq_event(stream->comp_channel))
		stream->events_unacked++;
	return stream->events_unacked != before;
}

/* State whose changes are edges for repoll_wait(); completed sends and granted space are not. */
struct edge_state {
	enum stream_phase phase;
	uint16_t sequence;
	bool can_read;
	bool can_write;
};

static struct edge_state edge_state_of(const struct stream *stream)
{
	return (struct edge_state){
		.phase = stream->phase,
		.sequence = stream->rx.sequence,
		.can_read = stream->can_read,
		.can_write = stream->can_write,
	};
}

static void count_edges(struct stream *stream, struct edge_state before)
{
	struct edge_state now = edge_state_of(stream);

	stream->sock.arrivals += now.sequence != before.sequence;
	stream->sock.changes += now.phase != before.phase || now.can_read != before.can_read ||
				now.can_write != before.can_write;
}

bool stream_progress_cq(struct stream *stream, bool is_readable)
{
	const struct edge_state before = edge_state_of(stream);
	struct ibv_wc wcs[BATCH];
	bool has_changes = false;
	int count;

	if (!stream->cq)
		return false;
	if (is_readable)
		has_changes = stream_work_take_events(stream);
	do {
		count = ibv_poll_cq(stream->cq, BATCH, wcs);
		for (int i = 0; i < count; i++)
			stream_work_on_completion(stream, &wcs[i]);
		post_again(stream);
		has_changes = has_changes || count > 0;
	} while (count == BATCH);
	if (count < 0 && stream->phase == STREAM_CONNECTED) {
		stream_break(stream, EIO);
		has_changes = true;
	}
	stream_grant(stream);
	count_edges(stream, before);
	return has_changes;
}

void stream_arm(struct stream *stream)
{
	/*
	 * Repeated for a CQ that is armed already: the request shows the device that the
	 * application does not poll.
	 */
	if (!stream->cq || !stream_was_connected(stream) || ibv_req_notify_cq(stream->cq, 0))
		return;
	if (stream_progress_cq(stream, false))
		rsock_wake_waiters(&stream->sock);
}

int stream_post_write(struct stream *stream, const struct stream_write *write)
{
	struct stream_tx *tx = &stream->tx;
	uint32_t first = tx->ring_bytes - tx->head;
	struct ibv_sge sges[2] = {
		{.addr = (uintptr_t)(tx->ring + tx->head), .lkey = tx->mr->lkey},
		{.addr = (uintptr_t)tx->ring, .lkey = tx->mr->lkey},
	};
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id_of(write->work,
							     write->inline_data ? 0 : write->bytes),
					   .sg_list = sges,
					   .num_sge = 1,
					   .opcode = write->has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM :
								      IBV_WR_RDMA_WRITE,
					   .imm_data = htobe32(write->imm),
					   .wr.rdma = {.remote_addr = write->addr,
						       .rkey = write->key},
				   },
			   *bad;

	if (first > write->bytes)
		first = write->bytes;
	if (write->inline_data) {
		sges[0].addr = (uintptr_t)write->inline_data;
		sges[0].length = write->bytes;
		wr.send_flags = IBV_SEND_INLINE;
	} else {
		sges[0].length = first;
		sges[1].length = write->bytes - first;
		wr.num_sge = sges[1].length ? 2 : 1;
		tx->head = (tx->head + write->bytes) % tx->ring_bytes;
	}
	return -ibv_post_send(stream->id->qp, &wr, &bad);
}
