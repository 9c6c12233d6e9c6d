/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many objects in one process.
 *
 *	many listeners ADDRESS COUNT
 *		listens on COUNT ports, prints them, connects to each from a second thread
 *	many qps COUNT
 *		COUNT connected RC queue pairs on the first device, one message over each pair
 *	many idle COUNT SECONDS
 *		the same, then sleeps; prints the memory of each queue pair and the processor time
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "endpoint.h"

#define MANY_BUF_BYTES 4096

/* The ports for the connecting thread of `listeners`; owned by main(), which joins the thread. */
struct ports {
	const char *addr;
	unsigned int count;
	char (*names)[8];
};

static void *connect_each(void *arg)
{
	const struct ports *ports = arg;

	for (unsigned int i = 0; i < ports->count; i++) {
		struct endpoint ep;

		endpoint_connect(&ep, ports->addr, ports->names[i], MANY_BUF_BYTES);
		endpoint_disconnect(&ep);
	}
	return NULL;
}

static void listeners(const char *addr, unsigned int count)
{
	struct rdma_cm_id **ids = calloc(count, sizeof(*ids));
	struct ports ports = {
		.addr = addr, .count = count, .names = calloc(count, sizeof(*ports.names))};
	pthread_t thread;

	if (!ids || !ports.names)
		die("no memory");
	for (unsigned int i = 0; i < count; i++) {
		ids[i] = endpoint_listen(addr, "0");
		snprintf(ports.names[i], sizeof(ports.names[i]), "%u",
			 (unsigned int)ntohs(rdma_get_src_port(ids[i])));
	}
	say("%u listeners", count);
	if (pthread_create(&thread, NULL, connect_each, &ports))
		die("pthread_create");
	for (unsigned int i = 0; i < count; i++) {
		struct endpoint ep;

		endpoint_accept(&ep, ids[i], MANY_BUF_BYTES);
		endpoint_disconnect(&ep);
	}
	pthread_join(thread, NULL);
	for (unsigned int i = 0; i < count; i++) {
		struct rdma_event_channel *channel = ids[i]->channel;

		rdma_destroy_id(ids[i]);
		rdma_destroy_event_channel(channel);
	}
	free(ids);
	free(ports.names);
	say("%u connections", count);
}

/* The objects that all queue pairs of one process share; owned by main(). */
struct field {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t buf[MANY_BUF_BYTES];
	struct ibv_qp **qps;
	unsigned int count;
};

static void open_field(struct field *field, unsigned int count)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		die("no device");
	field->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!field->ctx)
		die("ibv_open_device: %s", strerror(errno));
	field->count = count & ~1u;
	field->pd = ibv_alloc_pd(field->ctx);
	field->cq = ibv_create_cq(field->ctx, 256, NULL, NULL, 0);
	field->qps = calloc(field->count, sizeof(*field->qps));
	if (!field->pd || !field->cq || !field->qps)
		die("ibv_alloc_pd or ibv_create_cq: %s", strerror(errno));
	field->mr = ibv_reg_mr(field->pd, field->buf, sizeof(field->buf), IBV_ACCESS_LOCAL_WRITE);
	if (!field->mr || ibv_query_gid(field->ctx, 1, 0, &field->gid))
		die("ibv_reg_mr or ibv_query_gid: %s", strerror(errno));
}

static void connect_qp(const struct field *field, struct ibv_qp *qp, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int err = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (err)
		die("to INIT: %s", strerror(err));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = field->gid, .hop_limit = 64}},
	};
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (err)
		die("to RTR: %s", strerror(err));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die("to RTS: %s", strerror(err));
}

static void create_qps(struct field *field)
{
	for (unsigned int i = 0; i < field->count; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC,
			.send_cq = field->cq,
			.recv_cq = field->cq,
			.cap = {.max_send_wr = 16,
				.max_recv_wr = 16,
				.max_send_sge = 1,
				.max_recv_sge = 1},
		};

		field->qps[i] = ibv_create_qp(field->pd, &attr);
		if (!field->qps[i])
			die("queue pair %u: %s", i, strerror(errno));
	}
	for (unsigned int i = 0; i < field->count; i++)
		connect_qp(field, field->qps[i], field->qps[i ^ 1]->qp_num);
}

static void wait_for(struct field *field, unsigned int completions)
{
	struct ibv_wc wc;

	while (completions) {
		int got = ibv_poll_cq(field->cq, 1, &wc);

		if (got < 0)
			die("ibv_poll_cq: %d", got);
		if (got && wc.status != IBV_WC_SUCCESS)
			die("completion: %s", ibv_wc_status_str(wc.status));
		completions -= (unsigned int)got;
	}
}

static void message_over_each(struct field *field)
{
	struct ibv_sge sge = {.addr = (uintptr_t)field->buf, .length = 64, .lkey = field->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	for (unsigned int i = 0; i < field->count; i += 2) {
		int err = ibv_post_recv(field->qps[i + 1], &recv, &bad_recv);

		if (!err)
			err = ibv_post_send(field->qps[i], &send, &bad_send);
		if (err)
			die("posting on pair %u: %s", i / 2, strerror(err));
		wait_for(field, 2);
	}
}

static void close_field(struct field *field)
{
	for (unsigned int i = 0; i < field->count; i++) {
		if (ibv_destroy_qp(field->qps[i]))
			die("ibv_destroy_qp");
	}
	free(field->qps);
	if (ibv_dereg_mr(field->mr) || ibv_destroy_cq(field->cq) || ibv_dealloc_pd(field->pd) ||
	    ibv_close_device(field->ctx))
		die("closing the device");
}

static long resident_kib(void)
{
	long size_pages, resident_pages;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%ld %ld", &size_pages, &resident_pages) != 2)
		die("/proc/self/statm: %s", strerror(errno));
	fclose(file);
	return resident_pages * sysconf(_SC_PAGESIZE) / 1024;
}

static long processor_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
	       usage.ru_stime.tv_usec;
}

static void qps(unsigned int count, unsigned int idle_seconds)
{
	static struct field field;
	long before_kib, after_kib, before_us;

	open_field(&field, count);
	before_kib = resident_kib();
	create_qps(&field);
	after_kib = resident_kib();
	message_over_each(&field);
	say("%u queue pairs connected, %u messages", field.count, field.count / 2);
	if (idle_seconds) {
		before_us = processor_us();
		sleep(idle_seconds);
		say("bytes_per_qp %ld idle_cpu_us %ld idle_seconds %u",
		    (after_kib - before_kib) * 1024 / (long)field.count, processor_us() - before_us,
		    idle_seconds);
	}
	close_field(&field);
	say("closed");
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "listeners"))
		listeners(argv[2], (unsigned int)strtoul(argv[3], NULL, 0));
	else if (argc == 3 && !strcmp(argv[1], "qps"))
		qps((unsigned int)strtoul(argv[2], NULL, 0), 0);
	else if (argc == 4 && !strcmp(argv[1], "idle"))
		qps((unsigned int)strtoul(argv[2], NULL, 0),
		    (unsigned int)strtoul(argv[3], NULL, 0));
	else
		die("usage: many listeners ADDRESS COUNT | many qps COUNT | many idle COUNT SECONDS");
	return 0;
}
