/* SPDX-License-Identifier: BSD-2-Clause */
#include "waits_worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"

#define MESSAGE_BYTES_MAX 16384u
#define TURN_MESSAGES	  4u
#define SIGNAL_EVERY	  16u
/* Receives are posted for two turns. */
#define RECVS (2 * TURN_MESSAGES)
/* wr_id of receives; those of sends are lower. */
#define RECV_ID	   (UINT64_C(1) << 32)
#define MARK_BYTES 64u
#define WAITS_MAX  200u

/* At the begin of a message. A message ends with its number once more. */
struct header {
	uint32_t number;
	uint32_t left;	  /* messages of this turn that follow */
	uint32_t mark;	  /* what an RDMA WRITE before this message has written, or 0 */
	uint32_t is_last; /* of the connection */
};

/* The immediate data of a message without a receive buffer: its number, `left` and is_last. */
#define IMM_OF(number, left, is_last) ((number) << 3 | (left) << 1 | (uint32_t)(is_last))

enum mode {
	MODE_BLOCK,	    /* ibv_get_cq_event() waits */
	MODE_POLL,	    /* poll(2), then ibv_get_cq_event() until EAGAIN */
	MODE_POLL_ONE,	    /* poll(2), then one call */
	MODE_POLL_BLOCKING, /* the same without O_NONBLOCK */
	MODE_EPOLL,	    /* epoll_wait(2) */
	MODE_EPOLL_EDGE,    /* with EPOLLET, then until EAGAIN */
	MODE_POLL_TIMEOUT,  /* poll(2) with short timeouts */
	MODE_SPIN,	    /* only ibv_poll_cq() */
	MODE_COUNT
};

static const char *const mode_names[] = {
	[MODE_BLOCK] = "blocking",
	[MODE_POLL] = "poll until EAGAIN",
	[MODE_POLL_ONE] = "poll",
	[MODE_POLL_BLOCKING] = "poll without O_NONBLOCK",
	[MODE_EPOLL] = "epoll",
	[MODE_EPOLL_EDGE] = "edge-triggered epoll",
	[MODE_POLL_TIMEOUT] = "poll with timeouts",
	[MODE_SPIN] = "polling the CQ",
};

const char *waits_mode_name(unsigned int mode)
{
	return mode_names[mode];
}

/* xorshift64*. */
unsigned int waits_roll(struct waits_worker *worker, unsigned int sides)
{
	worker->dice ^= worker->dice >> 12;
	worker->dice ^= worker->dice << 25;
	worker->dice ^= worker->dice >> 27;
	return (unsigned int)(worker->dice * UINT64_C(2685821657736338717) >> 33) % sides;
}

void waits_seed(struct waits_worker *worker, uint64_t seed, uint64_t number)
{
	worker->dice = ((seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
			(number + 1) * UINT64_C(0xd6e8feb86659fd93)) |
		       1;
	for (int i = 0; i < 8; i++)
		waits_roll(worker, 2);
}

struct ibv_cq *waits_cq(struct waits_worker *worker, struct ibv_context *context)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct ibv_cq *cq;

	if (!worker->channel) {
		worker->channel = ibv_create_comp_channel(context);
		if (!worker->channel)
			die("ibv_create_comp_channel: %s", strerror(errno));
		worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->channel->fd, &event))
			die("epoll_ctl: %s", strerror(errno));
	}
	cq = ibv_create_cq(context, 2 * WAITS_CONNECTIONS_MAX * WAITS_QUEUE_WRS,
			   (void *)(uintptr_t)worker->cq_count, worker->channel, 0);
	if (!cq)
		die("ibv_create_cq: %s", strerror(errno));
	worker->cqs[worker->cq_count++] = cq;
	return cq;
}

/* The mark, WAITS_QUEUE_WRS messages to send, RECVS received ones. */
#define MEMORY_BYTES (MARK_BYTES + (WAITS_QUEUE_WRS + RECVS) * MESSAGE_BYTES_MAX)

static uint8_t *send_slot(const struct waits_connection *c, uint32_t number)
{
	return c->memory + MARK_BYTES + (size_t)(number % WAITS_QUEUE_WRS) * MESSAGE_BYTES_MAX;
}

static uint8_t *recv_slot(const struct waits_connection *c, uint64_t slot)
{
	return c->memory + MARK_BYTES + (WAITS_QUEUE_WRS + slot) * MESSAGE_BYTES_MAX;
}

void waits_prepare(struct waits_connection *connection, struct ibv_pd *pd)
{
	connection->memory = calloc(1, MEMORY_BYTES);
	if (!connection->memory)
		die("no memory");
	connection->mr = ibv_reg_mr(pd, connection->memory, MEMORY_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!connection->mr)
		die("ibv_reg_mr: %s", strerror(errno));
}

static void post_recv(const struct waits_connection *c, uint64_t slot)
{
	struct ibv_sge sge = {(uintptr_t)recv_slot(c, slot), MESSAGE_BYTES_MAX, c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_ID + slot, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(c->id->qp, &wr, &bad))
		die("ibv_post_recv");
}

void waits_post_recvs(struct waits_connection *connection)
{
	for (uint64_t i = 0; i < RECVS; i++)
		post_recv(connection, i);
}

/* The thread computes, or does something else, before it replies or waits. */
static void pause_at_random(struct waits_worker *worker)
{
	unsigned int what = waits_roll(worker, 200);
	struct timespec until = {.tv_nsec = (long)waits_roll(worker, 2000000)};
	uint64_t end_ms;

	if (what < 6) {
		nanosleep(&until, NULL);
	} else if (what == 6) {
		until.tv_nsec = 20000000;
		nanosleep(&until, NULL);
	} else if (what < 12) {
		end_ms = now_ms() + 2;
		while (now_ms() < end_ms)
			;
	}
}

static void post(struct waits_connection *c, struct ibv_send_wr *wr, bool is_last)
{
	struct ibv_send_wr *bad;

	wr->wr_id = c->posted++;
	if (++c->unsignaled == SIGNAL_EVERY || is_last || !waits_roll(c->worker, 4)) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		c->unsignaled = 0;
	}
	if (ibv_post_send(c->id->qp, wr, &bad))
		die("ibv_post_send");
}

/* Writes this number to the peer's mark. */
static uint32_t post_mark(struct waits_connection *c, uint32_t number)
{
	uint8_t *slot = send_slot(c, c->posted);
	struct ibv_sge sge = {(uintptr_t)slot, sizeof(number), c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

	memcpy(slot, &number, sizeof(number));
	wr.wr.rdma.remote_addr = c->remote.addr;
	wr.wr.rdma.rkey = c->remote.rkey;
	post(c, &wr, false);
	return number;
}

/* A message that writes its number to the peer's mark. The peer's receive WR gets no data. */
static void post_with_imm(struct waits_connection *c, uint32_t left, bool is_last)
{
	uint8_t *slot = send_slot(c, c->posted);
	struct ibv_sge sge = {(uintptr_t)slot, sizeof(c->sent), c->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SOLICITED,
		.imm_data = htonl(IMM_OF(c->sent, left, is_last)),
	};

	memcpy(slot, &c->sent, sizeof(c->sent));
	wr.wr.rdma.remote_addr = c->remote.addr;
	wr.wr.rdma.rkey = c->remote.rkey;
	post(c, &wr, is_last);
}

static void post_message(struct waits_connection *c, uint32_t left, bool is_last)
{
	struct header header = {.number = c->sent, .left = left, .is_last = is_last};
	uint32_t most = waits_roll(c->worker, 4) ? 256 : MESSAGE_BYTES_MAX;
	uint32_t bytes = (uint32_t)sizeof(header) + 4 +
			 waits_roll(c->worker, most - (uint32_t)sizeof(header) - 3);
	struct ibv_sge sge = {.length = bytes, .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SOLICITED,
	};
	uint8_t *slot;

	if (!waits_roll(c->worker, 4))
		header.mark = post_mark(c, c->sent + 1);
	slot = send_slot(c, c->posted);
	sge.addr = (uintptr_t)slot;
	memcpy(slot, &header, sizeof(header));
	memcpy(slot + bytes - sizeof(header.number), &header.number, sizeof(header.number));
	post(c, &wr, is_last);
}

static unsigned int drain(struct waits_worker *worker);

/* At most two WRs for each message. All of them have room before the first is posted. */
static void send_turn(struct waits_connection *c)
{
	bool is_last = c->is_driver ? now_ms() >= c->worker->end_ms : c->is_ended;
	uint32_t count = is_last ? 1 : 1 + waits_roll(c->worker, TURN_MESSAGES);

	while (c->posted - c->retired > WAITS_QUEUE_WRS - 2 * TURN_MESSAGES)
		drain(c->worker);
	for (uint32_t left = count; left--; c->sent++) {
		if (waits_roll(c->worker, 5))
			post_message(c, left, is_last);
		else
			post_with_imm(c, left, is_last);
	}
}

static uint32_t mark_of(const struct waits_connection *c)
{
	uint32_t mark;

	memcpy(&mark, c->memory, sizeof(mark));
	return mark;
}

/* Returns the header of the message of this completion, after its checks. */
static struct header read_message(const struct waits_connection *c, const struct ibv_wc *wc)
{
	const uint8_t *slot = recv_slot(c, wc->wr_id - RECV_ID);
	struct header header = {0};
	uint32_t end;

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		header.number = ntohl(wc->imm_data) >> 3;
		header.left = ntohl(wc->imm_data) >> 1 & 3;
		header.is_last = ntohl(wc->imm_data) & 1;
		if (mark_of(c) < header.number)
			die("mark %u with message %u", mark_of(c), header.number);
		return header;
	}
	memcpy(&header, slot, sizeof(header));
	memcpy(&end, slot + wc->byte_len - sizeof(end), sizeof(end));
	if (end != header.number)
		die("message %u of %u bytes ends with %u", header.number, wc->byte_len, end);
	if (mark_of(c) < header.mark)
		die("mark %u, message %u wrote %u before", mark_of(c), header.number, header.mark);
	return header;
}

static void take_message(struct waits_connection *c, const struct ibv_wc *wc)
{
	struct header header = read_message(c, wc);

	if (header.number != c->received)
		die("message %u instead of %u", header.number, c->received);
	c->received++;
	atomic_fetch_add(&c->worker->messages, 1);
	post_recv(c, wc->wr_id - RECV_ID);
	if (header.left)
		return;
	c->is_ended = header.is_last;
	c->owes_turn = !c->is_driver || !header.is_last;
}

static struct waits_connection *connection_of(struct waits_worker *worker, uint32_t qpn)
{
	for (unsigned int i = 0; i < worker->connection_count; i++) {
		if (worker->connections[i]->id->qp->qp_num == qpn)
			return worker->connections[i];
	}
	die("completion of unknown queue pair 0x%x", qpn);
}

static void take_completion(struct waits_worker *worker, const struct ibv_wc *wc)
{
	struct waits_connection *c = connection_of(worker, wc->qp_num);

	if (wc->status != IBV_WC_SUCCESS)
		die("completion: %s after %u messages", ibv_wc_status_str(wc->status), c->received);
	if (wc->wr_id >= RECV_ID)
		take_message(c, wc);
	else
		c->retired = (uint32_t)wc->wr_id + 1;
}

static void reply(struct waits_worker *worker)
{
	for (unsigned int i = 0; i < worker->connection_count; i++) {
		struct waits_connection *c = worker->connections[i];

		if (!c->owes_turn)
			continue;
		c->owes_turn = false;
		pause_at_random(worker);
		send_turn(c);
	}
}

/* Polls each CQ until it is empty. Returns the number of completions. */
static unsigned int drain(struct waits_worker *worker)
{
	int most = waits_roll(worker, 2) ? 1 : 8;
	unsigned int done = 0;
	struct ibv_wc wc[8];

	for (unsigned int i = 0; i < worker->cq_count; i++) {
		int n;

		while ((n = ibv_poll_cq(worker->cqs[i], most, wc)) > 0) {
			for (int j = 0; j < n; j++)
				take_completion(worker, &wc[j]);
			done += (unsigned int)n;
		}
		if (n < 0)
			die("ibv_poll_cq: %d", n);
	}
	return done;
}

/* The server's side of a connection ends when its last message is acknowledged. */
static bool waits_for_sends(const struct waits_worker *worker)
{
	for (unsigned int i = 0; i < worker->connection_count; i++) {
		if (worker->connections[i]->is_ended && !worker->connections[i]->is_driver)
			return true;
	}
	return false;
}

/* All messages are solicited. */
static void arm(struct waits_worker *worker)
{
	bool for_sends = waits_for_sends(worker);

	for (unsigned int i = 0; i < worker->cq_count; i++) {
		bool only_solicited = !for_sends && !waits_roll(worker, 4);

		if ((for_sends || !worker->is_armed[i]) &&
		    ibv_req_notify_cq(worker->cqs[i], only_solicited))
			die("ibv_req_notify_cq");
		worker->is_armed[i] = true;
	}
}

/* false: EAGAIN. */
static bool take_event(struct waits_worker *worker)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(worker->channel, &cq, &context)) {
		if (errno == EAGAIN)
			return false;
		die("ibv_get_cq_event: %s", strerror(errno));
	}
	ibv_ack_cq_events(cq, 1);
	worker->is_armed[(uintptr_t)context] = false;
	return true;
}

static void take_all_events(struct waits_worker *worker)
{
	while (take_event(worker))
		;
}

static void set_nonblocking(struct waits_worker *worker, bool is_nonblocking)
{
	if (worker->is_nonblocking == is_nonblocking)
		return;
	worker->is_nonblocking = is_nonblocking;
	if (fcntl(worker->channel->fd, F_SETFL, is_nonblocking ? O_NONBLOCK : 0))
		die("fcntl: %s", strerror(errno));
}

static void wait_poll(struct waits_worker *worker, int timeout_ms)
{
	struct pollfd readable = {.fd = worker->channel->fd, .events = POLLIN};

	while (!poll(&readable, 1, timeout_ms))
		;
}

static void wait_epoll(struct waits_worker *worker, uint32_t events)
{
	struct epoll_event event = {.events = events};

	if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, worker->channel->fd, &event))
		die("epoll_ctl: %s", strerror(errno));
	while (epoll_wait(worker->epoll_fd, &event, 1, -1) < 1)
		;
}

/* A descriptor that is readable has an event. */
static void take_one_event(struct waits_worker *worker)
{
	if (!take_event(worker))
		die("EAGAIN from a readable descriptor (%s)", waits_mode_name(worker->mode));
}

static void wait_for_event(struct waits_worker *worker)
{
	set_nonblocking(worker, worker->mode != MODE_BLOCK && worker->mode != MODE_POLL_BLOCKING);
	switch (worker->mode) {
	case MODE_BLOCK:
		take_one_event(worker);
		break;
	case MODE_POLL:
	case MODE_POLL_ONE:
	case MODE_POLL_BLOCKING:
		wait_poll(worker, -1);
		break;
	case MODE_POLL_TIMEOUT:
		wait_poll(worker, 1);
		break;
	default:
		wait_epoll(worker, worker->mode == MODE_EPOLL ? EPOLLIN : EPOLLIN | EPOLLET);
		break;
	}
	if (worker->mode != MODE_BLOCK)
		take_one_event(worker);
	if (worker->mode == MODE_POLL || worker->mode == MODE_EPOLL_EDGE)
		take_all_events(worker);
}

static void choose_mode(struct waits_worker *worker)
{
	if (worker->mode_left--)
		return;
	worker->mode_left = waits_roll(worker, WAITS_MAX);
	worker->mode = waits_roll(worker, MODE_COUNT);
	atomic_store(&worker->shown_mode, worker->mode);
}

/* Returns after completions, or an event. */
static void wait_once(struct waits_worker *worker)
{
	if (worker->mode == MODE_SPIN) {
		drain(worker);
		return;
	}
	arm(worker);
	if (!drain(worker))
		wait_for_event(worker);
}

static bool has_ended(const struct waits_worker *worker)
{
	for (unsigned int i = 0; i < worker->connection_count; i++) {
		const struct waits_connection *c = worker->connections[i];

		if (!c->is_ended || c->owes_turn || (!c->is_driver && c->posted != c->retired))
			return false;
	}
	return true;
}

void *waits_work(void *arg)
{
	struct waits_worker *worker = arg;

	for (unsigned int i = 0; i < worker->connection_count; i++) {
		if (worker->connections[i]->is_driver)
			send_turn(worker->connections[i]);
	}
	while (!has_ended(worker)) {
		reply(worker);
		if (drain(worker))
			continue;
		choose_mode(worker);
		wait_once(worker);
	}
	return NULL;
}
