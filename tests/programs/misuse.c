/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process with one mistake of those that applications make without a connection. The test reads
 * the explanation of `usrdma why` while the process waits or after it has ended.
 *
 *	misuse CASE DEVICE GID_INDEX
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUF_BYTES  4096u
#define GRH_BYTES  40u
#define DEPTH	   16
#define QKEY	   0x1234u
#define TIMEOUT_MS 2000

struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint8_t *buf;
	uint8_t gid_index;
};

static void __attribute__((noreturn)) fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void require(bool is_true, const char *what)
{
	if (!is_true)
		fail(what);
}

static void open_objects(struct objects *objects, const char *device, const char *gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			objects->context = ibv_open_device(list[i]);
	}
	require(objects->context != NULL, device);
	objects->gid_index = (uint8_t)atoi(gid_index);
	objects->pd = ibv_alloc_pd(objects->context);
	objects->cq = ibv_create_cq(objects->context, 2 * DEPTH, NULL, NULL, 0);
	objects->buf = calloc(1, BUF_BYTES);
	require(objects->buf != NULL, "calloc");
	objects->mr = ibv_reg_mr(objects->pd, objects->buf, BUF_BYTES, IBV_ACCESS_LOCAL_WRITE);
	require(objects->pd && objects->cq && objects->mr, "objects");
}

static void create_qp(struct objects *objects, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = objects->cq,
		.recv_cq = objects->cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	objects->qp = ibv_create_qp(objects->pd, &init);
	require(objects->qp != NULL, "ibv_create_qp");
}

static void create_ud(struct objects *objects)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	create_qp(objects, IBV_QPT_UD);
	require(ibv_modify_qp(objects->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	require(ibv_modify_qp(objects->qp, &attr, IBV_QP_STATE) == 0, "RTR");
	attr.qp_state = IBV_QPS_RTS;
	require(ibv_modify_qp(objects->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
}

/* Sends a datagram to the own queue pair. */
static void send_to_self(struct objects *objects, uint32_t qkey)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.sgid_index = objects->gid_index, .hop_limit = 1},
	};
	struct ibv_sge sge = {(uintptr_t)objects->buf, 100, objects->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.remote_qpn = objects->qp->qp_num, .remote_qkey = qkey},
	};
	struct ibv_send_wr *bad;

	require(ibv_query_gid(objects->context, 1, objects->gid_index, &attr.grh.dgid) == 0, "GID");
	wr.wr.ud.ah = ibv_create_ah(objects->pd, &attr);
	require(wr.wr.ud.ah != NULL, "ibv_create_ah");
	require(ibv_post_send(objects->qp, &wr, &bad) == 0, "ibv_post_send");
}

static void post_recv(struct objects *objects, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)objects->buf, length, objects->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	require(ibv_post_recv(objects->qp, &wr, &bad) == 0, "ibv_post_recv");
}

/* The engine thread of the library receives the datagram. The test ends the process. */
static void __attribute__((noreturn)) wait_for_end(void)
{
	printf("waiting\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void ud_qkey(struct objects *objects)
{
	create_ud(objects);
	post_recv(objects, BUF_BYTES);
	send_to_self(objects, QKEY + 1);
	wait_for_end();
}

static void ud_no_receive(struct objects *objects)
{
	create_ud(objects);
	send_to_self(objects, QKEY);
	wait_for_end();
}

static void ud_short_receive(struct objects *objects)
{
	create_ud(objects);
	post_recv(objects, GRH_BYTES + 99);
	send_to_self(objects, QKEY);
	wait_for_end();
}

/* No mistake: the GRH of a datagram to the own queue pair contains the own GID twice. */
static void ud_grh(struct objects *objects)
{
	const struct ibv_grh *grh = (const struct ibv_grh *)(const void *)objects->buf;
	union ibv_gid gid;
	struct ibv_wc wc;
	int done = 0;

	create_ud(objects);
	post_recv(objects, BUF_BYTES);
	send_to_self(objects, QKEY);
	for (int received = 0; !received; received = done && wc.opcode == IBV_WC_RECV) {
		done = ibv_poll_cq(objects->cq, 1, &wc);
		require(done >= 0 && (!done || wc.status == IBV_WC_SUCCESS), "completion");
	}
	require(ibv_query_gid(objects->context, 1, objects->gid_index, &gid) == 0, "GID");
	require(!memcmp(&grh->sgid, &gid, sizeof(gid)), "sgid");
	require(!memcmp(&grh->dgid, &gid, sizeof(gid)), "dgid");
}

static struct rdma_cm_event *next_event(struct rdma_cm_id *id, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	require(rdma_get_cm_event(id->channel, &event) == 0, "rdma_get_cm_event");
	require(event->event == wanted, rdma_event_str(event->event));
	return event;
}

/* The id of an active side whose last event is not acknowledged. */
static struct rdma_cm_id *resolve(struct rdma_cm_event **event)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(7999),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;

	require(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	require(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS) == 0,
		"rdma_resolve_addr");
	*event = next_event(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return id;
}

static void unacked_event(struct objects *objects)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = resolve(&event);

	(void)objects;
	rdma_destroy_id(id);
	printf("rdma_destroy_id() returned before rdma_ack_cm_event()\n");
	exit(EXIT_FAILURE);
}

static void private_data(struct objects *objects)
{
	static const uint8_t data[200];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = resolve(&event);

	(void)objects;
	rdma_ack_cm_event(event);
	require(rdma_resolve_route(id, TIMEOUT_MS) == 0, "rdma_resolve_route");
	rdma_ack_cm_event(next_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED));
	require(rdma_create_qp(id, NULL, &init) == 0, "rdma_create_qp");
	require(rdma_connect(id, &param) != 0 && errno == EINVAL, "rdma_connect");
}

/* The limit of an SRQ without receives: the event is generated immediately. */
static void srq_limit(struct objects *objects)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(objects->pd, &init);

	require(srq != NULL, "ibv_create_srq");
	init.attr.srq_limit = 4;
	require(ibv_modify_srq(srq, &init.attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
}

/* Connects the queue pair to one of this process, or to itself. */
static void connect_qp(struct objects *objects, enum ibv_qp_type type, uint32_t peer_qpn)
{
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	require(ibv_modify_qp(objects->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0,
		"INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = objects->gid_index, .hop_limit = 1}},
	};
	require(ibv_query_gid(objects->context, 1, objects->gid_index, &attr.ah_attr.grh.dgid) == 0,
		"GID");
	require(ibv_modify_qp(objects->qp, &attr, rtr) == 0, "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 10, .max_rd_atomic = 1};
	require(ibv_modify_qp(objects->qp, &attr, rts) == 0, "RTS");
}

static void connect_to_self(struct objects *objects, enum ibv_qp_type type)
{
	create_qp(objects, type);
	connect_qp(objects, type, objects->qp->qp_num);
}

/* Two messages: the first one is complete for a receiver that expects any PSN. */
static void send_unreliable(struct objects *objects, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)objects->buf, BUF_BYTES, objects->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .wr.rdma = {(uintptr_t)objects->buf, objects->mr->rkey}};
	struct ibv_send_wr *bad;

	for (int i = 0; i < 2; i++)
		require(ibv_post_send(objects->qp, &wr, &bad) == 0, "ibv_post_send");
	wait_for_end();
}

static void uc_no_receive(struct objects *objects)
{
	connect_to_self(objects, IBV_QPT_UC);
	send_unreliable(objects, IBV_WR_SEND);
}

/* The memory region lacks IBV_ACCESS_REMOTE_WRITE. */
static void uc_write(struct objects *objects)
{
	connect_to_self(objects, IBV_QPT_UC);
	send_unreliable(objects, IBV_WR_RDMA_WRITE);
}

/* A fault rule of the test loses or changes a packet. */
static void uc_loss(struct objects *objects)
{
	connect_to_self(objects, IBV_QPT_UC);
	for (int i = 0; i < 2; i++)
		post_recv(objects, BUF_BYTES);
	send_unreliable(objects, IBV_WR_SEND);
}

/* The memory region lacks IBV_ACCESS_MW_BIND. */
static void bind_window(struct objects *objects)
{
	struct ibv_mw *mw = ibv_alloc_mw(objects->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = objects->mr,
						 .addr = (uintptr_t)objects->buf,
						 .length = 100,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
	struct ibv_wc wc;

	connect_to_self(objects, IBV_QPT_RC);
	require(mw && ibv_bind_mw(objects->qp, mw, &bind) == 0, "ibv_bind_mw");
	while (ibv_poll_cq(objects->cq, 1, &wc) != 1)
		;
	require(wc.status == IBV_WC_MW_BIND_ERR, ibv_wc_status_str(wc.status));
}

static void create_cq(struct objects *objects)
{
	require(!ibv_create_cq(objects->context, 1 << 30, NULL, NULL, 0) && errno == EINVAL,
		"ibv_create_cq");
}

static void create_srq(struct objects *objects)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 0, .max_sge = 1}};

	require(!ibv_create_srq(objects->pd, &init) && errno == EINVAL, "ibv_create_srq");
}

static void alloc_mw(struct objects *objects)
{
	require(!ibv_alloc_mw(objects->pd, (enum ibv_mw_type)7) && errno == EINVAL, "ibv_alloc_mw");
}

static void dealloc_pd(struct objects *objects)
{
	for (int i = 0; i < 3; i++)
		require(ibv_dealloc_pd(objects->pd) == EBUSY, "ibv_dealloc_pd");
}

static void fill_srq(struct objects *objects)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(objects->pd, &init);
	struct ibv_recv_wr wr = {0}, *bad;

	require(srq != NULL, "ibv_create_srq");
	for (uint32_t i = 0; i < init.attr.max_wr; i++)
		require(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
	require(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM, "ibv_post_srq_recv");
}

/* A queue pair for these operations (enum ibv_qp_create_send_ops_flags). */
static struct ibv_qp_ex *create_extended(struct objects *objects, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = objects->cq,
		.recv_cq = objects->cq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = objects->pd,
		.send_ops_flags = operations,
	};

	objects->qp = ibv_create_qp_ex(objects->context, &init);
	require(objects->qp != NULL, "ibv_create_qp_ex");
	return ibv_qp_to_qp_ex(objects->qp);
}

/* The queue pair was created for SEND only. */
static void wr_complete(struct objects *objects)
{
	struct ibv_qp_ex *ex = create_extended(objects, IBV_QP_EX_WITH_SEND);

	connect_qp(objects, IBV_QPT_RC, objects->qp->qp_num);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 0);
	require(ibv_wr_complete(ex) == EINVAL, "ibv_wr_complete");
}

/* The queue pair of the peer does not permit FLUSH. */
static void flush(struct objects *objects)
{
	struct ibv_qp *peer;
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	create_qp(objects, IBV_QPT_RC);
	peer = objects->qp;
	ex = create_extended(objects, IBV_QP_EX_WITH_FLUSH);
	connect_qp(objects, IBV_QPT_RC, peer->qp_num);
	objects->qp = peer;
	connect_qp(objects, IBV_QPT_RC, ex->qp_base.qp_num);
	ibv_wr_start(ex);
	ibv_wr_flush(ex, objects->mr->rkey, (uintptr_t)objects->buf, BUF_BYTES, IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
	require(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
	while (ibv_poll_cq(objects->cq, 1, &wc) == 0)
		continue;
	require(wc.status == IBV_WC_REM_INV_REQ_ERR, "ibv_wr_flush");
}

/* The queues have space for more WRs than the CQ has entries, and nothing is polled. */
static void small_cq(struct objects *objects)
{
	struct ibv_sge sge = {(uintptr_t)objects->buf, 1, objects->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	objects->cq = ibv_create_cq(objects->context, DEPTH - 1, NULL, NULL, 0);
	require(objects->cq != NULL, "ibv_create_cq");
	connect_to_self(objects, IBV_QPT_UC);
	for (int i = 0; i < DEPTH - 2; i++)
		require(ibv_post_send(objects->qp, &wr, &bad) == 0, "ibv_post_send");
	wait_for_end();
}

static void unacked_async_event(struct objects *objects)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(objects->pd, &init);
	struct ibv_async_event event;

	require(srq != NULL, "ibv_create_srq");
	init.attr.srq_limit = 4;
	require(ibv_modify_srq(srq, &init.attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
	require(ibv_get_async_event(objects->context, &event) == 0, "ibv_get_async_event");
	ibv_destroy_srq(srq);
	printf("ibv_destroy_srq() returned before ibv_ack_async_event()\n");
	exit(EXIT_FAILURE);
}

/* The test changes the port. */
static void idle(struct objects *objects)
{
	create_qp(objects, IBV_QPT_RC);
	wait_for_end();
}

static const struct misuse {
	const char *name;
	void (*run)(struct objects *objects);
} misuses[] = {
	{"ud_qkey", ud_qkey},
	{"ud_no_receive", ud_no_receive},
	{"ud_short_receive", ud_short_receive},
	{"ud_grh", ud_grh},
	{"unacked_event", unacked_event},
	{"private_data", private_data},
	{"srq_limit", srq_limit},
	{"bind_window", bind_window},
	{"uc_no_receive", uc_no_receive},
	{"uc_write", uc_write},
	{"uc_loss", uc_loss},
	{"create_cq", create_cq},
	{"create_srq", create_srq},
	{"alloc_mw", alloc_mw},
	{"dealloc_pd", dealloc_pd},
	{"fill_srq", fill_srq},
	{"wr_complete", wr_complete},
	{"flush", flush},
	{"small_cq", small_cq},
	{"unacked_async_event", unacked_async_event},
	{"idle", idle},
};

int main(int argc, char **argv)
{
	struct objects objects = {0};

	for (size_t i = 0; argc == 4 && i < sizeof(misuses) / sizeof(misuses[0]); i++) {
		if (strcmp(misuses[i].name, argv[1]) != 0)
			continue;
		open_objects(&objects, argv[2], argv[3]);
		misuses[i].run(&objects);
		return EXIT_SUCCESS;
	}
	fail("usage: misuse CASE DEVICE GID_INDEX");
}
