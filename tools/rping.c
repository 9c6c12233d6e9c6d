/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rping: transfers a text from the client to the server by RDMA READ, and back by RDMA WRITE.
 *
 * The figure shows one round. The client's messages (struct advert) contain the address and rkey of
 * one of its buffers. The server's messages have the same length; their content is not used.
 *
 *	client					server
 *	fills `out` with text
 *	SEND: here is `out`		-->
 *						READs `out` into its own `in`
 *				<--		SEND: go ahead
 *	SEND: here is `in`		-->
 *						WRITEs its `in` to the client's
 *				<--		SEND: go ahead
 *	compares `in` with `out`
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define DEFAULT_PORT   7174
#define SIZE_MIN_BYTES 23 /* length of "rdma-ping-N: " with the longest N */
#define SIZE_MAX_BYTES 65536
#define RESOLVE_MS     2000
#define REMOTE_ACCESS  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* A message in wire format. */
struct advert {
	__be64 addr;
	__be32 rkey;
	__be32 size_bytes;
};

static struct options {
	bool is_client;
	bool is_server;
	bool is_persistent;
	bool is_verbose;
	bool validates;
	bool debugs;
	bool has_own_qp; /* the program creates and modifies the QP itself */
	const char *address;
	const char *source;
	uint16_t port;
	int count; /* 0: no limit */
	int size_bytes;
} options = {.port = DEFAULT_PORT, .size_bytes = 64};

/*
 * One connection and its objects. It has its own event channel, so that its thread receives no
 * events of other connections, and two CQs, so that completions of receives and of sends are
 * separate.
 */
struct ping {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *wakeups; /* of both CQs */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;

	struct advert received, sent;
	struct ibv_mr *received_mr, *sent_mr;
	char *in, *out;
	struct ibv_mr *in_mr, *out_mr;
};

#define debug(...)                           \
	do {                                 \
		if (options.debugs)          \
			printf(__VA_ARGS__); \
	} while (0)

/* ---- Objects of a connection ---- */

/*
 * Modifies a QP that was not created by rdma_create_qp(). rdma_init_qp_attr() provides the
 * attributes.
 */
static int qp_move(struct ping *ping, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(ping->id, &attr, &mask))
		return -1;
	if (state == IBV_QPS_INIT)
		attr.qp_access_flags = REMOTE_ACCESS;
	errno = ibv_modify_qp(ping->qp, &attr, mask);
	return errno ? -1 : 0;
}

static int qp_make(struct ping *ping)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ping->send_cq,
		.recv_cq = ping->recv_cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (options.has_own_qp) {
		ping->qp = ibv_create_qp(ping->id->pd, &attr);
		return ping->qp ? qp_move(ping, IBV_QPS_INIT) : -1;
	}
	if (rdma_create_qp(ping->id, ping->id->pd, &attr))
		return -1;
	ping->qp = ping->id->qp;
	return 0;
}

static int buffers_make(struct ping *ping)
{
	struct ibv_pd *pd = ping->id->pd;
	size_t size = (size_t)options.size_bytes;

	ping->in = calloc(1, size);
	ping->out = calloc(1, size);
	if (!ping->in || !ping->out)
		return -1;
	ping->received_mr = ibv_reg_mr(pd, &ping->received, sizeof(ping->received),
				       IBV_ACCESS_LOCAL_WRITE);
	ping->sent_mr = ibv_reg_mr(pd, &ping->sent, sizeof(ping->sent), 0);
	ping->in_mr = ibv_reg_mr(pd, ping->in, size, REMOTE_ACCESS);
	ping->out_mr = ibv_reg_mr(pd, ping->out, size, REMOTE_ACCESS);
	return ping->received_mr && ping->sent_mr && ping->in_mr && ping->out_mr ? 0 : -1;
}

static int post_receive(struct ping *ping)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&ping->received,
			      .length = sizeof(ping->received),
			      .lkey = ping->received_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	errno = ibv_post_recv(ping->qp, &wr, &bad);
	return errno ? -1 : 0;
}

/*
 * Creates all objects of a connection whose id is bound to a device, and posts the first receive.
 */
static int ping_equip(struct ping *ping)
{
	ping->wakeups = ibv_create_comp_channel(ping->id->verbs);
	if (!ping->wakeups)
		return tool_fail("ibv_create_comp_channel");
	ping->send_cq = ibv_create_cq(ping->id->verbs, 1, NULL, ping->wakeups, 0);
	ping->recv_cq = ibv_create_cq(ping->id->verbs, 1, NULL, ping->wakeups, 0);
	if (!ping->send_cq || !ping->recv_cq)
		return tool_fail("ibv_create_cq");
	if (qp_make(ping))
		return tool_fail("rping: qp");
	debug("created pd %p, channel %p, qp %p\n", (void *)ping->id->pd, (void *)ping->wakeups,
	      (void *)ping->qp);
	return buffers_make(ping) || post_receive(ping) ? tool_fail("rping: buffers") : 0;
}

static struct ping *ping_new(void)
{
	struct ping *ping = calloc(1, sizeof(*ping));

	if (ping && (ping->events = rdma_create_event_channel()))
		return ping;
	tool_fail("rdma_create_event_channel");
	free(ping);
	return NULL;
}

/* Also frees a connection that was created in part. */
static void ping_free(struct ping *ping)
{
	struct ibv_mr *mrs[] = {ping->received_mr, ping->sent_mr, ping->in_mr, ping->out_mr};

	if (ping->qp && options.has_own_qp)
		ibv_destroy_qp(ping->qp);
	else if (ping->qp)
		rdma_destroy_qp(ping->id);
	for (int i = 0; i < 4; i++) {
		if (mrs[i])
			ibv_dereg_mr(mrs[i]);
	}
	if (ping->send_cq)
		ibv_destroy_cq(ping->send_cq);
	if (ping->recv_cq)
		ibv_destroy_cq(ping->recv_cq);
	if (ping->wakeups)
		ibv_destroy_comp_channel(ping->wakeups);
	debug("destroy cm_id %p\n", (void *)ping->id);
	if (ping->id)
		rdma_destroy_id(ping->id);
	rdma_destroy_event_channel(ping->events);
	free(ping->in);
	free(ping->out);
	free(ping);
}

/* ---- Waiting ---- */

/* Waits for the next event of a connection and checks its type. */
static int expect(struct ping *ping, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	int status;

	if (rdma_get_cm_event(ping->events, &event))
		return tool_fail("rdma_get_cm_event");
	type = event->event;
	status = event->status;
	debug("cma_event type %s cma_id %p\n", rdma_event_str(type), (void *)event->id);
	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_DISCONNECTED)
		fprintf(stderr, "%s DISCONNECT EVENT...\n",
			options.is_server ? "server" : "client");
	else if (type != wanted)
		fprintf(stderr, "cma event %s, error %d\n", rdma_event_str(type), status);
	return type == wanted ? 0 : -1;
}

/* Waits for the next completion of the CQ. If the connection ends first: -1 with ECONNRESET. */
static int await(struct ping *ping, struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int found = tool_completion(cq, ping->wakeups, ping->events, &wc);

	errno = 0;
	if (found > 0) {
		expect(ping, RDMA_CM_EVENT_DISCONNECTED);
		errno = ECONNRESET;
	}
	if (found)
		return -1;
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "cq completion failed status %d (%s)\n", wc.status,
		ibv_wc_status_str(wc.status));
	return -1;
}

/* ---- The protocol ---- */

/*
 * Posts one WR and waits for its completion. An RDMA operation accesses the buffer of the peer's
 * last message.
 */
static int carry_out(struct ping *ping, enum ibv_wr_opcode opcode, void *addr, struct ibv_mr *mr,
		     uint32_t size_bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = size_bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = be64toh(ping->received.addr),
			    .rkey = be32toh(ping->received.rkey)},
	};
	struct ibv_send_wr *bad;

	errno = ibv_post_send(ping->qp, &wr, &bad);
	return errno ? tool_fail("post send") : await(ping, ping->send_cq);
}

static int send_advert(struct ping *ping)
{
	return carry_out(ping, IBV_WR_SEND, &ping->sent, ping->sent_mr, sizeof(ping->sent));
}

/*
 * The server's part of half a round: receives an advert, executes the RDMA operation, sends a
 * message.
 */
static int serve_buffer(struct ping *ping, enum ibv_wr_opcode opcode)
{
	uint32_t size_bytes;

	if (await(ping, ping->recv_cq))
		return -1;
	size_bytes = be32toh(ping->received.size_bytes);
	debug("Received rkey %x addr %lx len %u from peer\n", be32toh(ping->received.rkey),
	      (unsigned long)be64toh(ping->received.addr), size_bytes);
	if (size_bytes > (uint32_t)options.size_bytes) {
		fprintf(stderr, "the client's text has %u bytes, there is room for %d: see -S\n",
			size_bytes, options.size_bytes);
		return -1;
	}
	if (carry_out(ping, opcode, ping->in, ping->in_mr, size_bytes))
		return -1;
	if (opcode == IBV_WR_RDMA_READ && options.is_verbose)
		printf("server ping data: %.*s\n", (int)size_bytes, ping->in);
	if (post_receive(ping) || send_advert(ping))
		return -1;
	debug("server posted go ahead\n");
	return 0;
}

/* Runs rounds until the client disconnects. */
static int serve(struct ping *ping)
{
	while (!serve_buffer(ping, IBV_WR_RDMA_READ)) {
		if (serve_buffer(ping, IBV_WR_RDMA_WRITE))
			break;
	}
	return errno == ECONNRESET ? 0 : -1;
}

/*
 * Writes the text of a round: a head, then a sequence of letters whose first letter advances by one
 * each round.
 */
static void fill(char *text, int round)
{
	int letter = 'A' + round % ('z' - 'A' + 1);
	int last = options.size_bytes - 1;

	for (int at = snprintf(text, SIZE_MIN_BYTES + 1, "rdma-ping-%d: ", round); at < last;
	     at++) {
		text[at] = (char)letter;
		letter = letter == 'z' ? 'A' : letter + 1;
	}
	text[last] = '\0';
}

/* The client's part of half a round. */
static int offer_buffer(struct ping *ping, char *buffer, struct ibv_mr *mr)
{
	ping->sent = (struct advert){.addr = htobe64((uintptr_t)buffer),
				     .rkey = htobe32(mr->rkey),
				     .size_bytes = htobe32((uint32_t)options.size_bytes)};
	debug("RDMA addr %lx rkey %x len %d\n", (unsigned long)(uintptr_t)buffer, mr->rkey,
	      options.size_bytes);
	if (send_advert(ping) || await(ping, ping->recv_cq))
		return -1;
	return post_receive(ping);
}

static int ping_rounds(struct ping *ping)
{
	for (int round = 0; !options.count || round < options.count; round++) {
		fill(ping->out, round);
		if (offer_buffer(ping, ping->out, ping->out_mr) ||
		    offer_buffer(ping, ping->in, ping->in_mr))
			return -1;
		if (options.validates && strcmp(ping->in, ping->out) != 0) {
			fprintf(stderr, "data mismatch!\n");
			return -1;
		}
		if (options.is_verbose)
			printf("ping data: %s\n", ping->in);
	}
	return 0;
}

/* ---- The server ---- */

static int accept_request(struct ping *ping)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};

	if (ping_equip(ping))
		return -1;
	if (options.has_own_qp) {
		param.qp_num = ping->qp->qp_num;
		if (qp_move(ping, IBV_QPS_RTR) || qp_move(ping, IBV_QPS_RTS))
			return tool_fail("rping: qp");
	}
	if (rdma_accept(ping->id, &param))
		return tool_fail("rdma_accept");
	return expect(ping, RDMA_CM_EVENT_ESTABLISHED);
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
		is_good = !serve(ping);
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
	if (!options.has_own_qp)
		return expect(ping, RDMA_CM_EVENT_ESTABLISHED);
	if (expect(ping, RDMA_CM_EVENT_CONNECT_RESPONSE))
		return -1;
	if (qp_move(ping, IBV_QPS_RTR) || qp_move(ping, IBV_QPS_RTS))
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
	if (expect(ping, RDMA_CM_EVENT_ADDR_RESOLVED))
		return -1;
	if (rdma_resolve_route(ping->id, RESOLVE_MS))
		return tool_fail("rdma_resolve_route");
	if (expect(ping, RDMA_CM_EVENT_ROUTE_RESOLVED) || ping_equip(ping))
		return -1;
	if (connect_qp(ping)) {
		fprintf(stderr, "connect error -1\n");
		return -1;
	}
	error = ping_rounds(ping);
	if (rdma_disconnect(ping->id))
		return tool_fail("rdma_disconnect");
	if (!error || errno != ECONNRESET)
		expect(ping, RDMA_CM_EVENT_DISCONNECTED);
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
	} flags[] = {{'s', &options.is_server},	    {'c', &options.is_client},
		     {'P', &options.is_persistent}, {'v', &options.is_verbose},
		     {'V', &options.validates},	    {'d', &options.debugs},
		     {'q', &options.has_own_qp},    {'?', NULL}};
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
			options.count = (int)strtol(optarg, NULL, 0);
			break;
		case 'S':
			options.size_bytes = (int)strtol(optarg, NULL, 0);
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
	return options.is_client == options.is_server ? usage() : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_storage address, source;
	int error = parse(argc, argv);

	if (error)
		return error;
	if (options.size_bytes < SIZE_MIN_BYTES || options.size_bytes > SIZE_MAX_BYTES) {
		fprintf(stderr, "Invalid size %d (valid range is %d to %d)\n", options.size_bytes,
			SIZE_MIN_BYTES, SIZE_MAX_BYTES);
		return EINVAL;
	}
	if (options.count < 0) {
		fprintf(stderr, "Invalid count %d\n", options.count);
		return EINVAL;
	}
	error = tool_address(options.address, options.port, &address);
	if (!error && options.source)
		error = tool_address(options.source, 0, &source);
	if (error)
		return error;
	if (options.is_server)
		return server((struct sockaddr *)&address);
	return client(options.source ? (struct sockaddr *)&source : NULL,
		      (struct sockaddr *)&address);
}
