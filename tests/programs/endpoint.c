/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "endpoint.h"

#define RESOLVE_TIMEOUT_MS 5000

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void say_v(const char *format, va_list args)
{
	printf("%llu ", (unsigned long long)now_ms());
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_v(format, args);
	va_end(args);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_v(format, args);
	va_end(args);
	exit(1);
}

/*
 * Returns the next event of this channel, which must be of this type; the caller acknowledges it.
 */
static struct rdma_cm_event *expect(struct rdma_event_channel *channel,
				    enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event: %s", strerror(errno));
	if (event->event != wanted)
		die("event %s with status %d where %s was due", rdma_event_str(event->event),
		    event->status, rdma_event_str(wanted));
	return event;
}

static void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	rdma_ack_cm_event(expect(channel, wanted));
}

static struct addrinfo *lookup(const char *addr, const char *port)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int err = getaddrinfo(addr, port, &hints, &found);

	if (err)
		die("%s port %s: %s", addr, port, gai_strerror(err));
	return found;
}

struct rdma_cm_id *endpoint_listen(const char *addr, const char *port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct addrinfo *where = lookup(addr, port);
	struct rdma_cm_id *id;

	if (!channel)
		die("rdma_create_event_channel: %s", strerror(errno));
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	if (rdma_bind_addr(id, where->ai_addr))
		die("rdma_bind_addr: %s", strerror(errno));
	if (rdma_listen(id, 128))
		die("rdma_listen: %s", strerror(errno));
	freeaddrinfo(where);
	return id;
}

static void make_queues(struct endpoint *ep, size_t buf_bytes)
{
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = ENDPOINT_DEPTH,
			.max_recv_wr = ENDPOINT_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	ep->buf_bytes = buf_bytes;
	ep->buf = aligned_alloc(4096, (buf_bytes + 4095) & ~(size_t)4095);
	ep->pd = ibv_alloc_pd(ep->id->verbs);
	if (!ep->buf || !ep->pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	memset(ep->buf, 0, buf_bytes);
	ep->mr = ibv_reg_mr(ep->pd, ep->buf, buf_bytes, access);
	ep->cq = ibv_create_cq(ep->id->verbs, 2 * ENDPOINT_DEPTH, NULL, NULL, 0);
	if (!ep->mr || !ep->cq)
		die("ibv_reg_mr or ibv_create_cq: %s", strerror(errno));
	attr.send_cq = ep->cq;
	attr.recv_cq = ep->cq;
	if (rdma_create_qp(ep->id, ep->pd, &attr))
		die("rdma_create_qp: %s", strerror(errno));
}

static struct endpoint_grant grant_of(const struct endpoint *ep)
{
	return (struct endpoint_grant){
		.addr_be = htobe64((uintptr_t)ep->buf),
		.rkey_be = htobe32(ep->mr->rkey),
	};
}

static void take_grant(struct endpoint *ep, const struct rdma_cm_event *event)
{
	struct endpoint_grant grant;

	if (event->param.conn.private_data_len < sizeof(grant))
		die("private data of %u bytes", event->param.conn.private_data_len);
	memcpy(&grant, event->param.conn.private_data, sizeof(grant));
	ep->remote.addr = be64toh(grant.addr_be);
	ep->remote.rkey = be32toh(grant.rkey_be);
}

void endpoint_accept(struct endpoint *ep, struct rdma_cm_id *listener, size_t buf_bytes)
{
	struct rdma_cm_event *event = expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = {
		.responder_resources = event->param.conn.responder_resources,
		.initiator_depth = event->param.conn.initiator_depth,
		.rnr_retry_count = 7,
		.private_data_len = sizeof(struct endpoint_grant),
	};
	struct endpoint_grant grant;

	memset(ep, 0, sizeof(*ep));
	ep->id = event->id;
	take_grant(ep, event);
	rdma_ack_cm_event(event);
	ep->channel = rdma_create_event_channel();
	if (!ep->channel)
		die("rdma_create_event_channel: %s", strerror(errno));
	if (rdma_migrate_id(ep->id, ep->channel))
		die("rdma_migrate_id: %s", strerror(errno));
	make_queues(ep, buf_bytes);
	grant = grant_of(ep);
	param.private_data = &grant;
	if (rdma_accept(ep->id, &param))
		die("rdma_accept: %s", strerror(errno));
	expect_and_ack(ep->channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void resolve(struct endpoint *ep, const char *addr, const char *port)
{
	struct addrinfo *where = lookup(addr, port);

	if (rdma_resolve_addr(ep->id, NULL, where->ai_addr, RESOLVE_TIMEOUT_MS))
		die("rdma_resolve_addr: %s", strerror(errno));
	freeaddrinfo(where);
	expect_and_ack(ep->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(ep->id, RESOLVE_TIMEOUT_MS))
		die("rdma_resolve_route: %s", strerror(errno));
	expect_and_ack(ep->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void endpoint_connect(struct endpoint *ep, const char *addr, const char *port, size_t buf_bytes)
{
	struct rdma_conn_param param = {
		.responder_resources = 16,
		.initiator_depth = 16,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.private_data_len = sizeof(struct endpoint_grant),
	};
	struct endpoint_grant grant;
	struct rdma_cm_event *event;

	memset(ep, 0, sizeof(*ep));
	ep->channel = rdma_create_event_channel();
	if (!ep->channel)
		die("rdma_create_event_channel: %s", strerror(errno));
	if (rdma_create_id(ep->channel, &ep->id, NULL, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	resolve(ep, addr, port);
	make_queues(ep, buf_bytes);
	grant = grant_of(ep);
	param.private_data = &grant;
	if (rdma_connect(ep->id, &param))
		die("rdma_connect: %s", strerror(errno));
	event = expect(ep->channel, RDMA_CM_EVENT_ESTABLISHED);
	take_grant(ep, event);
	rdma_ack_cm_event(event);
}

void endpoint_disconnect(struct endpoint *ep)
{
	/* EINVAL: the peer has disconnected already, and the event is queued. */
	if (rdma_disconnect(ep->id) && errno != EINVAL)
		die("rdma_disconnect: %s", strerror(errno));
	expect_and_ack(ep->channel, RDMA_CM_EVENT_DISCONNECTED);
	endpoint_close(ep);
}

void endpoint_close(struct endpoint *ep)
{
	rdma_destroy_qp(ep->id);
	if (ibv_destroy_cq(ep->cq) || ibv_dereg_mr(ep->mr) || ibv_dealloc_pd(ep->pd))
		die("destroying the queues: %s", strerror(errno));
	if (rdma_destroy_id(ep->id))
		die("rdma_destroy_id: %s", strerror(errno));
	rdma_destroy_event_channel(ep->channel);
	free(ep->buf);
}

void endpoint_post_recv(struct endpoint *ep, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)ep->buf,
		.length = (uint32_t)ep->buf_bytes,
		.lkey = ep->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int err = ibv_post_recv(ep->id->qp, &wr, &bad);

	if (err)
		die("ibv_post_recv: %s", strerror(err));
}

int endpoint_post(struct endpoint *ep, enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)ep->buf, .length = length, .lkey = ep->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = ep->remote.addr;
		wr.wr.atomic.rkey = ep->remote.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = ep->remote.addr;
		wr.wr.rdma.rkey = ep->remote.rkey;
	}
	return ibv_post_send(ep->id->qp, &wr, &bad);
}
