/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SPIN_H
#define USRDMA_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How long a thread polls before it sleeps. If its last waits ended soon, it polls for about as
 * long as a wake-up takes: in a dialog of two threads that do this, no thread has to be woken.
 * After a wait that did not end soon, the next one does not poll, then the next two, and so on up
 * to most_short_waits (docs/adr/0045). Each thread has its own history.
 */
struct spin {
	uint64_t start_ns;
	uint64_t limit_ns;
	unsigned int most_short_waits;
	bool is_long;
};

/* About what it costs to put a thread to sleep and to wake it, also in the peer. */
#define SPIN_NS 80000

/*
 * Begins a wait of the calling thread. least_ns: the thread polls for this time in any case; if it
 * is SPIN_NS or more, not longer. Returns whether the thread is to poll.
 */
bool spin_begin(struct spin *spin, uint64_t now_ns, uint64_t least_ns,
		unsigned int most_short_waits);

/*
 * After spin_begin(): a wait that polls for SPIN_NS polls for limit_ns instead, because a wake-up
 * costs more than usual.
 */
void spin_lengthen(struct spin *spin, uint64_t limit_ns);

/* After a poll without success: whether to poll again. */
bool spin_continue(const struct spin *spin, uint64_t now_ns);

/* The wait has ended while the thread polled. Not called if spin_continue() returned false. */
void spin_succeed(const struct spin *spin);

#endif
