/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_RING_H
#define USRDMA_LINK_UDP_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/udp_control.h"

/*
 * The ring through which the daemon forwards the datagrams of UDP port 4791 to a process of another
 * user (ADR 0023). Two memfds, a socket pair and an eventfd:
 *
 * - the ring itself, written by the daemon and sealed so that the process can map it for reading
 *   only;
 * - the consumer's words, written by the process. The daemon reads them with pread(), so that the
 *   process cannot cause a fault in the daemon, and accepts `tail` only in [last accepted tail,
 *   head];
 * - a socket pair by which the daemon wakes a process that sleeps. A pipe would not do: its reader
 *   holds a lock that its writer needs while it copies to memory that may be a FUSE file's;
 * - an eventfd by which the process notifies the daemon that a full ring has room. The daemon waits
 *   for its edges and never reads it, since the process can make reading block. A socket would let
 *   the process send descriptors.
 *
 * Positions count datagrams, modulo 2^32; entry i is at i % UDP_RING_CELLS. The daemon chooses for
 * each datagram a cell that is free, the one used last first, so that a lightly used ring stays in
 * few pages.
 */
#define UDP_RING_CELLS	    32u
#define UDP_RING_CELL_BYTES 65536u

/* A datagram, or several of one sender and size that the kernel merged (UDP_GRO). */
struct udp_ring_entry {
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t ifindex;
	uint32_t flow_label;
	uint32_t segment_bytes; /* 0: not merged */
	uint32_t len_bytes;
	uint32_t cell;
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[8];
};

struct udp_ring_memory {
	_Atomic uint32_t head; /* entries before it are valid */
	/*
	 * how often the ring was full; the consumer notifies the daemon when half of it is free
	 * again
	 */
	_Atomic uint32_t full;
	uint8_t reserved[56];
	struct udp_ring_entry entries[UDP_RING_CELLS];
	uint8_t pad[4096 - 64 - sizeof(struct udp_ring_entry) * UDP_RING_CELLS];
	uint8_t cells[UDP_RING_CELLS][UDP_RING_CELL_BYTES];
};

struct udp_ring_words {
	_Atomic uint32_t tail; /* entries before it are free */
	/* odd: the consumer sleeps and wants to be woken, once for each odd value */
	_Atomic uint32_t sleeps;
};

static_assert(sizeof(struct udp_ring_entry) == 64, "one cache line");
static_assert(offsetof(struct udp_ring_memory, cells) == 4096,
	      "what the daemon stores to is one page");
/*
 * A tail that is torn by pread() differs by 256 or more from the old and the new value, so it is
 * not accepted.
 */
static_assert(UDP_RING_CELLS < 256, "a torn tail lies outside the ring");

/* The descriptors of a ring, in the order in which they travel in IPC_RING. */
enum udp_ring_fd {
	UDP_RING_FD_MEMORY,
	UDP_RING_FD_WORDS,
	UDP_RING_FD_BELL, /* a SEQPACKET socket: a byte wakes the consumer */
	UDP_RING_FD_ROOM, /* an eventfd: an addition says that there is room */
	UDP_RING_FDS
};

/* The consumer's side. Owned by a UDP link; freed by udp_ring_close(). */
struct udp_ring {
	const struct udp_ring_memory *memory;
	struct udp_ring_words *words;
	int bell_fd;
	int room_fd;
	uint32_t next;	    /* the next entry to be received */
	uint32_t responded; /* the value of `full` at the last notification */
};

/*
 * Maps the ring. On success the ring owns the descriptors, and the two memfds are closed. 0 or
 * -errno.
 */
int udp_ring_open(struct udp_ring *ring, const int fds[UDP_RING_FDS])
	__attribute__((warn_unused_result));
void udp_ring_close(struct udp_ring *ring);

/* Returns up to max datagrams; frees the cells of the previous call. */
int udp_ring_receive(struct udp_ring *ring, struct udp_rx *rx, int max);

/*
 * Requests a wake-up for the next datagram (true), or cancels that (false). Returns whether a
 * datagram is there already. Frees the cells of the previous udp_ring_receive().
 */
bool udp_ring_sleep(struct udp_ring *ring, bool wants_bell);

#endif
