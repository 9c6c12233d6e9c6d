/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many concurrent connections. Each side has one event channel and one thread.
 *
 *	crowd serve ADDRESS PORT COUNT
 *		accepts COUNT connections, receives a message over each, waits until all have ended
 *	crowd drive ADDRESS PORT COUNT
 *		connects, sends the messages, waits for SIGTERM, disconnects
 *
 * Both print the memory of each connection, its queue pair included.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"

#define MESSAGE_BYTES	   64
#define UNDER_WAY_MAX	   256
#define RESOLVE_TIMEOUT_MS 60000
#define CQ_ENTRIES	   65536

/*
 * One side; owned by main(). CQ, MR and PD are shared by all connections and created with the first
 * one.
 */
struct crowd {
	struct rdma_event_channel *channel;
	struct sockaddr_in addr;
	struct rdma_cm_id **ids;
	unsigned int count;
	unsigned int made;	  /* ids created so far, destroyed ones included */
	unsigned int established; /* ids that were established so far */
	unsigned int completed;	  /* messages that completed */
	unsigned int gone;
	bool is_server;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t buf[MESSAGE_BYTES];
};

static long resident_bytes(void)
{
	long size_pages, resident_pages;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%ld %ld", &size_pages, &resident_pages) != 2)
		die("/proc/self/statm: %s", strerror(errno));
	fclose(file);
	return resident_pages * sysconf(_SC_PAGESIZE);
}

static void share(struct crowd *crowd, struct ibv_context *verbs)
{
	if (crowd->pd)
		return;
	crowd->pd = ibv_alloc_pd(verbs);
	crowd->cq = ibv_create_cq(verbs, CQ_ENTRIES, NULL, NULL, 0);
	if (!crowd->pd || !crowd->cq)
		die("ibv_alloc_pd or ibv_create_cq: %s", strerror(errno));
	crowd->mr = ibv_reg_mr(crowd->pd, crowd->buf, sizeof(crowd->buf), IBV_ACCESS_LOCAL_WRITE);
	if (!crowd->mr)
		die("ibv_reg_mr: %s", strerror(errno));
}

static void create_qp(struct crowd *crowd, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	share(crowd, id->verbs);
	attr.send_cq = crowd->cq;
	attr.recv_cq = crowd->cq;
	if (rdma_create_qp(id, crowd->pd, &attr))
		die("rdma_create_qp: %s", strerror(errno));
}

static struct ibv_sge message_of(struct crowd *crowd)
{
	return (struct ibv_sge){.addr = (uintptr_t)crowd->buf,
				.length = sizeof(crowd->buf),
				.lkey = crowd->mr->lkey};
}

static void accept_one(struct crowd *crowd, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	struct ibv_recv_wr recv = {.num_sge = 1}, *bad;
	struct ibv_sge sge;

	if (crowd->made == crowd->count)
		die("more connections than were to come");
	crowd->ids[crowd->made++] = id;
	create_qp(crowd, id);
	sge = message_of(crowd);
	recv.sg_list = &sge;
	if (ibv_post_recv(id->qp, &recv, &bad))
		die("ibv_post_recv");
	if (rdma_accept(id, &param))
		die("rdma_accept: %s", strerror(errno));
}

static void send_one(struct crowd *crowd, struct rdma_cm_id *id)
{
	struct ibv_sge sge = message_of(crowd);
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (ibv_post_send(id->qp, &send, &bad))
		die("ibv_post_send");
}

static void connect_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	if (rdma_connect(id, &param))
		die("rdma_connect: %s", strerror(errno));
}

static void destroy_one(struct crowd *crowd, struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("rdma_destroy_id: %s", strerror(errno));
	crowd->gone++;
}

/*
 * Handles an event. The caller destroys the id of DISCONNECTED after it has acknowledged the event.
 */
static void act(struct crowd *crowd, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		create_qp(crowd, event->id);
		if (rdma_resolve_route(event->id, RESOLVE_TIMEOUT_MS))
			die("rdma_resolve_route: %s", strerror(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		connect_one(event->id);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_one(crowd, event->id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		crowd->established++;
		if (!crowd->is_server)
			send_one(crowd, event->id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* The side that initiated the disconnect has called rdma_disconnect() already. */
		if (crowd->is_server && rdma_disconnect(event->id))
			die("rdma_disconnect: %s", strerror(errno));
		break;
	default:
		die("event %s with status %d", rdma_event_str(event->event), event->status);
	}
}

static void next_event(struct crowd *crowd)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *over = NULL;

	if (rdma_get_cm_event(crowd->channel, &event))
		die("rdma_get_cm_event: %s", strerror(errno));
	if (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		rdma_ack_cm_event(event);
		return;
	}
	act(crowd, event);
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		over = event->id;
	rdma_ack_cm_event(event);
	if (over)
		destroy_one(crowd, over);
}

static void take_completions(struct crowd *crowd)
{
	struct ibv_wc wc[16];
	int got;

	if (!crowd->cq)
		return;
	got = ibv_poll_cq(crowd->cq, 16, wc);
	if (got < 0)
		die("ibv_poll_cq: %d", got);
	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			die("completion: %s", ibv_wc_status_str(wc[i].status));
		crowd->completed++;
	}
}

static void make_one(struct crowd *crowd)
{
	struct rdma_cm_id **id = &crowd->ids[crowd->made++];

	if (rdma_create_id(crowd->channel, id, NULL, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	if (rdma_resolve_addr(*id, NULL, (struct sockaddr *)&crowd->addr, RESOLVE_TIMEOUT_MS))
		die("rdma_resolve_addr: %s", strerror(errno));
}

static void say_established(const struct crowd *crowd, long before_bytes)
{
	say("connections %u bytes_per_connection %ld", crowd->count,
	    (resident_bytes() - before_bytes) / (long)crowd->count);
}

static void share_no_more(struct crowd *crowd)
{
	rdma_destroy_event_channel(crowd->channel);
	if (ibv_dereg_mr(crowd->mr) || ibv_destroy_cq(crowd->cq) || ibv_dealloc_pd(crowd->pd))
		die("what all connections shared is still used");
	say("closed");
}

static void serve(struct crowd *crowd)
{
	struct rdma_cm_id *listener;
	long before_bytes;

	if (rdma_create_id(crowd->channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&crowd->addr) || rdma_listen(listener, 0))
		die("rdma_listen: %s", strerror(errno));
	before_bytes = resident_bytes();
	say("listening");
	while (crowd->established < crowd->count)
		next_event(crowd);
	while (crowd->completed < crowd->count)
		take_completions(crowd);
	say_established(crowd, before_bytes);
	while (crowd->gone < crowd->count)
		next_event(crowd);
	rdma_destroy_id(listener);
}

static void drive(struct crowd *crowd, const sigset_t *term)
{
	long before_bytes = resident_bytes();
	int signo;

	while (crowd->established < crowd->count) {
		while (crowd->made < crowd->count &&
		       crowd->made - crowd->established < UNDER_WAY_MAX)
			make_one(crowd);
		next_event(crowd);
		take_completions(crowd);
	}
	while (crowd->completed < crowd->count)
		take_completions(crowd);
	say_established(crowd, before_bytes);
	if (sigwait(term, &signo))
		die("sigwait");
	for (unsigned int i = 0; i < crowd->count; i++) {
		if (rdma_disconnect(crowd->ids[i]))
			die("rdma_disconnect: %s", strerror(errno));
	}
	while (crowd->gone < crowd->count)
		next_event(crowd);
}

int main(int argc, char **argv)
{
	static struct crowd crowd;
	sigset_t term;

	if (argc != 5 || (strcmp(argv[1], "serve") && strcmp(argv[1], "drive")) ||
	    inet_pton(AF_INET, argv[2], &crowd.addr.sin_addr) != 1)
		die("usage: crowd serve|drive ADDRESS PORT COUNT");
	/* Blocked before other threads exist, because SIGTERM must not end them either. */
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	crowd.is_server = !strcmp(argv[1], "serve");
	crowd.addr.sin_family = AF_INET;
	crowd.addr.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 0));
	crowd.count = (unsigned int)strtoul(argv[4], NULL, 0);
	crowd.ids = calloc(crowd.count, sizeof(struct rdma_cm_id *));
	crowd.channel = rdma_create_event_channel();
	if (!crowd.ids || !crowd.count || !crowd.channel)
		die("no memory, no channel or nothing to do");
	if (crowd.is_server)
		serve(&crowd);
	else
		drive(&crowd, &term);
	share_no_more(&crowd);
	free(crowd.ids);
	return 0;
}
