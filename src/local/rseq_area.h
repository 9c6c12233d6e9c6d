/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_RSEQ_AREA_H
#define USRDMA_LOCAL_RSEQ_AREA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Restartable sequences (rseq(2)) that compare words of shared memory, the guards, with the values
 * with which an access was checked. If the thread is preempted, migrated, stopped or signalled in
 * the sequence, the kernel continues it at the abort address. A thread that another process
 * observes as stopped therefore cannot continue with an outdated check.
 */
#define GUARDS 4

struct guard {
	const _Atomic uint64_t *word;
	uint64_t expected;
};

enum guarded_outcome {
	GUARDED_CALLED = 0,    /* the sequence was executed to its end */
	GUARDED_CHANGED = 1,   /* a word has another value; no bytes were moved */
	GUARDED_PREEMPTED = 2, /* the sequence was aborted before its last instruction */
	GUARDED_FAULTED = 3, /* the same, by a fault in the peer's memory; only of mapped_copy.h */
	GUARDED_FAULTED_OURS = 4, /* the same, by a fault in the memory of this process */
};

/* The part of struct rseq (linux/rseq.h) that is used here. */
struct rseq_area {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* negative: not registered */
	uint64_t rseq_cs;
};

/*
 * The area that the C library registered for this thread (glibc 2.35 or later, x86_64 or aarch64, a
 * kernel with rseq(2)); NULL: none, or the sequences are not available on this architecture.
 */
struct rseq_area *rseq_area_of_thread(void);

/*
 * Removes the pointer to the descriptor. The kernel must not keep it: the library may be unloaded
 * later.
 */
static inline void rseq_area_leave(struct rseq_area *area)
{
	*(volatile uint64_t *)&area->rseq_cs = 0;
}

#endif
