/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/device/async.h"
#include "core/object/event_fd.h"
#include "core/qp/xrc.h"

#define FAKE_SLOT 5

struct fake_calls fake_calls;

static void open_engine(struct engine *engine)
{
	biased_lock_init(&engine->lock);
	engine->slot = FAKE_SLOT;
	engine->notices.fd = -1;
	engine->watches.doorbell_fd = -1;
	timer_heap_init(&engine->timers);
	engine_init_lists(engine);
	datagrams_init(&engine->datagrams);
	id_table_init32(&engine->tables.mrs, MAX_MRS);
	id_table_init_random(&engine->tables.mws, MAX_MWS, MW_HANDLE_BITS, &engine->tables.random);
	id_table_init32(&engine->tables.pds, MAX_PDS);
	id_table_init32(&engine->tables.dms, MAX_DMS);
	xrc_domains_init(engine);
	engine_send_init(engine);
	xrc_forward_init(&engine->xrc_forward);
	xrc_remote_init(&engine->xrc_remote);
	assert_int_equal(qp_table_init(&engine->tables.qps), 0);
}

void fake_open(struct fake *fake)
{
	memset(fake, 0, sizeof(*fake));
	memset(&fake_calls, 0, sizeof(fake_calls));
	open_engine(&fake->engine);
	fake->device.is_present = true;
	fake->device.dev_id = 7;
	fake->device.info.dev_id = 7;
	fake->device.info.netdev_mtu_bytes = 1500;
	fake->device.info.gid_count = 1;
	fake->device.info.gids[0].is_valid = 1;
	fake->device.info.flags = IPC_DEVICE_UP;
	fake->context.device = &fake->device;
	fake->context.engine = &fake->engine;
	list_init(&fake->context.events);
	pthread_mutex_init(&fake->context.events_lock, NULL);
	fake->context.pub.sz = sizeof(fake->context.pub);
	context_init_ops(&fake->context.pub);
	fake->ctx = &fake->context.pub.context;
	fake->ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	fake->ctx->async_fd = event_fd_open();
	assert_true(fake->ctx->async_fd >= 0);
	list_add_tail(&fake->context.node, &fake->engine.tables.contexts);
	fake->pd = ibv_alloc_pd(fake->ctx);
	assert_non_null(fake->pd);
	fake->cq = ibv_create_cq(fake->ctx, 100, NULL, NULL, 0);
	assert_non_null(fake->cq);
}

void fake_close(struct fake *fake)
{
	assert_int_equal(ibv_destroy_cq(fake->cq), 0);
	assert_int_equal(ibv_dealloc_pd(fake->pd), 0);
	fake_expect_no_event(fake);
	assert_int_equal(fake->context.users, 0);
	assert_int_equal(fake->engine.tables.qps.count, 0);
	assert_int_equal(fake->engine.tables.cq_count, 0);
	assert_int_equal(fake->engine.tables.srq_count, 0);
	assert_null(fake->engine.mcast);
	assert_int_equal(fake->engine.tables.mrs.count, 0);
	assert_int_equal(fake->engine.tables.pds.count, 0);
	close(fake->ctx->async_fd);
	id_table_fini(&fake->engine.tables.mrs);
	id_table_fini(&fake->engine.tables.mws);
	id_table_fini(&fake->engine.tables.pds);
	id_table_fini(&fake->engine.tables.dms);
	xrc_forward_fini(&fake->engine.xrc_forward);
	free(fake->engine.xrc.srqs);
	qp_table_fini(&fake->engine.tables.qps);
}

struct ibv_qp *fake_qp(struct fake *fake, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fake->cq,
		.recv_cq = fake->cq,
		.srq = srq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(fake->pd, &attr);

	assert_non_null(qp);
	return qp;
}

struct ibv_qp_attr fake_attr(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.qkey = 0x11111111,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x8002,
		.rq_psn = 0x11223344,
		.sq_psn = 0x55667788,
		.max_rd_atomic = 3,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 5,
		.timeout = 6,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	return attr;
}

int fake_mask(enum ibv_qp_type type, enum ibv_qp_state state)
{
	bool is_rc = type == IBV_QPT_RC;

	if (type == IBV_QPT_UD && state == IBV_QPS_INIT)
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (type == IBV_QPT_UD && state == IBV_QPS_RTR)
		return IBV_QP_STATE;
	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN |
		       (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					IBV_QP_MAX_QP_RD_ATOMIC :
				0);
	default:
		return IBV_QP_STATE;
	}
}

int fake_modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = fake_attr(state);

	return ibv_modify_qp(qp, &attr, fake_mask(qp->qp_type, state));
}

void fake_walk(struct ibv_qp *qp, enum ibv_qp_state state)
{
	for (enum ibv_qp_state next = IBV_QPS_INIT; next <= state; next++)
		assert_int_equal(fake_modify(qp, next), 0);
}

void fake_expect_event(struct fake *fake, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event event;
	struct pollfd pollfd = {.fd = fake->ctx->async_fd, .events = POLLIN};

	assert_int_equal(poll(&pollfd, 1, 0), 1);
	assert_int_equal(ibv_get_async_event(fake->ctx, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, element);
	ibv_ack_async_event(&event);
}

void fake_expect_no_event(struct fake *fake)
{
	struct pollfd pollfd = {.fd = fake->ctx->async_fd, .events = POLLIN};

	assert_int_equal(poll(&pollfd, 1, 0), 0);
}
