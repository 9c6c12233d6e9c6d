/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Server: lets one client on PORT write and read its memory, and prints the memory after the end of
 * the connection.
 */
#include <endian.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The message that announces the memory, in big-endian byte order. */
struct announcement {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

static char memory[64];
static struct announcement announcement;

static void check(int failed, const char *call)
{
	if (failed) {
		perror(call);
		exit(1);
	}
}

/* Retrieves the next event, which the caller acknowledges. */
static struct rdma_cm_event *wait_for(struct rdma_event_channel *channel,
				      enum rdma_cm_event_type expected)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != expected) {
		fprintf(stderr, "%s: status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	return event;
}

/* Sends address and rkey of the memory. The client needs both for its requests. */
static void announce(struct rdma_cm_id *id, const struct ibv_mr *mr)
{
	struct ibv_mr *message_mr = rdma_reg_msgs(id, &announcement, sizeof(announcement));
	struct ibv_wc wc;

	check(!message_mr, "rdma_reg_msgs");
	announcement.addr = htobe64((uintptr_t)mr->addr);
	announcement.rkey = htobe32(mr->rkey);
	announcement.length = htobe32((uint32_t)mr->length);
	check(rdma_post_send(id, NULL, &announcement, sizeof(announcement), message_mr, 0),
	      "rdma_post_send");
	check(rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS, "send");
	rdma_dereg_mr(message_mr);
}

/* Serves the connection of `event`, a connection request. */
static void serve(struct rdma_event_channel *channel, struct rdma_cm_event *event)
{
	/*
	 * responder_resources: the number of READs of the client that this side answers at a time.
	 */
	struct rdma_conn_param param = {.responder_resources = 1, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id = event->id;
	struct ibv_mr *mr;

	check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	/* rdma_reg_write() permits WRITE only, and rdma_reg_read() permits READ only. */
	mr = ibv_reg_mr(id->pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	check(!mr, "ibv_reg_mr");
	check(rdma_accept(id, &param), "rdma_accept");
	rdma_ack_cm_event(event);
	rdma_ack_cm_event(wait_for(channel, RDMA_CM_EVENT_ESTABLISHED));
	announce(id, mr);

	/*
	 * No completion reports the requests of the client. Here the end of the connection shows
	 * that they are complete.
	 */
	rdma_ack_cm_event(wait_for(channel, RDMA_CM_EVENT_DISCONNECTED));
	check(rdma_disconnect(id), "rdma_disconnect");
	rdma_destroy_qp(id);
	rdma_dereg_mr(mr);
	rdma_destroy_id(id);
	printf("memory: %.*s\n", (int)sizeof(memory), memory);
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PORT\n", argv[0]);
		return 1;
	}
	addr.sin6_port = htons((uint16_t)atoi(argv[1]));
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	/* The wildcard address of IPv6 includes IPv4. */
	check(rdma_bind_addr(listener, (struct sockaddr *)&addr), "rdma_bind_addr");
	check(rdma_listen(listener, 1), "rdma_listen");

	serve(channel, wait_for(channel, RDMA_CM_EVENT_CONNECT_REQUEST));

	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return 0;
}
