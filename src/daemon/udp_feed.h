/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_UDP_FEED_H
#define USRDMA_DAEMON_UDP_FEED_H

#include "link/udp_ring.h"

/*
 * The producer of a forwarding ring (link/udp_ring.h): moves datagrams from a socket into the ring.
 * The consumer may be hostile. It can write only two words. An out-of-range tail is ignored, and no
 * function here blocks or loops because of the consumer. The feed owns its memory and descriptors,
 * but not the socket. The caller serializes all calls.
 */
struct udp_feed {
	int socket_fd;
	struct udp_ring_memory *memory;
	int words_fd;
	int bell_fd;
	int room_fd; /* for epoll with EPOLLET; never read */
	uint32_t head;
	uint32_t tail;	   /* the last valid tail of the consumer */
	uint32_t woken_at; /* the value of `sleeps` for which the consumer was woken */
	uint32_t free_count;
	uint8_t free_cells[UDP_RING_CELLS]; /* a stack */
	uint8_t cell_of[UDP_RING_CELLS];    /* cells of the entries [tail, head) */
	uint64_t datagrams;
	uint64_t full_count;
};

enum udp_feed_state {
	UDP_FEED_EMPTY, /* the socket has no datagram */
	UDP_FEED_MORE,	/* the socket may have more datagrams */
	UDP_FEED_FULL,	/* the ring is full: room_fd gets an edge when an entry is freed */
};

/*
 * Creates a ring for the datagrams of the socket. The caller owns fds, the consumer's descriptors.
 * 0 or -errno.
 */
int udp_feed_open(struct udp_feed *feed, int socket_fd, int fds[UDP_RING_FDS])
	__attribute__((warn_unused_result));
void udp_feed_close(struct udp_feed *feed);

/* Moves at most max datagrams without blocking, and wakes the consumer if it sleeps. */
enum udp_feed_state udp_feed_run(struct udp_feed *feed, unsigned int max);

#endif
