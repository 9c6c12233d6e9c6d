/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_WATCH_H
#define USRDMA_RSOCKET_WATCH_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct usrdma_serve;

/*
 * The descriptors that a waiter waits for while its thread runs the transports
 * (base/librdmacm_calls.h). They stay in the kernel's set between two waits, because most threads
 * wait for the same descriptors each time.
 */
struct watched {
	uint64_t id; /* 0: unused entry */
	int fd;
	uint32_t wait;	/* the last wait with this descriptor */
	uint32_t place; /* its index in that wait */
};

struct watch {
	struct usrdma_serve *serve; /* NULL: not open */
	struct ibv_context *context;
	struct watched *table; /* a hash table with linear probing */
	uint32_t room;	       /* a power of two, or 0 */
	uint32_t count;
	uint32_t wait; /* number of the current wait */
};

/*
 * Set in the id of an object that exists until the process ends. The other objects are rsockets and
 * sets of repoll_create().
 */
#define WATCH_PERMANENT (UINT64_C(1) << 62)

/* A number that no other object of this process has. */
uint64_t watch_new_id(void);

/*
 * poll(2) for readable descriptors; the transports run in this time. ids[i]: of the object behind
 * fds[i].fd, by watch_new_id(); 0: unknown. context: of any completion channel among the
 * descriptors; NULL: no such channel. Returns the number of readable descriptors, or -errno of
 * poll(2). A cancellation point.
 */
int watch_poll(struct watch *watch, struct ibv_context *context, struct pollfd *fds,
	       const uint64_t *ids, size_t count, int timeout_ms)
	__attribute__((warn_unused_result));

/*
 * In the child of a fork(): frees the table. The kernel's set is the parent's, and libibverbs has
 * closed its descriptor.
 */
void watch_forget(struct watch *watch);

#endif
