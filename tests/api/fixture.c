/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 40000

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void domain_open(struct api *api, int side)
{
	struct ibv_parent_domain_init_attr attr = {.pd = api->pd};
	struct ibv_td_init_attr td_attr = {0};

	attr.td = api->tds[side] = ibv_alloc_td(api->ctx, &td_attr);
	assert_non_null(attr.td);
	api->qp_pds[side] = ibv_alloc_parent_domain(api->ctx, &attr);
	assert_non_null(api->qp_pds[side]);
}

void api_open(struct api *api)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_non_null(list);
	assert_non_null(list[0]);
	api->ctx = ibv_open_device(list[0]);
	assert_non_null(api->ctx);
	ibv_free_device_list(list);
	api->pd = ibv_alloc_pd(api->ctx);
	assert_non_null(api->pd);
	assert_int_equal(ibv_query_gid(api->ctx, 1, 0, &api->gid), 0);
	for (int i = 0; i < 2; i++) {
		api->tds[i] = NULL;
		if (getenv("USRDMA_TEST_DOMAINS"))
			domain_open(api, i);
	}
}

void api_close(struct api *api)
{
	for (int i = 0; i < 2 && api->tds[i]; i++) {
		assert_int_equal(ibv_dealloc_pd(api->qp_pds[i]), 0);
		assert_int_equal(ibv_dealloc_td(api->tds[i]), 0);
	}
	assert_int_equal(ibv_dealloc_pd(api->pd), 0);
	assert_int_equal(ibv_close_device(api->ctx), 0);
}

int api_setup(void **state)
{
	static struct api api;

	api_open(&api);
	*state = &api;
	return 0;
}

int api_teardown(void **state)
{
	api_close(*state);
	return 0;
}

/* The initial PSN of both directions. A peer process uses FIRST_PSN as well. */
#define FIRST_PSN 7
static _Thread_local uint32_t first_psn = FIRST_PSN;

int qp_to_init(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int qp_to_rtr(struct ibv_qp *qp, const struct api *api, uint32_t remote_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = remote_qpn,
		.rq_psn = first_psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = api->gid, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

int qp_to_rts(struct ibv_qp *qp, uint8_t retry_cnt, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = first_psn,
		/*
		 * 69 ms over RoCE, where the process that forwards the packets may wait for a
		 * processor; else 4 ms.
		 */
		.timeout = on_the_wire() ? 14 : 10,
		.retry_cnt = retry_cnt,
		.rnr_retry = rnr_retry,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int qp_to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void ud_to_rts(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static int qp_to_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static struct ibv_qp *make_qp(struct pair *pair, struct ibv_pd *pd, struct ibv_cq *cq,
			      struct ibv_srq *srq)
{
	const struct pair_options *options = &pair->options;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = options->max_wr,
			.max_recv_wr = options->max_wr,
			.max_send_sge = options->max_sge,
			.max_recv_sge = options->max_sge,
			.max_inline_data = options->max_inline},
		.qp_type = options->type,
		.sq_sig_all = options->is_sig_all,
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	if (!options->send_ops_flags)
		return ibv_create_qp(pd, (struct ibv_qp_init_attr *)&attr);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = options->send_ops_flags;
	return ibv_create_qp_ex(pair->api->ctx, &attr);
}

static void side_open(struct pair *pair, struct side *side, struct ibv_srq *srq)
{
	const struct pair_options *options = &pair->options;
	int is_b = side == &pair->b;

	side->buf = aligned_alloc(4096, SIDE_BUF_BYTES);
	assert_non_null(side->buf);
	memset(side->buf, 0, SIDE_BUF_BYTES);
	side->mr = ibv_reg_mr(pair->api->pd, side->buf, SIDE_BUF_BYTES, options->mr_access);
	assert_non_null(side->mr);
	side->cq = ibv_create_cq(pair->api->ctx, (int)options->max_wr * 2 + 2, NULL,
				 options->channel, 0);
	assert_non_null(side->cq);
	side->qp = make_qp(pair, pair->api->tds[is_b] ? pair->api->qp_pds[is_b] : pair->api->pd,
			   side->cq, srq);
	assert_non_null(side->qp);
}

static void side_close(struct side *side)
{
	assert_int_equal(ibv_destroy_qp(side->qp), 0);
	assert_int_equal(ibv_destroy_cq(side->cq), 0);
	assert_int_equal(ibv_dereg_mr(side->mr), 0);
	free(side->buf);
}

static void pair_connect(struct pair *pair)
{
	struct ibv_qp *qps[2] = {pair->a.qp, pair->b.qp};

	if (pair->options.type == IBV_QPT_UD) {
		ud_to_rts(pair->a.qp, UD_QKEY);
		ud_to_rts(pair->b.qp, UD_QKEY);
		return;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_to_init(qps[i], pair->options.qp_access), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_to_rtr(qps[i], pair->api, qps[!i]->qp_num), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			qp_to_rts(qps[i], pair->options.retry_cnt, pair->options.rnr_retry), 0);
}

void notice_signal_handlers(const struct api *api)
{
	struct ibv_alloc_dm_attr attr = {.length = 4};
	struct ibv_dm *dm = ibv_alloc_dm(api->ctx, &attr);
	uint32_t word = 0;

	assert_non_null(dm);
	for (int i = 0; i < 1024; i++)
		assert_int_equal(ibv_memcpy_to_dm(dm, 0, &word, sizeof(word)), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

void pair_open(struct pair *pair, struct api *api, const struct pair_options *options)
{
	memset(pair, 0, sizeof(*pair));
	pair->api = api;
	if (options)
		pair->options = *options;
	if (!pair->options.type)
		pair->options.type = IBV_QPT_RC;
	if (!pair->options.mr_access)
		pair->options.mr_access = ALL_ACCESS;
	if (!pair->options.qp_access)
		pair->options.qp_access = IBV_ACCESS_REMOTE_WRITE;
	if (pair->options.qp_access == IBV_ACCESS_REMOTE_WRITE &&
	    pair->options.type == IBV_QPT_RC && !(options && options->qp_access))
		pair->options.qp_access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (!pair->options.max_wr)
		pair->options.max_wr = 64;
	if (!pair->options.max_sge)
		pair->options.max_sge = 4;
	if (!pair->options.retry_cnt)
		pair->options.retry_cnt = on_the_wire() ? 7 : 1;
	side_open(pair, &pair->a, NULL);
	side_open(pair, &pair->b, pair->options.srq);
	if (!pair->options.stays_unconnected)
		pair_connect(pair);
}

void pair_close(struct pair *pair)
{
	side_close(&pair->a);
	side_close(&pair->b);
}

/*
 * Each new connection has other PSNs: a packet that the network delivers late must not be valid in
 * it. The distance exceeds the number of packets of a test.
 */
#define RECONNECT_PSNS (1u << 20)

void pair_reconnect(struct pair *pair)
{
	static _Thread_local uint32_t reconnects;
	struct ibv_wc wc;

	assert_int_equal(qp_to_reset(pair->a.qp), 0);
	assert_int_equal(qp_to_reset(pair->b.qp), 0);
	while (ibv_poll_cq(pair->a.cq, 1, &wc) > 0 || ibv_poll_cq(pair->b.cq, 1, &wc) > 0)
		;
	first_psn = (FIRST_PSN + ++reconnects * RECONNECT_PSNS) & 0xffffff;
	pair_connect(pair);
	first_psn = FIRST_PSN;
}

struct ibv_sge sge_of(const struct side *side, size_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)(side->buf + offset),
		.length = length,
		.lkey = side->mr->lkey,
	};
}

struct ibv_send_wr send_wr(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   const struct side *remote, size_t remote_offset, uint64_t wr_id)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	bool is_atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (!remote)
		return wr;
	if (is_atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)(remote->buf + remote_offset);
		wr.wr.atomic.rkey = remote->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)(remote->buf + remote_offset);
		wr.wr.rdma.rkey = remote->mr->rkey;
	}
	return wr;
}

void post_send_ok(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(ibv_post_send(side->qp, wr, &bad), 0);
}

struct ibv_qp_ex *batch_start(struct side *side, uint64_t wr_id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);

	assert_non_null(qp);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

void post_recv_ok(struct side *side, struct ibv_sge *sge, int num_sge, uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = num_sge};
	struct ibv_recv_wr *bad = NULL;

	assert_int_equal(ibv_post_recv(side->qp, &wr, &bad), 0);
}

struct ibv_wc wc_next(struct ibv_cq *cq)
{
	uint64_t deadline_ms = now_ms() + PATIENCE_MS;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int got;

	do
		got = ibv_poll_cq(cq, 1, &wc);
	while (got == 0 && now_ms() < deadline_ms);
	assert_int_equal(got, 1);
	return wc;
}

struct ibv_wc wc_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wc_next(cq);

	if (wc.wr_id != wr_id || wc.status != status)
		fail_msg(
			"completion of WR %llu with \"%s\" (vendor %u) where WR %llu with \"%s\" was due",
			(unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err,
			(unsigned long long)wr_id, ibv_wc_status_str(status));
	return wc;
}

void wc_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

void make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	assert_true(flags >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

bool readable_within(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1 && (poll_fd.revents & POLLIN);
}

void *async_expect(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event event;
	void *element;

	assert_true(readable_within(ctx->async_fd, PATIENCE_MS));
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	if (event.event_type != type)
		fail_msg("event \"%s\" where \"%s\" was due", ibv_event_type_str(event.event_type),
			 ibv_event_type_str(type));
	element = event.element.qp;
	ibv_ack_async_event(&event);
	return element;
}

void async_none(struct ibv_context *ctx)
{
	assert_false(readable_within(ctx->async_fd, 0));
}

void fill_pattern(uint8_t *buf, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = (uint8_t)(i * 131 + (i >> 8) + seed);
}

bool on_the_wire(void)
{
	const char *transport = getenv("USRDMA_TRANSPORT");

	return transport && !strcmp(transport, "roce");
}
