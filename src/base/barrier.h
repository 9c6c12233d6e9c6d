/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_BARRIER_H
#define USRDMA_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Asymmetric memory barriers by membarrier(2), on each architecture a full fence at one point of
 * each running thread; a switch of threads is one, too. The frequent side executes barrier_light(),
 * which only the compiler respects. The rare side executes barrier_threads() in place of its fence.
 * Then a store before barrier_light() is visible to the rare side, or the load after
 * barrier_light() returns what the rare side stored.
 */

extern atomic_bool barrier_has_threads;
extern atomic_bool barrier_has_processes;

/*
 * Registers the process. Until then, and if the kernel refuses, barrier_has_threads and
 * barrier_has_processes are false, and no algorithm may depend on barrier_light() between threads
 * or between processes. To be called again in the child of a fork(). If the process has several
 * threads, the call takes a grace period of RCU.
 */
void barrier_register(void);

static inline void barrier_light(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

/* All threads of this process have executed a memory barrier when the function returns. */
void barrier_threads(void);

/*
 * The same if threads may have executed barrier_light() because they found barrier_has_threads;
 * otherwise returns at once. A thread that found it just before another thread's membarrier(2)
 * failed is one of them until the stores of that time are visible.
 */
void barrier_threads_if_light(void);

/*
 * As barrier_threads(), for all threads of all processes on this host whose barrier_has_processes
 * is true.
 */
void barrier_processes(void);

#endif
