/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_xclient: sends one message to rdma_xserver, over an RC or XRC connection.
 *
 * With XRC each message carries the number of the shared receive queue whose receive it uses. The
 * server sends this number in the private data of its accept.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define MESSAGE_BYTES 16

static const char *server = "127.0.0.1";
static const char *port = "7471";
static enum ibv_qp_type type = IBV_QPT_RC;
static uint8_t message[MESSAGE_BYTES];

/* The SRQ number from the private data of the server's accept. */
static int take_srq_number(const struct rdma_cm_id *id, uint32_t *number)
{
	const struct rdma_conn_param *response = &id->event->param.conn;
	__be32 notified;

	if (response->private_data_len < sizeof(notified)) {
		fprintf(stderr, "rdma_xclient: the server did not name its SRQ\n");
		return -1;
	}
	memcpy(&notified, response->private_data, sizeof(notified));
	*number = be32toh(notified);
	return 0;
}

static int post_message(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)message, .length = sizeof(message), .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	if (type == IBV_QPT_XRC_SEND && take_srq_number(id, &wr.qp_type.xrc.remote_srqn))
		return -1;
	errno = ibv_post_send(id->qp, &wr, &bad);
	return errno ? tool_fail("ibv_post_send") : 0;
}

static int send_message(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	if (rdma_connect(id, NULL))
		return tool_fail("rdma_connect");
	if (post_message(id, mr))
		return -1;
	if (rdma_get_send_comp(id, &wc) < 0)
		return tool_fail("rdma_get_send_comp");
	rdma_disconnect(id);
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "rdma_xclient: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static int run(void)
{
	struct rdma_addrinfo hints = {
		.ai_port_space = type == IBV_QPT_RC ? RDMA_PS_TCP : RDMA_PS_IB,
		.ai_qp_type = (int)type,
	};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	int error = tool_create_endpoint(server, port, &hints, &attr, &id);

	if (error)
		return error;
	mr = rdma_reg_msgs(id, message, sizeof(message));
	error = mr ? send_message(id, mr) : tool_fail("rdma_reg_msgs");
	if (mr)
		rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return error;
}

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server]\n");
	printf("\t[-p port_number]\n");
	printf("\t[-c communication type]\n");
	printf("\t    r - RC: reliable-connected (default)\n");
	printf("\t    x - XRC: extended-reliable-connected\n");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	int option, status;

	while ((option = getopt(argc, argv, "s:p:c:")) != -1) {
		switch (option) {
		case 's':
			server = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		case 'c':
			if (strcasecmp(optarg, "x") == 0)
				type = IBV_QPT_XRC_SEND;
			else if (strcasecmp(optarg, "r") != 0)
				return usage(argv[0]);
			break;
		default:
			return usage(argv[0]);
		}
	}
	printf("%s: start\n", argv[0]);
	status = run();
	printf("%s: end %d\n", argv[0], status);
	return status;
}
