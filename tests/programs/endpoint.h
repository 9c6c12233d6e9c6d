/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_ENDPOINT_H
#define USRDMA_TESTS_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

/*
 * One side of an RC connection made with the rdma_cm, for the test programs of this directory.
 * Public calls only. If a call fails that the test expects to succeed, each function prints a line
 * on stdout and ends the process.
 *
 * Used by one thread only. endpoint_close() destroys all objects in reverse order.
 */
struct endpoint {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	size_t buf_bytes;
	struct {
		uint64_t addr;
		uint32_t rkey;
	} remote;
};

/* The private data of each side, in network byte order. */
struct endpoint_grant {
	uint64_t addr_be;
	uint32_t rkey_be;
} __attribute__((packed));

#define ENDPOINT_DEPTH 64

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

uint64_t now_ms(void);

/* Creates a listening id on its own channel; port 0 selects a free port. */
struct rdma_cm_id *endpoint_listen(const char *addr, const char *port);

/*
 * Waits for a connection on `listener`, accepts it and waits until it is established. The new id
 * has a channel of its own.
 */
void endpoint_accept(struct endpoint *ep, struct rdma_cm_id *listener, size_t buf_bytes);
void endpoint_connect(struct endpoint *ep, const char *addr, const char *port, size_t buf_bytes);

/* Disconnects, waits for DISCONNECTED, destroys all objects. */
void endpoint_disconnect(struct endpoint *ep);
void endpoint_close(struct endpoint *ep);

/* Posts a receive of the whole buffer. */
void endpoint_post_recv(struct endpoint *ep, uint64_t wr_id);

/*
 * Posts one signalled operation of `length` bytes between the start of both buffers. Returns 0, or
 * the errno of ibv_post_send: some callers expect the failure.
 */
int endpoint_post(struct endpoint *ep, enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id);

#endif
