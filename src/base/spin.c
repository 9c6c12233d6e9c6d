/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/spin.h"

/* Of this thread: waits that do not poll longer, before the next one that does, and their number after its failure. */
static __thread unsigned int short_waits, backoff;
/* This thread does not poll longer until then: other programs need the processor. */
static __thread uint64_t pause_end_ns;

bool spin_begin(struct spin *spin, uint64_t now_ns, uint64_t least_ns,
		unsigned int most_short_waits)
{
	*spin = (struct spin){.start_ns = now_ns,
			      .last_ns = now_ns,
			      .limit_ns = least_ns,
			      .most_short_waits = most_short_waits};
	if (least_ns >= SPIN_NS)
		return true;
	if (now_ns < pause_end_ns)
		return least_ns > 0;
	if (short_waits) {
		short_waits--;
		return least_ns > 0;
	}
	spin->limit_ns = SPIN_NS;
	spin->is_long = true;
	return true;
}

void spin_lengthen(struct spin *spin, uint64_t limit_ns)
{
	if (spin->is_long)
		spin->limit_ns = limit_ns;
}

static bool has_lost_processor(struct spin *spin, uint64_t now_ns)
{
	uint64_t taken_ns = now_ns - spin->last_ns;

	spin->last_ns = now_ns;
	if (!spin->is_long || taken_ns < SPIN_LONG_ROUND_NS)
		return false;
	pause_end_ns = now_ns + SPIN_PAUSE_TIMES * taken_ns;
	return true;
}

bool spin_continue(struct spin *spin, uint64_t now_ns)
{
	if (has_lost_processor(spin, now_ns))
		return false;
	if (now_ns - spin->start_ns < spin->limit_ns)
		return true;
	if (!spin->is_long)
		return false;
	backoff = backoff ? 2 * backoff : 1;
	if (backoff > spin->most_short_waits)
		backoff = spin->most_short_waits;
	short_waits = backoff;
	return false;
}

void spin_succeed(struct spin *spin, uint64_t now_ns)
{
	if (spin->is_long && !has_lost_processor(spin, now_ns))
		backoff = 0;
}
