/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of a connection that transfers data indefinitely, for tests that kill or stop a process.
 *
 *	stream serve ADDRESS PORT			grants its memory, keeps receives posted
 *	stream drive ADDRESS PORT send|write|read|atomic BYTES
 *
 * Both print one line for each event: "progress N" at most twice a second, the first failed
 * completion, the number of flushed completions, every rdma_cm and asynchronous event. They end
 * with status 0 once the connection has ended and every work request has completed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

#define STREAM_BUF_BYTES  (1u << 20)
#define PROGRESS_EVERY_MS 100
#define GIVE_UP_AFTER_MS  10000

/* The state of one end; the process is single-threaded. */
struct stream {
	struct endpoint ep;
	bool drives;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	unsigned int outstanding;
	uint64_t completed;
	uint64_t failed;
	uint64_t said_ms;
	bool is_disconnected;
	bool is_removed;
	uint64_t ended_ms;
};

static enum ibv_wr_opcode opcode_named(const char *name)
{
	if (!strcmp(name, "send"))
		return IBV_WR_SEND;
	if (!strcmp(name, "write"))
		return IBV_WR_RDMA_WRITE;
	if (!strcmp(name, "read"))
		return IBV_WR_RDMA_READ;
	if (!strcmp(name, "atomic"))
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	die("no operation named %s", name);
}

static void make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		die("fcntl: %s", strerror(errno));
}

static void fill(struct stream *st)
{
	while (!st->failed && st->outstanding < ENDPOINT_DEPTH) {
		int err = 0;

		if (st->drives)
			err = endpoint_post(&st->ep, st->opcode, st->length, st->completed);
		else
			endpoint_post_recv(&st->ep, st->completed);
		if (err) {
			say("post: %s", strerror(err));
			st->failed++;
			return;
		}
		st->outstanding++;
	}
}

static void note_completion(struct stream *st, const struct ibv_wc *wc)
{
	st->outstanding--;
	if (wc->status == IBV_WC_SUCCESS) {
		st->completed++;
		return;
	}
	if (st->failed++ == 0)
		say("completion failed: %s (%d), vendor %u", ibv_wc_status_str(wc->status),
		    (int)wc->status, wc->vendor_err);
}

static void drain(struct stream *st)
{
	struct ibv_wc wc[16];
	int got;

	do {
		got = ibv_poll_cq(st->ep.cq, 16, wc);
		if (got < 0)
			die("ibv_poll_cq: %d", got);
		for (int i = 0; i < got; i++)
			note_completion(st, &wc[i]);
	} while (got == 16);
	if (now_ms() - st->said_ms >= PROGRESS_EVERY_MS) {
		st->said_ms = now_ms();
		say("progress %llu", (unsigned long long)st->completed);
	}
}

static void note_cm_event(struct stream *st)
{
	struct rdma_cm_event *event;

	if (st->is_removed)
		return;
	if (rdma_get_cm_event(st->ep.channel, &event)) {
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			die("rdma_get_cm_event: %s", strerror(errno));
		return;
	}
	say("event %s, status %d", rdma_event_str(event->event), event->status);
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		st->is_disconnected = true;
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		st->is_removed = true;
	rdma_ack_cm_event(event);
	if ((st->is_disconnected || st->is_removed) && !st->ended_ms)
		st->ended_ms = now_ms();
	/*
	 * As rdma_disconnect(3) describes: the side that gets DISCONNECTED calls rdma_disconnect(),
	 * which flushes its queues.
	 */
	if (st->is_disconnected && rdma_disconnect(st->ep.id) && errno != EINVAL)
		die("rdma_disconnect: %s", strerror(errno));
}

static void note_async_event(struct stream *st)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(st->ep.id->verbs, &event))
		return;
	say("async %s", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static int run(struct stream *st)
{
	make_nonblocking(st->ep.channel->fd);
	make_nonblocking(st->ep.id->verbs->async_fd);
	say("connected");
	/*
	 * All work requests posted before the end may have succeeded: fill() posts until a work
	 * request is flushed.
	 */
	while (!st->ended_ms || st->outstanding || !st->failed) {
		fill(st);
		drain(st);
		note_cm_event(st);
		note_async_event(st);
		if (st->ended_ms && now_ms() - st->ended_ms > GIVE_UP_AFTER_MS)
			die("%u work requests never completed", st->outstanding);
	}
	say("ended: %llu completed, %llu failed", (unsigned long long)st->completed,
	    (unsigned long long)st->failed);
	/* A fatal event may follow the last completion after a short time. */
	while (st->is_removed && now_ms() - st->ended_ms < 500)
		note_async_event(st);
	endpoint_close(&st->ep);
	return 0;
}

int main(int argc, char **argv)
{
	struct stream st = {.length = 0};

	if (argc == 4 && !strcmp(argv[1], "serve")) {
		struct rdma_cm_id *listener = endpoint_listen(argv[2], argv[3]);

		endpoint_accept(&st.ep, listener, STREAM_BUF_BYTES);
		return run(&st);
	}
	if (argc != 6 || strcmp(argv[1], "drive"))
		die("usage: stream serve ADDRESS PORT | stream drive ADDRESS PORT OPERATION BYTES");
	st.drives = true;
	st.opcode = opcode_named(argv[4]);
	st.length = (uint32_t)strtoul(argv[5], NULL, 0);
	if (st.length > STREAM_BUF_BYTES)
		die("at most %u bytes", STREAM_BUF_BYTES);
	endpoint_connect(&st.ep, argv[2], argv[3], STREAM_BUF_BYTES);
	return run(&st);
}
