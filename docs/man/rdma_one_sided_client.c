/* SPDX-License-Identifier: BSD-2-Clause */
/* Client: writes a text into the memory of the server ADDRESS PORT, reads it back and prints it. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* As in the server. */
struct announcement {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

static struct announcement announcement;
static char written[] = "hello", result[sizeof(written)];

static void check(int failed, const char *call)
{
	if (failed) {
		perror(call);
		exit(1);
	}
}

static void check_completion(int count, const struct ibv_wc *wc, const char *operation)
{
	if (count == 1 && wc->status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", operation,
		count == 1 ? ibv_wc_status_str(wc->status) : "no completion");
	exit(1);
}

/*
 * The id has no event channel: each call waits for its event, and fails if the event reports an
 * error.
 */
static struct rdma_cm_id *connect_to(const char *address, const char *port,
				     struct ibv_mr **announcement_mr)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	/*
	 * initiator_depth: the number of READs that this side sends at a time. With 0 READ fails.
	 */
	struct rdma_conn_param param = {
		.initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	check(rdma_getaddrinfo(address, port, &hints, &info), "rdma_getaddrinfo");
	check(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	/* The receive is posted before the server can send. */
	*announcement_mr = rdma_reg_msgs(id, &announcement, sizeof(announcement));
	check(!*announcement_mr, "rdma_reg_msgs");
	check(rdma_post_recv(id, NULL, &announcement, sizeof(announcement), *announcement_mr),
	      "rdma_post_recv");
	check(rdma_connect(id, &param), "rdma_connect");
	return id;
}

int main(int argc, char **argv)
{
	struct ibv_mr *announcement_mr, *written_mr, *result_mr;
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	uint64_t addr;
	uint32_t rkey;

	if (argc != 3) {
		fprintf(stderr, "usage: %s ADDRESS PORT\n", argv[0]);
		return 1;
	}
	id = connect_to(argv[1], argv[2], &announcement_mr);
	/* The local buffers need no remote access rights. */
	written_mr = rdma_reg_msgs(id, written, sizeof(written));
	result_mr = rdma_reg_msgs(id, result, sizeof(result));
	check(!written_mr || !result_mr, "rdma_reg_msgs");

	check_completion(rdma_get_recv_comp(id, &wc), &wc, "receive");
	addr = be64toh(announcement.addr);
	rkey = be32toh(announcement.rkey);
	if (be32toh(announcement.length) < sizeof(written)) {
		fputs("the memory of the server is too short\n", stderr);
		return 1;
	}
	/*
	 * Requests of a queue pair are executed in order: the READ returns what the WRITE has
	 * written.
	 */
	check(rdma_post_write(id, NULL, written, sizeof(written), written_mr, 0, addr, rkey),
	      "rdma_post_write");
	check(rdma_post_read(id, NULL, result, sizeof(result), result_mr, 0, addr, rkey),
	      "rdma_post_read");
	check_completion(rdma_get_send_comp(id, &wc), &wc, "write");
	check_completion(rdma_get_send_comp(id, &wc), &wc, "read");
	printf("read: %s\n", result);

	check(rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(announcement_mr);
	rdma_dereg_mr(written_mr);
	rdma_dereg_mr(result_mr);
	rdma_destroy_ep(id);
	return 0;
}
