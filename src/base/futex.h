/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FUTEX_H
#define USRDMA_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * futex(2) between the threads of this process. Not a cancellation point. errno is not preserved.
 */

/*
 * Waits while *word is `value`, until a wake-up or, if until_ns is not 0, until that time. May also
 * return without a cause.
 */
void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns);

void futex_wake_all(_Atomic uint32_t *word);

#endif
