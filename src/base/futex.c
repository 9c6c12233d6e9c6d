/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/futex.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
		.tv_nsec = (long)(until_ns % CLOCK_NS_PER_S),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until_ns ? &until : NULL, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
