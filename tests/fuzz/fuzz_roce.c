/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/object/opcode.h"
#include "roce_life.h"

/*
 * A hostile peer with valid addresses sends arbitrary packets with valid ICRCs to a connected queue
 * pair that has outstanding requests. The peer receives the packets of the queue pair and sends
 * correct or slightly wrong responses. The link may be full, memory regions are registered and
 * deregistered, and the application changes the state of the queue pair. Invariants: memory outside
 * the region does not change, every work request completes once and in order, all sent packets are
 * well-formed, and after the peer has stopped sending, all work requests complete.
 *
 * The input is a list of operations, each one byte followed by its operands; see operate().
 * Targets: all of roce/.
 */
#define OUTSTANDING 16u
#define STEPS_MAX   100000
#define OPS_MAX	    512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void post_recv(struct life *life)
{
	struct world_node *node = life->peer.node;
	uint8_t size = life_next(life);
	struct ibv_sge sge[2] = {{(uintptr_t)node->buf, size * 8u, node->mr->lkey},
				 {(uintptr_t)node->buf + 4096, size & 3 ? size : 0,
				  node->mr->lkey ^ (size == 251)}};
	struct ibv_recv_wr wr = {.wr_id = life->recvs, .sg_list = sge, .num_sge = 2}, *bad;

	if (life->recvs - life->recvs_done < OUTSTANDING &&
	    !(life_is_xrc(life) ? ibv_post_srq_recv(node->xrc_srq, &wr, &bad) :
				  ibv_post_recv(life->peer.qp, &wr, &bad)))
		life->recvs++;
}

static void aim_bind(struct life *life, struct ibv_send_wr *wr)
{
	uint32_t low = 0xff;

	if (!life->window)
		return;
	life->window_rkey = (life->window->rkey & ~low) | life_next(life);
	wr->num_sge = 0;
	wr->bind_mw.mw = life->window;
	wr->bind_mw.rkey = life->window_rkey;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = life->offered,
		.addr = (uintptr_t)life->memory + OFFERED_BYTES,
		.length = OFFERED_BYTES / 2,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
}

static void aim(struct life *life, struct ibv_send_wr *wr)
{
	if (life_is_xrc(life))
		wr->qp_type.xrc.remote_srqn = life->peer.node->xrc_srqn;
	if (wr->opcode == IBV_WR_BIND_MW) {
		aim_bind(life, wr);
		return;
	}
	if (wr->opcode == IBV_WR_LOCAL_INV) {
		wr->invalidate_rkey = life->window_rkey;
		return;
	}
	if (life->peer.qp->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = life->ah;
		wr->wr.ud.remote_qpn = PEER_QPN;
		wr->wr.ud.remote_qkey = PEER_QKEY;
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = 0x1000;
		wr->wr.atomic.rkey = 0x77;
	} else {
		wr->wr.rdma.remote_addr = 0x1000;
		wr->wr.rdma.rkey = 0x77;
	}
}

static int post_flush(struct life *life, const struct ibv_send_wr *wr, uint8_t how)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(life->peer.qp);

	if (!ex)
		return EINVAL;
	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	ibv_wr_flush(ex, 0x77, 0x1000, wr->sg_list[0].length, how >> 6, how >> 4 & 1);
	return ibv_wr_complete(ex);
}

static void post_send(struct life *life)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_LOCAL_INV,
		IBV_WR_BIND_MW,
		IBV_WR_ATOMIC_WRITE,
		IBV_WR_FLUSH,
	};
	struct world_node *node = life->peer.node;
	uint8_t what = life_next(life), how = life_next(life);
	uint32_t size = life_next(life);
	struct ibv_sge sge[3] = {{(uintptr_t)node->buf, size, node->mr->lkey},
				 {(uintptr_t)node->buf + 1000, 0, node->mr->lkey},
				 {(uintptr_t)node->buf + 2000, 0, node->mr->lkey}};
	struct ibv_send_wr wr = {.wr_id = life->sends, .sg_list = sge, .num_sge = 1}, *bad;

	wr.opcode = opcodes[what % (sizeof(opcodes) / sizeof(opcodes[0]))];
	if (wr_opcodes[wr.opcode].exact_bytes)
		sge[0].length = wr_opcodes[wr.opcode].exact_bytes;
	else if (how & 1)
		sge[0].length = size * (how & 64 ? 1000 : 64);
	if (how & 2) {
		wr.num_sge = 3;
		sge[1].length = how >> 4;
		sge[2].length = size;
	}
	if (how == 0xff)
		sge[0].lkey ^= 0x5a5a5a;
	wr.send_flags = (how & 4 ? IBV_SEND_SIGNALED : 0u) | (how & 8 ? IBV_SEND_FENCE : 0u) |
			(how & 16 ? IBV_SEND_SOLICITED : 0u) | (how & 32 ? IBV_SEND_INLINE : 0u);
	aim(life, &wr);
	if (life->sends - life->sends_done < OUTSTANDING &&
	    !(wr.opcode == IBV_WR_FLUSH ? post_flush(life, &wr, how) :
					  ibv_post_send(life->peer.qp, &wr, &bad)))
		life->sends++;
}

static void reconnect(struct life *life)
{
	const struct world_qp_attr attr = {
		.type = life->peer.qp->qp_type,
		.mtu = IBV_MTU_256,
		.timeout = 14,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.rd_atomic = 1,
		.access = IBV_ACCESS_REMOTE_WRITE,
		.qkey = PEER_QKEY,
	};

	world_reset_qp(life->peer.qp);
	life->sends_done = life->sends;
	/* A reset of the QP does not remove WQEs from its SRQ. */
	if (!life_is_xrc(life))
		life->recvs_done = life->recvs;
	life->seen_count = 0;
	if (attr.type == IBV_QPT_UD)
		world_ready(life->peer.qp, &attr);
	else
		world_connect_to(life->peer.qp, peer_gid, PEER_QPN, PEER_FIRST_PSN, PEER_SECOND_PSN,
				 &attr);
}

static void change_state(struct life *life)
{
	uint8_t what = life_next(life);
	struct ibv_qp_attr attr = {.en_sqd_async_notify = 1};
	int mask = IBV_QP_STATE;

	if (what < 0x10) {
		reconnect(life);
		return;
	}
	attr.qp_state = what & 1 ? IBV_QPS_RTS : IBV_QPS_SQD;
	if (what >= 0xf0)
		attr.qp_state = IBV_QPS_ERR;
	if (attr.qp_state == IBV_QPS_SQD && what & 2)
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	/* An illegal transition is refused. */
	(void)ibv_modify_qp(life->peer.qp, &attr, mask);
}

/*
 * Deregisters or registers the region, also while operations that use it are outstanding.
 * Deregistration fails while a memory window is bound.
 */
static void change_region(struct life *life)
{
	if (life->offered) {
		int ret = ibv_dereg_mr(life->offered);

		check(!ret || ret == EBUSY);
		if (!ret)
			life->offered = NULL;
		return;
	}
	life->offered = ibv_reg_mr(life->peer.node->pd, life->memory + OFFERED_BYTES, OFFERED_BYTES,
				   IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE |
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL);
	check(life->offered != NULL);
}

static void change_weather(struct life *life)
{
	uint8_t how = life_next(life);

	life->faults = (struct sim_faults){
		.refuse = how & 1 ? (how & 2 ? SIM_CERTAIN : SIM_CERTAIN / 3) : 0,
		.hides_ip_id = how & 4,
	};
	sim_net_set_faults(life->peer.world.net, &life->faults);
	/* The ECN bits: CE, ECT or Not-ECT. */
	life->peer.path.traffic_class = how >> 3 & 3;
}

/* Receives and checks the packets that the queue pair sent, and stores its requests. */
static void look(struct life *life)
{
	struct packet packet;

	while (peer_next(&life->peer, &packet)) {
		if (!packet.info->is_request)
			continue;
		if (life->seen_count == SEEN_MAX)
			memmove(life->seen, life->seen + 1, --life->seen_count * sizeof(packet));
		/* The payload is owned by the link. */
		packet.payload = NULL;
		life->seen[life->seen_count++] = packet;
	}
}

static void drain(struct life *life)
{
	struct ibv_wc wc;

	while (world_poll(life->peer.node->send_cq, &wc)) {
		check(wc.wr_id >= life->sends_done && wc.wr_id < life->sends);
		life->sends_done = wc.wr_id + 1;
	}
	while (world_poll(life->peer.node->recv_cq, &wc)) {
		check(wc.wr_id >= life->recvs_done && wc.wr_id < life->recvs);
		/*
		 * A receive WQE that the QP had dequeued from its SRQ before a reset does not
		 * complete.
		 */
		check(wc.wr_id == life->recvs_done || life_is_xrc(life));
		life->recvs_done = wc.wr_id + 1;
	}
	/* Unsignaled WQEs are complete when the send queue is empty. */
	if (to_qp(life->peer.qp)->sq.una == to_qp(life->peer.qp)->sq.head)
		life->sends_done = life->sends;
}

static void operate(struct life *life)
{
	uint8_t what = life_next(life);

	switch (what % 16) {
	case 0:
	case 1:
		post_recv(life);
		break;
	case 2:
	case 3:
		post_send(life);
		break;
	case 4:
		life->peer.world.now_ns += UINT64_C(1000000) << (what >> 4) % 8;
		break;
	case 5:
		change_state(life);
		break;
	case 6:
		if ((what & 0x70) == 0)
			change_region(life);
		life->is_ahead = what & 0x10;
		life->takes_ahead = what & 0x20;
		break;
	case 7:
		change_weather(life);
		break;
	case 8:
		hand_answer_one(life);
		break;
	case 9:
		hand_acknowledge(life);
		break;
	case 10:
		hand_send_message(life);
		break;
	case 11:
		hand_send_again(life);
		break;
	default:
		hand_send_some(life);
		break;
	}
	/* Bit 7: do not process the packets yet, so that several arrive at once. */
	if (what & 0x80)
		return;
	peer_settle(&life->peer);
	look(life);
	drain(life);
}

static void life_open(struct life *life)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC,	  IBV_QPT_RC, IBV_QPT_UC,
						 IBV_QPT_UD,	  IBV_QPT_UD, IBV_QPT_XRC_RECV,
						 IBV_QPT_XRC_SEND};
	uint8_t which = life_next(life) % (sizeof(types) / sizeof(types[0]));
	enum ibv_qp_type type = types[which];
	unsigned access = IBV_ACCESS_REMOTE_WRITE;

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_FLUSH_GLOBAL;
	peer_open(&life->peer, type, access);
	/* The registered third has guard areas on both sides. */
	life->memory = malloc(3 * OFFERED_BYTES);
	check(life->memory != NULL);
	memset(life->memory, 0x5a, 3 * OFFERED_BYTES);
	change_region(life);
	if (type != IBV_QPT_UD) {
		life->window = ibv_alloc_mw(life->peer.node->pd, IBV_MW_TYPE_2);
		check(life->window != NULL);
	}
	life->is_in_group = which == 4;
	if (life->is_in_group)
		check(ibv_attach_mcast(life->peer.qp, &peer_group, 0) == 0);
	life->ah = world_create_ah(life->peer.node, life->is_in_group ? peer_group.raw : peer_gid);
}

/* The peer stops sending: all send WQEs must complete, with success or error. */
static void fall_silent(struct life *life)
{
	const struct sim_faults none = {0};
	const struct qp *qp = to_qp(life->peer.qp);
	int steps = 0;

	sim_net_set_faults(life->peer.world.net, &none);
	while (world_step(&life->peer.world)) {
		check(++steps < STEPS_MAX);
		look(life);
		drain(life);
	}
	drain(life);
	check(qp->state == IBV_QPS_SQD || qp->sq.una == qp->sq.head);
}

static void life_close(struct life *life)
{
	for (unsigned i = 0; i < OFFERED_BYTES; i++)
		check(life->memory[i] == 0x5a && life->memory[2 * OFFERED_BYTES + i] == 0x5a);
	if (life->window)
		check(ibv_dealloc_mw(life->window) == 0);
	if (life->offered)
		change_region(life);
	check(!life->offered);
	check(ibv_destroy_ah(life->ah) == 0);
	if (life->is_in_group)
		check(ibv_detach_mcast(life->peer.qp, &peer_group, 0) == 0);
	peer_close(&life->peer);
	free(life->memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct life life;

	memset(&life, 0, sizeof(life));
	life.in = (struct life_input){data, size};
	life_open(&life);
	for (int i = 0; i < OPS_MAX && life.in.left; i++)
		operate(&life);
	peer_settle(&life.peer);
	look(&life);
	drain(&life);
	fall_silent(&life);
	life_close(&life);
	return 0;
}
