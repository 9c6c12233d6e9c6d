/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ROCE_FORWARD_H
#define USRDMA_DAEMON_ROCE_FORWARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"
#include "wire/gid.h"

struct forward;

/* Counters of all forwarded processes, including those that have ended. */
struct forward_counters {
	uint64_t processes; /* currently forwarded */
	uint64_t datagrams; /* a GRO buffer of several datagrams counts as one */
	uint64_t ring_full; /* times that a ring had no free element */
	uint64_t dropped;   /* dropped by the kernel because ring and socket buffer were full */
};

/*
 * Forwards datagrams of UDP port 4791 to processes of users other than the daemon's, which never
 * get a socket of the port (ADR 0023). Each process has a forwarding ring (daemon/udp_feed.h). One
 * thread fills all rings from the sockets of their slots; it is started with the first ring. The
 * loop's thread calls all functions below. `state` guards the table and the feeds. The loop's
 * thread holds `gate` while it waits for `state`, and the forwarding thread passes through `gate`
 * first, so that the loop's thread has priority.
 */
struct roce_forward {
	pthread_mutex_t gate;
	pthread_mutex_t state;
	pthread_t thread;
	bool has_thread;
	int epoll_fd;
	int stop_fd;
	uint32_t next_generation;
	struct forward *forwards[IPC_SLOTS];
	struct forward_counters past; /* counters of removed processes */
};

void roce_forward_init(struct roce_forward *forward);

/* Ends the thread. All slots must have been removed. */
void roce_forward_close(struct roce_forward *forward);

/*
 * Starts forwarding: datagrams from socket_fd are passed to the process that gets fds. The caller
 * keeps socket_fd and owns fds.
 */
int roce_forward_add(struct roce_forward *forward, uint32_t slot, int socket_fd,
		     int fds[IPC_RING_FDS]) __attribute__((warn_unused_result));

/*
 * Stops forwarding; to be called before the socket is closed. Does nothing if the slot is not
 * forwarded.
 */
void roce_forward_remove(struct roce_forward *forward, uint32_t slot);

/* Multicast groups of the slot's socket, see ipc/msg.h. The caller limits their number. */
uint32_t roce_forward_groups(const struct roce_forward *forward, uint32_t slot);
int roce_forward_join(struct roce_forward *forward, uint32_t slot, uint32_t ifindex,
		      const uint8_t group[GID_BYTES]) __attribute__((warn_unused_result));
int roce_forward_leave(struct roce_forward *forward, uint32_t slot, uint32_t ifindex,
		       const uint8_t group[GID_BYTES]) __attribute__((warn_unused_result));

void roce_forward_counters(struct roce_forward *forward, struct forward_counters *counters);

#endif
