/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every public call that can fail passes the fault point call: with a rule for its name it fails
 * with the rule's errno in the convention of the call, and has no effect. Each rule fires once. A
 * process reads USRDMA_FAULT once, and there can be 64 rules, so each case runs in a process of its
 * own: this program, executed again with the case's name.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

/* No call returns it otherwise. */
#define INJECTED     EPIPE
#define RULES_BYTES  4096
#define DELAY_NS     3000000
#define BUFFER_BYTES 4096

struct call_case {
	const char *name;
	const char *rules; /* the whole text; NULL: a rule for each of `calls` */
	const char *calls; /* separated by spaces */
	void (*run)(void **state);
};

static void open_fails(void)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	union ibv_gid gid;

	assert_null_errno(ibv_get_device_list(NULL), INJECTED);
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	assert_null_errno(ibv_open_device(list[0]), INJECTED);
	ctx = ibv_open_device(list[0]);
	assert_non_null(ctx);
	ibv_free_device_list(list);
	assert_minus1_errno(ibv_query_gid(ctx, 1, 0, &gid), INJECTED);
	assert_null_errno(ibv_alloc_pd(ctx), INJECTED);
	assert_int_equal(ibv_close_device(ctx), INJECTED);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void call_fault_devices_and_memory_fail(void **state)
{
	struct ibv_query_device_ex_input input = {0};
	struct ibv_device_attr_ex device_ex;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	struct ibv_alloc_dm_attr dm_attr = {.length = BUFFER_BYTES};
	struct ibv_mw_bind bind = {0};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_sge sge = {0};
	static uint8_t buffer[BUFFER_BYTES];
	uint64_t speed;
	__be16 pkey;
	struct ibv_buf *handle;
	struct ibv_dm *dm;
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	struct pair pair;
	struct api api;

	(void)state;
	open_fails();
	api_open(&api);
	assert_null_errno(ibv_import_device(api.ctx->cmd_fd), INJECTED);
	assert_int_equal(ibv_query_device(api.ctx, &device), INJECTED);
	assert_int_equal(ibv_query_device_ex(api.ctx, &input, &device_ex), INJECTED);
	assert_int_equal(ibv_query_port(api.ctx, 1, &port), INJECTED);
	assert_int_equal(ibv_query_port_speed(api.ctx, 1, &speed), INJECTED);
	assert_int_equal(ibv_query_gid_ex(api.ctx, 1, 0, &entry, 0), INJECTED);
	assert_int_equal(ibv_query_gid_table(api.ctx, &entry, 1, 0), -INJECTED);
	assert_minus1_errno(ibv_query_pkey(api.ctx, 1, 0, &pkey), INJECTED);
	assert_minus1_errno(ibv_get_pkey_index(api.ctx, 1, 0xffff), INJECTED);
	assert_int_equal(ibv_query_rt_values_ex(api.ctx, &values), INJECTED);
	assert_null_errno(ibv_import_pd(api.ctx, api.pd->handle), INJECTED);
	assert_null_errno(ibv_reg_mr(api.pd, buffer, sizeof(buffer), 0), INJECTED);
	mr = ibv_reg_mr(api.pd, buffer, sizeof(buffer), ALL_ACCESS);
	assert_non_null(mr);
	assert_null_errno(ibv_import_mr(api.pd, mr->handle), INJECTED);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, BUFFER_BYTES, 0, -1, 0), INJECTED);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, INJECTED);
	assert_int_equal(ibv_advise_mr(api.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1),
			 INJECTED);
	assert_int_equal(ibv_dereg_mr(mr), INJECTED);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null_errno(ibv_alloc_null_mr(api.pd), INJECTED);
	assert_null_errno(ibv_alloc_buf(api.pd, BUFFER_BYTES, &handle), INJECTED);
	assert_null_errno(ibv_reg_buf_mr(api.pd, NULL, buffer, sizeof(buffer), 0), INJECTED);
	assert_null_errno(ibv_alloc_dm(api.ctx, &dm_attr), INJECTED);
	dm = ibv_alloc_dm(api.ctx, &dm_attr);
	assert_non_null(dm);
	assert_null_errno(ibv_import_dm(api.ctx, dm->handle), INJECTED);
	assert_null_errno(ibv_reg_dm_mr(api.pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED), INJECTED);
	assert_int_equal(ibv_free_dm(dm), INJECTED);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_null_errno(ibv_alloc_mw(api.pd, IBV_MW_TYPE_1), INJECTED);
	mw = ibv_alloc_mw(api.pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	pair_open(&pair, &api, NULL);
	bind.bind_info.mr = pair.a.mr;
	assert_int_equal(ibv_bind_mw(pair.a.qp, mw, &bind), INJECTED);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_mw(mw), INJECTED);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_pd(api.pd), INJECTED);
	api_close(&api);
}

/* Calls that create or destroy an object of a context with a CQ. */
static void queues_of(struct api *api, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex qp_ex = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = api->pd,
	};
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = cq, .recv_cq = cq, .cap = qp_ex.cap, .qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq_init_attr_ex srq_ex = {.attr = srq_attr.attr,
					      .comp_mask = IBV_SRQ_INIT_ATTR_PD |
							   IBV_SRQ_INIT_ATTR_CQ,
					      .pd = api->pd};
	struct ibv_comp_cntr_init_attr counter_attr = {0};
	struct ibv_qp_attach_comp_cntr_attr attach = {0};
	struct ibv_modify_cq_attr moderation = {0};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 1};
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct ibv_comp_cntr *counter;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint64_t value;
	uint32_t number;

	assert_null_errno(ibv_create_cq_ex(api->ctx, &cq_attr), INJECTED);
	assert_int_equal(ibv_resize_cq(cq, 2), INJECTED);
	assert_int_equal(ibv_modify_cq(cq, &moderation), INJECTED);
	assert_int_equal(ibv_req_notify_cq(cq, 0), INJECTED);
	assert_null_errno(ibv_create_srq(api->pd, &srq_attr), INJECTED);
	assert_null_errno(ibv_create_srq_ex(api->ctx, &srq_ex), INJECTED);
	srq = ibv_create_srq(api->pd, &srq_attr);
	assert_non_null(srq);
	assert_int_equal(ibv_modify_srq(srq, &srq_attr.attr, IBV_SRQ_MAX_WR), INJECTED);
	assert_int_equal(ibv_query_srq(srq, &srq_attr.attr), INJECTED);
	assert_int_equal(ibv_get_srq_num(srq, &number), INJECTED);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), INJECTED);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_srq(srq), INJECTED);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_null_errno(ibv_create_qp(api->pd, &qp_attr), INJECTED);
	assert_null_errno(ibv_create_qp_ex(api->ctx, &qp_ex), INJECTED);
	qp = ibv_create_qp(api->pd, &qp_attr);
	assert_non_null(qp);
	assert_null_errno(ibv_create_comp_cntr(api->ctx, &counter_attr), INJECTED);
	counter = ibv_create_comp_cntr(api->ctx, &counter_attr);
	assert_non_null(counter);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, counter, &attach), INJECTED);
	assert_int_equal(ibv_set_comp_cntr(counter, 1), INJECTED);
	assert_int_equal(ibv_set_err_comp_cntr(counter, 1), INJECTED);
	assert_int_equal(ibv_inc_comp_cntr(counter, 1), INJECTED);
	assert_int_equal(ibv_inc_err_comp_cntr(counter, 1), INJECTED);
	assert_int_equal(ibv_read_comp_cntr(counter, &value), INJECTED);
	assert_int_equal(ibv_read_err_comp_cntr(counter, &value), INJECTED);
	assert_int_equal(ibv_destroy_comp_cntr(counter), INJECTED);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
	assert_int_equal(ibv_destroy_qp(qp), INJECTED);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void call_fault_queues_fail(void **state)
{
	struct ibv_xrcd_init_attr xrcd_attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							    IBV_XRCD_INIT_ATTR_OFLAGS,
					       .fd = -1,
					       .oflags = O_CREAT};
	struct ibv_parent_domain_init_attr parent_attr = {0};
	struct ibv_qp_open_attr open_attr = {0};
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_grh grh = {0};
	struct ibv_wc wc = {0};
	struct ibv_async_event event;
	struct ibv_comp_channel *channel;
	struct ibv_xrcd *xrcd;
	struct ibv_td *td;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	void *context;
	struct api api;

	(void)state;
	api_open(&api);
	assert_minus1_errno(ibv_get_async_event(api.ctx, &event), INJECTED);
	assert_null_errno(ibv_create_comp_channel(api.ctx), INJECTED);
	channel = ibv_create_comp_channel(api.ctx);
	assert_non_null(channel);
	assert_minus1_errno(ibv_get_cq_event(channel, &cq, &context), INJECTED);
	assert_int_equal(ibv_destroy_comp_channel(channel), INJECTED);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_null_errno(ibv_create_cq(api.ctx, 1, NULL, NULL, 0), INJECTED);
	cq = ibv_create_cq(api.ctx, 1, NULL, NULL, 0);
	assert_non_null(cq);
	queues_of(&api, cq);
	assert_int_equal(ibv_destroy_cq(cq), INJECTED);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	ah_attr.grh.dgid = api.gid;
	assert_null_errno(ibv_create_ah(api.pd, &ah_attr), INJECTED);
	assert_null_errno(ibv_create_ah_from_wc(api.pd, &wc, &grh, 1), INJECTED);
	assert_minus1_errno(ibv_init_ah_from_wc(api.ctx, 1, &wc, &grh, &ah_attr), INJECTED);
	ah = ibv_create_ah(api.pd, &ah_attr);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), INJECTED);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_null_errno(ibv_alloc_td(api.ctx, &td_attr), INJECTED);
	td = ibv_alloc_td(api.ctx, &td_attr);
	assert_non_null(td);
	assert_int_equal(ibv_dealloc_td(td), INJECTED);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_null_errno(ibv_alloc_parent_domain(api.ctx, &parent_attr), INJECTED);
	assert_null_errno(ibv_open_xrcd(api.ctx, &xrcd_attr), INJECTED);
	xrcd = ibv_open_xrcd(api.ctx, &xrcd_attr);
	assert_non_null(xrcd);
	assert_null_errno(ibv_open_qp(api.ctx, &open_attr), INJECTED);
	assert_int_equal(ibv_close_xrcd(xrcd), INJECTED);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	api_close(&api);
}

static void call_fault_queue_pairs_fail(void **state)
{
	struct ibv_recv_wr recvs[2] = {{.wr_id = 1, .next = &recvs[1]}, {.wr_id = 2}};
	struct ibv_send_wr sends[2] = {
		{.wr_id = 1,
		 .next = &sends[1],
		 .opcode = IBV_WR_SEND,
		 .send_flags = IBV_SEND_SIGNALED},
		{.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init_attr;
	struct ibv_send_wr *bad_send = NULL;
	struct ibv_recv_wr *bad_recv = NULL;
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	struct pair pair;
	struct api api;

	(void)state;
	api_open(&api);
	pair_open(&pair, &api, NULL);
	assert_int_equal(ibv_post_recv(pair.b.qp, recvs, &bad_recv), INJECTED);
	assert_ptr_equal(bad_recv, recvs);
	assert_int_equal(ibv_post_recv(pair.b.qp, recvs, &bad_recv), 0);
	assert_int_equal(ibv_post_send(pair.a.qp, sends, &bad_send), INJECTED);
	assert_ptr_equal(bad_send, sends);
	assert_int_equal(ibv_post_send(pair.a.qp, sends, &bad_send), 0);
	for (uint64_t id = 1; id <= 2; id++) {
		wc_expect(pair.a.cq, id, IBV_WC_SUCCESS);
		wc_expect(pair.b.cq, id, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_attach_mcast(pair.a.qp, &group, 0), INJECTED);
	assert_int_equal(ibv_detach_mcast(pair.a.qp, &group, 0), INJECTED);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init_attr), INJECTED);
	/*
	 * The first pass of ibv_modify_qp() that the rule selects is the seventh: six have
	 * connected the queue pairs.
	 */
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), INJECTED);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RTS);
	pair_close(&pair);
	api_close(&api);
}

static void call_fault_delay_is_kept(void **state)
{
	struct timespec before, after;
	struct api api;
	struct ibv_pd *pd;

	(void)state;
	api_open(&api);
	clock_gettime(CLOCK_MONOTONIC, &before);
	pd = ibv_alloc_pd(api.ctx);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_non_null(pd);
	assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >=
		    DELAY_NS);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	api_close(&api);
}

static void call_fault_connections_fail(void **state)
{
	struct rdma_cm_join_mc_attr_ex join = {0};
	struct ibv_qp_init_attr_ex qp_ex = {0};
	struct ibv_srq_init_attr_ex srq_ex = {0};
	struct ibv_srq_init_attr srq_attr = {0};
	struct ibv_qp_init_attr qp_attr = {0};
	struct rdma_conn_param param = {0};
	struct ibv_ece ece = {.vendor_id = 1};
	struct sockaddr addr = {.sa_family = AF_INET};
	struct rdma_addrinfo info = {0}, *found;
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *other;
	struct ibv_qp_attr attr;
	int mask;

	(void)state;
	assert_null_errno(rdma_create_event_channel(), INJECTED);
	assert_null_errno(rdma_get_devices(NULL), INJECTED);
	assert_minus1_errno(rdma_getaddrinfo("127.0.0.1", NULL, NULL, &found), INJECTED);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	assert_minus1_errno(rdma_create_ep(&id, &info, NULL, NULL), INJECTED);
	assert_minus1_errno(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), INJECTED);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_minus1_errno(rdma_get_cm_event(channel, &event), INJECTED);
	assert_minus1_errno(rdma_bind_addr(id, &addr), INJECTED);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, &addr, 1), INJECTED);
	assert_minus1_errno(rdma_resolve_route(id, 1), INJECTED);
	assert_minus1_errno(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, NULL), INJECTED);
	assert_minus1_errno(rdma_query_addrinfo(id, &found), INJECTED);
	assert_minus1_errno(rdma_create_qp(id, NULL, &qp_attr), INJECTED);
	assert_minus1_errno(rdma_create_qp_ex(id, &qp_ex), INJECTED);
	assert_minus1_errno(rdma_create_srq(id, NULL, &srq_attr), INJECTED);
	assert_minus1_errno(rdma_create_srq_ex(id, &srq_ex), INJECTED);
	assert_minus1_errno(rdma_init_qp_attr(id, &attr, &mask), INJECTED);
	assert_minus1_errno(rdma_listen(id, 1), INJECTED);
	assert_minus1_errno(rdma_get_request(id, &other), INJECTED);
	assert_minus1_errno(rdma_connect(id, &param), INJECTED);
	assert_minus1_errno(rdma_accept(id, &param), INJECTED);
	assert_minus1_errno(rdma_establish(id), INJECTED);
	assert_minus1_errno(rdma_reject(id, NULL, 0), INJECTED);
	assert_minus1_errno(rdma_reject_ece(id, NULL, 0), INJECTED);
	assert_minus1_errno(rdma_notify(id, IBV_EVENT_COMM_EST), INJECTED);
	assert_minus1_errno(rdma_disconnect(id), INJECTED);
	assert_minus1_errno(rdma_set_local_ece(id, &ece), INJECTED);
	assert_minus1_errno(rdma_get_remote_ece(id, &ece), INJECTED);
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &mask, 1),
			    INJECTED);
	assert_minus1_errno(rdma_join_multicast(id, &addr, NULL), INJECTED);
	assert_minus1_errno(rdma_join_multicast_ex(id, &join, NULL), INJECTED);
	assert_minus1_errno(rdma_leave_multicast(id, &addr), INJECTED);
	assert_minus1_errno(rdma_migrate_id(id, NULL), INJECTED);
	assert_minus1_errno(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), INJECTED);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_minus1_errno(rdma_ack_cm_event(event), INJECTED);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_minus1_errno(rdma_destroy_id(id), INJECTED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static const struct call_case cases[] = {
	{
		.name = "devices_and_memory_fail",
		.calls = "ibv_get_device_list ibv_open_device ibv_import_device ibv_query_device "
			 "ibv_query_device_ex ibv_query_port ibv_query_port_speed ibv_query_gid "
			 "ibv_query_gid_ex ibv_query_gid_table ibv_query_pkey ibv_get_pkey_index "
			 "ibv_query_rt_values_ex ibv_alloc_pd ibv_import_pd ibv_reg_mr "
			 "ibv_import_mr ibv_reg_dmabuf_mr ibv_rereg_mr ibv_advise_mr ibv_dereg_mr "
			 "ibv_alloc_null_mr ibv_alloc_buf ibv_reg_buf_mr ibv_alloc_dm "
			 "ibv_import_dm ibv_reg_dm_mr ibv_free_dm ibv_alloc_mw ibv_bind_mw "
			 "ibv_dealloc_mw ibv_dealloc_pd ibv_close_device",
		.run = call_fault_devices_and_memory_fail,
	},
	{
		.name = "queues_fail",
		.calls = "ibv_get_async_event ibv_create_comp_channel ibv_get_cq_event "
			 "ibv_destroy_comp_channel ibv_create_cq ibv_create_cq_ex ibv_resize_cq "
			 "ibv_modify_cq ibv_req_notify_cq ibv_create_srq ibv_create_srq_ex "
			 "ibv_modify_srq ibv_query_srq ibv_get_srq_num ibv_post_srq_recv "
			 "ibv_destroy_srq ibv_create_qp ibv_create_qp_ex ibv_create_comp_cntr "
			 "ibv_qp_attach_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr "
			 "ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_read_comp_cntr "
			 "ibv_read_err_comp_cntr ibv_destroy_comp_cntr ibv_destroy_qp "
			 "ibv_destroy_cq ibv_create_ah ibv_create_ah_from_wc ibv_init_ah_from_wc "
			 "ibv_destroy_ah ibv_alloc_td ibv_dealloc_td ibv_alloc_parent_domain "
			 "ibv_open_xrcd ibv_open_qp ibv_close_xrcd",
		.run = call_fault_queues_fail,
	},
	{
		.name = "calls_of_queue_pairs_fail",
		.calls = "ibv_post_recv ibv_post_send ibv_attach_mcast ibv_detach_mcast "
			 "ibv_query_qp",
		.run = call_fault_queue_pairs_fail,
	},
	{
		.name = "connections_fail",
		.calls = "rdma_create_event_channel rdma_get_devices rdma_getaddrinfo "
			 "rdma_create_ep rdma_create_id rdma_get_cm_event rdma_bind_addr "
			 "rdma_resolve_addr rdma_resolve_route rdma_resolve_addrinfo "
			 "rdma_query_addrinfo rdma_create_qp rdma_create_qp_ex rdma_create_srq "
			 "rdma_create_srq_ex rdma_init_qp_attr rdma_listen rdma_get_request "
			 "rdma_connect rdma_accept rdma_establish rdma_reject rdma_reject_ece "
			 "rdma_notify rdma_disconnect rdma_set_local_ece rdma_get_remote_ece "
			 "rdma_set_option rdma_join_multicast rdma_join_multicast_ex "
			 "rdma_leave_multicast rdma_migrate_id rdma_write_cm_event "
			 "rdma_ack_cm_event rdma_destroy_id",
		.run = call_fault_connections_fail,
	},
	{
		.name = "call_is_delayed",
		.rules = "call:delay=3ms:name=ibv_alloc_pd",
		.run = call_fault_delay_is_kept,
	},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/* pair_open() calls ibv_modify_qp() six times. */
#define MODIFY_RULE "call:fail=EPIPE:name=ibv_modify_qp:nth=7\n"

static void set_rules(const struct call_case *call_case)
{
	static char rules[RULES_BYTES] = MODIFY_RULE;
	char calls[RULES_BYTES], *next = NULL;

	if (call_case->rules) {
		setenv("USRDMA_FAULT", call_case->rules, 1);
		return;
	}
	snprintf(calls, sizeof(calls), "%s", call_case->calls);
	for (char *name = strtok_r(calls, " ", &next); name; name = strtok_r(NULL, " ", &next)) {
		size_t len = strlen(rules);

		snprintf(rules + len, sizeof(rules) - len, "call:fail=EPIPE:times=1:name=%s\n",
			 name);
	}
	setenv("USRDMA_FAULT", rules, 1);
}

static int run_case(const char *name)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct CMUnitTest tests[] = {{cases[i].name, cases[i].run, NULL, NULL, NULL}};

		if (strcmp(cases[i].name, name) == 0) {
			set_rules(&cases[i]);
			return cmocka_run_group_tests(tests, NULL, NULL);
		}
	}
	return 1;
}

static void call_fault_case_passes(void **state)
{
	const struct call_case *call_case = *state;
	char name[64];
	char *argv[] = {(char *)"api-call_faults", name, NULL};
	int status;
	pid_t pid;

	snprintf(name, sizeof(name), "%s", call_case->name);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];

	if (argc > 1)
		return run_case(argv[1]);
	for (size_t i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){cases[i].name, call_fault_case_passes, NULL, NULL,
					       (void *)(uintptr_t)&cases[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
