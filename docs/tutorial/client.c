/* SPDX-License-Identifier: BSD-2-Clause */
/* Client: writes a text into the memory of the server ADDRESS PORT, and sends a message then. */
#include "tutorial.h"

static char text[8192] = "written by the client", message[64] = "I have written";

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct announcement server;
	struct ibv_mr *text_mr, *message_mr;
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	size_t length;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s ADDRESS PORT [BYTES]\n", argv[0]);
		return 1;
	}
	length = argc == 4 ? strtoul(argv[3], NULL, 10) : strlen(text) + 1;
	check(length > sizeof(text), "BYTES");

	/* 1. Connect. The reply of the server contains address and rkey of its memory. */
	check(rdma_getaddrinfo(argv[1], argv[2], &hints, &info), "rdma_getaddrinfo");
	check(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	check(rdma_connect(id, &param), "rdma_connect");
	memcpy(&server, id->event->param.conn.private_data, sizeof(server));

	/* 2. Register memory. A local buffer needs no access rights for the peer. */
	text_mr = rdma_reg_msgs(id, text, sizeof(text));
	message_mr = rdma_reg_msgs(id, message, sizeof(message));
	check(!text_mr || !message_mr, "registration");

	/* 3. RDMA WRITE: the server does not take part. */
	check(rdma_post_write(id, NULL, text, length, text_mr, 0, be64toh(server.addr),
			      be32toh(server.rkey)),
	      "rdma_post_write");
	check_completion(rdma_get_send_comp(id, &wc), &wc, "RDMA WRITE");

	/* 4. SEND: the server gets a completion for it. */
	check(rdma_post_send(id, NULL, message, sizeof(message), message_mr, 0), "rdma_post_send");
	check_completion(rdma_get_send_comp(id, &wc), &wc, "SEND");
	printf("wrote %zu bytes and sent a message\n", length);

	rdma_disconnect(id);
	rdma_dereg_mr(text_mr);
	rdma_dereg_mr(message_mr);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
	return 0;
}
