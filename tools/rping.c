/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rping: transfers a text from the client to the server by RDMA READ, and back by RDMA WRITE
 * (ping.h). Options, and the connections of the server and of the client.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ping.h"
#include "tool.h"

#define DEFAULT_PORT   7174
#define SIZE_MAX_BYTES 65536
#define RESOLVE_MS     2000

static struct options {
	bool is_client;
	bool is_persistent;
	const char *address;
	const char *source;
	uint16_t port;
} options = {.port = DEFAULT_PORT};

/* ---- The server ---- */

static int accept_request(struct ping *ping)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};

	if (ping_equip(ping))
		return -1;
	if (ping_options.has_own_qp) {
		param.qp_num = ping->qp->qp_num;
		if (ping_move_qp(ping, IBV_QPS_RTR) || ping_move_qp(ping, IBV_QPS_RTS))
			return tool_fail("rping: qp");
	}
	if (rdma_accept(ping->id, &param))
		return tool_fail("rdma_accept");
	return ping_expect(ping, RDMA_CM_EVENT_ESTABLISHED);
}

/*
 * Thread of one connection: accepts the request and runs until the end of the connection. NULL:
 * success.
 */
static void *serve_connection(void *arg)
{
	struct ping *ping = arg;
	bool is_good = false;

	if (!accept_request(ping)) {
		is_good = !ping_serve(ping);
		if (!is_good)
			rdma_disconnect(ping->id);
	}
	ping_free(ping);
	return is_good ? NULL : arg;
}

/* Waits for the next connection request and moves its id to a new event channel. */
static struct ping *next_request(struct rdma_event_channel *events)
{
	struct ping *ping = ping_new();
	struct rdma_cm_event *event;

	while (ping && !ping->id) {
		if (rdma_get_cm_event(events, &event)) {
			tool_fail("rdma_get_cm_event");
			goto err;
		}
		debug("cma_event type %s cma_id %p\n", rdma_event_str(event->event),
		      (void *)event->id);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			ping->id = event->id;
		rdma_ack_cm_event(event);
	}
	if (!ping || !rdma_migrate_id(ping->id, ping->events))
		return ping;
	tool_fail("rdma_migrate_id");
err:
	ping_free(ping);
	return NULL;
}

/* Serves one connection, or all connections, each in its own thread. */
static int server_run(struct rdma_event_channel *events)
{
	struct ping *ping;
	pthread_t thread;

	for (;;) {
		ping = next_request(events);
		if (!ping)
			return -1;
		if (!options.is_persistent)
			return serve_connection(ping) ? -1 : 0;
		errno = pthread_create(&thread, NULL, serve_connection, ping);
		if (errno)
			return tool_fail("pthread_create");
		pthread_detach(thread);
	}
}

static int server(struct sockaddr *address)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	int error = -1;

	if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		return tool_fail("rdma_create_id");
	if (rdma_bind_addr(listener, address))
		tool_fail("rdma_bind_addr");
	else if (rdma_listen(listener, 3))
		tool_fail("rdma_listen");
	else
		error = server_run(events);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(events);
	return error;
}

/* ---- The client ---- */

static int connect_qp(struct ping *ping)
{
	struct rdma_conn_param param = {.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 7,
					.qp_num = ping->qp->qp_num};

	if (rdma_connect(ping->id, &param))
		return tool_fail("rdma_connect");
	if (!ping_options.has_own_qp)
		return ping_expect(ping, RDMA_CM_EVENT_ESTABLISHED);
	if (ping_expect(ping, RDMA_CM_EVENT_CONNECT_RESPONSE))
		return -1;
	if (ping_move_qp(ping, IBV_QPS_RTR) || ping_move_qp(ping, IBV_QPS_RTS))
		return tool_fail("rping: qp");
	return rdma_establish(ping->id) ? tool_fail("rdma_establish") : 0;
}

static int client_run(struct ping *ping, struct sockaddr *source, struct sockaddr *address)
{
	int error;

	if (rdma_create_id(ping->events, &ping->id, NULL, RDMA_PS_TCP))
		return tool_fail("rdma_create_id");
	if (rdma_resolve_addr(ping->id, source, address, RESOLVE_MS))
		return tool_fail("rdma_resolve_addr");
	if (ping_expect(ping, RDMA_CM_EVENT_ADDR_RESOLVED))
		return -1;
	if (rdma_resolve_route(ping->id, RESOLVE_MS))
		return tool_fail("rdma_resolve_route");
	if (ping_expect(ping, RDMA_CM_EVENT_ROUTE_RESOLVED) || ping_equip(ping))
		return -1;
	if (connect_qp(ping)) {
		fprintf(stderr, "connect error -1\n");
		return -1;
	}
	error = ping_rounds(ping);
	if (rdma_disconnect(ping->id))
		return tool_fail("rdma_disconnect");
	if (!error || errno != ECONNRESET)
		ping_expect(ping, RDMA_CM_EVENT_DISCONNECTED);
	return error;
}

static int client(struct sockaddr *source, struct sockaddr *address)
{
	struct ping *ping = ping_new();
	int error = ping ? client_run(ping, source, address) : -1;

	if (ping)
		ping_free(ping);
	return error;
}

/* ---- Options ---- */

static int usage(void)
{
	printf("rping -s [-vVd] [-S size] [-C count] [-a addr] [-p port]\n"
	       "rping -c [-vVd] [-S size] [-C count] [-I addr] -a addr [-p port]\n"
	       "\t-c\t\tclient: sends pings\n"
	       "\t-s\t\tserver: replies; -a ::0 listens on all IPv4 and IPv6 addresses\n"
	       "\t-I addr\t\taddress that the client binds to first\n"
	       "\t-v\t\tprint the data of each ping\n"
	       "\t-V\t\tcompare returned data with sent data\n"
	       "\t-d\t\tprint each step\n"
	       "\t-S size\t\tbytes of a ping\n"
	       "\t-C count\tnumber of pings\n"
	       "\t-a addr\t\taddress of the server\n"
	       "\t-p port\t\tport of the server\n"
	       "\t-P\t\tserve any number of clients, until terminated\n"
	       "\t-q\t\tmake and move the queue pair without rdma_cm\n");
	return EINVAL;
}

static int parse(int argc, char **argv)
{
	static const struct {
		int letter;
		bool *flag;
	} flags[] = {{'s', &ping_options.is_server},  {'c', &options.is_client},
		     {'P', &options.is_persistent},   {'v', &ping_options.is_verbose},
		     {'V', &ping_options.validates},  {'d', &ping_options.debugs},
		     {'q', &ping_options.has_own_qp}, {'?', NULL}};
	int option;

	while ((option = getopt(argc, argv, "a:I:p:C:S:scvVdPq")) != -1) {
		switch (option) {
		case 'a':
			options.address = optarg;
			break;
		case 'I':
			options.source = optarg;
			break;
		case 'p':
			options.port = (uint16_t)strtoul(optarg, NULL, 0);
			break;
		case 'C':
			ping_options.count = (int)strtol(optarg, NULL, 0);
			break;
		case 'S':
			ping_options.size_bytes = (int)strtol(optarg, NULL, 0);
			break;
		default:
			for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
				if (flags[i].letter == option && !flags[i].flag)
					return usage();
				if (flags[i].letter == option)
					*flags[i].flag = true;
			}
		}
	}
	return options.is_client == ping_options.is_server ? usage() : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_storage address, source;
	int error = parse(argc, argv);

	if (error)
		return error;
	if (ping_options.size_bytes < SIZE_MIN_BYTES || ping_options.size_bytes > SIZE_MAX_BYTES) {
		fprintf(stderr, "Invalid size %d (valid range is %d to %d)\n",
			ping_options.size_bytes, SIZE_MIN_BYTES, SIZE_MAX_BYTES);
		return EINVAL;
	}
	if (ping_options.count < 0) {
		fprintf(stderr, "Invalid count %d\n", ping_options.count);
		return EINVAL;
	}
	error = tool_address(options.address, options.port, &address);
	if (!error && options.source)
		error = tool_address(options.source, 0, &source);
	if (error)
		return error;
	if (ping_options.is_server)
		return server((struct sockaddr *)&address);
	return client(options.source ? (struct sockaddr *)&source : NULL,
		      (struct sockaddr *)&address);
}
