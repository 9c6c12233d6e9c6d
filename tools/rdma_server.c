/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_server: responds to one message of rdma_client. It uses synchronous calls.
 * rdma_get_request() creates the QP of the connection with the attributes that were passed to
 * rdma_create_ep().
 */
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool.h"

#define MESSAGE_BYTES 16

static uint8_t sent[MESSAGE_BYTES];
static uint8_t received[MESSAGE_BYTES];

static int response(struct rdma_cm_id *id, struct ibv_mr *sent_mr, struct ibv_mr *received_mr,
		    int send_flags)
{
	struct ibv_wc wc;

	if (rdma_post_recv(id, NULL, received, sizeof(received), received_mr))
		return tool_fail("rdma_post_recv");
	if (rdma_accept(id, NULL))
		return tool_fail("rdma_accept");
	if (rdma_get_recv_comp(id, &wc) < 0)
		return tool_fail("rdma_get_recv_comp");
	if (wc.status == IBV_WC_SUCCESS) {
		if (rdma_post_send(id, NULL, sent, sizeof(sent), sent_mr, send_flags))
			return tool_fail("rdma_post_send");
		if (rdma_get_send_comp(id, &wc) < 0)
			return tool_fail("rdma_get_send_comp");
	}
	rdma_disconnect(id);
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "rdma_server: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static int serve(struct rdma_cm_id *id, int send_flags)
{
	struct ibv_mr *received_mr = rdma_reg_msgs(id, received, sizeof(received));
	struct ibv_mr *sent_mr = rdma_reg_msgs(id, sent, sizeof(sent));
	int error;

	if (received_mr && sent_mr)
		error = response(id, sent_mr, received_mr, send_flags);
	else
		error = tool_fail("rdma_reg_msgs");
	if (sent_mr)
		rdma_dereg_mr(sent_mr);
	if (received_mr)
		rdma_dereg_mr(received_mr);
	return error;
}

/* A message that does not fit inline is sent from its buffer. */
static int flags_for(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		return 0;
	return init.cap.max_inline_data >= MESSAGE_BYTES ? IBV_SEND_INLINE : 0;
}

static int run(const char *local, const char *port)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = MESSAGE_BYTES},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *listener, *id;
	int error = tool_create_endpoint(local, port, &hints, &attr, &listener);

	if (error)
		return error;
	if (rdma_listen(listener, 0)) {
		error = tool_fail("rdma_listen");
	} else if (rdma_get_request(listener, &id)) {
		error = tool_fail("rdma_get_request");
	} else {
		error = serve(id, flags_for(id->qp));
		rdma_destroy_ep(id);
	}
	rdma_destroy_ep(listener);
	return error;
}

int main(int argc, char **argv)
{
	const char *local = "0.0.0.0";
	const char *port = "7471";
	int option, status;

	while ((option = getopt(argc, argv, "s:p:")) != -1) {
		switch (option) {
		case 's':
			local = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		default:
			printf("usage: %s\n\t[-s server_address]\n\t[-p port_number]\n", argv[0]);
			return EXIT_FAILURE;
		}
	}
	printf("rdma_server: start\n");
	status = run(local, port);
	printf("rdma_server: end %d\n", status);
	return status;
}
