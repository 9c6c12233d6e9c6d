/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PROBE_H
#define USRDMA_BASE_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The switch of all trace points (base/trace.h) and fault points (base/fault.h): one word in each
 * library and in the daemon. A point tests its bit first, so a point that is off costs one load and
 * one branch that is predicted as not taken (docs/adr/0033).
 */
#define PROBE_TRACE 0x1u
#define PROBE_FAULT 0x2u
/* Each packet and each FIFO element is traced too. Only set together with PROBE_TRACE. */
#define PROBE_PACKETS 0x4u

/*
 * Attributes of out-of-line functions of the points: their calls are outside the path that is used
 * when points are off.
 */
#define PROBE_COLD __attribute__((cold, noinline))

extern _Atomic uint32_t probe_mask;

static inline bool probe_is_on(uint32_t bits)
{
	return __builtin_expect(
		(atomic_load_explicit(&probe_mask, memory_order_relaxed) & bits) != 0, 0);
}

/*
 * Maps the probe page of this process's user (base/probe_page.h), which the daemon passed, and
 * applies it. The descriptor remains the caller's. A page replaces an earlier one. An empty file is
 * no page, and has no effect. 0, or -errno: the points can only be switched on by the environment.
 */
int probe_attach(int fd) __attribute__((warn_unused_result));

/*
 * Applies the probe page if the daemon has changed it: replaces the rules of the fault points, and
 * detaches the trace ring if no tracer is attached any more. Costs one load if nothing has changed.
 * Any thread; never blocks.
 */
void probe_refresh(void);

/* Whether a tracer is attached and this process has no trace ring yet. */
bool probe_wants_ring(void);

/*
 * Attaches the trace ring that the daemon passed (base/trace_ring.h), for the events that the page
 * selects. 0 or -errno.
 */
int probe_attach_ring(int fd) __attribute__((warn_unused_result));

/*
 * The daemon has no trace ring for this process: probe_wants_ring() returns false until the page
 * changes.
 */
void probe_ring_refused(void);

/*
 * Reads USRDMA_LOG, USRDMA_FAULT and USRDMA_FAULTS, and switches on the points. Each library calls
 * it before its first request to the daemon, and the daemon when it starts. Only the first call has
 * an effect.
 */
void probe_init(void);

#endif
