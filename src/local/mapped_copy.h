/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_MAPPED_COPY_H
#define USRDMA_LOCAL_MAPPED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "local/rseq_area.h"

/*
 * Accesses to a peer's memory that this process has mapped, while the guards have their expected
 * values. The comparison and the access are one restartable sequence. With GUARDED_PREEMPTED a part
 * of the bytes may have been moved, but not the last word of a write, and an atomic operation was
 * not executed. GUARDED_FAULTED, GUARDED_FAULTED_OURS: the same, because a page cannot be accessed.
 * Only if user_fault_is_caught(). The caller has executed a sequentially consistent fence after the
 * announcement of the access (docs/memory-safety.md).
 */

/*
 * The bytes of one sequence. The sequence begins again if the thread is preempted, so it must be
 * short.
 */
#define MAPPED_COPY_BYTES (32u * 1024)

/*
 * Copies `bytes` bytes, 1 to MAPPED_COPY_BYTES. `to` is in the mapped memory. Aligned words of the
 * destination of up to 8 bytes are stored whole. The last one is stored by the last instruction,
 * after all other bytes are visible.
 */
enum guarded_outcome mapped_write(const struct guard guards[GUARDS], void *to, const void *from,
				  size_t bytes) __attribute__((warn_unused_result));

/*
 * The same with `from` in the mapped memory, without the order of the last word. Words of the
 * source are loaded whole if both addresses have the same remainder modulo 8.
 */
enum guarded_outcome mapped_read(const struct guard guards[GUARDS], void *to, const void *from,
				 size_t bytes) __attribute__((warn_unused_result));

/*
 * One atomic operation on an aligned word in the mapped memory. *original: its value before, set
 * with GUARDED_CALLED.
 */
enum guarded_outcome mapped_fetch_add(const struct guard guards[GUARDS], uint64_t *word,
				      uint64_t add, uint64_t *original)
	__attribute__((warn_unused_result));
enum guarded_outcome mapped_compare_swap(const struct guard guards[GUARDS], uint64_t *word,
					 uint64_t compare, uint64_t swap, uint64_t *original)
	__attribute__((warn_unused_result));

#endif
