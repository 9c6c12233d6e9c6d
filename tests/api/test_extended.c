/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended calls to post and to poll: ibv_wr_* on a struct ibv_qp_ex, ibv_start_poll() on a
 * struct ibv_cq_ex.
 */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define RC_OPS                                                                            \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                  \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static void ibv_wr_start_every_operation_completes(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS, .max_inline = 64};
	uint64_t *word;
	struct ibv_sge recv;
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	fill_pattern(pair.a.buf, 4096, 6);
	recv = sge_of(&pair.b, 8192, 4096);
	for (uint64_t i = 0; i < 3; i++)
		post_recv_ok(&pair.b, &recv, 1, 100 + i);

	qp = batch_start(&pair.a, 1);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 100);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc_expect(pair.b.cq, 100, IBV_WC_SUCCESS).byte_len, 100);
	assert_memory_equal(pair.b.buf + 8192, pair.a.buf, 100);

	qp = batch_start(&pair.a, 2);
	ibv_wr_send_imm(qp, htonl(5));
	ibv_wr_set_inline_data(qp, pair.a.buf, 40);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(ntohl(wc_expect(pair.b.cq, 101, IBV_WC_SUCCESS).imm_data), 5);

	qp = batch_start(&pair.a, 3);
	ibv_wr_rdma_write_imm(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf, htonl(6));
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 4096);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 102, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, pair.a.buf, 4096);

	qp = batch_start(&pair.a, 4);
	ibv_wr_rdma_read(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)(pair.a.buf + 8192), 4096);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf + 8192, pair.b.buf, 4096);

	word = (uint64_t *)(void *)(pair.b.buf + 16384);
	*word = 5;
	qp = batch_start(&pair.a, 5);
	ibv_wr_atomic_fetch_add(qp, pair.b.mr->rkey, (uintptr_t)word, 3);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	qp->wr_id = 6;
	ibv_wr_atomic_cmp_swp(qp, pair.b.mr->rkey, (uintptr_t)word, 8, 100);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 6, IBV_WC_SUCCESS);
	assert_true(*word == 100);
	pair_close(&pair);
}

static void ibv_wr_set_sge_list_gathers_all_sges(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS, .max_inline = 64};
	struct ibv_data_buf bufs[2];
	struct ibv_sge sge[2];
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	fill_pattern(pair.a.buf, 4096, 6);
	sge[0] = sge_of(&pair.a, 0, 1000);
	sge[1] = sge_of(&pair.a, 1000, 24);
	qp = batch_start(&pair.a, 1);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge_list(qp, 2, sge);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, pair.a.buf, 1024);
	bufs[0] = (struct ibv_data_buf){.addr = pair.a.buf + 2000, .length = 10};
	bufs[1] = (struct ibv_data_buf){.addr = pair.a.buf + 2010, .length = 30};
	qp = batch_start(&pair.a, 2);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_inline_data_list(qp, 2, bufs);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, pair.a.buf + 2000, 40);
	pair_close(&pair);
}

static void ibv_wr_abort_posts_nothing(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	for (uint64_t i = 0; i < 100; i++) {
		qp = batch_start(&pair.a, i);
		ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
		ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
		ibv_wr_abort(qp);
	}
	qp = batch_start(&pair.a, 500);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 500, IBV_WC_SUCCESS);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_wr_complete_above_queue_size_posts_nothing(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS, .max_wr = 8};
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	qp = batch_start(&pair.a, 1);
	for (uint64_t i = 0; i < 5000; i++) {
		ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
		ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	}
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_post_send_on_extended_qp_succeeds(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_qp_to_qp_ex_without_send_ops_flags_fails(void **state)
{
	struct pair pair;

	pair_open(&pair, *state, NULL);
	assert_null(ibv_qp_to_qp_ex(pair.a.qp));
	pair_close(&pair);
}

static void ibv_create_qp_ex_operation_of_other_type_fails(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.pd = api->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
	};

	assert_null_errno(ibv_create_qp_ex(api->ctx, &attr), EOPNOTSUPP);
	attr.send_ops_flags = 1u << 30;
	assert_null(ibv_create_qp_ex(api->ctx, &attr));
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static struct ibv_cq_ex *make_cq_ex(struct api *api, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = wc_flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(api->ctx, &attr);

	assert_non_null(cq);
	return cq;
}

/* A queue pair that is connected to itself and completes into this CQ. */
static struct ibv_qp *self_qp(struct api *api, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);

	assert_non_null(qp);
	assert_int_equal(qp_to_init(qp, 0), 0);
	assert_int_equal(qp_to_rtr(qp, api, qp->qp_num), 0);
	assert_int_equal(qp_to_rts(qp, 7, 0), 0);
	return qp;
}

static void ibv_start_poll_returns_requested_fields(void **state)
{
	uint64_t flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .send_flags = IBV_SEND_SIGNALED,
				   .imm_data = htonl(42)},
			   *bad_send;
	struct ibv_poll_cq_attr attr = {0};
	struct api *api = *state;
	struct ibv_cq_ex *cq = make_cq_ex(api, flags);
	struct ibv_qp *qp = self_qp(api, ibv_cq_ex_to_cq(cq));
	bool saw_recv = false;

	assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(qp, &send, &bad_send), 0);
	for (int seen = 0; seen < 2;) {
		int err = ibv_start_poll(cq, &attr);

		if (err) {
			assert_int_equal(err, ENOENT);
			continue;
		}
		do {
			assert_int_equal(cq->status, IBV_WC_SUCCESS);
			assert_int_equal(ibv_wc_read_qp_num(cq), qp->qp_num);
			if (cq->wr_id == 2) {
				saw_recv = true;
				assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
				assert_int_equal(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM,
						 IBV_WC_WITH_IMM);
				assert_int_equal(ntohl(ibv_wc_read_imm_data(cq)), 42);
				assert_int_equal(ibv_wc_read_byte_len(cq), 0);
			} else {
				assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
			}
			assert_true(ibv_wc_read_completion_ts(cq) != 0);
			seen++;
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	assert_true(saw_recv);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void ibv_poll_cq_on_extended_cq_succeeds(void **state)
{
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad;
	struct api *api = *state;
	struct ibv_cq_ex *cq = make_cq_ex(api, IBV_WC_STANDARD_FLAGS);
	struct ibv_qp *qp = self_qp(api, ibv_cq_ex_to_cq(cq));

	assert_int_equal(ibv_post_recv(qp, &recv, &bad), 0);
	assert_int_equal(qp_to_err(qp), 0);
	wc_expect(ibv_cq_ex_to_cq(cq), 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

#define ALL_READERS                                                    \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/* The current values of both clocks: that of the timestamps, and the time of day. */
struct clocks {
	uint64_t raw;
	uint64_t wallclock_ns;
};

static struct clocks read_clocks(struct api *api)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct timespec now;

	assert_int_equal(ibv_query_rt_values_ex(api->ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	clock_gettime(CLOCK_REALTIME, &now);
	return (struct clocks){
		.raw = (uint64_t)values.raw_clock.tv_sec * 1000000000 +
		       (uint64_t)values.raw_clock.tv_nsec,
		.wallclock_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
	};
}

static void poll_begin(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	time_t deadline = time(NULL) + 10;
	int err;

	do
		err = ibv_start_poll(cq, &attr);
	while (err == ENOENT && time(NULL) < deadline);
	assert_int_equal(err, 0);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
}

/* A datagram's completion has a value in every field. */
static void ibv_start_poll_every_reader_returns_its_field(void **state)
{
	struct api *api = *state;
	struct ibv_cq_ex *cq = make_cq_ex(api, ALL_READERS);
	struct ibv_qp_init_attr init = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_ah_attr ah_attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = api->gid, .hop_limit = 64}};
	struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
	struct ibv_ah *ah = ibv_create_ah(api->pd, &ah_attr);
	static uint8_t buf[256];
	struct ibv_mr *mr = ibv_reg_mr(api->pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge to = {.addr = (uintptr_t)buf, .length = 128, .lkey = mr->lkey};
	struct ibv_sge from = {.addr = (uintptr_t)buf + 128, .length = 10, .lkey = mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 1,
				   .sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .imm_data = htonl(42)},
			   *bad_send;
	struct clocks before, after;

	assert_non_null(qp);
	assert_non_null(ah);
	ud_to_rts(qp, UD_QKEY);
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = qp->qp_num;
	send.wr.ud.remote_qkey = UD_QKEY;
	assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
	before = read_clocks(api);
	assert_int_equal(ibv_post_send(qp, &send, &bad_send), 0);
	poll_begin(cq);
	after = read_clocks(api);
	assert_int_equal(cq->wr_id, 2);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
	assert_int_equal(ibv_wc_read_byte_len(cq), 40 + 10);
	assert_int_equal(ntohl(ibv_wc_read_imm_data(cq)), 42);
	assert_int_equal(ibv_wc_read_qp_num(cq), qp->qp_num);
	assert_int_equal(ibv_wc_read_src_qp(cq), qp->qp_num);
	assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_GRH | IBV_WC_WITH_IMM);
	/* RoCE has no LIDs. */
	assert_int_equal(ibv_wc_read_slid(cq), 0);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
	/* RoCE has no service levels; bit 3 indicates RoCEv2. */
	assert_int_equal(ibv_wc_read_sl(cq) & 0x8, 0x8);
	assert_true(before.raw <= ibv_wc_read_completion_ts(cq));
	assert_true(ibv_wc_read_completion_ts(cq) <= after.raw);
	assert_true(before.wallclock_ns <= ibv_wc_read_completion_wallclock_ns(cq));
	assert_true(ibv_wc_read_completion_wallclock_ns(cq) <= after.wallclock_ns);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* A window that is bound, invalidated by its owner, bound again, and invalidated by the peer. */
static void ibv_wr_bind_mw_window_is_bound_and_invalidated(void **state)
{
	struct pair_options options = {
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE,
		.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND,
	};
	struct ibv_mw_bind_info info = {.length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_sge recv;
	struct ibv_qp_ex *qp;
	struct pair pair;
	struct ibv_mw *mw;
	struct ibv_wc wc;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	info.mr = pair.b.mr;
	info.addr = (uintptr_t)pair.b.buf;
	rkey = ibv_inc_rkey(mw->rkey);
	qp = batch_start(&pair.b, 1);
	ibv_wr_bind_mw(qp, mw, rkey, &info);
	qp->wr_id = 2;
	ibv_wr_local_inv(qp, rkey);
	qp->wr_id = 3;
	rkey = ibv_inc_rkey(rkey);
	ibv_wr_bind_mw(qp, mw, rkey, &info);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(wc_expect(pair.b.cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	assert_int_equal(wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	wc_expect(pair.b.cq, 3, IBV_WC_SUCCESS);
	recv = sge_of(&pair.b, 4096, 64);
	post_recv_ok(&pair.b, &recv, 1, 4);
	fill_pattern(pair.a.buf, 64, 1);
	qp = batch_start(&pair.a, 5);
	ibv_wr_rdma_write(qp, rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 64);
	qp->wr_id = 6;
	ibv_wr_send_inv(qp, rkey);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	qp->wr_id = 7;
	ibv_wr_rdma_write(qp, rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf + 64, 64);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 6, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	wc = wc_expect(pair.b.cq, 4, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	assert_memory_equal(pair.b.buf, pair.a.buf, 64);
	async_expect(pair.api->ctx, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_wr_send_tso_fails_with_eopnotsupp(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	qp = batch_start(&pair.a, 1);
	ibv_wr_send_tso(qp, pair.a.buf, 14, 1000);
	assert_int_equal(ibv_wr_complete(qp), EOPNOTSUPP);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_query_qp_data_in_order_returns_zero(void **state)
{
	struct pair pair;

	pair_open(&pair, *state, NULL);
	for (enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE; opcode <= IBV_WR_ATOMIC_WRITE;
	     opcode++) {
		assert_int_equal(ibv_query_qp_data_in_order(pair.a.qp, opcode, 0), 0);
		assert_int_equal(ibv_query_qp_data_in_order(pair.a.qp, opcode,
							    IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS),
				 0);
	}
	pair_close(&pair);
}

static void ibv_create_cq_ex_unsupported_wc_flags_fail(void **state)
{
	static const uint64_t lacking[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
					   IBV_WC_EX_WITH_TM_INFO, UINT64_C(1) << 50};
	struct api *api = *state;

	for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		struct ibv_cq_init_attr_ex attr = {.cqe = 4,
						   .wc_flags = IBV_WC_STANDARD_FLAGS | lacking[i]};

		assert_null_errno(ibv_create_cq_ex(api->ctx, &attr), EOPNOTSUPP);
	}
}

static void ibv_create_cq_ex_unknown_mask_fails(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_mask = 1u << 20};
	struct ibv_poll_cq_attr poll = {.comp_mask = 1};
	struct api *api = *state;
	struct ibv_cq_ex *cq;

	assert_null_errno(ibv_create_cq_ex(api->ctx, &attr), EINVAL);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1u << 20;
	assert_null_errno(ibv_create_cq_ex(api->ctx, &attr), EINVAL);
	/* The domain must be a parent domain. */
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = api->pd;
	assert_null_errno(ibv_create_cq_ex(api->ctx, &attr), EINVAL);
	cq = make_cq_ex(api, 0);
	assert_int_equal(ibv_start_poll(cq, &poll), EINVAL);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_wr_start_every_operation_completes),
		cmocka_unit_test(ibv_wr_set_sge_list_gathers_all_sges),
		cmocka_unit_test(ibv_wr_abort_posts_nothing),
		cmocka_unit_test(ibv_wr_complete_above_queue_size_posts_nothing),
		cmocka_unit_test(ibv_post_send_on_extended_qp_succeeds),
		cmocka_unit_test(ibv_qp_to_qp_ex_without_send_ops_flags_fails),
		cmocka_unit_test(ibv_create_qp_ex_operation_of_other_type_fails),
		cmocka_unit_test(ibv_start_poll_returns_requested_fields),
		cmocka_unit_test(ibv_start_poll_every_reader_returns_its_field),
		cmocka_unit_test(ibv_wr_bind_mw_window_is_bound_and_invalidated),
		cmocka_unit_test(ibv_wr_send_tso_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_query_qp_data_in_order_returns_zero),
		cmocka_unit_test(ibv_create_cq_ex_unsupported_wc_flags_fail),
		cmocka_unit_test(ibv_poll_cq_on_extended_cq_succeeds),
		cmocka_unit_test(ibv_create_cq_ex_unknown_mask_fails),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
