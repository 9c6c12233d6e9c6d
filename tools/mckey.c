/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mckey: joins a multicast group with one or more UD queue pairs, and sends datagrams to the group
 * or receives them.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define RESOLVE_MS 2000
#define GRH_BYTES  sizeof(struct ibv_grh) /* at the start of each receive buffer */

static struct options {
	const char *group;
	const char *local;
	enum rdma_port_space space;
	int connections;
	int messages;
	int size_bytes;
	bool is_sender;
	bool is_unmapped; /* the group is a GID, not an IP address */
	bool is_send_only;
	bool has_no_loopback;
} options = {.space = RDMA_PS_UDP, .connections = 1, .messages = 10, .size_bytes = 100};

/* One id with its QP, a member of the group. */
struct node {
	struct rdma_cm_id *id;
	bool is_joined;
	struct ibv_ah *ah;
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	void *memory; /* buffer of all its datagrams */
	struct ibv_mr *mr;
};

static struct test {
	struct rdma_event_channel *events;
	struct sockaddr_storage local;
	struct sockaddr_storage group;
	struct node *nodes;
	int joins_left;
	int status;
} test;

static int fail(const char *what)
{
	fprintf(stderr, "mckey: %s: %s\n", what, strerror(errno));
	return -1;
}

/* ---- Nodes ---- */

static int create_qp(struct rdma_cm_id *id)
{
	uint32_t depth = options.messages ? (uint32_t)options.messages : 1;
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = id->pd,
	};

	if (options.has_no_loopback) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	}
	return rdma_create_qp_ex(id, &attr) ? fail("unable to create QP") : 0;
}

static int node_equip(struct node *node)
{
	size_t length = GRH_BYTES + (size_t)options.size_bytes;

	if (tool_check_packet("mckey", node->id, options.size_bytes) || create_qp(node->id))
		return -1;
	node->memory = calloc(1, length);
	node->mr = node->memory ? rdma_reg_msgs(node->id, node->memory, length) : NULL;
	if (!node->mr)
		return fail("unable to register memory");
	for (int i = 0; i < options.messages && !options.is_sender; i++) {
		if (rdma_post_recv(node->id, NULL, node->memory, length, node->mr))
			return fail("failed to post receives");
	}
	return 0;
}

static void node_free(struct node *node)
{
	if (node->is_joined && rdma_leave_multicast(node->id, (struct sockaddr *)&test.group))
		fail("failure leaving");
	if (node->ah)
		ibv_destroy_ah(node->ah);
	if (node->id)
		rdma_destroy_qp(node->id);
	if (node->mr)
		rdma_dereg_mr(node->mr);
	free(node->memory);
	if (node->id)
		rdma_destroy_id(node->id);
}

static int node_send(struct node *node)
{
	struct ibv_sge sge = {.addr = (uintptr_t)node->memory,
			      .length = (uint32_t)options.size_bytes,
			      .lkey = node->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htobe32(node->id->qp->qp_num),
		.wr.ud = {node->ah, node->remote_qpn, node->remote_qkey},
	};
	struct ibv_send_wr *bad;

	for (int i = 0; i < options.messages; i++) {
		errno = ibv_post_send(node->id->qp, &wr, &bad);
		if (errno)
			return fail("failed to post sends");
	}
	return 0;
}

/* Waits until all sends, or all receives, of a node are complete. */
static int node_await(struct node *node)
{
	struct ibv_comp_channel *wakeups = options.is_sender ? node->id->send_cq_channel :
							       node->id->recv_cq_channel;
	struct ibv_cq *cq = options.is_sender ? node->id->send_cq : node->id->recv_cq;
	struct ibv_wc wc;

	for (int i = 0; i < options.messages; i++) {
		if (tool_completion(cq, wakeups, NULL, &wc))
			return -1;
		if (wc.status) {
			printf("mckey: failed polling CQ: %s\n", ibv_wc_status_str(wc.status));
			return -1;
		}
	}
	return 0;
}

/* ---- Joining ---- */

static void join_failed(int status)
{
	test.joins_left--;
	if (!test.status)
		test.status = status;
}

/* The id is bound to a device: creates the QP and joins the group. */
static void join(struct node *node)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = options.is_send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER :
						     RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&test.group,
	};

	if (node_equip(node)) {
		join_failed(-1);
	} else if (rdma_join_multicast_ex(node->id, &attr, NULL)) {
		fail("failure joining");
		join_failed(-1);
	} else {
		node->is_joined = true;
	}
}

static void on_joined(struct node *node, struct rdma_ud_param *group)
{
	char name[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, group->ah_attr.grh.dgid.raw, name, sizeof(name));
	printf("mckey: joined dgid: %s mlid 0x%x sl %d\n", name, group->ah_attr.dlid,
	       group->ah_attr.sl);
	node->remote_qpn = group->qp_num;
	node->remote_qkey = group->qkey;
	node->ah = ibv_create_ah(node->id->pd, &group->ah_attr);
	if (node->ah) {
		test.joins_left--;
	} else {
		fail("failure creating address handle");
		join_failed(-1);
	}
}

static void handle(struct rdma_cm_event *event)
{
	struct node *node = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		join(node);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		on_joined(node, &event->param.ud);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		printf("mckey: event: %s, error: %d\n", rdma_event_str(event->event),
		       event->status);
		if (event->event == RDMA_CM_EVENT_MULTICAST_ERROR)
			node->is_joined = false;
		join_failed(event->status);
		break;
	default:
		break;
	}
}

/*
 * The device is chosen by the group's IP address. If the group is a GID, the local address chooses
 * the device.
 */
static int node_start(struct node *node)
{
	struct sockaddr *local = options.local ? (struct sockaddr *)&test.local : NULL;

	if (rdma_create_id(test.events, &node->id, node, options.space))
		return fail("failure creating id");
	if (local && rdma_bind_addr(node->id, local))
		return fail("addr bind failure");
	if (options.is_unmapped)
		join(node);
	else if (rdma_resolve_addr(node->id, local, (struct sockaddr *)&test.group, RESOLVE_MS))
		return fail("resolve addr failure");
	return 0;
}

static int join_all(void)
{
	struct rdma_cm_event *event;

	printf("mckey: joining\n");
	for (int i = 0; i < options.connections; i++) {
		if (node_start(&test.nodes[i]))
			return -1;
	}
	while (test.joins_left > 0) {
		if (rdma_get_cm_event(test.events, &event))
			return fail("rdma_get_cm_event");
		handle(event);
		rdma_ack_cm_event(event);
	}
	return test.status;
}

static int transfer(void)
{
	if (options.is_sender) {
		printf("initiating data transfers\n");
		for (int i = 0; i < options.connections; i++) {
			if (node_send(&test.nodes[i]))
				return -1;
		}
	} else {
		printf("receiving data transfers\n");
	}
	for (int i = 0; i < options.connections; i++) {
		if (node_await(&test.nodes[i]))
			return -1;
	}
	printf("data transfers complete\n");
	return 0;
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t-m multicast_address\n");
	printf("\t[-M unmapped_multicast_address]\n\t replaces -m and requires -b\n");
	printf("\t[-s(ender)]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-c connections]\n");
	printf("\t[-C message_count]\n");
	printf("\t[-S message_size]\n");
	printf("\t[-p port_space - %#x for UDP (default), %#x for IPOIB]\n",
	       (unsigned int)RDMA_PS_UDP, (unsigned int)RDMA_PS_IPOIB);
	printf("\t[-o join as a send-only full-member]\n");
	printf("\t[-l join without multicast loopback]\n");
	return EXIT_FAILURE;
}

static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "m:M:sb:c:C:S:p:ol")) != -1) {
		switch (option) {
		case 'm':
			options.group = optarg;
			break;
		case 'M':
			options.is_unmapped = true;
			options.group = optarg;
			break;
		case 's':
			options.is_sender = true;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'c':
			options.connections = atoi(optarg);
			break;
		case 'C':
			options.messages = atoi(optarg);
			break;
		case 'S':
			options.size_bytes = atoi(optarg);
			break;
		case 'p':
			options.space = strtoul(optarg, NULL, 0) == RDMA_PS_IPOIB ? RDMA_PS_IPOIB :
										    RDMA_PS_UDP;
			break;
		case 'o':
			options.is_send_only = true;
			break;
		case 'l':
			options.has_no_loopback = true;
			break;
		default:
			return usage(argv[0]);
		}
	}
	if (options.is_unmapped && !options.local) {
		printf("unmapped multicast address requires binding to source address\n");
		return EXIT_FAILURE;
	}
	if (!options.group || options.connections < 1 || options.messages < 0 ||
	    options.size_bytes < 0)
		return usage(argv[0]);
	return 0;
}

static int group_address(void)
{
	struct sockaddr_ib *gid = (struct sockaddr_ib *)&test.group;

	if (!options.is_unmapped)
		return tool_address(options.group, 0, &test.group);
	gid->sib_family = AF_IB;
	if (inet_pton(AF_INET6, options.group, &gid->sib_addr) == 1)
		return 0;
	printf("'%s' is no GID\n", options.group);
	return -1;
}

static int run(void)
{
	int error = 0;

	printf("mckey: starting %s\n", options.is_sender ? "client" : "server");
	if (options.local)
		error = tool_address(options.local, 0, &test.local);
	if (!error)
		error = group_address();
	if (error)
		return error;
	test.events = rdma_create_event_channel();
	test.nodes = calloc((size_t)options.connections, sizeof(*test.nodes));
	if (!test.events || !test.nodes)
		return fail("failed to create event channel");
	test.joins_left = options.connections;
	error = join_all();
	if (!error && options.messages)
		error = transfer();
	for (int i = 0; i < options.connections; i++)
		node_free(&test.nodes[i]);
	free(test.nodes);
	rdma_destroy_event_channel(test.events);
	return error;
}

int main(int argc, char **argv)
{
	int status = parse(argc, argv);

	if (status)
		return status;
	status = run();
	printf("test complete\n");
	printf("return status %d\n", status);
	return status;
}
