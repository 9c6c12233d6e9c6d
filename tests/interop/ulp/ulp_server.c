/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>

#include "ulp_server.h"

#define WR_OWN	 ULP_DEPTH
#define READ_MAX 16

void ulp_listen(struct ulp_server *server, const char *addr, const char *port)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct addrinfo *where;
	int err = getaddrinfo(addr, port, &hints, &where);

	ulp_require(channel, "rdma_create_event_channel: %s", strerror(errno));
	ulp_require(!err, "%s port %s: %s", addr, port, gai_strerror(err));
	memset(server, 0, sizeof(*server));
	ulp_require(!rdma_create_id(channel, &server->listener, NULL, RDMA_PS_TCP) &&
			    !rdma_bind_addr(server->listener, where->ai_addr) &&
			    !rdma_listen(server->listener, 1),
		    "listening: %s", strerror(errno));
	freeaddrinfo(where);
}

void ulp_stop_listening(struct ulp_server *server)
{
	struct rdma_event_channel *channel = server->listener->channel;

	ulp_require(!rdma_destroy_id(server->listener), "rdma_destroy_id: %s", strerror(errno));
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_event *next_event(struct ulp *ulp)
{
	struct rdma_cm_event *event;

	ulp_require(!rdma_get_cm_event(ulp->channel, &event), "rdma_get_cm_event: %s",
		    strerror(errno));
	return event;
}

static void store_private_data(struct ulp *ulp, const struct rdma_conn_param *asked)
{
	size_t bytes = asked->private_data_len;

	if (bytes > sizeof(ulp->private_data))
		bytes = sizeof(ulp->private_data);
	if (asked->private_data)
		memcpy(ulp->private_data, asked->private_data, bytes);
}

void ulp_accept(struct ulp_server *server, const void *private_data, uint8_t private_bytes,
		size_t slot_bytes)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7,
					.private_data = private_data,
					.private_data_len = private_bytes};
	struct ulp *ulp = &server->ulp;
	struct rdma_cm_id *listener = server->listener;
	struct rdma_cm_event *event;

	memset(server, 0, sizeof(*server));
	server->listener = listener;
	ulp->channel = listener->channel;
	event = next_event(ulp);
	ulp_require(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "event %s, status %d",
		    rdma_event_str(event->event), event->status);
	ulp->id = event->id;
	param.initiator_depth = event->param.conn.initiator_depth;
	if (param.initiator_depth > READ_MAX)
		param.initiator_depth = READ_MAX;
	store_private_data(ulp, &event->param.conn);
	rdma_ack_cm_event(event);
	server->completions = ibv_create_comp_channel(ulp->id->verbs);
	ulp_require(server->completions, "ibv_create_comp_channel: %s", strerror(errno));
	ulp_make_queues(ulp, server->completions, slot_bytes);
	ulp_require(!rdma_accept(ulp->id, &param), "rdma_accept: %s", strerror(errno));
	event = next_event(ulp);
	ulp_require(event->event == RDMA_CM_EVENT_ESTABLISHED, "event %s, status %d",
		    rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
}

/* Returns false if the client has disconnected. */
static bool handle_event(struct ulp *ulp)
{
	struct rdma_cm_event *event = next_event(ulp);
	bool is_end = event->event == RDMA_CM_EVENT_DISCONNECTED;

	ulp_require(is_end, "event %s, status %d", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	return !is_end;
}

/* Waits until a completion may be available. Returns false if the client has disconnected. */
static bool wait_for_event(struct ulp_server *server)
{
	struct pollfd fds[] = {{.fd = server->completions->fd, .events = POLLIN},
			       {.fd = server->ulp.channel->fd, .events = POLLIN}};
	struct ibv_cq *cq;
	void *context;

	/*
	 * A completion before the notification request causes no event: the caller polls again
	 * first.
	 */
	if (!server->is_armed) {
		ulp_require(!ibv_req_notify_cq(server->ulp.cq, 0), "ibv_req_notify_cq failed");
		server->is_armed = true;
		return true;
	}
	ulp_require(poll(fds, 2, -1) > 0 || errno == EINTR, "poll: %s", strerror(errno));
	if (fds[0].revents) {
		ulp_require(!ibv_get_cq_event(server->completions, &cq, &context),
			    "ibv_get_cq_event: %s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
		server->is_armed = false;
	}
	return !fds[1].revents || handle_event(&server->ulp);
}

static void handle_completion(struct ulp_server *server, const struct ibv_wc *wc)
{
	unsigned int last = (server->queued_first + server->queued_count) % ULP_DEPTH;

	/* The connection ends: the event follows. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	ulp_require(wc->status == IBV_WC_SUCCESS, "WR %llu failed: %s, vendor error %u",
		    (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->vendor_err);
	if (wc->wr_id >= ULP_DEPTH) {
		ulp_require(server->outstanding, "a completion without a WR");
		server->outstanding--;
		return;
	}
	ulp_require(server->queued_count < ULP_DEPTH, "a completion without a receive");
	server->queued[last].slot = (unsigned int)wc->wr_id;
	server->queued[last].bytes = wc->byte_len;
	server->queued_count++;
}

/* Handles one completion. Returns false if the client has disconnected. */
static bool make_progress(struct ulp_server *server)
{
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(server->ulp.cq, 1, &wc)))
		if (!wait_for_event(server))
			return false;
	ulp_require(got > 0, "ibv_poll_cq: %d", got);
	handle_completion(server, &wc);
	return true;
}

bool ulp_settle(struct ulp_server *server)
{
	while (server->outstanding)
		if (!make_progress(server))
			return false;
	return true;
}

bool ulp_next(struct ulp_server *server, uint8_t **message, size_t *bytes)
{
	while (server->outstanding || !server->queued_count)
		if (!make_progress(server))
			return false;
	*bytes = server->queued[server->queued_first].bytes;
	*message = server->ulp.recv_buf +
		   server->queued[server->queued_first].slot * server->ulp.slot_bytes;
	server->queued_first = (server->queued_first + 1) % ULP_DEPTH;
	server->queued_count--;
	return true;
}

static void post(struct ulp_server *server, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err;

	wr->wr_id = WR_OWN;
	ulp_require(server->outstanding < ULP_DEPTH, "the send queue is full");
	err = ibv_post_send(server->ulp.id->qp, wr, &bad);
	ulp_require(!err, "ibv_post_send: %s", strerror(err));
	server->outstanding++;
}

void ulp_transfer(struct ulp_server *server, enum ibv_wr_opcode opcode,
		  const struct ulp_transfer *transfer)
{
	struct ibv_sge sge = {.addr = (uintptr_t)transfer->at,
			      .length = transfer->bytes,
			      .lkey = transfer->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};

	wr.wr.rdma.remote_addr = transfer->remote_addr;
	wr.wr.rdma.rkey = transfer->rkey;
	post(server, &wr);
}

void ulp_reply(struct ulp_server *server, size_t bytes, uint32_t invalidated_rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)server->ulp.send_buf,
			      .length = (uint32_t)bytes,
			      .lkey = server->ulp.send_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	if (invalidated_rkey) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = invalidated_rkey;
	}
	post(server, &wr);
}

void ulp_close(struct ulp_server *server)
{
	/* EINVAL: the connection has ended already. */
	ulp_require(!rdma_disconnect(server->ulp.id) || errno == EINVAL, "rdma_disconnect: %s",
		    strerror(errno));
	ulp_free(&server->ulp, server->completions);
}
