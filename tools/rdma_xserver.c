/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_xserver: receives one message of rdma_xclient, over an RC or XRC connection.
 *
 * An XRC receive QP has no receive queue. Its receives are in a shared receive queue; each message
 * carries the number of an SRQ. The private data of the accept carries the number to the client.
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

static const char *port = "7471";
static enum ibv_qp_type type = IBV_QPT_RC;
static uint8_t message[MESSAGE_BYTES];

/*
 * The shared receive queue of an XRC connection, and its number, which the private data of the
 * accept carries.
 */
static int make_srq(struct rdma_cm_id *id, __be32 *notified)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	uint32_t number;

	if (rdma_create_srq(id, NULL, &attr))
		return tool_fail("rdma_create_srq");
	errno = ibv_get_srq_num(id->srq, &number);
	if (errno)
		return tool_fail("ibv_get_srq_num");
	*notified = htobe32(number);
	return 0;
}

static int receive_message(struct rdma_cm_id *id, struct ibv_mr *mr, struct rdma_conn_param *param)
{
	struct ibv_wc wc;

	if (rdma_post_recv(id, NULL, message, sizeof(message), mr))
		return tool_fail("rdma_post_recv");
	if (rdma_accept(id, param))
		return tool_fail("rdma_accept");
	if (rdma_get_recv_comp(id, &wc) < 0)
		return tool_fail("rdma_get_recv_comp");
	rdma_disconnect(id);
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "rdma_xserver: %s\n", ibv_wc_status_str(wc.status));
	return -1;
}

static int serve(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES,
					.initiator_depth = RDMA_MAX_INIT_DEPTH,
					.rnr_retry_count = 7};
	struct ibv_mr *mr;
	__be32 srq_number;
	int error;

	if (type == IBV_QPT_XRC_RECV) {
		if (make_srq(id, &srq_number))
			return -1;
		param.private_data = &srq_number;
		param.private_data_len = sizeof(srq_number);
	}
	mr = rdma_reg_msgs(id, message, sizeof(message));
	if (!mr)
		return tool_fail("rdma_reg_msgs");
	error = receive_message(id, mr, &param);
	rdma_dereg_mr(mr);
	return error;
}

static int run(void)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_PASSIVE,
		.ai_port_space = type == IBV_QPT_RC ? RDMA_PS_TCP : RDMA_PS_IB,
		.ai_qp_type = (int)type,
	};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
	};
	struct rdma_cm_id *listener, *id;
	int error = tool_create_endpoint(NULL, port, &hints, &attr, &listener);

	if (error)
		return error;
	if (rdma_listen(listener, 0)) {
		error = tool_fail("rdma_listen");
	} else if (rdma_get_request(listener, &id)) {
		error = tool_fail("rdma_get_request");
	} else {
		error = serve(id);
		rdma_destroy_ep(id);
	}
	rdma_destroy_ep(listener);
	return error;
}

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-p port_number]\n");
	printf("\t[-c communication type]\n");
	printf("\t    r - RC: reliable-connected (default)\n");
	printf("\t    x - XRC: extended-reliable-connected\n");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	int option, status;

	while ((option = getopt(argc, argv, "p:c:")) != -1) {
		switch (option) {
		case 'p':
			port = optarg;
			break;
		case 'c':
			if (strcasecmp(optarg, "x") == 0)
				type = IBV_QPT_XRC_RECV;
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
