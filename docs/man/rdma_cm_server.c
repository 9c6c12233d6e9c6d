/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Server: accepts one connection on PORT, returns the first message and waits for the end of the
 * connection.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static char message[64];

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

/* Serves the connection of `event`, a connection request. */
static void serve(struct rdma_event_channel *channel, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	/* The request has an id of its own, which is bound to the device of the request. */
	struct rdma_cm_id *id = event->id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	mr = rdma_reg_msgs(id, message, sizeof(message));
	check(!mr, "rdma_reg_msgs");
	/* The receive is posted before the client can send. */
	check(rdma_post_recv(id, NULL, message, sizeof(message), mr), "rdma_post_recv");
	check(rdma_accept(id, &param), "rdma_accept");
	rdma_ack_cm_event(event);
	rdma_ack_cm_event(wait_for(channel, RDMA_CM_EVENT_ESTABLISHED));

	check(rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS, "receive");
	check(rdma_post_send(id, NULL, message, wc.byte_len, mr, 0), "rdma_post_send");
	check(rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS, "send");

	rdma_ack_cm_event(wait_for(channel, RDMA_CM_EVENT_DISCONNECTED));
	check(rdma_disconnect(id), "rdma_disconnect");
	rdma_destroy_qp(id);
	rdma_dereg_mr(mr);
	rdma_destroy_id(id);
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
	/* The wildcard address of IPv6 includes IPv4. */
	addr.sin6_port = htons((uint16_t)atoi(argv[1]));
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)&addr), "rdma_bind_addr");
	check(rdma_listen(listener, 1), "rdma_listen");

	serve(channel, wait_for(channel, RDMA_CM_EVENT_CONNECT_REQUEST));

	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return 0;
}
