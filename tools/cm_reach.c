/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm-reach: exchanges messages with the communication manager of a host, for `usrdma doctor HOST`.
 *
 *	cm-reach HOST COUNT
 *
 * Each attempt connects to a port of the host where no program listens, so that the host's
 * communication manager answers with a REJ, be it usrdma's, the kernel's or a NIC's. Prints one
 * line for each attempt: "answer MICROSECONDS" or "no answer: CAUSE". An attempt that the host
 * refuses with an ICMP message is the last one: hosts limit the rate of these messages, and the
 * next check of `usrdma doctor` needs one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define NS_PER_US 1000

/* RoCEv2's own UDP port. As a port of the rdma_cm it has no meaning. */
#define UNUSED_PORT 4791

#define RESOLVE_TIMEOUT_MS 2000

/* 0: the host answered; or an errno. */
static int connect_once(struct rdma_cm_id *id, struct sockaddr *address)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	if (rdma_resolve_addr(id, NULL, address, RESOLVE_TIMEOUT_MS) ||
	    rdma_resolve_route(id, RESOLVE_TIMEOUT_MS) || rdma_create_qp(id, NULL, &attr))
		return errno;
	if (!rdma_connect(id, NULL)) {
		rdma_disconnect(id);
		return 0;
	}
	/*
	 * An ICMP message that UDP port 4791 is closed gives the same errno as a REJ, but another
	 * event.
	 */
	return id->event && id->event->event == RDMA_CM_EVENT_REJECTED ? 0 : errno;
}

/* is_refused: no program of the host has UDP port 4791. */
static int attempt(struct sockaddr *address, bool *is_refused)
{
	struct rdma_cm_id *id;
	uint64_t start_ns;
	int error;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return tool_fail("rdma_create_id");
	start_ns = tool_now_ns();
	error = connect_once(id, address);
	*is_refused = error == ECONNREFUSED;
	if (error)
		printf("no answer: %s\n", strerror(error));
	else
		printf("answer %" PRIu64 "\n", (tool_now_ns() - start_ns) / NS_PER_US);
	if (id->qp)
		rdma_destroy_qp(id);
	return rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
	struct sockaddr_storage address;
	bool is_refused = false;
	unsigned long count;

	if (argc != 3) {
		fputs("usage: cm-reach HOST COUNT\n", stderr);
		return EXIT_FAILURE;
	}
	if (tool_address(argv[1], UNUSED_PORT, &address))
		return EXIT_FAILURE;
	count = strtoul(argv[2], NULL, 10);
	for (unsigned long i = 0; i < count && !is_refused; i++) {
		if (attempt((struct sockaddr *)&address, &is_refused))
			return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
