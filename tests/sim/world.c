/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../with_locks.h"
#include "core/object/event_fd.h"

static int road_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		     bool may_connect)
{
	struct world_node *node = container_of(engine, struct world_node, engine);
	struct world *world = node->world;

	if (!world->road.send)
		return -EOPNOTSUPP;
	return world->road.send(world, (int)(node - world->nodes), slot, pieces, count,
				may_connect);
}

static const struct xrc_forward_carrier road_carrier = {.send = road_send};

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

static void set_gid(uint8_t *gid, int index, bool is_ipv6)
{
	const uint8_t ipv4[GID_BYTES] = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(index + 1)};
	const uint8_t ipv6[GID_BYTES] = {0xfd, [15] = (uint8_t)(index + 1)};

	memcpy(gid, is_ipv6 ? ipv6 : ipv4, GID_BYTES);
}

static void xrc_srq_open(struct world_node *node)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = WORLD_CQE / 4, .max_sge = 3},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = node->pd,
		.xrcd = node->xrcd,
		.cq = node->recv_cq,
	};

	node->xrc_srq = ibv_create_srq_ex(&node->context.pub.context, &attr);
	sim_must(node->xrc_srq && ibv_get_srq_num(node->xrc_srq, &node->xrc_srqn) == 0);
}

static void node_start(struct world *world, struct world_node *node)
{
	struct ibv_context *pub = &node->context.pub.context;
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = WORLD_CQE / 4, .max_sge = 3}};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	node->world = world;
	memset(&node->engine, 0, sizeof(node->engine));
	memset(&node->device, 0, sizeof(node->device));
	memset(&node->context, 0, sizeof(node->context));
	sim_engine_open(&node->engine, WORLD_FIRST_SLOT + (uint32_t)(node - world->nodes));
	node->engine.xrc_forward.carrier = &road_carrier;
	sim_device_open(&node->device, node->gid);
	sim_context_open(&node->context, &node->engine, &node->device, event_fd_open());
	WITH_LOCKS(&node->engine, roce_set_link(&node->engine, node->link, world_clock, world));
	node->pd = ibv_alloc_pd(pub);
	node->send_cq = ibv_create_cq(pub, WORLD_CQE, NULL, NULL, 0);
	node->recv_cq = ibv_create_cq(pub, WORLD_CQE, NULL, NULL, 0);
	sim_must(node->pd && node->send_cq && node->recv_cq);
	node->srq = ibv_create_srq(node->pd, &srq);
	node->xrcd = ibv_open_xrcd(pub, &xrcd);
	node->mr = ibv_reg_mr(node->pd, node->buf, node->buf_bytes,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL);
	sim_must(node->srq && node->xrcd && node->mr);
	xrc_srq_open(node);
}

static void node_open(struct world *world, int index, bool is_ipv6, size_t buf_bytes)
{
	struct world_node *node = &world->nodes[index];

	set_gid(node->gid, index, is_ipv6);
	node->link = sim_link_new(world->net, node->gid);
	node->buf = calloc(1, buf_bytes);
	node->buf_bytes = buf_bytes;
	sim_must(node->link && node->buf);
	node_start(world, node);
}

void world_open(struct world *world, uint64_t seed, int node_count, bool is_ipv6, size_t buf_bytes,
		const struct sim_faults *faults)
{
	memset(world, 0, sizeof(*world));
	world->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	world->now_ns = 1000000000;
	world->node_count = node_count;
	world->net = sim_net_new(seed, faults);
	sim_must(world->net != NULL);
	sim_net_advance(world->net, world->now_ns);
	for (int i = 0; i < node_count; i++)
		node_open(world, i, is_ipv6, buf_bytes);
}

void world_share_host(struct world *world, int first)
{
	const uint8_t *gid = world->nodes[first].gid;

	for (int i = first; i < world->node_count; i++) {
		struct world_node *node = &world->nodes[i];

		link_close(node->link);
		memmove(node->gid, gid, GID_BYTES);
		memcpy(node->device.info.gids[0].raw, gid, GID_BYTES);
		node->link = sim_link_new(world->net, node->gid);
		sim_must(node->link != NULL);
		sim_link_share(node->link, node->engine.slot << IPC_SLOT_SHIFT, IPC_SLOT_QPNS);
		WITH_LOCKS(&node->engine,
			   roce_set_link(&node->engine, node->link, world_clock, world));
	}
}

static void node_end(struct world_node *node)
{
	sim_must(ibv_dereg_mr(node->mr) == 0);
	sim_must(ibv_destroy_srq(node->srq) == 0);
	sim_must(ibv_destroy_srq(node->xrc_srq) == 0);
	sim_must(ibv_close_xrcd(node->xrcd) == 0);
	sim_must(ibv_destroy_cq(node->send_cq) == 0);
	sim_must(ibv_destroy_cq(node->recv_cq) == 0);
	sim_must(ibv_dealloc_pd(node->pd) == 0);
	WITH_LOCKS(&node->engine, roce_set_link(&node->engine, NULL, NULL, NULL));
	sim_engine_close(&node->engine);
	close(node->context.pub.context.async_fd);
}

void world_kill(struct world_node *node)
{
	sim_link_cut(node->link, true);
}

void world_revive(struct world *world, struct world_node *node)
{
	node_end(node);
	sim_link_cut(node->link, false);
	node_start(world, node);
}

void world_close(struct world *world)
{
	for (int i = 0; i < world->node_count; i++) {
		node_end(&world->nodes[i]);
		link_close(world->nodes[i].link);
		free(world->nodes[i].buf);
	}
	sim_net_free(world->net);
}

static struct ibv_qp *create_xrc_recv_qp(struct world_node *node)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = node->xrcd,
	};

	return ibv_create_qp_ex(&node->context.pub.context, &init);
}

/* Creates the queue pair with struct ibv_qp_ex, which FLUSH requires. */
static struct ibv_qp *create_rc_qp(struct world_node *node, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.pd = node->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH,
	};

	return ibv_create_qp_ex(&node->context.pub.context, &init);
}

struct ibv_qp *world_create_qp(struct world_node *node, const struct world_qp_attr *attr)
{
	struct ibv_qp_init_attr init = {
		.qp_type = attr->type,
		.send_cq = node->send_cq,
		.recv_cq = node->recv_cq,
		.srq = attr->has_srq ? node->srq : NULL,
		.cap = {.max_send_wr = attr->max_wr,
			.max_recv_wr = attr->max_wr,
			.max_send_sge = 3,
			.max_recv_sge = 3,
			.max_inline_data = 64},
	};
	struct ibv_qp *qp;

	if (attr->type == IBV_QPT_XRC_RECV)
		qp = create_xrc_recv_qp(node);
	else if (attr->type == IBV_QPT_RC)
		qp = create_rc_qp(node, &init);
	else
		qp = ibv_create_qp(node->pd, &init);
	sim_must(qp != NULL);
	return qp;
}

void world_reset_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	sim_must(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
}

void world_ready(struct ibv_qp *qp, const struct world_qp_attr *attr)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = attr->qkey};

	sim_must(ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	sim_must(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = attr->psns[0];
	sim_must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

struct ibv_ah *world_create_ah(struct world_node *node, const uint8_t *gid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;

	memcpy(attr.grh.dgid.raw, gid, GID_BYTES);
	ah = ibv_create_ah(node->pd, &attr);
	sim_must(ah != NULL);
	return ah;
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

		if (world->nodes[i].stalled_until_ns > world->now_ns)
			continue;
		engine_lock(engine);
		if (timer_expire(&engine->timers, world->now_ns))
			has_done = true;
		while (roce_transport.run(engine))
			has_done = true;
		if (world->road.deliver && world->road.deliver(world, i))
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
	if (world->road.next_ns && world->road.next_ns(world) < next_ns)
		next_ns = world->road.next_ns(world);
	for (int i = 0; i < world->node_count; i++) {
		uint64_t due_ns = timer_next_deadline(&world->nodes[i].engine.timers);

		if (world->nodes[i].stalled_until_ns > world->now_ns)
			due_ns = world->nodes[i].stalled_until_ns;
		if (due_ns < next_ns)
			next_ns = due_ns;
	}
	if (next_ns == TIMER_NEVER_NS)
		return false;
	if (next_ns > world->now_ns)
		world->now_ns = next_ns;
	return true;
}
