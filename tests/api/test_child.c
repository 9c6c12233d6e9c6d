/* SPDX-License-Identifier: BSD-2-Clause */

/* A fork()ed child cannot use the objects of its parent. */

#include "child.h"
#include "fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* One object of each kind, created by the parent. */
struct estate {
	struct api api;
	struct pair pair;
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq_ex;
	struct ibv_qp_ex *qp_ex;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_buf *buf;
	void *buf_at;
	struct ibv_qp *ud;
	union ibv_gid group;
	int file; /* for ibv_reg_dmabuf_mr() */
};

static struct ibv_qp *make_ud(struct api *api, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(api->pd, &init);

	assert_non_null(qp);
	ud_to_rts(qp, UD_QKEY);
	return qp;
}

static int make_file(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static void estate_make(struct estate *estate)
{
	struct api *api = &estate->api;
	struct pair_options options = {.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
				       .mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_cq_init_attr_ex cq = {.cqe = 4};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_alloc_dm_attr dm = {.length = 64};

	api_open(api);
	pair_open(&estate->pair, api, &options);
	estate->qp_ex = ibv_qp_to_qp_ex(estate->pair.a.qp);
	assert_non_null(estate->channel = ibv_create_comp_channel(api->ctx));
	assert_non_null(estate->cq_ex = ibv_create_cq_ex(api->ctx, &cq));
	assert_non_null(estate->srq = ibv_create_srq(api->pd, &srq));
	assert_non_null(estate->xrcd = ibv_open_xrcd(api->ctx, &xrcd));
	assert_non_null(estate->mw = ibv_alloc_mw(api->pd, IBV_MW_TYPE_1));
	assert_non_null(estate->dm = ibv_alloc_dm(api->ctx, &dm));
	assert_non_null(estate->buf_at = ibv_alloc_buf(api->pd, 64, &estate->buf));
	estate->ud = make_ud(api, estate->pair.a.cq);
	estate->file = make_file();
	inet_pton(AF_INET6, "ff12::1:7", &estate->group);
}

static void estate_drop(struct estate *estate)
{
	close(estate->file);
	assert_int_equal(ibv_destroy_qp(estate->ud), 0);
	ibv_free_buf(estate->buf);
	assert_int_equal(ibv_free_dm(estate->dm), 0);
	assert_int_equal(ibv_dealloc_mw(estate->mw), 0);
	assert_int_equal(ibv_close_xrcd(estate->xrcd), 0);
	assert_int_equal(ibv_destroy_srq(estate->srq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(estate->cq_ex)), 0);
	assert_int_equal(ibv_destroy_comp_channel(estate->channel), 0);
	pair_close(&estate->pair);
	api_close(&estate->api);
}

static bool device_is_foreign(void *arg)
{
	struct estate *estate = arg;
	struct ibv_context *ctx = estate->api.ctx;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_async_event event;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	struct ibv_ah_attr ah;
	union ibv_gid gid;
	struct ibv_grh grh = {0};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	uint64_t speed;
	__be16 pkey;

	return refuses_minus1(ibv_get_async_event(ctx, &event), EIO) &&
	       refuses(ibv_query_rt_values_ex(ctx, &values), EIO) &&
	       refuses(ibv_query_port(ctx, 1, &port), EIO) &&
	       refuses(ibv_query_port_speed(ctx, 1, &speed), EIO) &&
	       refuses_minus1(ibv_query_gid(ctx, 1, 0, &gid), EIO) &&
	       refuses(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), EIO) &&
	       refuses((int)ibv_query_gid_table(ctx, &entry, 1, 0), -EIO) &&
	       refuses_minus1(ibv_query_pkey(ctx, 1, 0, &pkey), EIO) &&
	       refuses_minus1(ibv_get_pkey_index(ctx, 1, 0xffff), EIO) &&
	       refuses_minus1(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &ah), EIO);
}

/* No object can be created from objects of the parent. */
static bool makes_nothing(void *arg)
{
	struct estate *estate = arg;
	struct ibv_context *ctx = estate->api.ctx;
	struct ibv_pd *pd = estate->api.pd;
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC, .send_cq = estate->pair.a.cq, .recv_cq = estate->pair.a.cq};
	struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_num = estate->pair.a.qp->qp_num,
					.xrcd = estate->xrcd,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = estate->api.gid, .hop_limit = 64}};
	struct ibv_buf *buf;

	return refuses_null(ibv_alloc_pd(ctx), EIO) && refuses_null(ibv_alloc_td(ctx, &td), EIO) &&
	       refuses_null(ibv_alloc_parent_domain(ctx, &parent), EIO) &&
	       refuses_null(ibv_open_xrcd(ctx, &xrcd), EIO) &&
	       refuses_null(ibv_create_comp_channel(ctx), EIO) &&
	       refuses_null(ibv_create_cq(ctx, 4, NULL, NULL, 0), EIO) &&
	       refuses_null(ibv_create_srq(pd, &srq), EIO) &&
	       refuses_null(ibv_create_qp(pd, &qp), EIO) &&
	       refuses_null(ibv_open_qp(ctx, &open), EIO) &&
	       refuses_null(ibv_create_ah(pd, &ah), EIO) &&
	       refuses_null(ibv_alloc_mw(pd, IBV_MW_TYPE_1), EIO) &&
	       refuses_null(ibv_alloc_buf(pd, 64, &buf), EIO);
}

static bool registers_nothing(void *arg)
{
	struct estate *estate = arg;
	struct ibv_context *ctx = estate->api.ctx;
	struct ibv_pd *pd = estate->api.pd;
	uint8_t *at = estate->pair.a.buf;
	struct ibv_mr_init_attr attr = {.length = 8, .addr = at, .comp_mask = IBV_REG_MR_MASK_ADDR};
	struct ibv_sge sge = sge_of(&estate->pair.a, 0, 8);

	return refuses_null(ibv_reg_mr(pd, at, 8, 0), EIO) &&
	       refuses_null(ibv_reg_mr_iova(pd, at, 8, 0, 0), EIO) &&
	       refuses_null(ibv_reg_mr_ex(pd, &attr), EIO) &&
	       refuses_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, estate->file, 0), EIO) &&
	       refuses_null(ibv_reg_buf_mr(pd, estate->buf, estate->buf_at, 8, 0), EIO) &&
	       refuses_null(ibv_reg_dm_mr(pd, estate->dm, 0, 8, IBV_ACCESS_ZERO_BASED), EIO) &&
	       refuses_null(ibv_alloc_null_mr(pd), EIO) &&
	       refuses_null(ibv_import_pd(ctx, pd->handle), EIO) &&
	       refuses_null(ibv_import_mr(pd, estate->pair.a.mr->handle), EIO) &&
	       refuses_null(ibv_import_dm(ctx, estate->dm->handle), EIO) &&
	       refuses(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EIO);
}

static bool completion_queues_are_foreign(void *arg)
{
	struct estate *estate = arg;
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_cq *cq = estate->pair.a.cq;
	void *context;

	return refuses(ibv_resize_cq(cq, 10), EIO) &&
	       refuses(ibv_modify_cq(cq, &moderation), EIO) &&
	       refuses(ibv_req_notify_cq(cq, 0), EIO) &&
	       refuses_minus1(ibv_get_cq_event(estate->channel, &cq, &context), EIO) &&
	       refuses(ibv_start_poll(estate->cq_ex, &poll), EIO);
}

static bool queues_are_foreign(void *arg)
{
	struct estate *estate = arg;
	struct ibv_qp *qp = estate->pair.a.qp;
	struct ibv_mw_bind bind = {.bind_info = {.mr = estate->pair.a.mr,
						 .addr = (uintptr_t)estate->pair.a.buf,
						 .length = 8}};
	struct ibv_srq_attr srq = {.srq_limit = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_qp_init_attr init;
	bool is_so;

	is_so = refuses(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EIO) &&
		refuses(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EIO) &&
		refuses(ibv_post_send(qp, &send, &bad_send), EIO) &&
		refuses(ibv_post_recv(qp, &recv, &bad_recv), EIO) &&
		refuses(ibv_bind_mw(qp, estate->mw, &bind), EIO) &&
		refuses(ibv_modify_srq(estate->srq, &srq, IBV_SRQ_LIMIT), EIO) &&
		refuses(ibv_query_srq(estate->srq, &srq), EIO) &&
		refuses(ibv_post_srq_recv(estate->srq, &recv, &bad_recv), EIO) &&
		refuses(ibv_attach_mcast(estate->ud, &estate->group, 0), EIO) &&
		refuses(ibv_detach_mcast(estate->ud, &estate->group, 0), EIO);
	ibv_wr_start(estate->qp_ex);
	ibv_wr_rdma_write(estate->qp_ex, 0, 0);
	return is_so && refuses(ibv_wr_complete(estate->qp_ex), EIO);
}

static int setup(void **state)
{
	static struct estate estate;

	estate_make(&estate);
	*state = &estate;
	return 0;
}

static int teardown(void **state)
{
	estate_drop(*state);
	return 0;
}

static void fork_child_calls_on_objects_of_parent_fail(void **state)
{
	child_agrees(device_is_foreign, *state);
	child_agrees(makes_nothing, *state);
	child_agrees(registers_nothing, *state);
	child_agrees(completion_queues_are_foreign, *state);
	child_agrees(queues_are_foreign, *state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork_child_calls_on_objects_of_parent_fail),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
