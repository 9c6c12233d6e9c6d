/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_client: sends one message to rdma_server and receives its response. A minimal example: it
 * uses synchronous calls, and rdma_create_ep() creates all objects of the connection.
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

static int exchange(struct rdma_cm_id *id, struct ibv_mr *sent_mr, struct ibv_mr *received_mr,
		    int send_flags)
{
	struct ibv_wc wc;

	/*
	 * The receive is posted before the connection is established, so that it precedes the
	 * response.
	 */
	if (rdma_post_recv(id, NULL, received, sizeof(received), received_mr))
		return tool_fail("rdma_post_recv");
	if (rdma_connect(id, NULL))
		return tool_fail("rdma_connect");
	if (rdma_post_send(id, NULL, sent, sizeof(sent), sent_mr, send_flags))
		return tool_fail("rdma_post_send");
	if (rdma_get_send_comp(id, &wc) < 0 || rdma_get_recv_comp(id, &wc) < 0)
		return tool_fail("completion");
	rdma_disconnect(id);
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "rdma_client: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static int run(const char *server, const char *port)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = MESSAGE_BYTES},
		.sq_sig_all = 1,
	};
	struct ibv_mr *received_mr, *sent_mr;
	struct rdma_cm_id *id;
	int error = tool_create_endpoint(server, port, &hints, &attr, &id);

	if (error)
		return error;
	received_mr = rdma_reg_msgs(id, received, sizeof(received));
	sent_mr = rdma_reg_msgs(id, sent, sizeof(sent));
	/*
	 * rdma_create_ep() has set attr.cap to the QP's actual capabilities. The message is sent
	 * inline if it fits.
	 */
	if (received_mr && sent_mr)
		error = exchange(id, sent_mr, received_mr,
				 attr.cap.max_inline_data >= MESSAGE_BYTES ? IBV_SEND_INLINE : 0);
	else
		error = tool_fail("rdma_reg_msgs");
	if (sent_mr)
		rdma_dereg_mr(sent_mr);
	if (received_mr)
		rdma_dereg_mr(received_mr);
	rdma_destroy_ep(id);
	return error;
}

int main(int argc, char **argv)
{
	const char *server = "127.0.0.1";
	const char *port = "7471";
	int option, status;

	while ((option = getopt(argc, argv, "s:p:")) != -1) {
		switch (option) {
		case 's':
			server = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		default:
			printf("usage: %s\n\t[-s server_address]\n\t[-p port_number]\n", argv[0]);
			return EXIT_FAILURE;
		}
	}
	printf("rdma_client: start\n");
	status = run(server, port);
	printf("rdma_client: end %d\n", status);
	return status;
}
