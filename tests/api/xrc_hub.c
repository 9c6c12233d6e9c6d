/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc_hub.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int to_rtr(struct hub *hub)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = hub->recv_qpn,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = hub->api.gid, .hop_limit = 1}},
	};

	return ibv_modify_qp(hub->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN);
}

static int to_rts(struct hub *hub)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 4};

	return ibv_modify_qp(hub->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void open_sender(struct hub *hub)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND};

	hub->cq = ibv_create_cq(hub->api.ctx, 1024, NULL, NULL, 0);
	attr.send_cq = hub->cq;
	attr.cap.max_send_wr = 512;
	attr.cap.max_send_sge = 1;
	attr.sq_sig_all = 1;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = hub->api.pd;
	hub->qp = ibv_create_qp_ex(hub->api.ctx, &attr);
	assert_non_null(hub->qp);
	hub->buf = aligned_alloc(4096, SIDE_BUF_BYTES);
	assert_non_null(hub->buf);
	memset(hub->buf, 0, SIDE_BUF_BYTES);
	hub->mr = ibv_reg_mr(hub->api.pd, hub->buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(hub->mr);
}

void hub_connect(struct hub *hub)
{
	assert_int_equal(qp_to_init(hub->qp, 0), 0);
	assert_int_equal(to_rtr(hub), 0);
	assert_int_equal(to_rts(hub), 0);
}

int hub_set_up(void **state)
{
	static struct hub hub;

	memset(&hub, 0, sizeof(hub));
	hub.file = tmpfile();
	assert_non_null(hub.file);
	api_open(&hub.api);
	open_sender(&hub);
	for (int i = 0; i < WORKERS; i++) {
		struct xrc_worker *worker = &hub.workers[i];

		xrc_worker_start(worker, fileno(hub.file));
		xrc_worker_ask(worker, XRC_OPEN, i ? 0 : O_CREAT | O_EXCL);
		worker->srqn = (uint32_t)xrc_worker_ask(worker, XRC_SRQ, 0);
	}
	hub.recv_qpn = (uint32_t)xrc_worker_ask(&hub.workers[HOME], XRC_QP, 0);
	xrc_worker_ask(&hub.workers[HOME], XRC_RTR, hub.qp->qp_num);
	hub_connect(&hub);
	*state = &hub;
	return 0;
}

int hub_tear_down(void **state)
{
	struct hub *hub = *state;

	assert_int_equal(ibv_destroy_qp(hub->qp), 0);
	assert_int_equal(ibv_destroy_cq(hub->cq), 0);
	assert_int_equal(ibv_dereg_mr(hub->mr), 0);
	free(hub->buf);
	for (int i = 0; i < WORKERS; i++) {
		if (hub->workers[i].pid)
			xrc_worker_stop(&hub->workers[i]);
	}
	api_close(&hub->api);
	fclose(hub->file);
	return 0;
}

void hub_post(struct hub *hub, enum ibv_wr_opcode opcode, int worker, uint64_t offset,
	      uint32_t length, uint64_t remote_offset, uint64_t wr_id)
{
	const struct xrc_worker *to = &hub->workers[worker];
	struct ibv_sge sge = {(uintptr_t)hub->buf + offset, length, hub->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .imm_data = htobe32((uint32_t)wr_id),
				 .qp_type.xrc.remote_srqn = to->srqn};
	struct ibv_send_wr *bad = NULL;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to->addr + remote_offset;
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = to->addr + remote_offset;
		wr.wr.rdma.rkey = to->rkey;
	}
	assert_int_equal(ibv_post_send(hub->qp, &wr, &bad), 0);
}

void hub_post_to_nobody(struct hub *hub, uint32_t srqn, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)hub->buf, 8, hub->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(ibv_post_send(hub->qp, &wr, &bad), 0);
}

void hub_expect_in(struct hub *hub, int worker, uint64_t wr_id, enum ibv_wc_opcode opcode,
		   uint32_t length)
{
	struct ibv_wc wc = xrc_worker_wc(&hub->workers[worker], wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.qp_num, hub->recv_qpn);
}

void hub_expect_error_state(struct hub *hub)
{
	for (int i = 0; i < 1000; i++) {
		if (xrc_worker_ask(&hub->workers[HOME], XRC_STATE, 0) == IBV_QPS_ERR)
			return;
		assert_false(readable_within(hub->api.ctx->async_fd, 10));
	}
	fail_msg("the queue pair is not in ERR");
}

void hub_expect_failure(struct hub *hub, enum ibv_event_type event)
{
	uint64_t seen = xrc_worker_ask(&hub->workers[HOME], XRC_EVENT, 0);

	if (seen == IBV_EVENT_COMM_EST)
		seen = xrc_worker_ask(&hub->workers[HOME], XRC_EVENT, 0);
	assert_int_equal(seen, event);
	hub_expect_error_state(hub);
}
