/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes events into a trace ring without pause, with times in the past, as no library of usrdma does. One of the threads runs
 * while the scheduler interrupts the others.
 *
 *	ring_flood DESCRIPTOR
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/trace_ring.h"

#define THREADS 8
#define SPINS	300

static void *flood(void *arg)
{
	const struct trace_event event = {
		.version = TRACE_VERSION,
		.type = TRACE_WR_POSTED,
		.bytes = TRACE_EVENT_BYTES,
		.time_ns = 1,
		.qpn = 1,
	};

	for (;;) {
		trace_ring_put(arg, &event);
		/* Faster writers would replace each record while the reader copies it. */
		for (volatile int i = 0; i < SPINS; i++)
			;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct trace_ring *ring;
	pthread_t threads[THREADS];

	if (argc != 2)
		return EXIT_FAILURE;
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
	if (ring == MAP_FAILED) {
		perror("mmap");
		return EXIT_FAILURE;
	}
	ring->version = TRACE_RING_VERSION;
	atomic_store_explicit(&ring->magic, TRACE_RING_MAGIC, memory_order_release);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, flood, ring))
			return EXIT_FAILURE;
	}
	while (atomic_load(&ring->next) < TRACE_RING_SLOTS)
		;
	puts("writing");
	fflush(stdout);
	pthread_join(threads[0], NULL);
	return EXIT_FAILURE;
}
