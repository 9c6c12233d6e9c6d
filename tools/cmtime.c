/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmtime: measures the duration of each step of connection establishment and release.
 *
 * The client executes a step for all connections before the next step. It starts an asynchronous
 * step for all connections and then waits for all of them. The server accepts all connections,
 * disconnects when a client disconnects, and runs until it is killed.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum step {
	STEP_CREATE_ID,
	STEP_BIND,
	STEP_RESOLVE_ADDR,
	STEP_RESOLVE_ROUTE,
	STEP_CREATE_QP,
	STEP_CONNECT,
	STEP_DISCONNECT,
	STEP_DESTROY,
	STEP_COUNT
};

static const struct {
	const char *row;
	const char *announcement;
} steps[STEP_COUNT] = {
	[STEP_CREATE_ID] = {"create id", "creating id"},
	[STEP_BIND] = {"bind addr", "binding source address"},
	[STEP_RESOLVE_ADDR] = {"resolve addr", "resolving address"},
	[STEP_RESOLVE_ROUTE] = {"resolve route", "resolving route"},
	[STEP_CREATE_QP] = {"create qp", "creating qp"},
	[STEP_CONNECT] = {"connect", "connecting"},
	[STEP_DISCONNECT] = {"disconnect", "disconnecting"},
	[STEP_DESTROY] = {"destroy", "destroying id"},
};

static struct options {
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	int connections;
	int retries;
	int timeout_ms;
} options = {.port = "7471", .connections = 100, .retries = 2, .timeout_ms = 2000};

/*
 * One connection of the client, with the start and end time of each step; 0: the step has not
 * started or ended.
 */
struct node {
	struct rdma_cm_id *id;
	bool has_failed;
	int retries_left;
	uint64_t began_ns[STEP_COUNT];
	uint64_t ended_ns[STEP_COUNT];
};

/* The CQ of all QPs of a device. One CQ for each QP would cost more than the connection. */
struct device {
	struct ibv_context *verbs;
	struct ibv_cq *cq;
	struct device *next;
};

static struct rdma_event_channel *events;
static struct rdma_addrinfo *address;
static struct node *nodes;
static int pending; /* steps that were started and have not ended */
static struct device *devices;

static struct ibv_cq *cq_of(struct ibv_context *verbs)
{
	struct device *device = devices;

	while (device && device->verbs != verbs)
		device = device->next;
	if (device)
		return device->cq;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	*device = (struct device){verbs, ibv_create_cq(verbs, 1, NULL, NULL, 0), devices};
	devices = device;
	return device->cq;
}

static void devices_free(void)
{
	while (devices) {
		struct device *device = devices;

		devices = device->next;
		if (device->cq)
			ibv_destroy_cq(device->cq);
		free(device);
	}
}

static int create_qp(struct rdma_cm_id *id)
{
	struct ibv_cq *cq = cq_of(id->verbs);
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
	};

	return cq ? rdma_create_qp(id, NULL, &attr) : -1;
}

/* ---- The client: one step of one connection ---- */

static void end(struct node *node, enum step step)
{
	node->ended_ns[step] = tool_now_ns();
}

static void failed(struct node *node, const char *what)
{
	fprintf(stderr, "failure %s: %s\n", what, strerror(errno));
	node->has_failed = true;
}

/* Executes a synchronous step. */
static void step_now(struct node *node, enum step step)
{
	switch (step) {
	case STEP_CREATE_ID:
		if (rdma_create_id(events, &node->id, node, RDMA_PS_TCP))
			failed(node, "creating id");
		break;
	case STEP_BIND:
		if (rdma_bind_addr(node->id, address->ai_src_addr))
			failed(node, "bind addr");
		break;
	case STEP_CREATE_QP:
		if (create_qp(node->id))
			failed(node, "creating qp");
		break;
	case STEP_DESTROY:
		if (node->id->qp)
			rdma_destroy_qp(node->id);
		rdma_destroy_id(node->id);
		break;
	default:
		break;
	}
	end(node, step);
}

/* Starts an asynchronous step; an event reports its end. */
static void step_start(struct node *node, enum step step)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	int error = 0;

	switch (step) {
	case STEP_RESOLVE_ADDR:
		error = rdma_resolve_addr(node->id, address->ai_src_addr, address->ai_dst_addr,
					  options.timeout_ms);
		break;
	case STEP_RESOLVE_ROUTE:
		error = rdma_resolve_route(node->id, options.timeout_ms);
		break;
	case STEP_CONNECT:
		error = rdma_connect(node->id, &param);
		break;
	case STEP_DISCONNECT:
		error = rdma_disconnect(node->id);
		break;
	default:
		break;
	}
	if (error)
		failed(node, steps[step].announcement);
	else
		pending++;
}

/* A failed resolution is tried again, a limited number of times. */
static void resolve_again(struct node *node, enum step step, const struct rdma_cm_event *event)
{
	pending--;
	if (node->retries_left-- > 0) {
		step_start(node, step);
		return;
	}
	printf("%s, error: %d\n", rdma_event_str(event->event), event->status);
	node->has_failed = true;
}

static void handle(const struct rdma_cm_event *event)
{
	struct node *node = event->id->context;
	enum step step;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		step = STEP_RESOLVE_ADDR;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		step = STEP_RESOLVE_ROUTE;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		step = STEP_CONNECT;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		step = STEP_DISCONNECT;
		if (node->began_ns[step])
			break;
		/* The server has disconnected. */
		node->has_failed = true;
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
		resolve_again(node, STEP_RESOLVE_ADDR, event);
		return;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		resolve_again(node, STEP_RESOLVE_ROUTE, event);
		return;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		printf("event: %s, error: %d\n", rdma_event_str(event->event), event->status);
		node->has_failed = true;
		pending--;
		return;
	default:
		return;
	}
	end(node, step);
	pending--;
}

/* ---- The client: all connections ---- */

static int await_all(void)
{
	struct rdma_cm_event *event;

	while (pending > 0) {
		if (rdma_get_cm_event(events, &event))
			return tool_fail("rdma_get_cm_event");
		handle(event);
		rdma_ack_cm_event(event);
	}
	return 0;
}

static bool takes_time(enum step step)
{
	return step == STEP_RESOLVE_ADDR || step == STEP_RESOLVE_ROUTE || step == STEP_CONNECT ||
	       step == STEP_DISCONNECT;
}

/* Executes a step for all connections. STEP_DESTROY includes connections that failed. */
static int run_step(enum step step)
{
	puts(steps[step].announcement);
	for (int i = 0; i < options.connections; i++) {
		struct node *node = &nodes[i];

		if (step == STEP_DESTROY ? !node->id : node->has_failed)
			continue;
		node->began_ns[step] = tool_now_ns();
		node->retries_left = options.retries;
		if (takes_time(step))
			step_start(node, step);
		else
			step_now(node, step);
	}
	return await_all();
}

static void print_row(enum step step)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0, max_ns = 0, min_ns = UINT64_MAX, total_ns;

	for (int i = 0; i < options.connections; i++) {
		uint64_t began_ns = nodes[i].began_ns[step], ended_ns = nodes[i].ended_ns[step];

		if (!began_ns || !ended_ns)
			continue;
		first_ns = began_ns < first_ns ? began_ns : first_ns;
		last_ns = ended_ns > last_ns ? ended_ns : last_ns;
		max_ns = ended_ns - began_ns > max_ns ? ended_ns - began_ns : max_ns;
		min_ns = ended_ns - began_ns < min_ns ? ended_ns - began_ns : min_ns;
	}
	if (!last_ns)
		first_ns = min_ns = 0;
	total_ns = last_ns - first_ns;
	printf("%-13s: %11.2f%11.2f%11.2f%11.2f\n", steps[step].row, (double)total_ns / 1e6,
	       (double)max_ns / 1e6, (double)min_ns / 1e3,
	       (double)total_ns / 1e3 / options.connections);
}

static int client(void)
{
	int error = 0;

	nodes = calloc((size_t)options.connections, sizeof(*nodes));
	if (!nodes)
		return tool_fail("cmtime");
	for (enum step step = 0; step < STEP_COUNT && !error; step++) {
		if (step != STEP_BIND || options.local)
			error = run_step(step);
	}
	puts("step              total ms     max ms     min us  us / conn");
	for (enum step step = 0; step < STEP_COUNT; step++) {
		if (step != STEP_BIND || options.local)
			print_row(step);
	}
	for (int i = 0; i < options.connections; i++)
		error |= nodes[i].has_failed;
	free(nodes);
	return error ? EXIT_FAILURE : 0;
}

/* ---- The server ---- */

static void accept_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};

	if (!create_qp(id) && !rdma_accept(id, &param))
		return;
	tool_fail("failure accepting");
	rdma_reject(id, NULL, 0);
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void end_connection(struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static bool is_over(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_CONNECT_ERROR ||
	       type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_REJECTED ||
	       type == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

/*
 * rdma_destroy_id() waits until all events of the id are acknowledged, so each event is
 * acknowledged first.
 */
static int serve(const struct rdma_cm_id *listener)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	for (;;) {
		if (rdma_get_cm_event(events, &event))
			return tool_fail("rdma_get_cm_event");
		type = event->event;
		id = event->id;
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			accept_request(id);
		} else if (is_over(type) && id == listener) {
			fprintf(stderr, "event: %s\n", rdma_event_str(type));
			return -1;
		} else if (is_over(type)) {
			end_connection(id);
		}
	}
}

static int server(void)
{
	struct rdma_cm_id *listener;
	int error;

	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		return tool_fail("listen request failed");
	if (rdma_bind_addr(listener, address->ai_src_addr))
		error = tool_fail("bind address failed");
	else if (rdma_listen(listener, 0))
		error = tool_fail("failure trying to listen");
	else
		error = serve(listener);
	rdma_destroy_id(listener);
	return error;
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server_address]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-c connections]\n");
	printf("\t[-p port_number]\n");
	printf("\t[-r retries]\n");
	printf("\t[-t timeout_ms]\n");
	return EXIT_FAILURE;
}

static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:c:p:r:t:")) != -1) {
		switch (option) {
		case 's':
			options.server = optarg;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'c':
			options.connections = atoi(optarg);
			break;
		case 'p':
			options.port = optarg;
			break;
		case 'r':
			options.retries = atoi(optarg);
			break;
		case 't':
			options.timeout_ms = atoi(optarg);
			break;
		default:
			return usage(argv[0]);
		}
	}
	return options.connections > 0 ? 0 : usage(argv[0]);
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
	int error = parse(argc, argv);

	if (error)
		return error;
	error = tool_endpoint(options.server, options.local, options.port, &hints, &address);
	if (error) {
		printf("getaddrinfo error: %s\n",
		       error == -1 ? strerror(errno) : gai_strerror(error));
		return error;
	}
	events = rdma_create_event_channel();
	if (!events)
		return tool_fail("failed to create event channel");
	error = options.server ? client() : server();
	devices_free();
	rdma_destroy_event_channel(events);
	rdma_freeaddrinfo(address);
	return error;
}
