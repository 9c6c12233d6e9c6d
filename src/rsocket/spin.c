/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/spin.h"

#include "base/clock.h"
#include "rsocket/config.h"

/* About what it costs to put a thread to sleep and to wake it, also in the peer. */
#define LONG_NS 80000
/* Without success, one of five waits polls LONG_NS: 16 us for each wait on average, of the order of the configured time. */
#define BACKOFF_MAX 4

/* Of this thread: the waits that do not poll longer, before the next one that does, and their number after the next failure. */
static __thread unsigned int short_waits, backoff;

void spin_begin(struct spin *spin, uint64_t now_ns)
{
	uint64_t least_ns = rsock_config()->polling_us * CLOCK_NS_PER_US;

	*spin = (struct spin){.start_ns = now_ns, .limit_ns = least_ns};
	/* 0: the threads of this host must not poll. */
	if (!least_ns || least_ns >= LONG_NS)
		return;
	if (short_waits) {
		short_waits--;
		return;
	}
	spin->limit_ns = LONG_NS;
	spin->is_long = true;
}

bool spin_continue(const struct spin *spin, uint64_t now_ns)
{
	if (now_ns - spin->start_ns < spin->limit_ns)
		return true;
	if (!spin->is_long)
		return false;
	if (backoff < BACKOFF_MAX)
		backoff = backoff ? 2 * backoff : 1;
	short_waits = backoff;
	return false;
}

void spin_succeed(const struct spin *spin)
{
	if (spin->is_long)
		backoff = 0;
}
