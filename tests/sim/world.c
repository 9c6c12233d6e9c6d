/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/context.h"
#include "core/event_fd.h"
#include "core/transport.h"

#define FIRST_SLOT 1

/* The set-up itself must not fail. */
#define must(condition) must_at(condition, __LINE__)

static void must_at(bool is_true, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "world.c:%d: set-up failed\n", line);
	abort();
}

/* In place of transports.c: what is simulated has nothing on the same host. */
const struct transport *const transports[] = {
	&roce_transport,
	NULL,
};

int transports_take_socket(struct engine *engine, int fd);

int transports_take_socket(struct engine *engine, int fd)
{
	(void)engine;
	(void)fd;
	return -1;
}

uint64_t world_random(struct world *world)
{
	uint64_t x = world->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	world->random = x;
	return x;
}

uint64_t world_below(struct world *world, uint64_t n)
{
	return n ? world_random(world) % n : 0;
}

static uint64_t world_clock(void *arg)
{
	const struct world *world = arg;

	return world->now_ns;
}

static void engine_open(struct engine *engine, uint32_t slot)
{
	int segment_fd = -1;

	pthread_mutex_init(&engine->lock, NULL);
	engine->slot = slot;
	engine->doorbell_fd = engine->timer_fd = engine->epoll_fd = engine->notice_fd = -1;
	engine->client.fd = -1;
	/* Nobody sleeps: the world looks at the timers itself. */
	engine->timer_armed_ns = 0;
	engine->is_polled = true;
	timer_heap_init(&engine->timers);
	list_init(&engine->contexts);
	list_init(&engine->cqs);
	id_table_init32(&engine->mrs, MAX_MRS);
	id_table_init32(&engine->pds, MAX_PDS);
	engine->qps = calloc(IPC_SLOT_QPNS, sizeof(*engine->qps));
	must(engine->qps != NULL);
	must(roce_transport.open(engine, &segment_fd) == 0);
}

static void engine_close(struct engine *engine)
{
	roce_transport.close(engine);
	free(engine->qps);
	id_table_fini(&engine->mrs);
	id_table_fini(&engine->pds);
	pthread_mutex_destroy(&engine->lock);
}

static void set_gid(uint8_t *gid, int index, bool is_ipv6)
{
	const uint8_t ipv4[GID_BYTES] = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(index + 1)};
	const uint8_t ipv6[GID_BYTES] = {0xfd, [15] = (uint8_t)(index + 1)};

	memcpy(gid, is_ipv6 ? ipv6 : ipv4, GID_BYTES);
}

static void device_open(struct world_node *node)
{
	struct ipc_device_reply *info = &node->device.info;

	info->dev_id = 1;
	info->netdev_mtu_bytes = 65536;
	info->gid_count = 1;
	info->gids[0].is_valid = 1;
	memcpy(info->gids[0].raw, node->gid, GID_BYTES);
	info->flags = IPC_DEVICE_UP;
	node->device.is_present = true;
}

static void context_open(struct world_node *node)
{
	struct ibv_context *pub = &node->context.pub.context;

	node->context.device = &node->device;
	node->context.engine = &node->engine;
	node->context.pub.sz = sizeof(node->context.pub);
	pub->device = &node->device.pub;
	pub->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pub->num_comp_vectors = 1;
	context_init_ops(&node->context.pub);
	pthread_mutex_init(&pub->mutex, NULL);
	pthread_mutex_init(&node->context.events_lock, NULL);
	list_init(&node->context.events);
	list_add_tail(&node->context.node, &node->engine.contexts);
	pub->async_fd = event_fd_open();
}

static void node_open(struct world *world, int index, bool is_ipv6, size_t buf_bytes)
{
	struct world_node *node = &world->nodes[index];
	struct ibv_context *pub = &node->context.pub.context;

	set_gid(node->gid, index, is_ipv6);
	engine_open(&node->engine, FIRST_SLOT + (uint32_t)index);
	device_open(node);
	context_open(node);
	node->link = sim_link_new(world->net, node->gid);
	must(node->link != NULL);
	roce_set_link(&node->engine, node->link, world_clock, world);
	node->buf = calloc(1, buf_bytes);
	node->buf_bytes = buf_bytes;
	node->pd = ibv_alloc_pd(pub);
	node->send_cq = ibv_create_cq(pub, WORLD_CQE, NULL, NULL, 0);
	node->recv_cq = ibv_create_cq(pub, WORLD_CQE, NULL, NULL, 0);
	must(node->buf && node->pd && node->send_cq && node->recv_cq);
	node->mr = ibv_reg_mr(node->pd, node->buf, buf_bytes,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	must(node->mr != NULL);
}

void world_open(struct world *world, uint64_t seed, int node_count, bool is_ipv6, size_t buf_bytes,
		const struct sim_faults *faults)
{
	memset(world, 0, sizeof(*world));
	world->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	world->now_ns = 1000000000;
	world->node_count = node_count;
	world->net = sim_net_new(seed, faults);
	must(world->net != NULL);
	for (int i = 0; i < node_count; i++)
		node_open(world, i, is_ipv6, buf_bytes);
}

static void node_close(struct world_node *node)
{
	must(ibv_dereg_mr(node->mr) == 0);
	must(ibv_destroy_cq(node->send_cq) == 0);
	must(ibv_destroy_cq(node->recv_cq) == 0);
	must(ibv_dealloc_pd(node->pd) == 0);
	roce_set_link(&node->engine, NULL, NULL, NULL);
	link_close(node->link);
	engine_close(&node->engine);
	close(node->context.pub.context.async_fd);
	free(node->buf);
}

void world_close(struct world *world)
{
	for (int i = 0; i < world->node_count; i++)
		node_close(&world->nodes[i]);
	sim_net_free(world->net);
}

struct ibv_qp *world_create_qp(struct world_node *node, const struct world_qp_attr *attr)
{
	struct ibv_qp_init_attr init = {
		.qp_type = attr->type,
		.send_cq = node->send_cq,
		.recv_cq = node->recv_cq,
		.cap = {.max_send_wr = attr->max_wr,
			.max_recv_wr = attr->max_wr,
			.max_send_sge = 3,
			.max_recv_sge = 3,
			.max_inline_data = 64},
	};
	struct ibv_qp *qp = ibv_create_qp(node->pd, &init);

	must(qp != NULL);
	return qp;
}

static void to_init(struct ibv_qp *qp, const struct world_qp_attr *attr)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = attr->access};

	must(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
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
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	must(ibv_modify_qp(qp, &a, mask) == 0);
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

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	must(ibv_modify_qp(qp, &a, mask) == 0);
}

void world_connect_to(struct ibv_qp *qp, const uint8_t *peer_gid, uint32_t peer_qpn,
		      uint32_t rq_psn, uint32_t sq_psn, const struct world_qp_attr *attr)
{
	to_init(qp, attr);
	to_rtr(qp, peer_gid, peer_qpn, rq_psn, attr);
	to_rts(qp, sq_psn, attr);
}

void world_connect(struct world_node *a, struct ibv_qp *qp_a, struct world_node *b,
		   struct ibv_qp *qp_b, const struct world_qp_attr *attr)
{
	world_connect_to(qp_a, b->gid, qp_b->qp_num, attr->psns[1], attr->psns[0], attr);
	world_connect_to(qp_b, a->gid, qp_a->qp_num, attr->psns[0], attr->psns[1], attr);
}

bool world_turn(struct world *world)
{
	bool has_done = false;

	sim_net_advance(world->net, world->now_ns);
	for (int i = 0; i < world->node_count; i++) {
		struct engine *engine = &world->nodes[i].engine;

		engine_lock(engine);
		if (timer_expire(&engine->timers, world->now_ns))
			has_done = true;
		while (roce_transport.run(engine, world->now_ns))
			has_done = true;
		engine_unlock(engine);
	}
	return has_done;
}

bool world_step(struct world *world)
{
	uint64_t next_ns;

	if (world_turn(world))
		return true;
	next_ns = sim_net_next(world->net);
	for (int i = 0; i < world->node_count; i++) {
		uint64_t due_ns = timer_next_deadline(&world->nodes[i].engine.timers);

		if (due_ns < next_ns)
			next_ns = due_ns;
	}
	if (next_ns == TIMER_NEVER_NS)
		return false;
	if (next_ns > world->now_ns)
		world->now_ns = next_ns;
	return true;
}

bool world_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct engine *engine = to_cq(cq)->context->engine;
	bool is_got;

	/* With the lock held elsewhere a poll only looks. */
	pthread_mutex_lock(&engine->lock);
	is_got = to_cq(cq)->head != to_cq(cq)->tail && ibv_poll_cq(cq, 1, wc) == 1;
	pthread_mutex_unlock(&engine->lock);
	return is_got;
}
