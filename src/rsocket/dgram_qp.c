/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/librdmacm_calls.h"
#include "base/util.h"
#include "rsocket/addr.h"
#include "rsocket/dgram.h"
#include "rsocket/iov.h"

#define BATCH	  16
#define GRH_BYTES sizeof(struct ibv_grh)

/*
 * Each slot begins with space for the GRH that the device stores in front of a received datagram.
 */
#define SLOT_BYTES (GRH_BYTES + DGRAM_SLOT_BYTES)

/* wr_id: the slot number, and a bit that marks send slots. */
#define IS_SEND (1ull << 32)

static uint8_t *slot_at(const struct dgram_qp *qp, uint32_t slot)
{
	return qp->memory + (size_t)slot * SLOT_BYTES;
}

static int dgram_qp_open_id(struct dgram *dgram, struct dgram_qp *qp)
{
	struct sockaddr_storage local = qp->local;

	if (rdma_create_id(dgram->channel, &qp->id, qp, RDMA_PS_UDP))
		return -errno;
	/* The port of the id is arbitrary: peers address the queue pair by its QPN. */
	((struct sockaddr_in *)&local)->sin_port = 0;
	return rdma_bind_addr(qp->id, (struct sockaddr *)&local) ? -errno :
	       qp->id->verbs					 ? 0 :
								   -ENODEV;
}

/* The number of slots is limited by the queue sizes, the buffer sizes and the device. */
static int size_slots(struct dgram *dgram, struct dgram_qp *qp)
{
	const struct rsock_sizes *sizes = &dgram->sock.sizes;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int ret = ibv_query_device(qp->id->verbs, &device);

	if (!ret)
		ret = ibv_query_port(qp->id->verbs, qp->id->port_num, &port);
	if (ret)
		return -ret;
	qp->receive_slots = min_u32(min_u32(sizes->rq_entries, (uint32_t)device.max_qp_wr),
				    sizes->receive_bytes / DGRAM_SLOT_BYTES);
	qp->send_slots = min_u32(min_u32(sizes->sq_entries, (uint32_t)device.max_qp_wr),
				 sizes->send_bytes / DGRAM_SLOT_BYTES);
	qp->message_bytes_max = min_u32(mtu_code_bytes(port.active_mtu), DGRAM_SLOT_BYTES);
	return 0;
}

static int open_cq(struct dgram *dgram, struct dgram_qp *qp)
{
	int ret;

	qp->comp_channel = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->comp_channel)
		return errno ? -errno : -ENOMEM;
	if (fcntl(qp->comp_channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	dgram->sock.context = qp->id->verbs;
	ret = rsock_watch(&dgram->sock, qp->comp_channel->fd);
	if (ret)
		return ret;
	qp->cq = ibv_create_cq(qp->id->verbs, (int)(qp->receive_slots + qp->send_slots), qp,
			       qp->comp_channel, 0);
	return qp->cq ? 0 : errno ? -errno : -ENOMEM;
}

static int open_qp(struct dgram *dgram, struct dgram_qp *qp)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = qp,
		.send_cq = qp->cq,
		.recv_cq = qp->cq,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap =
			{
				.max_send_wr = qp->send_slots,
				.max_recv_wr = qp->receive_slots,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = dgram->sock.sizes.inline_bytes,
			},
	};
	int ret = rdma_create_qp(qp->id, NULL, &attr);

	if (ret && attr.cap.max_inline_data) {
		attr.cap.max_inline_data = 0;
		ret = rdma_create_qp(qp->id, NULL, &attr);
	}
	qp->inline_bytes = min_u32(attr.cap.max_inline_data, dgram->sock.sizes.inline_bytes);
	return ret ? -errno : 0;
}

static int dgram_qp_open_memory(struct dgram_qp *qp)
{
	size_t slots = (size_t)qp->receive_slots + qp->send_slots;

	qp->memory = calloc(slots, SLOT_BYTES);
	qp->messages = calloc(qp->receive_slots, sizeof(*qp->messages));
	qp->free_sends = calloc(qp->send_slots, sizeof(*qp->free_sends));
	if (!qp->memory || !qp->messages || !qp->free_sends)
		return -ENOMEM;
	for (uint32_t i = 0; i < qp->receive_slots; i++) {
		qp->messages[i].qp = qp;
		list_init(&qp->messages[i].node);
	}
	for (uint32_t i = 0; i < qp->send_slots; i++)
		qp->free_sends[qp->free_count++] = qp->receive_slots + i;
	qp->mr = ibv_reg_mr(qp->id->pd, qp->memory, slots * SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE);
	return qp->mr ? 0 : errno ? -errno : -ENOMEM;
}

static int post_receive(struct dgram_qp *qp, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot_at(qp, slot),
		.length = SLOT_BYTES,
		.lkey = qp->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return -ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int post_receives(struct dgram_qp *qp)
{
	int ret = 0;

	for (uint32_t slot = 0; !ret && slot < qp->receive_slots; slot++)
		ret = post_receive(qp, slot);
	return ret;
}

static int dgram_qp_open_all(struct dgram *dgram, struct dgram_qp *qp)
{
	int ret = dgram_qp_open_id(dgram, qp);

	if (!ret)
		ret = size_slots(dgram, qp);
	if (!ret)
		ret = open_cq(dgram, qp);
	if (!ret)
		ret = open_qp(dgram, qp);
	if (!ret)
		ret = dgram_qp_open_memory(qp);
	if (!ret)
		ret = post_receives(qp);
	qp->header_bytes = dgram_ud_encode(qp->header, &qp->local);
	return ret;
}

int dgram_qp_get(struct dgram *dgram, const struct sockaddr_storage *local, struct dgram_qp **found)
{
	struct dgram_qp *qp;
	int ret;

	list_for_each_entry(qp, &dgram->qps, node) {
		if (!addr_is_equal(&qp->local, local))
			continue;
		*found = qp;
		return 0;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	list_init(&qp->node);
	qp->local = *local;
	ret = dgram_qp_open_all(dgram, qp);
	if (ret) {
		dgram_qp_free(dgram, qp);
		return ret;
	}
	list_add_tail(&qp->node, &dgram->qps);
	*found = qp;
	return 0;
}

static void close_cq(struct dgram *dgram, struct dgram_qp *qp)
{
	if (qp->cq) {
		ibv_ack_cq_events(qp->cq, qp->events_unacked);
		if (ibv_destroy_cq(qp->cq))
			log_warn("cannot destroy a completion queue of rsocket %d: %m",
				 dgram->sock.fd);
	}
	if (qp->comp_channel) {
		rsock_unwatch(&dgram->sock, qp->comp_channel->fd);
		ibv_destroy_comp_channel(qp->comp_channel);
	}
}

void dgram_qp_free(struct dgram *dgram, struct dgram_qp *qp)
{
	list_del(&qp->node);
	if (qp->id)
		rdma_destroy_qp(qp->id);
	if (qp->mr && ibv_dereg_mr(qp->mr))
		log_warn("cannot deregister the memory of rsocket %d: %m", dgram->sock.fd);
	close_cq(dgram, qp);
	if (qp->id && rdma_destroy_id(qp->id))
		log_warn("cannot destroy an id of rsocket %d: %m", dgram->sock.fd);
	free(qp->free_sends);
	free(qp->messages);
	free(qp->memory);
	free(qp);
}

static void receive_again(struct dgram_qp *qp, uint32_t slot)
{
	int ret = post_receive(qp, slot);

	if (ret)
		log_warn("cannot post a receive again: %s", strerror(-ret));
}

void dgram_qp_give_back(struct dgram_qp *qp, struct dgram_message *message)
{
	receive_again(qp, (uint32_t)(message - qp->messages));
}

static void on_received(struct dgram *dgram, struct dgram_qp *qp, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	struct dgram_message *message = &qp->messages[slot];
	uint8_t *data = slot_at(qp, slot) + GRH_BYTES;
	size_t header_bytes, bytes;

	if (wc->status != IBV_WC_SUCCESS)
		return;
	bytes = wc->byte_len > GRH_BYTES ? wc->byte_len - GRH_BYTES : 0;
	if (dgram_ud_decode(data, bytes, &message->from, &header_bytes)) {
		log_debug("rsocket %d: a datagram is shorter than its header and is dropped",
			  dgram->sock.fd);
		receive_again(qp, slot);
		return;
	}
	message->data = data + header_bytes;
	message->bytes = bytes - header_bytes;
	if (!dgram_deliver(dgram, message))
		receive_again(qp, slot);
}

static void dgram_qp_on_completion(struct dgram *dgram, struct dgram_qp *qp,
				   const struct ibv_wc *wc)
{
	if (wc->wr_id & IS_SEND)
		qp->free_sends[qp->free_count++] = (uint32_t)wc->wr_id;
	else
		on_received(dgram, qp, wc);
}

static bool dgram_qp_take_events(struct dgram_qp *qp)
{
	unsigned before = qp->events_unacked;

	while (!usrdma_take_cq_event(qp->comp_channel))
		qp->events_unacked++;
	return qp->events_unacked != before;
}

bool dgram_qp_progress(struct dgram *dgram, struct dgram_qp *qp, bool is_readable)
{
	bool has_changes = is_readable && dgram_qp_take_events(qp);
	struct ibv_wc wcs[BATCH];
	int count;

	do {
		count = ibv_poll_cq(qp->cq, BATCH, wcs);
		for (int i = 0; i < count; i++)
			dgram_qp_on_completion(dgram, qp, &wcs[i]);
		has_changes = has_changes || count > 0;
	} while (count == BATCH);
	return has_changes;
}

void dgram_qp_arm(struct dgram *dgram, struct dgram_qp *qp)
{
	/*
	 * Repeated for a CQ that is armed already: the request shows the device that the
	 * application does not poll.
	 */
	if (ibv_req_notify_cq(qp->cq, 0))
		return;
	if (dgram_qp_progress(dgram, qp, false))
		rsock_wake(&dgram->sock);
}

int dgram_qp_send(struct dgram_qp *qp, const struct dgram_peer *peer, const struct rsock_io *io)
{
	struct iov_cursor cursor = {.iov = io->iov, .count = io->iov_count};
	uint32_t slot = qp->free_sends[qp->free_count - 1];
	uint8_t *memory = slot_at(qp, slot);
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory,
		.length = (uint32_t)(qp->header_bytes + io->bytes),
		.lkey = qp->mr->lkey,
	};
	struct ibv_send_wr wr =
				   {
					   .wr_id = IS_SEND | slot,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = sge.length <= qp->inline_bytes ?
								 IBV_SEND_INLINE :
								 0,
					   .wr.ud = {.ah = peer->ah,
						     .remote_qpn = peer->qpn,
						     .remote_qkey = RDMA_UDP_QKEY},
				   },
			   *bad;
	int ret;

	memcpy(memory, qp->header, qp->header_bytes);
	ret = iov_read(&cursor, memory + qp->header_bytes, io->bytes);
	if (ret)
		return ret;
	ret = ibv_post_send(qp->id->qp, &wr, &bad);
	if (!ret)
		qp->free_count--;
	return -ret;
}
