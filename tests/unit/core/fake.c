/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <errno.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/async.h"
#include "core/event_fd.h"

#define FAKE_SLOT 5

struct fake_calls fake_calls;

static int first_bind(struct qp *qp)
{
	(void)qp;
	fake_calls.bind_first++;
	return fake_calls.first_takes ? 0 : -EOPNOTSUPP;
}

static int fake_bind(struct qp *qp)
{
	fake_calls.bind++;
	fake_calls.state_at_bind = qp->state;
	return fake_calls.bind_error;
}

static void ready(struct qp *qp)
{
	assert_int_equal(qp->state, IBV_QPS_RTS);
	fake_calls.ready++;
}

static void halt(struct qp *qp)
{
	fake_calls.halt++;
	fake_calls.state_at_halt = qp->state;
}

static void unbind(struct qp *qp)
{
	(void)qp;
	fake_calls.unbind++;
}

static void kick(struct qp *qp)
{
	(void)qp;
	fake_calls.kick++;
}

static void recv_posted(struct qp *qp)
{
	(void)qp;
	fake_calls.recv_posted++;
}

static void publish_qp(struct qp *qp)
{
	(void)qp;
	fake_calls.publish_qp++;
}

static void publish_mr(struct engine *engine, const struct mr *mr)
{
	(void)engine;
	assert_non_null(mr->pd);
	fake_calls.publish_mr++;
}

static void revoke_mr(struct engine *engine, const struct mr *mr)
{
	(void)engine;
	assert_non_null(mr->pd);
	fake_calls.revoke_mr++;
}

static int fake_ah_open(struct ah *ah)
{
	if (fake_calls.ah_error)
		return fake_calls.ah_error;
	ah->transport_ah = &fake_calls;
	fake_calls.ah_open++;
	return 0;
}

static void fake_ah_close(struct ah *ah)
{
	assert_ptr_equal(ah->transport_ah, &fake_calls);
	fake_calls.ah_close++;
}

static int fake_send_datagram(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram)
{
	size_t at = 0;

	assert_int_equal(qp->type, IBV_QPT_UD);
	if (fake_calls.send_error && !fake_calls.send_room)
		return fake_calls.send_error;
	if (fake_calls.send_error)
		fake_calls.send_room--;
	fake_calls.sent++;
	fake_calls.datagram = *datagram;
	fake_calls.sent_ah = ah;
	for (int i = 0; i < datagram->iov_count; i++) {
		size_t bytes = datagram->iov[i].iov_len;

		if (bytes > sizeof(fake_calls.sent_bytes) - at)
			bytes = sizeof(fake_calls.sent_bytes) - at;
		memcpy(fake_calls.sent_bytes + at, datagram->iov[i].iov_base, bytes);
		at += bytes;
	}
	return 0;
}

static void fake_datagrams_end(struct engine *engine)
{
	(void)engine;
	fake_calls.datagrams_end++;
}

static int fake_join(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	(void)engine;
	if (fake_calls.join_error)
		return fake_calls.join_error;
	fake_calls.join++;
	fake_calls.joined_ifindex = ifindex;
	fake_calls.joined = *group;
	return 0;
}

static void fake_leave(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	(void)engine;
	fake_calls.leave++;
	fake_calls.left_ifindex = ifindex;
	fake_calls.left = *group;
}

static unsigned int run(struct engine *engine, uint64_t now_ns)
{
	(void)engine;
	(void)now_ns;
	return 0;
}

static const struct transport first_transport = {
	.name = "first", .bind = first_bind, .kick = kick, .run = run};

static const struct transport fake_transport = {
	.name = "fake",
	.bind = fake_bind,
	.ready = ready,
	.halt = halt,
	.unbind = unbind,
	.kick = kick,
	.recv_posted = recv_posted,
	.publish_qp = publish_qp,
	.publish_mr = publish_mr,
	.revoke_mr = revoke_mr,
	.ah_open = fake_ah_open,
	.ah_close = fake_ah_close,
	.send_datagram = fake_send_datagram,
	.datagrams_end = fake_datagrams_end,
	.join = fake_join,
	.leave = fake_leave,
	.run = run,
};

const struct transport *const transports[] = {&first_transport, &fake_transport, NULL};

int transports_take_socket(struct engine *engine, int fd)
{
	(void)engine;
	(void)fd;
	return -EOPNOTSUPP;
}

static void open_engine(struct engine *engine)
{
	engine_lock_init(engine);
	engine->slot = FAKE_SLOT;
	engine->notice_fd = -1;
	engine->doorbell_fd = -1;
	timer_heap_init(&engine->timers);
	list_init(&engine->contexts);
	list_init(&engine->cqs);
	datagrams_init(&engine->datagrams);
	id_table_init32(&engine->mrs, MAX_MRS);
	id_table_init32(&engine->pds, MAX_PDS);
	id_table_init32(&engine->dms, MAX_DMS);
	list_init(&engine->xrc_domains);
	xrc_fars_init(&engine->xrc_fars);
	engine->qps = calloc(IPC_SLOT_QPNS, sizeof(*engine->qps));
	assert_non_null(engine->qps);
}

void fake_open(struct fake *fake)
{
	memset(fake, 0, sizeof(*fake));
	memset(&fake_calls, 0, sizeof(fake_calls));
	open_engine(&fake->engine);
	fake->device.is_present = true;
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
	list_add_tail(&fake->context.node, &fake->engine.contexts);
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
	assert_int_equal(fake->engine.qp_count, 0);
	assert_int_equal(fake->engine.cq_count, 0);
	assert_int_equal(fake->engine.srq_count, 0);
	assert_null(fake->engine.mcast);
	assert_int_equal(fake->engine.mrs.count, 0);
	assert_int_equal(fake->engine.pds.count, 0);
	close(fake->ctx->async_fd);
	id_table_fini(&fake->engine.mrs);
	id_table_fini(&fake->engine.pds);
	id_table_fini(&fake->engine.dms);
	free(fake->engine.xrc_srqs);
	free(fake->engine.qps);
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
