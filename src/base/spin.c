/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/spin.h"

/*
 * Of this thread: waits that do not poll longer, before the next one that does, and their number
 * after its failure.
 */
static __thread unsigned int short_waits, backoff;

bool spin_begin(struct spin *spin, uint64_t now_ns, uint64_t least_ns,
		unsigned int most_short_waits)
{
	*spin = (struct spin){
		.start_ns = now_ns, .limit_ns = least_ns, .most_short_waits = most_short_waits};
	if (least_ns >= SPIN_NS)
		return true;
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

bool spin_continue(const struct spin *spin, uint64_t now_ns)
{
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

void spin_succeed(const struct spin *spin)
{
	if (spin->is_long)
		backoff = 0;
}
