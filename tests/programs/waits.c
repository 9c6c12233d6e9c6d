/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	waits serve ADDRESS PORT CONNECTIONS SECONDS SEED
 *	waits drive ADDRESS PORT CONNECTIONS SECONDS SEED
 *
 * Threads that send each other messages and wait for them in all ways that the API permits
 * (waits_worker.h). The numbers of threads and CQs, and what the threads do, follow from the seed;
 * the results also depend on their scheduling. A peer pauses for 20 ms at most. So if a thread
 * receives nothing for STALL_MS, an event was lost, and the process ends with status 1.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"
#include "waits_worker.h"

#define STALL_MS	60000u
#define LOOK_US		100000
#define WORKERS_MAX	4
#define RESOLVE_MS	5000
#define CONNECT_BACKLOG 16

static struct {
	struct waits_worker workers[WORKERS_MAX];
	unsigned int worker_count;
	struct waits_connection connections[WAITS_CONNECTIONS_MAX];
	unsigned int connection_count;
	bool has_send_cqs;
	struct ibv_pd *pd;
} field;

static struct endpoint_grant waits_grant(const struct waits_connection *c)
{
	return (struct endpoint_grant){htobe64((uintptr_t)c->memory), htobe32(c->mr->rkey)};
}

/* Reads the private data of the id's last event. */
static void waits_take_grant(struct waits_connection *c)
{
	const struct rdma_conn_param *param = &c->id->event->param.conn;
	struct endpoint_grant grant;

	if (param->private_data_len < sizeof(grant))
		die("private data of %u bytes", param->private_data_len);
	memcpy(&grant, param->private_data, sizeof(grant));
	c->remote.addr = be64toh(grant.addr_be);
	c->remote.rkey = be32toh(grant.rkey_be);
}

/* The connections of a worker share one CQ, or each has its own, or one for each direction. */
static void make_qp(struct waits_connection *c, unsigned int number)
{
	struct waits_worker *worker = &field.workers[number % field.worker_count];
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = WAITS_QUEUE_WRS,
			.max_recv_wr = WAITS_QUEUE_WRS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	bool is_shared = worker->cq_count && !waits_roll(worker, 2);

	if (!field.pd)
		field.pd = ibv_alloc_pd(c->id->verbs);
	if (!field.pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	attr.recv_cq = is_shared ? worker->cqs[0] : waits_cq(worker, c->id->verbs);
	attr.send_cq = field.has_send_cqs && !is_shared ? waits_cq(worker, c->id->verbs) :
							  attr.recv_cq;
	if (rdma_create_qp(c->id, field.pd, &attr))
		die("rdma_create_qp: %s", strerror(errno));
	c->worker = worker;
	worker->connections[worker->connection_count++] = c;
	waits_prepare(c, field.pd);
	waits_post_recvs(c);
}

static struct rdma_conn_param conn_param(const struct endpoint_grant *grant)
{
	return (struct rdma_conn_param){
		.private_data = grant,
		.private_data_len = sizeof(*grant),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static void waits_accept(struct rdma_cm_id *listener, struct waits_connection *c,
			 unsigned int number)
{
	struct endpoint_grant grant;
	struct rdma_conn_param param;

	if (rdma_get_request(listener, &c->id))
		die("rdma_get_request: %s", strerror(errno));
	make_qp(c, number);
	waits_take_grant(c);
	grant = waits_grant(c);
	param = conn_param(&grant);
	if (rdma_accept(c->id, &param))
		die("rdma_accept: %s", strerror(errno));
}

static void waits_connect(const struct rdma_addrinfo *to, struct waits_connection *c,
			  unsigned int number)
{
	struct endpoint_grant grant;
	struct rdma_conn_param param;

	if (rdma_create_id(NULL, &c->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(c->id, NULL, to->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(c->id, RESOLVE_MS))
		die("rdma_resolve_addr or rdma_resolve_route: %s", strerror(errno));
	make_qp(c, number);
	grant = waits_grant(c);
	param = conn_param(&grant);
	c->is_driver = true;
	if (rdma_connect(c->id, &param))
		die("rdma_connect: %s", strerror(errno));
	waits_take_grant(c);
}

static void connect_all(const char *addr, const char *port, bool is_server)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
				      .ai_flags = is_server ? RAI_PASSIVE : 0};
	struct rdma_cm_id *listener = NULL;
	struct rdma_addrinfo *found;

	if (rdma_getaddrinfo(addr, port, &hints, &found))
		die("rdma_getaddrinfo: %s", strerror(errno));
	if (is_server && (rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) ||
			  rdma_bind_addr(listener, found->ai_src_addr) ||
			  rdma_listen(listener, CONNECT_BACKLOG)))
		die("rdma_listen: %s", strerror(errno));
	for (unsigned int i = 0; i < field.connection_count; i++) {
		if (is_server)
			waits_accept(listener, &field.connections[i], i);
		else
			waits_connect(found, &field.connections[i], i);
	}
	if (listener)
		rdma_destroy_id(listener);
	rdma_freeaddrinfo(found);
}

static void stalled(unsigned int number)
{
	const struct waits_worker *worker = &field.workers[number];

	for (unsigned int i = 0; i < worker->connection_count; i++) {
		const struct waits_connection *c = worker->connections[i];

		say("queue pair 0x%x: %u messages sent, %u received, %u of %u WRs retired%s",
		    c->id->qp->qp_num, c->sent, c->received, c->retired, c->posted,
		    c->is_ended ? ", ended" : "");
	}
	for (unsigned int i = 0; i < worker->cq_count; i++) {
		struct ibv_wc wc;

		if (ibv_poll_cq(worker->cqs[i], 1, &wc) > 0)
			say("CQ %u has a completion: %s%s", i, ibv_wc_status_str(wc.status),
			    worker->is_armed[i] ? "; it is armed" : "");
	}
	die("worker %u (%s) received nothing for %u ms", number,
	    waits_mode_name(atomic_load(&worker->shown_mode)), STALL_MS);
}

/* Waits for the end of a thread. One without a message for STALL_MS has lost an event. */
static void join_worker(unsigned int number, pthread_t thread)
{
	const struct waits_worker *worker = &field.workers[number];
	unsigned int messages = atomic_load(&worker->messages);
	uint64_t since_ms = now_ms();

	while (pthread_tryjoin_np(thread, NULL)) {
		unsigned int now = atomic_load(&worker->messages);

		if (now != messages)
			since_ms = now_ms();
		else if (now_ms() - since_ms >= STALL_MS)
			stalled(number);
		messages = now;
		usleep(LOOK_US);
	}
}

static void run_workers(void)
{
	pthread_t threads[WORKERS_MAX];
	unsigned int messages = 0;

	for (unsigned int i = 0; i < field.worker_count; i++) {
		if (pthread_create(&threads[i], NULL, waits_work, &field.workers[i]))
			die("pthread_create");
	}
	for (unsigned int i = 0; i < field.worker_count; i++) {
		join_worker(i, threads[i]);
		messages += atomic_load(&field.workers[i].messages);
	}
	say("%u messages", messages);
}

static void close_all(void)
{
	for (unsigned int i = 0; i < field.connection_count; i++) {
		struct waits_connection *c = &field.connections[i];

		rdma_disconnect(c->id);
		rdma_destroy_qp(c->id);
		ibv_dereg_mr(c->mr);
		free(c->memory);
	}
	for (unsigned int i = 0; i < field.worker_count; i++) {
		struct waits_worker *worker = &field.workers[i];

		for (unsigned int j = 0; j < worker->cq_count; j++) {
			if (ibv_destroy_cq(worker->cqs[j]))
				die("ibv_destroy_cq");
		}
		if (worker->channel && ibv_destroy_comp_channel(worker->channel))
			die("ibv_destroy_comp_channel");
		close(worker->epoll_fd);
	}
	ibv_dealloc_pd(field.pd);
	for (unsigned int i = 0; i < field.connection_count; i++)
		rdma_destroy_id(field.connections[i].id);
}

static unsigned int number_of(const char *text, unsigned int most)
{
	unsigned long number = strtoul(text, NULL, 0);

	if (!number || number > most)
		die("'%s' is not a number from 1 to %u", text, most);
	return (unsigned int)number;
}

int main(int argc, char **argv)
{
	struct waits_worker *first = &field.workers[0];
	bool is_server = argc == 7 && !strcmp(argv[1], "serve");
	uint64_t seed;

	if (argc != 7 || (!is_server && strcmp(argv[1], "drive"))) {
		fprintf(stderr, "waits serve|drive ADDRESS PORT CONNECTIONS SECONDS SEED\n");
		return 2;
	}
	field.connection_count = number_of(argv[4], WAITS_CONNECTIONS_MAX);
	seed = strtoull(argv[6], NULL, 0) * 2 + is_server;
	waits_seed(first, seed, 0);
	field.worker_count = 1 + waits_roll(first, WORKERS_MAX);
	if (field.worker_count > field.connection_count)
		field.worker_count = field.connection_count;
	field.has_send_cqs = waits_roll(first, 2);
	for (unsigned int i = 0; i < field.worker_count; i++) {
		waits_seed(&field.workers[i], seed, i + 1);
		field.workers[i].end_ms = now_ms() + 1000 * number_of(argv[5], 100000);
	}
	connect_all(argv[2], argv[3], is_server);
	run_workers();
	close_all();
	return 0;
}
