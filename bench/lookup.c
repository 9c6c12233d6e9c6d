/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the median time, in nanoseconds, to post and poll one 8-byte RDMA WRITE while MRS memory
 * regions and QPS queue pairs exist. Successive WRITEs use different queue pairs and regions, so
 * that the time includes their look-up.
 *
 *	bench-lookup MRS QPS
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#define ROUNDS	   20001
#define ROUND_SIZE 8

/* The objects of the measurement; owned by main(). */
struct field {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	struct ibv_mr **mrs;
	struct ibv_qp **qps;
	unsigned int mr_count;
	unsigned int qp_count;
	uint8_t buf[4096];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void connect_itself(const struct field *field, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		fail("to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = field->gid, .hop_limit = 64}},
	};
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	if (errno)
		fail("to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		fail("to RTS");
}

static void open_field(struct field *field)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	field->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	field->pd = field->ctx ? ibv_alloc_pd(field->ctx) : NULL;
	field->cq = field->pd ? ibv_create_cq(field->ctx, 64, NULL, NULL, 0) : NULL;
	if (!field->cq || ibv_query_gid(field->ctx, 1, 0, &field->gid))
		fail("opening the first device");
	field->mrs = calloc(field->mr_count, sizeof(struct ibv_mr *));
	field->qps = calloc(field->qp_count, sizeof(struct ibv_qp *));
	if (!field->mrs || !field->qps)
		fail("memory");
}

static void fill_field(struct field *field)
{
	struct ibv_qp_init_attr init = {
		.send_cq = field->cq,
		.recv_cq = field->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	for (unsigned int i = 0; i < field->mr_count; i++) {
		field->mrs[i] = ibv_reg_mr(field->pd, field->buf, sizeof(field->buf),
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		if (!field->mrs[i])
			fail("ibv_reg_mr");
	}
	for (unsigned int i = 0; i < field->qp_count; i++) {
		field->qps[i] = ibv_create_qp(field->pd, &init);
		if (!field->qps[i])
			fail("ibv_create_qp");
		connect_itself(field, field->qps[i]);
	}
}

static void write_once(const struct field *field, unsigned int number)
{
	const struct ibv_mr *from = field->mrs[number % field->mr_count];
	const struct ibv_mr *to = field->mrs[(number * 7919u + 13) % field->mr_count];
	struct ibv_sge sge = {.addr = (uintptr_t)field->buf, .length = 8, .lkey = from->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)field->buf + 2048,
					     .rkey = to->rkey}},
			   *bad;
	struct ibv_wc wc;

	errno = ibv_post_send(field->qps[number % field->qp_count], &wr, &bad);
	if (errno)
		fail("ibv_post_send");
	while (!ibv_poll_cq(field->cq, 1, &wc))
		;
	if (wc.status != IBV_WC_SUCCESS)
		fail(ibv_wc_status_str(wc.status));
}

int main(int argc, char **argv)
{
	static struct field field;
	static uint64_t took_ns[ROUNDS];

	if (argc != 3) {
		fprintf(stderr, "usage: bench-lookup MRS QPS\n");
		return 2;
	}
	field.mr_count = (unsigned int)strtoul(argv[1], NULL, 0);
	field.qp_count = (unsigned int)strtoul(argv[2], NULL, 0);
	if (!field.mr_count || !field.qp_count)
		return 2;
	open_field(&field);
	fill_field(&field);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t start_ns = now_ns();

		/*
		 * Each round uses the same few objects, with distant indices: the look-up is
		 * measured, not cache misses.
		 */
		for (unsigned int k = 0; k < ROUND_SIZE; k++)
			write_once(&field, k * (field.mr_count / ROUND_SIZE + 1));
		took_ns[i] = (now_ns() - start_ns) / ROUND_SIZE;
	}
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), compare);
	printf("write_ns %llu\n", (unsigned long long)took_ns[ROUNDS / 2]);
	return 0;
}
