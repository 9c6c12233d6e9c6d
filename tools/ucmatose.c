/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ucmatose: establishes connections, sends messages over each of them in both directions, and
 * disconnects.
 *
 * All connections share one event channel. The server sends first and disconnects first.
 */
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

static struct options {
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	enum rdma_port_space space;
	int connections;
	int messages;
	int size_bytes;
	bool migrates;
	bool has_tos, has_ack_timeout;
	uint8_t tos, ack_timeout;
} options = {
	.port = "7471", .space = RDMA_PS_TCP, .connections = 1, .messages = 10, .size_bytes = 100};

/* One connection. All its receives use the same memory; no code reads the data. */
struct node {
	struct rdma_cm_id *id;
	bool is_connected;
	void *memory;
	struct ibv_mr *mr;
};

/* State of the test: the number of expected events, and the result. */
static struct test {
	struct rdma_event_channel *events;
	struct rdma_addrinfo *address;
	struct node *nodes;
	int requests; /* number of nodes in use */
	int connects_left;
	int disconnects_left;
	int status; /* status of the first failure */
} test;

static int fail(const char *what)
{
	fprintf(stderr, "cmatose: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct rdma_conn_param conn_param(void)
{
	return (struct rdma_conn_param){.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 5,
					.private_data = test.address->ai_connect,
					.private_data_len = (uint8_t)test.address->ai_connect_len};
}

/* ---- Nodes ---- */

/* Creates the QP, its send and receive CQ, and posts all receives. */
static int node_equip(struct node *node)
{
	uint32_t depth = options.messages ? (uint32_t)options.messages : 1;
	size_t length = options.size_bytes ? (size_t)options.size_bytes : 1;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(node->id, NULL, &attr))
		return fail("unable to create QP");
	node->memory = calloc(1, length);
	node->mr = node->memory ? rdma_reg_msgs(node->id, node->memory, length) : NULL;
	if (!node->mr)
		return fail("unable to register memory");
	for (int i = 0; i < options.messages; i++) {
		if (rdma_post_recv(node->id, NULL, node->memory, (size_t)options.size_bytes,
				   node->mr))
			return fail("failed to post receives");
	}
	return 0;
}

static void node_free(struct node *node)
{
	if (!node->id)
		return;
	rdma_destroy_qp(node->id);
	if (node->mr)
		rdma_dereg_mr(node->mr);
	free(node->memory);
	rdma_destroy_id(node->id);
}

static int node_send(struct node *node)
{
	for (int i = 0; i < options.messages; i++) {
		if (rdma_post_send(node->id, NULL, node->memory, (size_t)options.size_bytes,
				   node->mr, 0))
			return fail("failed to post sends");
	}
	return 0;
}

/*
 * Waits until all sends, or all receives, of all connections are complete. Sends complete whatever
 * the peer does. Receives do not complete if the peer has disconnected, so the function also
 * watches for the end of a connection.
 */
static int await_messages(bool is_send)
{
	for (int i = 0; i < options.connections; i++) {
		struct rdma_cm_id *id = test.nodes[i].id;
		struct ibv_wc wc;

		for (int n = 0; n < options.messages; n++) {
			int found = is_send ? tool_completion(id->send_cq, id->send_cq_channel,
							      NULL, &wc) :
					      tool_completion(id->recv_cq, id->recv_cq_channel,
							      test.events, &wc);

			if (!found && wc.status == IBV_WC_SUCCESS)
				continue;
			fprintf(stderr, "cmatose: failed polling CQ: %s\n",
				found ? "the connection ended" : ibv_wc_status_str(wc.status));
			return -1;
		}
	}
	return 0;
}

static int send_all(void)
{
	for (int i = 0; i < options.connections; i++) {
		if (node_send(&test.nodes[i]))
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

static int set_options(struct rdma_cm_id *id)
{
	if (options.has_tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &options.tos,
					       sizeof(options.tos)))
		return fail("set TOS option failed");
	if (options.has_ack_timeout &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &options.ack_timeout,
			    sizeof(options.ack_timeout)))
		return fail("set ack timeout option failed");
	return 0;
}

static void on_addr_resolved(struct node *node)
{
	if (set_options(node->id)) {
		connect_failed(-errno);
	} else if (rdma_resolve_route(node->id, RESOLVE_MS)) {
		fail("resolve route failed");
		connect_failed(-errno);
	}
}

static void on_route_resolved(struct node *node)
{
	struct rdma_conn_param param = conn_param();

	if (node_equip(node)) {
		connect_failed(-errno);
	} else if (rdma_connect(node->id, &param)) {
		fail("failure connecting");
		connect_failed(-errno);
	}
}

/*
 * The new id has the listener's context. It is assigned to the next node; without a free node it is
 * rejected.
 */
static void on_connect_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = conn_param();
	struct node *node;

	if (test.requests == options.connections) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	node = &test.nodes[test.requests++];
	node->id = id;
	id->context = node;
	if (!set_options(id) && !node_equip(node)) {
		if (!rdma_accept(id, &param))
			return;
		fail("failure accepting");
	}
	connect_failed(-errno);
	printf("cmatose: failing connection request\n");
	rdma_reject(id, NULL, 0);
}

static void on_disconnected(struct node *node)
{
	if (!node->is_connected)
		return;
	node->is_connected = false;
	rdma_disconnect(node->id);
	test.disconnects_left--;
}

static void handle(const struct rdma_cm_event *event)
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
		node->is_connected = true;
		test.connects_left--;
		test.disconnects_left++;
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		printf("cmatose: event: %s, error: %d\n", rdma_event_str(event->event),
		       event->status);
		connect_failed(event->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		on_disconnected(node);
		break;
	default:
		break;
	}
}

/* Processes events until the counter *left is 0. */
static int await_events(const int *left)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *request;

	while (*left > 0) {
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
	return 0;
}

/* Moves all connections to a new event channel. */
static int migrate(void)
{
	struct rdma_event_channel *other;

	printf("migrating to new event channel\n");
	other = rdma_create_event_channel();
	if (!other)
		return fail("failed to create event channel");
	for (int i = 0; i < options.connections; i++) {
		if (rdma_migrate_id(test.nodes[i].id, other))
			return fail("failure migrating to new channel");
	}
	rdma_destroy_event_channel(test.events);
	test.events = other;
	return 0;
}

/* ---- The two sides ---- */

static int server_transfer(void)
{
	printf("initiating data transfers\n");
	if (send_all())
		return -1;
	printf("completing sends\n");
	if (await_messages(true))
		return -1;
	printf("receiving data transfers\n");
	if (await_messages(false))
		return -1;
	printf("data transfers complete\n");
	return 0;
}

static int client_transfer(void)
{
	printf("receiving data transfers\n");
	if (await_messages(false))
		return -1;
	printf("sending replies\n");
	if (send_all() || await_messages(true))
		return -1;
	printf("data transfers complete\n");
	return 0;
}

static int server_disconnect(void)
{
	int error = 0;

	printf("cmatose: disconnecting\n");
	for (int i = 0; i < options.connections; i++) {
		if (test.nodes[i].is_connected && rdma_disconnect(test.nodes[i].id))
			error = fail("failure disconnecting");
	}
	return error;
}

static struct rdma_cm_id *listen_there(void)
{
	struct rdma_cm_id *listener;

	if (rdma_create_id(test.events, &listener, NULL, options.space)) {
		fail("listen request failed");
		return NULL;
	}
	if (rdma_bind_addr(listener, test.address->ai_src_addr)) {
		fail("bind address failed");
	} else if (rdma_listen(listener, 0)) {
		fail("failure trying to listen");
	} else {
		return listener;
	}
	rdma_destroy_id(listener);
	return NULL;
}

static int server(void)
{
	struct rdma_cm_id *listener;
	int error;

	listener = listen_there();
	if (!listener)
		return -1;
	error = await_events(&test.connects_left);
	rdma_destroy_id(listener);
	if (!error && !test.status && options.messages)
		error = server_transfer();
	if (!error && !test.status && options.migrates)
		error = migrate();
	if (server_disconnect() || await_events(&test.disconnects_left))
		return -1;
	printf("disconnected\n");
	return error;
}

static int client(void)
{
	int error;

	printf("cmatose: connecting\n");
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
	error = await_events(&test.connects_left);
	if (!error && !test.status && options.messages)
		error = client_transfer();
	if (!error && options.migrates)
		error = migrate();
	return error || await_events(&test.disconnects_left) ? -1 : 0;
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server_address]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-f address_format]\n\t    name, ip, ipv6, or gid\n");
	printf("\t[-P port_space]\n\t    tcp or ib\n");
	printf("\t[-c connections]\n");
	printf("\t[-C message_count]\n");
	printf("\t[-S message_size]\n");
	printf("\t[-t type_of_service]\n");
	printf("\t[-p port_number]\n");
	printf("\t[-m(igrate)]\n");
	printf("\t[-a ack_timeout]\n");
	return EXIT_FAILURE;
}

static int parse(int argc, char **argv, struct rdma_addrinfo *hints)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:f:P:c:C:S:t:p:a:m")) != -1) {
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
			if (strncasecmp(optarg, "ib", 2) == 0)
				options.space = RDMA_PS_IB;
			else if (strncasecmp(optarg, "tcp", 3) != 0)
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
			options.port = optarg;
			break;
		case 'm':
			options.migrates = true;
			break;
		case 'a':
			options.has_ack_timeout = true;
			options.ack_timeout = (uint8_t)strtoul(optarg, NULL, 0);
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

	printf("cmatose: starting %s\n", options.server ? "client" : "server");
	error = tool_endpoint(options.server, options.local, options.port, hints, &test.address);
	if (error) {
		printf("cmatose: getaddrinfo error: %s\n",
		       error == -1 ? strerror(errno) : gai_strerror(error));
		return error;
	}
	test.events = rdma_create_event_channel();
	test.nodes = calloc((size_t)options.connections, sizeof(*test.nodes));
	if (!test.events || !test.nodes) {
		fail("failed to create event channel");
		return -1;
	}
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
	struct rdma_addrinfo hints = {0};
	int status = parse(argc, argv, &hints);

	if (status)
		return status;
	hints.ai_port_space = (int)options.space;
	status = run(&hints);
	printf("test complete\n");
	printf("return status %d\n", status);
	return status;
}
