/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes events into a trace ring without pause, with times in the past, as no library of usrdma
 * does. One of the threads runs while the scheduler interrupts the others.
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

static void print_nothing(char *out, size_t out_bytes, const struct trace_event *event)
{
	(void)event;
	snprintf(out, out_bytes, "nothing");
}

static const struct trace_point point = {TRACE_WR_POSTED, "test", print_nothing};

static void *flood(void *arg)
{
	(void)arg;
	for (;;) {
		struct trace_event event = {.time_ns = 1, .qpn = 1};

		trace_emit(&point, &event);
		/* Faster writers would replace each record while the reader copies it. */
		for (volatile int i = 0; i < SPINS; i++)
			;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct trace_ring *ring;
	pthread_t threads[THREADS];

	if (argc != 2)
		return EXIT_FAILURE;
	ring = mmap(NULL, sizeof(*ring), PROT_READ, MAP_SHARED, atoi(argv[1]), 0);
	if (ring == MAP_FAILED || trace_ring_attach(atoi(argv[1]))) {
		fputs("ring_flood: not a ring\n", stderr);
		return EXIT_FAILURE;
	}
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, flood, NULL))
			return EXIT_FAILURE;
	}
	/* The first lanes of threads have lost records. */
	while (atomic_load(&ring->lanes[1].committed) < 2 * TRACE_LANE_BYTES)
		;
	puts("writing");
	fflush(stdout);
	pthread_join(threads[0], NULL);
	return EXIT_FAILURE;
}
