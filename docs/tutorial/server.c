/* SPDX-License-Identifier: BSD-2-Clause */
/* Server: lets one client on PORT write into its memory, and prints what the client has written. */
#include "tutorial.h"

static char memory[4096], message[64];

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct announcement announcement;
	struct rdma_conn_param param = {.private_data = &announcement,
					.private_data_len = sizeof(announcement)};
	struct ibv_mr *memory_mr, *message_mr;
	struct rdma_cm_id *listener, *id;
	struct ibv_wc wc;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PORT\n", argv[0]);
		return 1;
	}
	/* 1. Listen. Each connection gets a queue pair with the attributes `attr`. */
	check(rdma_getaddrinfo(NULL, argv[1], &hints, &info), "rdma_getaddrinfo");
	check(rdma_create_ep(&listener, info, NULL, &attr), "rdma_create_ep");
	check(rdma_listen(listener, 1), "rdma_listen");
	check(rdma_get_request(listener, &id), "rdma_get_request");

	/* 2. Register memory: the client may write into the first region. */
	memory_mr = rdma_reg_write(id, memory, sizeof(memory));
	message_mr = rdma_reg_msgs(id, message, sizeof(message));
	check(!memory_mr || !message_mr, "registration");

	/* 3. Post a receive before the client can send, and accept the connection. */
	check(rdma_post_recv(id, NULL, message, sizeof(message), message_mr), "rdma_post_recv");
	announcement.addr = htobe64((uintptr_t)memory);
	announcement.rkey = htobe32(memory_mr->rkey);
	announcement.length = htobe32(sizeof(memory));
	check(rdma_accept(id, &param), "rdma_accept");

	/* 4. Wait for the message of the client. The WRITE before it is complete then. */
	check_completion(rdma_get_recv_comp(id, &wc), &wc, "receive");
	printf("message: %s\n", message);
	printf("memory:  %s\n", memory);

	rdma_disconnect(id);
	rdma_dereg_mr(memory_mr);
	rdma_dereg_mr(message_mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(info);
	return 0;
}
