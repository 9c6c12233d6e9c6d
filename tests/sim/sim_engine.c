/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../with_locks.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/transport.h"
#include "core/qp/xrc.h"

void sim_must_at(bool is_true, const char *file, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "%s:%d: set-up failed\n", file, line);
	abort();
}

/* Replaces transports.c: connections use roce only. */
const struct transport *const transports[] = {
	&roce_transport,
	NULL,
};

int transports_register_notices(struct engine *engine)
{
	(void)engine;
	return 0;
}

void sim_engine_open(struct engine *engine, uint32_t slot)
{
	int segment_fd = -1;

	biased_lock_init(&engine->lock);
	engine->slot = slot;
	engine->watches.doorbell_fd = engine->watches.timer_fd = engine->watches.epoll_fd =
		engine->notices.fd = -1;
	engine->client.fd = -1;
	/* Without a daemon no address can be resolved, and the calls do not try to. */
	engine->client.hello.wire_errno = EADDRINUSE;
	/* No thread sleeps: world_step() processes the timers. */
	engine->watches.timer_armed_ns = 0;
	engine->progress.state = PROGRESS_POLLED;
	timer_heap_init(&engine->timers);
	engine_init_lists(engine);
	datagrams_init(&engine->datagrams);
	random_init_repeatable(&engine->tables.random, slot);
	id_table_init_random(&engine->tables.mrs, MAX_MRS, MR_KEY_BITS, &engine->tables.random);
	id_table_init32(&engine->tables.pds, MAX_PDS);
	id_table_init32(&engine->tables.dms, MAX_DMS);
	xrc_domains_init(engine);
	xrc_forward_init(&engine->xrc_forward);
	xrc_remote_init(&engine->xrc_remote);
	id_table_init_random(&engine->tables.mws, MAX_MWS, MW_HANDLE_BITS, &engine->tables.random);
	sim_must(qp_table_init(&engine->tables.qps) == 0);
	WITH_LOCKS(engine, sim_must(roce_transport.open(engine, &segment_fd) == 0));
}

void sim_engine_close(struct engine *engine)
{
	WITH_LOCKS(engine, roce_transport.close(engine));
	qp_table_fini(&engine->tables.qps);
	id_table_fini(&engine->tables.mrs);
	id_table_fini(&engine->tables.pds);
	id_table_fini(&engine->tables.dms);
	xrc_forward_fini(&engine->xrc_forward);
	free(engine->xrc.srqs);
	id_table_fini(&engine->tables.mws);
	biased_lock_fini(&engine->lock);
}

void sim_device_open(struct device *device, const uint8_t gid[GID_BYTES])
{
	struct ipc_device_reply *info = &device->info;

	device->dev_id = 1;
	info->dev_id = 1;
	info->netdev_mtu_bytes = 65536;
	info->gid_count = 1;
	info->gids[0].is_valid = 1;
	memcpy(info->gids[0].raw, gid, GID_BYTES);
	info->flags = IPC_DEVICE_UP;
	device->is_present = true;
}

void sim_context_open(struct context *context, struct engine *engine, struct device *device,
		      int async_fd)
{
	struct ibv_context *pub = &context->pub.context;

	context->device = device;
	context->engine = engine;
	context->pub.sz = sizeof(context->pub);
	pub->device = &device->pub;
	pub->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pub->num_comp_vectors = 1;
	context_init_ops(&context->pub);
	pthread_mutex_init(&pub->mutex, NULL);
	pthread_mutex_init(&context->events_lock, NULL);
	list_init(&context->events);
	list_add_tail(&context->node, &engine->tables.contexts);
	pub->async_fd = async_fd;
}

static void to_init(struct ibv_qp *qp, const struct world_qp_attr *attr)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = attr->access};

	sim_must(ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS) == 0);
}

static void to_rtr(struct ibv_qp *qp, const uint8_t *peer_gid, uint32_t dest_qpn, uint32_t rq_psn,
		   const struct world_qp_attr *attr)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = attr->mtu,
		.dest_qp_num = dest_qpn,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = attr->rd_atomic,
		.min_rnr_timer = attr->min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	memcpy(a.ah_attr.grh.dgid.raw, peer_gid, GID_BYTES);
	if (qp->qp_type != IBV_QPT_UC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	sim_must(ibv_modify_qp(qp, &a, mask) == 0);
}

static void to_rts(struct ibv_qp *qp, uint32_t sq_psn, const struct world_qp_attr *attr)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = attr->timeout,
		.retry_cnt = attr->retry_cnt,
		.rnr_retry = attr->rnr_retry,
		.max_rd_atomic = attr->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	sim_must(ibv_modify_qp(qp, &a, mask) == 0);
}

void world_connect_to(struct ibv_qp *qp, const uint8_t *peer_gid, uint32_t peer_qpn,
		      uint32_t rq_psn, uint32_t sq_psn, const struct world_qp_attr *attr)
{
	to_init(qp, attr);
	to_rtr(qp, peer_gid, peer_qpn, rq_psn, attr);
	to_rts(qp, sq_psn, attr);
}

bool world_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct engine *engine = to_cq(cq)->context->engine;
	bool is_got;

	/* With engine.lock held, ibv_poll_cq() reads the CQ without running the engine. */
	engine_lock(engine);
	is_got = to_cq(cq)->head != to_cq(cq)->tail && ibv_poll_cq(cq, 1, wc) == 1;
	engine_unlock(engine);
	return is_got;
}
