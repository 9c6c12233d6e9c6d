/* SPDX-License-Identifier: BSD-2-Clause */
/* Client: sends a message to the server ADDRESS PORT and prints the reply. */
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static void check(int failed, const char *call)
{
	if (failed) {
		perror(call);
		exit(1);
	}
}

/* Retrieves the next event. Any event but the expected one ends the program. */
static void wait_for(struct rdma_event_channel *channel, enum rdma_cm_event_type expected)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != expected) {
		fprintf(stderr, "%s: status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static void exchange(struct rdma_cm_id *id)
{
	static char message[64] = "hello", reply[64];
	struct ibv_mr *message_mr = rdma_reg_msgs(id, message, sizeof(message));
	struct ibv_mr *reply_mr = rdma_reg_msgs(id, reply, sizeof(reply));
	struct ibv_wc wc;

	check(!message_mr || !reply_mr, "rdma_reg_msgs");
	/* The receive is posted before the message that causes the reply is sent. */
	check(rdma_post_recv(id, NULL, reply, sizeof(reply), reply_mr), "rdma_post_recv");
	check(rdma_post_send(id, NULL, message, sizeof(message), message_mr, 0), "rdma_post_send");
	check(rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS, "send");
	check(rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS, "receive");
	printf("reply: %.*s\n", (int)wc.byte_len, reply);
	rdma_dereg_mr(message_mr);
	rdma_dereg_mr(reply_mr);
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	if (argc != 3) {
		fprintf(stderr, "usage: %s ADDRESS PORT\n", argv[0]);
		return 1;
	}
	check(rdma_getaddrinfo(argv[1], argv[2], &hints, &info), "rdma_getaddrinfo");
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");

	check(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 2000), "rdma_resolve_addr");
	wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_freeaddrinfo(info);
	/* The device of the id is known now. */
	check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	check(rdma_resolve_route(id, 2000), "rdma_resolve_route");
	wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	check(rdma_connect(id, &param), "rdma_connect");
	wait_for(channel, RDMA_CM_EVENT_ESTABLISHED);

	exchange(id);

	check(rdma_disconnect(id), "rdma_disconnect");
	wait_for(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
