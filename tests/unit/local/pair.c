/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../../with_locks.h"
#include "base/clock.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/engine_watch.h"
#include "core/engine/transport.h"
#include "core/object/event_fd.h"
#include "core/qp/xrc.h"
#include "ipc/segment.h"

#define FIRST_SLOT 1

/* The set-up must not fail; used by tests and by fuzz targets. */
#define must(condition) must_at(condition, __LINE__)

extern const struct transport local_transport;

static void must_at(bool is_true, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "pair.c:%d: set-up failed\n", line);
	abort();
}

bool __wrap_device_owns_gid(struct engine *engine, const union ibv_gid *gid);
bool __wrap_device_may_own_gid(struct engine *engine, const union ibv_gid *gid);

bool __wrap_device_owns_gid(struct engine *engine, const union ibv_gid *gid)
{
	(void)engine;
	return gid->raw[0] != PAIR_FOREIGN_GID;
}

bool __wrap_device_may_own_gid(struct engine *engine, const union ibv_gid *gid)
{
	return __wrap_device_owns_gid(engine, gid);
}

static void engine_open(struct engine *engine, uint32_t slot, int *segment_fd)
{
	biased_lock_init(&engine->lock);
	engine->slot = slot;
	engine->watches.doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	engine->watches.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	engine->watches.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->notices.fd = -1;
	engine->client.fd = -1;
	pthread_mutex_init(&engine->client.lock, NULL);
	engine->watches.timer_armed_ns = TIMER_NEVER_NS;
	id_table_init(&engine->watches.table, WATCHES_MAX);
	timer_heap_init(&engine->timers);
	engine_init_lists(engine);
	datagrams_init(&engine->datagrams);
	id_table_init32(&engine->tables.mrs, MAX_MRS);
	id_table_init_random(&engine->tables.mws, MAX_MWS, MW_HANDLE_BITS, &engine->tables.random);
	id_table_init32(&engine->tables.pds, MAX_PDS);
	id_table_init32(&engine->tables.dms, MAX_DMS);
	xrc_domains_init(engine);
	xrc_forward_init(&engine->xrc_forward);
	xrc_remote_init(&engine->xrc_remote);
	must(qp_table_init(&engine->tables.qps) == 0);
	WITH_LOCKS(engine, must(local_transport.open(engine, segment_fd) == 0));
	/* The test's thread acts as the thread of both engines. */
	must((local_transport.thread_begins(engine)) == 0);
	/* No doorbell is used: the test runs the engines. */
	engine->progress.state = PROGRESS_POLLED;
}

static void engine_close(struct engine *engine)
{
	local_transport.thread_ends(engine);
	WITH_LOCKS(engine, local_transport.close(engine));
	qp_table_fini(&engine->tables.qps);
	id_table_fini(&engine->tables.mrs);
	id_table_fini(&engine->tables.mws);
	id_table_fini(&engine->tables.pds);
	id_table_fini(&engine->tables.dms);
	xrc_forward_fini(&engine->xrc_forward);
	id_table_fini(&engine->watches.table);
	free(engine->xrc.srqs);
	close(engine->watches.doorbell_fd);
	close(engine->watches.timer_fd);
	close(engine->watches.epoll_fd);
	biased_lock_fini(&engine->lock);
}

static void node_open(struct node *node, uint32_t slot)
{
	struct ibv_context *pub = &node->context.pub.context;

	engine_open(&node->engine, slot, &node->segment_fd);
	node->device.dev_id = 1;
	node->device.info.dev_id = 1;
	node->device.info.netdev_mtu_bytes = 65536;
	node->device.info.gid_count = 1;
	node->device.info.gids[0].is_valid = 1;
	node->device.info.flags = IPC_DEVICE_UP;
	node->device.is_present = true;
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
	list_add_tail(&node->context.node, &node->engine.tables.contexts);
	pub->async_fd = event_fd_open();
	node->pd = ibv_alloc_pd(pub);
	node->cq = ibv_create_cq(pub, 4096, NULL, NULL, 0);
	node->buf = calloc(1, PAIR_BUF_BYTES);
	must(node->pd != NULL);
	must(node->cq != NULL);
	node->mr = ibv_reg_mr(node->pd, node->buf, PAIR_BUF_BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      IBV_ACCESS_FLUSH_GLOBAL);
	must(node->mr != NULL);
}

static void connect_peer(struct node *to, struct node *peer, int pair_fd, int doorbell_fd,
			 uint32_t side, bool is_same_uid)
{
	struct ipc_peer notice = {
		.hdr = {.type = IPC_PEER, .len = sizeof(notice)},
		.slot = peer->engine.slot,
		.flags = is_same_uid ? IPC_PEER_SAME_UID : 0,
		.pair_id = 1,
		.pid = getpid(),
		.side = side,
		.pair_bytes = IPC_PAIR_BYTES,
		.segment_bytes = is_same_uid ? SEGMENT_BYTES : 0,
	};
	int fds[3] = {dup(pair_fd), doorbell_fd, is_same_uid ? dup(peer->segment_fd) : -1};

	WITH_LOCKS(&to->engine,
		   engine_dispatch_notice(&to->engine, &notice.hdr, fds, is_same_uid ? 3 : 2));
}

void pair_open(struct pair *pair, bool can_reach_memory)
{
	int fd = memfd_create("pair", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int doorbells[2];

	must((socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, doorbells)) ==
	     0);
	memset(pair, 0, sizeof(*pair));
	must(fd >= 0);
	must((ftruncate(fd, IPC_PAIR_BYTES)) == 0);
	must((fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) == 0);
	for (uint32_t i = 0; i < 2; i++)
		node_open(&pair->nodes[i], FIRST_SLOT + i);
	for (uint32_t i = 0; i < 2; i++)
		connect_peer(&pair->nodes[i], &pair->nodes[!i], fd, doorbells[i], i,
			     can_reach_memory);
	close(fd);
}

void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct node *node = &pair->nodes[i];

		must((ibv_dereg_mr(node->mr)) == 0);
		must((ibv_destroy_cq(node->cq)) == 0);
		must((ibv_dealloc_pd(node->pd)) == 0);
		engine_close(&node->engine);
		close(node->context.pub.context.async_fd);
		close(node->segment_fd);
		free(node->buf);
	}
}

struct ibv_qp *pair_create_qp(struct node *node, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = node->cq,
		.recv_cq = node->cq,
		.srq = srq,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 64},
	};
	struct ibv_qp *qp = ibv_create_qp(node->pd, &attr);

	must(qp != NULL);
	return qp;
}

int pair_to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned int)access};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, uint32_t dest_qpn, uint32_t rq_psn, uint8_t min_rnr_timer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = PAIR_READS,
		.min_rnr_timer = min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

int pair_to_rtr(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t min_rnr_timer)
{
	return to_rtr(qp, dest_qpn, 0, min_rnr_timer);
}

static int to_rts(struct ibv_qp *qp, uint32_t sq_psn, uint8_t rnr_retry, uint8_t retry_cnt,
		  uint8_t timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = timeout,
		.retry_cnt = retry_cnt,
		.rnr_retry = rnr_retry,
		.max_rd_atomic = PAIR_READS,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int pair_to_rts(struct ibv_qp *qp, uint8_t rnr_retry, uint8_t retry_cnt, uint8_t timeout)
{
	return to_rts(qp, 0, rnr_retry, retry_cnt, timeout);
}

static int allow_all(struct ibv_qp *qp)
{
	const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL;

	return pair_to_init(qp, qp->qp_type == IBV_QPT_RC ? access : IBV_ACCESS_REMOTE_WRITE);
}

void pair_connect_to(struct ibv_qp *qp, uint32_t dest_qpn, uint32_t rq_psn, uint32_t sq_psn)
{
	must((allow_all(qp)) == 0);
	must((to_rtr(qp, dest_qpn, rq_psn, 1)) == 0);
	must((to_rts(qp, sq_psn, 7, 7, 1)) == 0);
}

void pair_connect(struct ibv_qp *a, struct ibv_qp *b)
{
	must((allow_all(a)) == 0);
	must((allow_all(b)) == 0);
	must((pair_to_rtr(a, b->qp_num, 1)) == 0);
	must((pair_to_rtr(b, a->qp_num, 1)) == 0);
	must((pair_to_rts(a, 7, 7, 1)) == 0);
	must((pair_to_rts(b, 7, 7, 1)) == 0);
}

void pair_open_connected(struct pair *pair, struct ibv_qp *qps[2], enum ibv_qp_type type,
			 bool can_reach_memory)
{
	pair_open(pair, can_reach_memory);
	for (int i = 0; i < 2; i++)
		qps[i] = pair_create_qp(&pair->nodes[i], type, NULL);
	pair_connect(qps[0], qps[1]);
}

void pair_close_connected(struct pair *pair, struct ibv_qp *qps[2])
{
	for (int i = 0; i < 2; i++)
		must(!qps[i] || ibv_destroy_qp(qps[i]) == 0);
	pair_close(pair);
}

void pair_ready(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	must((ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) == 0);
	attr.qp_state = IBV_QPS_RTR;
	must((ibv_modify_qp(qp, &attr, IBV_QP_STATE)) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must((ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)) == 0);
}

struct ibv_ah *pair_create_ah(struct node *node)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.hop_limit = 3, .traffic_class = 0x44, .flow_label = 0x12345},
	};
	struct ibv_ah *ah = ibv_create_ah(node->pd, &attr);

	must(ah != NULL);
	return ah;
}

unsigned int node_turn(struct node *node)
{
	unsigned int done;

	engine_lock(&node->engine);
	done = timer_expire(&node->engine.timers, clock_now_ns());
	done += local_transport.run(&node->engine);
	engine_unlock(&node->engine);
	return done;
}

void pair_settle(struct pair *pair)
{
	while (node_turn(&pair->nodes[0]) + node_turn(&pair->nodes[1]))
		;
}

bool poll_cq_once(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct engine *engine = to_cq(cq)->context->engine;
	bool is_got;

	/* If another thread holds the lock, a poll only reads the CQ. */
	engine_lock(engine);
	is_got = to_cq(cq)->head != to_cq(cq)->tail && ibv_poll_cq(cq, 1, wc) == 1;
	engine_unlock(engine);
	return is_got;
}
