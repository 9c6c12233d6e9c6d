/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench-messages [LIST [THREADS]]: prints the processor time of one SEND of 8 bytes, in
 * nanoseconds, sender and receiver together. Each thread sends from one QP of this process to
 * another, LIST work requests at a call, polls both completion queues, and has objects of its own.
 * The lowest of ROUNDS rounds is printed: other processes make a round only longer. Also prints the
 * messages of all threads in a second of wall-clock time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#define ROUNDS	      20
#define ROUND_SENDS   65536u
#define DEPTH	      64u
#define SIGNAL_EVERY  64u /* as perftest: not every send has a completion */
#define MESSAGE_BYTES 8
#define MAX_THREADS   16

struct flow {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *sender;
	struct ibv_qp *receiver;
	uint8_t memory[4096];
	double best_ns;
};

static struct ibv_context *context;
static union ibv_gid gid;
static uint32_t list_length = 1;
static pthread_barrier_t all_are_open;

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void connect_to(struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
	};

	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS),
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER),
		"RTR");
	attr.qp_state = IBV_QPS_RTS;
	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		"RTS");
}

static void flow_open(struct flow *flow)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2 * DEPTH,
			.max_recv_wr = 2 * DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	flow->best_ns = 1e9;
	flow->pd = ibv_alloc_pd(context);
	require(flow->pd, "ibv_alloc_pd");
	flow->mr = ibv_reg_mr(flow->pd, flow->memory, sizeof(flow->memory), IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = flow->send_cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	attr.recv_cq = flow->recv_cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	require(flow->mr && flow->send_cq && flow->recv_cq, "ibv_reg_mr or ibv_create_cq");
	flow->sender = ibv_create_qp(flow->pd, &attr);
	flow->receiver = ibv_create_qp(flow->pd, &attr);
	require(flow->sender && flow->receiver, "ibv_create_qp");
	connect_to(flow->sender, flow->receiver->qp_num);
	connect_to(flow->receiver, flow->sender->qp_num);
}

static uint32_t poll_some(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, 16, wc);

	require(count >= 0, "ibv_poll_cq");
	for (int i = 0; i < count; i++)
		require(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
	return (uint32_t)count;
}

/* Sends DEPTH messages in lists, receives them, and polls the completion of the last send. */
static void flow_burst(struct flow *flow, struct ibv_send_wr *sends, struct ibv_recv_wr *receives)
{
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_receive;
	uint32_t received = 0;

	for (uint32_t sent = list_length; sent <= DEPTH; sent += list_length) {
		sends[list_length - 1].send_flags = sent % SIGNAL_EVERY ? 0 : IBV_SEND_SIGNALED;
		require(!ibv_post_recv(flow->receiver, receives, &bad_receive), "ibv_post_recv");
		require(!ibv_post_send(flow->sender, sends, &bad_send), "ibv_post_send");
	}
	while (received < DEPTH)
		received += poll_some(flow->recv_cq);
	while (!poll_some(flow->send_cq))
		;
}

static void flow_send(struct flow *flow)
{
	struct ibv_sge source = {(uintptr_t)flow->memory, MESSAGE_BYTES, flow->mr->lkey};
	struct ibv_sge target = {(uintptr_t)flow->memory + 2048, MESSAGE_BYTES, flow->mr->lkey};
	struct ibv_send_wr sends[DEPTH] = {{0}};
	struct ibv_recv_wr receives[DEPTH] = {{0}};

	for (uint32_t i = 0; i < list_length; i++) {
		sends[i].opcode = IBV_WR_SEND;
		sends[i].sg_list = &source;
		receives[i].sg_list = &target;
		sends[i].num_sge = receives[i].num_sge = 1;
		sends[i].next = i + 1 < list_length ? &sends[i + 1] : NULL;
		receives[i].next = i + 1 < list_length ? &receives[i + 1] : NULL;
	}
	for (int round = 0; round < ROUNDS; round++) {
		double start_ns = now_ns(CLOCK_THREAD_CPUTIME_ID), each_ns;

		for (uint32_t sent = 0; sent < ROUND_SENDS; sent += DEPTH)
			flow_burst(flow, sends, receives);
		each_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / ROUND_SENDS;
		if (each_ns < flow->best_ns)
			flow->best_ns = each_ns;
	}
}

static void *flow_run(void *arg)
{
	struct flow *flow = arg;

	/* By this thread, as a program does whose threads have their own objects. */
	flow_open(flow);
	pthread_barrier_wait(&all_are_open);
	flow_send(flow);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct flow *flows = calloc(MAX_THREADS, sizeof(*flows));
	pthread_t ids[MAX_THREADS];
	double start_ns, best_ns = 1e9;

	if (argc > 1)
		list_length = (uint32_t)atoi(argv[1]);
	require(threads >= 1 && threads <= MAX_THREADS && list_length && !(DEPTH % list_length),
		"LIST must divide 64, THREADS is at most 16");
	require(devices && devices[0], "ibv_get_device_list");
	context = ibv_open_device(devices[0]);
	require(flows && context && !ibv_query_gid(context, 1, 0, &gid),
		"opening the first device");
	require(!pthread_barrier_init(&all_are_open, NULL, (unsigned int)threads + 1),
		"pthread_barrier_init");
	for (int i = 0; i < threads; i++)
		require(!pthread_create(&ids[i], NULL, flow_run, &flows[i]), "pthread_create");
	pthread_barrier_wait(&all_are_open);
	start_ns = now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		best_ns = flows[i].best_ns < best_ns ? flows[i].best_ns : best_ns;
	}
	printf("cpu_ns %.1f messages_per_second %.0f\n", best_ns,
	       threads * 1e9 * ROUNDS * ROUND_SENDS / (now_ns(CLOCK_MONOTONIC) - start_ns));
	return 0;
}
