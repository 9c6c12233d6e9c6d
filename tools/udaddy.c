/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udaddy: sends datagrams in both directions between pairs of UD queue pairs, which rdma_cm
 * resolves (SIDR).
 *
 * A "connect" resolves the address of the server's queue pair for the client. The server takes the
 * client's address from the completion of the first datagram, and the QPN for its replies from the
 * immediate data.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
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
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	enum rdma_port_space space;
	int connections;
	int messages;
	int size_bytes;
	bool has_tos;
	uint8_t tos;
} options = {
	.port = "7174", .space = RDMA_PS_UDP, .connections = 1, .messages = 10, .size_bytes = 100};

/* One id with its QP, and the address of its peer once that is resolved. */
struct node {
	struct rdma_cm_id *id;
	struct ibv_ah *ah;
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint8_t *memory; /* buffer of all its datagrams, sent and received */
	struct ibv_mr *mr;
};

static struct test {
	struct rdma_event_channel *events;
	struct rdma_addrinfo *address;
	struct node *nodes;
	int requests; /* number of nodes in use */
	int connects_left;
	int status; /* status of the first failure */
} test;

static int fail(const char *what)
{
	fprintf(stderr, "udaddy: %s: %s\n", what, strerror(errno));
	return -1;
}

/* ---- Nodes ---- */

static int node_equip(struct node *node)
{
	uint32_t depth = options.messages ? (uint32_t)options.messages : 1;
	size_t length = GRH_BYTES + (size_t)options.size_bytes;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	if (tool_check_packet("udaddy", node->id, options.size_bytes))
		return -1;
	if (rdma_create_qp(node->id, NULL, &attr))
		return fail("unable to create QP");
	node->memory = calloc(1, length);
	node->mr = node->memory ? rdma_reg_msgs(node->id, node->memory, length) : NULL;
	if (!node->mr)
		return fail("unable to register memory");
	for (int i = 0; i < options.messages; i++) {
		if (rdma_post_recv(node->id, NULL, node->memory, length, node->mr))
			return fail("failed to post receives");
	}
	return 0;
}

static void node_free(struct node *node)
{
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

/* Sets the peer's address from a received datagram. The Q_Key is that of the port space. */
static int reply_to(struct node *node, struct ibv_wc *wc)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	node->ah = ibv_create_ah_from_wc(node->id->pd, wc, (struct ibv_grh *)node->memory,
					 node->id->port_num);
	if (!node->ah)
		return fail("failed to create reply AH");
	errno = ibv_query_qp(node->id->qp, &attr, IBV_QP_QKEY, &init);
	if (errno)
		return fail("ibv_query_qp");
	node->remote_qpn = be32toh(wc->imm_data);
	node->remote_qkey = attr.qkey;
	return 0;
}

/* Waits until all sends, or all receives, of a node are complete. */
static int node_await(struct node *node, bool is_send)
{
	struct ibv_comp_channel *wakeups = is_send ? node->id->send_cq_channel :
						     node->id->recv_cq_channel;
	struct ibv_cq *cq = is_send ? node->id->send_cq : node->id->recv_cq;
	struct ibv_wc wc;

	for (int i = 0; i < options.messages; i++) {
		if (tool_completion(cq, wakeups, NULL, &wc))
			return -1;
		if (wc.status) {
			printf("udaddy: failed polling CQ: %s\n", ibv_wc_status_str(wc.status));
			return -1;
		}
		if (!is_send && !node->ah && reply_to(node, &wc))
			return -1;
	}
	return 0;
}

/* ---- Events ---- */

static void connect_failed(int status)
{
	test.connects_left--;
	if (!test.status)
		test.status = status ? status : -1;
}

static void on_addr_resolved(struct node *node)
{
	if (options.has_tos && rdma_set_option(node->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
					       &options.tos, sizeof(options.tos)))
		fail("set TOS option failed");
	if (rdma_resolve_route(node->id, RESOLVE_MS)) {
		fail("resolve route failed");
		connect_failed(-errno);
	}
}

static void on_route_resolved(struct node *node)
{
	struct rdma_conn_param param = {
		.private_data = test.address->ai_connect,
		.private_data_len = (uint8_t)test.address->ai_connect_len,
	};

	if (node_equip(node)) {
		connect_failed(-errno);
	} else if (rdma_connect(node->id, &param)) {
		fail("failure connecting");
		connect_failed(-errno);
	}
}

/* The response to a connect contains the peer's QPN, Q_Key and address. */
static void on_established(struct node *node, struct rdma_ud_param *peer)
{
	node->remote_qpn = peer->qp_num;
	node->remote_qkey = peer->qkey;
	node->ah = ibv_create_ah(node->id->pd, &peer->ah_attr);
	if (node->ah) {
		test.connects_left--;
	} else {
		fail("failure creating address handle");
		connect_failed(-errno);
	}
}

/*
 * The new id is assigned to the next node; without a free node it is rejected. An accept causes no
 * event.
 */
static void on_connect_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {0};
	struct node *node;

	if (test.requests == options.connections) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	node = &test.nodes[test.requests++];
	node->id = id;
	id->context = node;
	if (!node_equip(node)) {
		param.qp_num = id->qp->qp_num;
		if (!rdma_accept(id, &param)) {
			test.connects_left--;
			return;
		}
		fail("failure accepting");
	}
	connect_failed(-errno);
	printf("udaddy: failing connection request\n");
	rdma_reject(id, NULL, 0);
}

static void handle(struct rdma_cm_event *event)
{
	struct node *node = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		on_addr_resolved(node);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		on_route_resolved(node);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(node, &event->param.ud);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		printf("udaddy: event: %s, error: %d\n", rdma_event_str(event->event),
		       event->status);
		connect_failed(event->status);
		break;
	default:
		break;
	}
}

static int await_connections(void)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *request;

	while (test.connects_left > 0) {
		if (rdma_get_cm_event(test.events, &event))
			return fail("rdma_get_cm_event");
		/*
		 * The id of a rejected request cannot be destroyed before its event is
		 * acknowledged.
		 */
		request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
		if (!request)
			handle(event);
		rdma_ack_cm_event(event);
		if (request)
			on_connect_request(request);
	}
	return test.status ? -1 : 0;
}

/* ---- The two sides ---- */

static int send_all(void)
{
	for (int i = 0; i < options.connections; i++) {
		if (node_send(&test.nodes[i]) || node_await(&test.nodes[i], true))
			return -1;
	}
	return 0;
}

static int receive_all(void)
{
	printf("receiving data transfers\n");
	for (int i = 0; i < options.connections; i++) {
		if (node_await(&test.nodes[i], false))
			return -1;
	}
	return 0;
}

static int server(void)
{
	struct rdma_cm_id *listener;
	int error = -1;

	if (rdma_create_id(test.events, &listener, NULL, options.space))
		return fail("listen request failed");
	if (rdma_bind_addr(listener, test.address->ai_src_addr))
		fail("bind address failed");
	else if (rdma_listen(listener, 0))
		fail("failure trying to listen");
	else
		error = await_connections();
	rdma_destroy_id(listener);
	if (error || !options.messages)
		return error;
	if (receive_all())
		return -1;
	printf("sending replies\n");
	if (send_all())
		return -1;
	printf("data transfers complete\n");
	return 0;
}

static int client(void)
{
	printf("udaddy: connecting\n");
	for (int i = 0; i < options.connections; i++) {
		struct node *node = &test.nodes[i];

		if (rdma_create_id(test.events, &node->id, node, options.space))
			return fail("failure creating id");
		if (rdma_resolve_addr(node->id, test.address->ai_src_addr,
				      test.address->ai_dst_addr, RESOLVE_MS)) {
			fail("failure getting addr");
			connect_failed(-errno);
		}
	}
	if (await_connections() || !options.messages)
		return test.status;
	printf("initiating data transfers\n");
	if (send_all() || receive_all())
		return -1;
	printf("data transfers complete\n");
	return 0;
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server_address]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-f address_format]\n\t    name, ip, ipv6, or gid\n");
	printf("\t[-P port_space]\n\t    udp or ipoib\n");
	printf("\t[-c connections]\n");
	printf("\t[-C message_count]\n");
	printf("\t[-S message_size]\n");
	printf("\t[-t type_of_service]\n");
	printf("\t[-p port_space - %#x for UDP (default), %#x for IPOIB]\n",
	       (unsigned int)RDMA_PS_UDP, (unsigned int)RDMA_PS_IPOIB);
	return EXIT_FAILURE;
}

static int parse(int argc, char **argv, struct rdma_addrinfo *hints)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:f:P:c:C:S:t:p:")) != -1) {
		switch (option) {
		case 's':
			options.server = optarg;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'f':
			tool_address_format(optarg, hints);
			break;
		case 'P':
			if (strncasecmp(optarg, "ipoib", 5) == 0)
				options.space = RDMA_PS_IPOIB;
			else if (strncasecmp(optarg, "udp", 3) != 0)
				fprintf(stderr, "Warning: unknown port space format\n");
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
		case 't':
			options.has_tos = true;
			options.tos = (uint8_t)strtoul(optarg, NULL, 0);
			break;
		case 'p':
			options.space = strtoul(optarg, NULL, 0) == RDMA_PS_IPOIB ? RDMA_PS_IPOIB :
										    RDMA_PS_UDP;
			break;
		default:
			return usage(argv[0]);
		}
	}
	if (options.connections < 1 || options.messages < 0 || options.size_bytes < 0)
		return usage(argv[0]);
	return 0;
}

static int run(const struct rdma_addrinfo *hints)
{
	int error;

	printf("udaddy: starting %s\n", options.server ? "client" : "server");
	error = tool_endpoint(options.server, options.local, options.port, hints, &test.address);
	if (error) {
		printf("udaddy: getaddrinfo error: %s\n",
		       error == -1 ? strerror(errno) : gai_strerror(error));
		return error;
	}
	test.events = rdma_create_event_channel();
	test.nodes = calloc((size_t)options.connections, sizeof(*test.nodes));
	if (!test.events || !test.nodes)
		return fail("failed to create event channel");
	test.connects_left = options.connections;
	error = options.server ? client() : server();
	for (int i = 0; i < options.connections; i++)
		node_free(&test.nodes[i]);
	free(test.nodes);
	rdma_destroy_event_channel(test.events);
	rdma_freeaddrinfo(test.address);
	return test.status ? test.status : error;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_qp_type = IBV_QPT_UD};
	int status = parse(argc, argv, &hints);

	if (status)
		return status;
	hints.ai_port_space = (int)options.space;
	status = run(&hints);
	printf("test complete\n");
	printf("return status %d\n", status);
	return status;
}
