/* SPDX-License-Identifier: BSD-2-Clause */
#include "ping.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define REMOTE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

struct ping_options ping_options = {.size_bytes = 64};

/* ---- Objects of a connection ---- */

int ping_move_qp(struct ping *ping, enum ibv_qp_state state)
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

	if (ping_options.has_own_qp) {
		ping->qp = ibv_create_qp(ping->id->pd, &attr);
		return ping->qp ? ping_move_qp(ping, IBV_QPS_INIT) : -1;
	}
	if (rdma_create_qp(ping->id, ping->id->pd, &attr))
		return -1;
	ping->qp = ping->id->qp;
	return 0;
}

static int buffers_make(struct ping *ping)
{
	struct ibv_pd *pd = ping->id->pd;
	size_t size = (size_t)ping_options.size_bytes;

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

int ping_equip(struct ping *ping)
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

struct ping *ping_new(void)
{
	struct ping *ping = calloc(1, sizeof(*ping));

	if (ping && (ping->events = rdma_create_event_channel()))
		return ping;
	tool_fail("rdma_create_event_channel");
	free(ping);
	return NULL;
}

void ping_free(struct ping *ping)
{
	struct ibv_mr *mrs[] = {ping->received_mr, ping->sent_mr, ping->in_mr, ping->out_mr};

	if (ping->qp && ping_options.has_own_qp)
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

int ping_expect(struct ping *ping, enum rdma_cm_event_type wanted)
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
			ping_options.is_server ? "server" : "client");
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
		ping_expect(ping, RDMA_CM_EVENT_DISCONNECTED);
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
	if (size_bytes > (uint32_t)ping_options.size_bytes) {
		fprintf(stderr, "the client's text has %u bytes, there is room for %d: see -S\n",
			size_bytes, ping_options.size_bytes);
		return -1;
	}
	if (carry_out(ping, opcode, ping->in, ping->in_mr, size_bytes))
		return -1;
	if (opcode == IBV_WR_RDMA_READ && ping_options.is_verbose)
		printf("server ping data: %.*s\n", (int)size_bytes, ping->in);
	if (post_receive(ping) || send_advert(ping))
		return -1;
	debug("server posted go ahead\n");
	return 0;
}

int ping_serve(struct ping *ping)
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
	int last = ping_options.size_bytes - 1;

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
				     .size_bytes = htobe32((uint32_t)ping_options.size_bytes)};
	debug("RDMA addr %lx rkey %x len %d\n", (unsigned long)(uintptr_t)buffer, mr->rkey,
	      ping_options.size_bytes);
	if (send_advert(ping) || await(ping, ping->recv_cq))
		return -1;
	return post_receive(ping);
}

int ping_rounds(struct ping *ping)
{
	for (int round = 0; !ping_options.count || round < ping_options.count; round++) {
		fill(ping->out, round);
		if (offer_buffer(ping, ping->out, ping->out_mr) ||
		    offer_buffer(ping, ping->in, ping->in_mr))
			return -1;
		if (ping_options.validates && strcmp(ping->in, ping->out) != 0) {
			fprintf(stderr, "data mismatch!\n");
			return -1;
		}
		if (ping_options.is_verbose)
			printf("ping data: %s\n", ping->in);
	}
	return 0;
}
