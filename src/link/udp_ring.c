/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/syscalls.h"

int udp_ring_open(struct udp_ring *ring, const int fds[UDP_RING_FDS])
{
	const struct udp_ring_memory *memory;
	struct udp_ring_words *words;
	int error;

	memory = mmap(NULL, sizeof(*memory), PROT_READ, MAP_SHARED, fds[UDP_RING_FD_MEMORY], 0);
	if (memory == MAP_FAILED)
		return -errno;
	words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED,
		     fds[UDP_RING_FD_WORDS], 0);
	if (words == MAP_FAILED) {
		error = -errno;
		munmap((void *)(uintptr_t)memory, sizeof(*memory));
		return error;
	}
	*ring = (struct udp_ring){
		.memory = memory,
		.words = words,
		.bell_fd = fds[UDP_RING_FD_BELL],
		.room_fd = fds[UDP_RING_FD_ROOM],
	};
	sys_close(fds[UDP_RING_FD_MEMORY]);
	sys_close(fds[UDP_RING_FD_WORDS]);
	return 0;
}

void udp_ring_close(struct udp_ring *ring)
{
	munmap((void *)(uintptr_t)ring->memory, sizeof(*ring->memory));
	munmap(ring->words, sizeof(*ring->words));
	sys_close(ring->bell_fd);
	sys_close(ring->room_fd);
}

/*
 * Receives pending wake-ups, at most one for each time that the consumer slept. Returns whether
 * there was one.
 */
static bool udp_ring_read_wakeup(const struct udp_ring *ring)
{
	bool was_rung = false;
	uint8_t byte;

	while (sys_recv(ring->bell_fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0)
		was_rung = true;
	return was_rung;
}

static void udp_ring_disarm(struct udp_ring *ring)
{
	uint32_t sleeps = atomic_load_explicit(&ring->words->sleeps, memory_order_relaxed);

	if (sleeps & 1)
		atomic_store_explicit(&ring->words->sleeps, sleeps + 1, memory_order_relaxed);
}

/*
 * Frees the cells before `next`. A daemon that found the ring full stops reading its socket until
 * it is notified. The consumer notifies it when half of the ring is free, so that the daemon does
 * not wake up for each cell.
 */
static void udp_ring_release(struct udp_ring *ring)
{
	uint32_t head, full;

	atomic_store_explicit(&ring->words->tail, ring->next, memory_order_release);
	/* Pairs with the daemon, which increments `full` and then reads the tail again. */
	atomic_thread_fence(memory_order_seq_cst);
	full = atomic_load_explicit(&ring->memory->full, memory_order_relaxed);
	if (full == ring->responded)
		return;
	head = atomic_load_explicit(&ring->memory->head, memory_order_relaxed);
	if (head - ring->next > UDP_RING_CELLS / 2)
		return;
	ring->responded = full;
	/* An eventfd's counter overflows after 2^64 additions. */
	(void)sys_eventfd_write(ring->room_fd, 1);
}

static void udp_ring_read_entry(const struct udp_ring *ring, const struct udp_ring_entry *entry,
				struct udp_rx *rx)
{
	struct udp_rx_control *control = &rx->control;

	memcpy(control->local_gid, entry->local_gid, GID_BYTES);
	memcpy(control->remote_gid, entry->remote_gid, GID_BYTES);
	control->ifindex = entry->ifindex;
	control->flow_label = entry->flow_label;
	control->src_port = entry->src_port;
	control->traffic_class = entry->traffic_class;
	control->hop_limit = entry->hop_limit;
	control->segment_bytes = entry->segment_bytes;
	rx->bytes = ring->memory->cells[entry->cell % UDP_RING_CELLS];
	rx->len = entry->len_bytes < UDP_RING_CELL_BYTES ? entry->len_bytes : UDP_RING_CELL_BYTES;
	rx->offset = 0;
}

int udp_ring_receive(struct udp_ring *ring, struct udp_rx *rx, int max)
{
	uint32_t head;
	int n = 0;

	if (atomic_load_explicit(&ring->words->tail, memory_order_relaxed) != ring->next)
		udp_ring_release(ring);
	head = atomic_load_explicit(&ring->memory->head, memory_order_acquire);
	while (n < max && ring->next != head) {
		udp_ring_read_entry(ring, &ring->memory->entries[ring->next % UDP_RING_CELLS],
				    &rx[n++]);
		ring->next++;
	}
	if (n)
		udp_ring_disarm(ring);
	return n;
}

bool udp_ring_sleep(struct udp_ring *ring, bool wants_bell)
{
	uint32_t sleeps;
	bool was_rung;

	if (!wants_bell) {
		udp_ring_disarm(ring);
		return false;
	}
	/* Free the cells before sleeping: the daemon may be waiting for room. */
	if (atomic_load_explicit(&ring->words->tail, memory_order_relaxed) != ring->next)
		udp_ring_release(ring);
	was_rung = udp_ring_read_wakeup(ring);
	sleeps = atomic_load_explicit(&ring->words->sleeps, memory_order_relaxed);
	/*
	 * The wake-up may have been for a datagram that was received before this value was written.
	 * The daemon sends one wake-up for each value.
	 */
	if (!(sleeps & 1))
		atomic_store_explicit(&ring->words->sleeps, sleeps + 1, memory_order_relaxed);
	else if (was_rung)
		atomic_store_explicit(&ring->words->sleeps, sleeps + 2, memory_order_relaxed);
	/*
	 * Pairs with the daemon, which moves the head and then reads whether the consumer sleeps.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ring->memory->head, memory_order_acquire) != ring->next;
}
