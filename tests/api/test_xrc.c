/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Extended reliable connections: one pair of queue pairs and several SRQs (IBA A14). */

#define RECV_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define SRQS	    2
#define NO_SRQN	    0xfffffeu

/*
 * The receiving side: SRQs with a PD, XRC domain and buffer each; and the queue pair of the sending
 * side.
 */
struct xrc {
	struct api *api;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cqs[SRQS];
	struct ibv_srq *srqs[SRQS];
	uint32_t srqns[SRQS];
	struct ibv_cq *send_cq;
	struct ibv_qp *send_qp;
	struct ibv_qp *recv_qp;
	uint8_t *buf;
	struct ibv_mr *mr;
};

static struct ibv_xrcd *open_xrcd(struct api *api, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(api->ctx, &attr);
}

static struct ibv_srq_init_attr_ex srq_attr(struct ibv_pd *pd, struct ibv_xrcd *xrcd,
					    struct ibv_cq *cq)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
}

static struct ibv_qp_init_attr_ex send_attr(struct ibv_pd *pd, struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = cq,
		.cap = {.max_send_wr = 64, .max_send_sge = 1, .max_inline_data = 32},
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	};
}

static struct ibv_qp_init_attr_ex recv_attr(struct ibv_xrcd *xrcd)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};
}

static int to_rtr(struct ibv_qp *qp, const struct api *api, uint32_t remote_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = remote_qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = api->gid, .hop_limit = 1}},
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = rnr_retry,
				   .max_rd_atomic = 4};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect(struct xrc *xrc, uint8_t rnr_retry)
{
	assert_int_equal(qp_to_init(xrc->send_qp, 0), 0);
	assert_int_equal(qp_to_init(xrc->recv_qp, RECV_ACCESS), 0);
	assert_int_equal(to_rtr(xrc->send_qp, xrc->api, xrc->recv_qp->qp_num), 0);
	assert_int_equal(to_rtr(xrc->recv_qp, xrc->api, xrc->send_qp->qp_num), 0);
	assert_int_equal(to_rts(xrc->send_qp, rnr_retry), 0);
}

static void xrc_open(struct xrc *xrc, struct api *api, uint8_t rnr_retry)
{
	struct ibv_qp_init_attr_ex sender, receiver;

	memset(xrc, 0, sizeof(*xrc));
	xrc->api = api;
	xrc->xrcd = open_xrcd(api, -1, O_CREAT);
	assert_non_null(xrc->xrcd);
	for (int i = 0; i < SRQS; i++) {
		struct ibv_srq_init_attr_ex attr;

		xrc->cqs[i] = ibv_create_cq(api->ctx, 64, NULL, NULL, 0);
		attr = srq_attr(api->pd, xrc->xrcd, xrc->cqs[i]);
		xrc->srqs[i] = ibv_create_srq_ex(api->ctx, &attr);
		assert_non_null(xrc->srqs[i]);
		assert_int_equal(ibv_get_srq_num(xrc->srqs[i], &xrc->srqns[i]), 0);
		assert_true(xrc->srqns[i] <= 0xffffff);
	}
	assert_int_not_equal(xrc->srqns[0], xrc->srqns[1]);
	xrc->send_cq = ibv_create_cq(api->ctx, 64, NULL, NULL, 0);
	sender = send_attr(api->pd, xrc->send_cq);
	xrc->send_qp = ibv_create_qp_ex(api->ctx, &sender);
	receiver = recv_attr(xrc->xrcd);
	xrc->recv_qp = ibv_create_qp_ex(api->ctx, &receiver);
	assert_non_null(xrc->send_qp);
	assert_non_null(xrc->recv_qp);
	xrc->buf = aligned_alloc(4096, SIDE_BUF_BYTES);
	memset(xrc->buf, 0, SIDE_BUF_BYTES);
	xrc->mr = ibv_reg_mr(api->pd, xrc->buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(xrc->mr);
	connect(xrc, rnr_retry);
}

static void xrc_close(struct xrc *xrc)
{
	assert_int_equal(ibv_destroy_qp(xrc->send_qp), 0);
	assert_int_equal(ibv_destroy_qp(xrc->recv_qp), 0);
	for (int i = 0; i < SRQS; i++) {
		if (xrc->srqs[i])
			assert_int_equal(ibv_destroy_srq(xrc->srqs[i]), 0);
		assert_int_equal(ibv_destroy_cq(xrc->cqs[i]), 0);
	}
	assert_int_equal(ibv_destroy_cq(xrc->send_cq), 0);
	assert_int_equal(ibv_close_xrcd(xrc->xrcd), 0);
	assert_int_equal(ibv_dereg_mr(xrc->mr), 0);
	free(xrc->buf);
}

/* Receives use the second half of the buffer, at `slot`; sends use the first half. */
#define RECV_AT	   (SIDE_BUF_BYTES / 2)
#define SLOT_BYTES 4096u

static void post_recv(struct xrc *xrc, int srq, unsigned int slot, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)xrc->buf + RECV_AT + slot * SLOT_BYTES, SLOT_BYTES,
			      xrc->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(xrc->srqs[srq], &wr, &bad), 0);
}

static int post(struct xrc *xrc, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t length,
		uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)xrc->buf, length, xrc->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .imm_data = htobe32(77),
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad = NULL;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)xrc->buf + RECV_AT;
		wr.wr.atomic.rkey = xrc->mr->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)xrc->buf + RECV_AT;
		wr.wr.rdma.rkey = xrc->mr->rkey;
	}
	return ibv_post_send(xrc->send_qp, &wr, &bad);
}

static void post_ok(struct xrc *xrc, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t length,
		    uint64_t wr_id)
{
	assert_int_equal(post(xrc, opcode, srqn, length, wr_id), 0);
}

static void ibv_open_xrcd_same_file_is_same_domain(void **state)
{
	struct api *api = *state;
	FILE *file = tmpfile(), *other = tmpfile();
	int fd = fileno(file);
	struct ibv_xrcd *one, *two;
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};

	assert_null_errno(ibv_open_xrcd(api->ctx, &attr), EINVAL);
	assert_null_errno(open_xrcd(api, -1, 0), EINVAL);
	assert_null_errno(open_xrcd(api, fd, O_CREAT | O_APPEND), EINVAL);
	assert_null_errno(open_xrcd(api, 1 << 20, O_CREAT), EBADF);
	assert_null_errno(open_xrcd(api, fd, 0), EAGAIN);
	one = open_xrcd(api, fd, O_CREAT | O_EXCL);
	assert_non_null(one);
	assert_ptr_equal(one->context, api->ctx);
	assert_null_errno(open_xrcd(api, fd, O_CREAT | O_EXCL), EINVAL);
	assert_null_errno(open_xrcd(api, fileno(other), 0), EAGAIN);
	two = open_xrcd(api, fd, 0);
	assert_non_null(two);
	assert_int_equal(ibv_close_xrcd(one), 0);
	one = open_xrcd(api, fd, O_CREAT);
	assert_non_null(one);
	assert_int_equal(ibv_close_xrcd(one), 0);
	assert_int_equal(ibv_close_xrcd(two), 0);
	assert_null_errno(open_xrcd(api, fd, 0), EAGAIN);
	fclose(file);
	fclose(other);
}

static void ibv_close_xrcd_with_srq_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct xrc xrc;
	uint32_t number;
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api->pd, &basic);

	xrc_open(&xrc, api, 0);
	assert_int_equal(ibv_close_xrcd(xrc.xrcd), EBUSY);
	assert_int_equal(ibv_destroy_cq(xrc.cqs[0]), EBUSY);
	assert_int_equal(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	xrc_close(&xrc);
}

static void ibv_create_qp_ex_xrc_missing_attribute_fails(void **state)
{
	struct api *api = *state;
	struct ibv_xrcd *xrcd = open_xrcd(api, -1, O_CREAT);
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 4, NULL, NULL, 0);
	struct ibv_context *other = ibv_open_device(api->ctx->device);
	struct ibv_srq_init_attr_ex srq;
	struct ibv_qp_init_attr_ex qp;
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_XRC_RECV, .send_cq = cq, .recv_cq = cq};

#define SRQ_REFUSES(change, error)                                           \
	do {                                                                 \
		srq = srq_attr(api->pd, xrcd, cq);                           \
		change;                                                      \
		assert_null_errno(ibv_create_srq_ex(api->ctx, &srq), error); \
	} while (0)
	SRQ_REFUSES(srq.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD, EINVAL);
	SRQ_REFUSES(srq.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ, EINVAL);
	SRQ_REFUSES(srq.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_PD, EINVAL);
	SRQ_REFUSES(srq.xrcd = NULL, EINVAL);
	SRQ_REFUSES(srq.cq = NULL, EINVAL);
	SRQ_REFUSES(srq.attr.max_wr = 0, EINVAL);
	srq = srq_attr(api->pd, xrcd, cq);
	assert_null_errno(ibv_create_srq_ex(other, &srq), EINVAL);

#define QP_REFUSES(init, change, error)                                    \
	do {                                                               \
		qp = init;                                                 \
		change;                                                    \
		assert_null_errno(ibv_create_qp_ex(api->ctx, &qp), error); \
	} while (0)
	QP_REFUSES(recv_attr(xrcd), qp.comp_mask = 0, EINVAL);
	QP_REFUSES(recv_attr(xrcd), qp.xrcd = NULL, EINVAL);
	QP_REFUSES(send_attr(api->pd, cq), qp.send_cq = NULL, EINVAL);
	QP_REFUSES(send_attr(api->pd, cq), qp.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD, EINVAL);
	QP_REFUSES(send_attr(api->pd, cq), qp.send_ops_flags = IBV_QP_EX_WITH_TSO, EOPNOTSUPP);
	qp = recv_attr(xrcd);
	assert_null_errno(ibv_create_qp_ex(other, &qp), EINVAL);
	assert_null_errno(ibv_create_qp(api->pd, &plain), EINVAL);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_post_recv_xrc_target_fails(void **state)
{
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct xrc xrc;

	xrc_open(&xrc, *state, 0);
	assert_int_equal(ibv_post_recv(xrc.send_qp, &recv, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_recv(xrc.recv_qp, &recv, &bad_recv), EINVAL);
	/* The attributes of the other half are ignored. */
	assert_int_equal(to_rts(xrc.recv_qp, 3), 0);
	assert_int_equal(ibv_post_send(xrc.recv_qp, &send, &bad_send), EINVAL);
	assert_int_equal(post(&xrc, IBV_WR_SEND, 1u << 24, 8, 1), EINVAL);
	assert_int_equal(ibv_query_qp(xrc.recv_qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.rnr_retry, 0);
	assert_null(init.send_cq);
	assert_null(init.srq);
	xrc_close(&xrc);
}

static void ibv_post_send_xrc_uses_named_srq(void **state)
{
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	struct xrc xrc;

	xrc_open(&xrc, *state, 7);
	fill_pattern(xrc.buf, 3000, 1);
	for (unsigned int i = 0; i < 3; i++) {
		post_recv(&xrc, 0, i, 10 + i);
		post_recv(&xrc, 1, 3 + i, 20 + i);
	}
	post_ok(&xrc, IBV_WR_SEND, xrc.srqns[1], 3000, 1);
	post_ok(&xrc, IBV_WR_SEND_WITH_IMM, xrc.srqns[0], 8, 2);
	post_ok(&xrc, IBV_WR_RDMA_WRITE_WITH_IMM, xrc.srqns[1], 2000, 3);
	for (uint64_t i = 1; i <= 3; i++)
		wc_expect(xrc.send_cq, i, IBV_WC_SUCCESS);
	wc = wc_expect(xrc.cqs[1], 20, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 3000);
	assert_int_equal(wc.qp_num, xrc.recv_qp->qp_num);
	assert_memory_equal(xrc.buf, xrc.buf + RECV_AT + 3 * SLOT_BYTES, 3000);
	assert_int_equal(wc_expect(xrc.cqs[1], 21, IBV_WC_SUCCESS).opcode,
			 IBV_WC_RECV_RDMA_WITH_IMM);
	wc = wc_expect(xrc.cqs[0], 10, IBV_WC_SUCCESS);
	assert_int_equal(be32toh(wc.imm_data), 77);
	assert_memory_equal(xrc.buf, xrc.buf + RECV_AT, 2000);

	ex = ibv_qp_to_qp_ex(xrc.send_qp);
	ibv_wr_start(ex);
	ex->wr_id = 4;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, xrc.srqns[0]);
	ibv_wr_set_inline_data(ex, xrc.buf, 16);
	ex->wr_id = 5;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, xrc.srqns[1]);
	ibv_wr_set_sge(ex, xrc.mr->lkey, (uintptr_t)xrc.buf, 24);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc_expect(xrc.send_cq, 4, IBV_WC_SUCCESS);
	wc_expect(xrc.send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(wc_expect(xrc.cqs[0], 11, IBV_WC_SUCCESS).byte_len, 16);
	assert_int_equal(wc_expect(xrc.cqs[1], 22, IBV_WC_SUCCESS).byte_len, 24);
	xrc_close(&xrc);
}

static void ibv_post_send_xrc_read_and_atomic_use_pd_of_srq(void **state)
{
	struct xrc xrc;
	uint64_t word = 37;

	xrc_open(&xrc, *state, 7);
	fill_pattern(xrc.buf + RECV_AT, 20000, 3);
	post_ok(&xrc, IBV_WR_RDMA_READ, xrc.srqns[0], 20000, 1);
	wc_expect(xrc.send_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(xrc.buf, xrc.buf + RECV_AT, 20000);
	memcpy(xrc.buf + RECV_AT, &word, sizeof(word));
	post_ok(&xrc, IBV_WR_ATOMIC_FETCH_AND_ADD, xrc.srqns[1], sizeof(word), 2);
	wc_expect(xrc.send_cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(xrc.buf, &word, sizeof(word));
	word += 5;
	assert_memory_equal(xrc.buf + RECV_AT, &word, sizeof(word));
	xrc_close(&xrc);
}

static void ibv_post_send_xrc_rkey_of_other_pd_fails(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr_ex attr;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_srq *srq;
	struct xrc xrc;
	uint32_t number;

	xrc_open(&xrc, api, 7);
	attr = srq_attr(pd, xrc.xrcd, xrc.cqs[0]);
	srq = ibv_create_srq_ex(api->ctx, &attr);
	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	post_ok(&xrc, IBV_WR_RDMA_WRITE, xrc.srqns[0], 8, 1);
	wc_expect(xrc.send_cq, 1, IBV_WC_SUCCESS);
	post_ok(&xrc, IBV_WR_RDMA_WRITE, number, 8, 2);
	wc_expect(xrc.send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_COMM_EST), xrc.recv_qp);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_QP_ACCESS_ERR), xrc.recv_qp);
	async_none(api->ctx);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	xrc_close(&xrc);
}

static void ibv_post_send_xrc_receives_of_other_srq_are_not_used(void **state)
{
	struct xrc xrc;

	xrc_open(&xrc, *state, 7);
	/* The receives of the other SRQ are not used. */
	post_recv(&xrc, 1, 0, 20);
	post_ok(&xrc, IBV_WR_SEND, xrc.srqns[0], 8, 1);
	post_recv(&xrc, 0, 1, 10);
	wc_expect(xrc.send_cq, 1, IBV_WC_SUCCESS);
	wc_expect(xrc.cqs[0], 10, IBV_WC_SUCCESS);
	wc_none(xrc.cqs[1]);
	xrc_close(&xrc);

	xrc_open(&xrc, *state, 0);
	post_ok(&xrc, IBV_WR_SEND, xrc.srqns[0], 8, 1);
	wc_expect(xrc.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(qp_state(xrc.send_qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(xrc.recv_qp), IBV_QPS_RTR);
	xrc_close(&xrc);
}

/*
 * The number of an SRQ that never existed, was destroyed, or belongs to another XRC domain is an
 * invalid request.
 */
static void ibv_post_send_xrc_unknown_srqn_completes_with_rem_inv_req_err(void **state)
{
	struct api *api = *state;
	struct ibv_xrcd *xrcd = open_xrcd(api, -1, O_CREAT);
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr_ex attr = srq_attr(api->pd, xrcd, cq);
	struct ibv_srq *foreign = ibv_create_srq_ex(api->ctx, &attr);

	assert_non_null(foreign);
	for (int i = 0; i < 3; i++) {
		uint32_t srqn = NO_SRQN;
		struct xrc xrc;

		xrc_open(&xrc, api, 7);
		if (i == 1) {
			srqn = xrc.srqns[0];
			assert_int_equal(ibv_destroy_srq(xrc.srqs[0]), 0);
			xrc.srqs[0] = NULL;
		} else if (i == 2) {
			assert_int_equal(ibv_get_srq_num(foreign, &srqn), 0);
		}
		post_ok(&xrc, i ? IBV_WR_SEND : IBV_WR_RDMA_READ, srqn, 8, 1);
		wc_expect(xrc.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
		assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_COMM_EST), xrc.recv_qp);
		assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_QP_REQ_ERR), xrc.recv_qp);
		assert_int_equal(qp_state(xrc.recv_qp), IBV_QPS_ERR);
		xrc_close(&xrc);
	}
	assert_int_equal(ibv_destroy_srq(foreign), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void ibv_open_qp_by_qpn_returns_handle(void **state)
{
	struct api *api = *state;
	struct ibv_qp_open_attr attr, good;
	struct ibv_xrcd *xrcd = open_xrcd(api, -1, O_CREAT);
	struct ibv_qp *name;
	struct xrc xrc;
	int context;

	xrc_open(&xrc, api, 7);
	good = (struct ibv_qp_open_attr){
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = xrc.recv_qp->qp_num,
		.xrcd = xrc.xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_context = &context,
	};
#define OPEN_REFUSES(change)                                             \
	do {                                                             \
		attr = good;                                             \
		change;                                                  \
		assert_null_errno(ibv_open_qp(api->ctx, &attr), EINVAL); \
	} while (0)
	OPEN_REFUSES(attr.comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_NUM);
	OPEN_REFUSES(attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED);
	OPEN_REFUSES(attr.qp_num = xrc.send_qp->qp_num);
	OPEN_REFUSES(attr.qp_num++);
	OPEN_REFUSES(attr.xrcd = xrcd);
	OPEN_REFUSES(attr.qp_type = IBV_QPT_RC);

	name = ibv_open_qp(api->ctx, &good);
	assert_non_null(name);
	assert_int_equal(name->qp_num, xrc.recv_qp->qp_num);
	assert_ptr_equal(name->qp_context, &context);
	assert_int_equal(qp_state(name), IBV_QPS_RTR);
	/*
	 * The queue pair exists after its creator's handle was closed, and every holder of a handle
	 * gets events.
	 */
	assert_int_equal(ibv_destroy_qp(xrc.recv_qp), 0);
	xrc.recv_qp = name;
	post_recv(&xrc, 0, 0, 10);
	post_ok(&xrc, IBV_WR_SEND, xrc.srqns[0], 8, 1);
	wc_expect(xrc.send_cq, 1, IBV_WC_SUCCESS);
	wc_expect(xrc.cqs[0], 10, IBV_WC_SUCCESS);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_COMM_EST), name);
	async_none(api->ctx);
	assert_int_equal(ibv_close_xrcd(xrc.xrcd), EBUSY);
	assert_int_equal(qp_to_err(name), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	xrc_close(&xrc);
}

static int set_up(void **state)
{
	static struct api api;

	api_open(&api);
	*state = &api;
	return 0;
}

static int tear_down(void **state)
{
	api_close(*state);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ibv_open_xrcd_same_file_is_same_domain),
		TEST(ibv_close_xrcd_with_srq_fails_with_ebusy),
		TEST(ibv_create_qp_ex_xrc_missing_attribute_fails),
		TEST(ibv_post_recv_xrc_target_fails),
		TEST(ibv_post_send_xrc_uses_named_srq),
		TEST(ibv_post_send_xrc_read_and_atomic_use_pd_of_srq),
		TEST(ibv_post_send_xrc_rkey_of_other_pd_fails),
		TEST(ibv_post_send_xrc_receives_of_other_srq_are_not_used),
		TEST(ibv_post_send_xrc_unknown_srqn_completes_with_rem_inv_req_err),
		TEST(ibv_open_qp_by_qpn_returns_handle),
	};

	return cmocka_run_group_tests_name("xrc", tests, NULL, NULL);
}
