/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ulp.h"

#define RESOLVE_TIMEOUT_MS 5000
#define WR_SEND		   ULP_DEPTH
#define WR_BIND		   (ULP_DEPTH + 1)

void ulp_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void ulp_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(1);
}

void ulp_put_le(void *at, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = (uint8_t)(value >> (8 * i));
}

uint64_t ulp_get_le(const void *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)((const uint8_t *)at)[i] << (8 * i);
	return value;
}

void ulp_put_be(void *at, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

uint64_t ulp_get_be(const void *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value = value << 8 | ((const uint8_t *)at)[i];
	return value;
}

static uint8_t pattern_at(size_t at, uint32_t seed)
{
	uint32_t mixed = ((uint32_t)at + seed * 2654435761u) * 2246822519u;

	return (uint8_t)(mixed >> 24);
}

void ulp_fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = pattern_at(i, seed);
}

size_t ulp_count_wrong(const uint8_t *at, size_t bytes, uint32_t seed)
{
	size_t wrong = 0;

	for (size_t i = 0; i < bytes; i++)
		wrong += at[i] != pattern_at(i, seed);
	return wrong;
}

/* Waits for the event, and stores the private data of ESTABLISHED. */
static void expect_event(struct ulp *ulp, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	ulp_require(!rdma_get_cm_event(ulp->channel, &event), "rdma_get_cm_event: %s",
		    strerror(errno));
	if (event->event != wanted) {
		const uint8_t *data = event->param.conn.private_data;

		ulp_die("event %s with status %d instead of %s; private data %04x",
			rdma_event_str(event->event), event->status, rdma_event_str(wanted),
			event->param.conn.private_data_len >= 4 ?
				(unsigned int)ulp_get_le(data, 4) :
				0);
	}
	if (wanted == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data) {
		size_t bytes = event->param.conn.private_data_len;

		if (bytes > sizeof(ulp->private_data))
			bytes = sizeof(ulp->private_data);
		memcpy(ulp->private_data, event->param.conn.private_data, bytes);
	}
	rdma_ack_cm_event(event);
}

struct ibv_mr *ulp_region(struct ulp *ulp, size_t bytes)
{
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
	uint8_t *buf = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	struct ibv_mr *mr;

	ulp_require(buf && ulp->region_count < ULP_REGIONS, "no memory for a region");
	memset(buf, 0, bytes);
	mr = ibv_reg_mr(ulp->id->pd, buf, bytes, access);
	ulp_require(mr, "ibv_reg_mr: %s", strerror(errno));
	ulp->regions[ulp->region_count++] = mr;
	return mr;
}

static void post_slot(struct ulp *ulp, unsigned int slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)ulp->recv_buf + slot * ulp->slot_bytes,
			      .length = (uint32_t)ulp->slot_bytes,
			      .lkey = ulp->recv_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int err = ibv_post_recv(ulp->id->qp, &wr, &bad);

	ulp_require(!err, "ibv_post_recv: %s", strerror(err));
}

void ulp_make_queues(struct ulp *ulp, struct ibv_comp_channel *completions, size_t slot_bytes)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = ULP_DEPTH,
						.max_recv_wr = ULP_DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	ulp->slot_bytes = slot_bytes;
	ulp->cq = ibv_create_cq(ulp->id->verbs, 2 * ULP_DEPTH, NULL, completions, 0);
	ulp_require(ulp->cq, "ibv_create_cq: %s", strerror(errno));
	attr.send_cq = ulp->cq;
	attr.recv_cq = ulp->cq;
	ulp_require(!rdma_create_qp(ulp->id, NULL, &attr), "rdma_create_qp: %s", strerror(errno));
	ulp->recv_mr = ulp_region(ulp, ULP_DEPTH * slot_bytes);
	ulp->send_mr = ulp_region(ulp, slot_bytes);
	ulp->recv_buf = ulp->recv_mr->addr;
	ulp->send_buf = ulp->send_mr->addr;
	for (unsigned int slot = 0; slot < ULP_DEPTH; slot++)
		post_slot(ulp, slot);
}

void ulp_connect(struct ulp *ulp, const char *addr, const char *port, const void *private_data,
		 uint8_t private_bytes, size_t slot_bytes)
{
	struct rdma_conn_param param = {.responder_resources = 16,
					.initiator_depth = 0,
					.retry_count = 7,
					.rnr_retry_count = 7,
					.private_data = private_data,
					.private_data_len = private_bytes};
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *where;
	int err = getaddrinfo(addr, port, &hints, &where);

	ulp_require(!err, "%s port %s: %s", addr, port, gai_strerror(err));
	memset(ulp, 0, sizeof(*ulp));
	ulp->channel = rdma_create_event_channel();
	ulp_require(ulp->channel, "rdma_create_event_channel: %s", strerror(errno));
	ulp_require(!rdma_create_id(ulp->channel, &ulp->id, NULL, RDMA_PS_TCP),
		    "rdma_create_id: %s", strerror(errno));
	ulp_require(!rdma_resolve_addr(ulp->id, NULL, where->ai_addr, RESOLVE_TIMEOUT_MS),
		    "rdma_resolve_addr: %s", strerror(errno));
	freeaddrinfo(where);
	expect_event(ulp, RDMA_CM_EVENT_ADDR_RESOLVED);
	ulp_require(!rdma_resolve_route(ulp->id, RESOLVE_TIMEOUT_MS), "rdma_resolve_route: %s",
		    strerror(errno));
	expect_event(ulp, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ulp_make_queues(ulp, NULL, slot_bytes);
	ulp_require(!rdma_connect(ulp->id, &param), "rdma_connect: %s", strerror(errno));
	expect_event(ulp, RDMA_CM_EVENT_ESTABLISHED);
}

void ulp_disconnect(struct ulp *ulp)
{
	/* EINVAL: the peer has disconnected already, and the event is queued. */
	ulp_require(!rdma_disconnect(ulp->id) || errno == EINVAL, "rdma_disconnect: %s",
		    strerror(errno));
	expect_event(ulp, RDMA_CM_EVENT_DISCONNECTED);
	ulp_free(ulp, NULL);
	rdma_destroy_event_channel(ulp->channel);
}

void ulp_free(struct ulp *ulp, struct ibv_comp_channel *completions)
{
	rdma_destroy_qp(ulp->id);
	ulp_require(!ibv_destroy_cq(ulp->cq), "ibv_destroy_cq: %s", strerror(errno));
	ulp_require(!completions || !ibv_destroy_comp_channel(completions),
		    "ibv_destroy_comp_channel: %s", strerror(errno));
	for (unsigned int i = 0; i < ulp->region_count; i++) {
		void *buf = ulp->regions[i]->addr;

		ulp_require(!ibv_dereg_mr(ulp->regions[i]), "ibv_dereg_mr: %s", strerror(errno));
		free(buf);
	}
	ulp_require(!rdma_destroy_id(ulp->id), "rdma_destroy_id: %s", strerror(errno));
}

/* Waits for the next completion, which must be successful. */
static void next_completion(struct ulp *ulp, struct ibv_wc *wc)
{
	int got;

	do {
		got = ibv_poll_cq(ulp->cq, 1, wc);
		ulp_require(got >= 0, "ibv_poll_cq: %d", got);
	} while (!got);
	ulp_require(wc->status == IBV_WC_SUCCESS, "WR %llu failed: %s, vendor error %u",
		    (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->vendor_err);
}

void ulp_send(struct ulp *ulp, size_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)ulp->send_buf,
			      .length = (uint32_t)bytes,
			      .lkey = ulp->send_mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = WR_SEND, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;
	int err;

	ulp_require(!ulp->send_is_outstanding, "the preceding message is still being sent");
	err = ibv_post_send(ulp->id->qp, &wr, &bad);
	ulp_require(!err, "ibv_post_send: %s", strerror(err));
	ulp->send_is_outstanding = true;
}

void ulp_wait_sent(struct ulp *ulp)
{
	struct ibv_wc wc;

	next_completion(ulp, &wc);
	ulp_require(wc.wr_id == WR_SEND, "unexpected completion of WR %llu",
		    (unsigned long long)wc.wr_id);
	ulp->send_is_outstanding = false;
}

size_t ulp_receive(struct ulp *ulp, uint8_t **message)
{
	struct ibv_wc wc;
	size_t bytes = 0;
	bool has_message = false;

	/*
	 * The response may be polled before the completion of the request, whose buffer is used for
	 * the next request.
	 */
	while (!has_message || ulp->send_is_outstanding) {
		next_completion(ulp, &wc);
		if (wc.wr_id == WR_SEND) {
			ulp->send_is_outstanding = false;
			continue;
		}
		ulp_require(wc.wr_id < ULP_DEPTH && !has_message,
			    "unexpected completion of WR %llu", (unsigned long long)wc.wr_id);
		has_message = true;
		bytes = wc.byte_len;
		*message = ulp->recv_buf + wc.wr_id * ulp->slot_bytes;
		ulp->is_invalidated = wc.wc_flags & IBV_WC_WITH_INV;
		ulp->invalidated_rkey = ulp->is_invalidated ? wc.invalidated_rkey : 0;
	}
	return bytes;
}

void ulp_release(struct ulp *ulp, const uint8_t *message)
{
	post_slot(ulp, (unsigned int)((size_t)(message - ulp->recv_buf) / ulp->slot_bytes));
}

struct ibv_mw *ulp_window(struct ulp *ulp)
{
	struct ibv_mw *mw = ibv_alloc_mw(ulp->id->pd, IBV_MW_TYPE_2);

	ulp_require(mw, "ibv_alloc_mw: %s", strerror(errno));
	return mw;
}

void ulp_bind(struct ulp *ulp, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_send_wr wr = {.wr_id = WR_BIND, .opcode = IBV_WR_BIND_MW};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int err;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)mr->addr;
	wr.bind_mw.bind_info.length = mr->length;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	err = ibv_post_send(ulp->id->qp, &wr, &bad);
	ulp_require(!err, "ibv_post_send of a bind: %s", strerror(err));
	next_completion(ulp, &wc);
	ulp_require(wc.wr_id == WR_BIND, "WR %llu completed instead of the bind",
		    (unsigned long long)wc.wr_id);
	mw->rkey = wr.bind_mw.rkey;
}
