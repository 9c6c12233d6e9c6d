/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_CHANNEL_UNITS_H
#define USRDMA_CORE_OBJECT_CHANNEL_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The units of a completion channel: each queued event has one, with which a thread may take an
 * event. A unit is in one of these places:
 *
 *   fd        in the descriptor, which is readable while it has units
 *   due       of a queued event, not added to the descriptor yet
 *   signalled taken from `due` by a thread that is about to add it to the descriptor:
 *             units_signal_begin() to units_signal_end()
 *   held      taken by a thread that has not taken an event yet
 *   promised  of a queued event; a peer is about to add it to the descriptor
 *             (core/engine/direct_wake.h)
 *
 * Some units have no queued event:
 *
 *   missing   the event was removed, and its unit could not be removed with it, because it was not
 *             in
 *             the descriptor
 *   early     a peer has added the unit of a message that the transports have not executed
 *   surplus   added because a peer did not keep its promise, and the peer has kept it later. If it
 *             was
 *             killed instead, the surplus is that unit, and not one too many.
 *
 * Invariant: fd + due + signalled + held + promised = queued + missing + early + surplus.
 *
 * The process counts queued, due and missing. It does not see when a peer adds a unit, or that it
 * never does. `promised` is therefore an upper bound, and so is `missing` if peers add units: where
 * a unit is removed for a missing one, an event may then lack its own. So units_settle() and
 * units_check_promise() add a unit if an event is queued and no unit is in the first three places.
 *
 * tests/unit/core/test_channel_units.c examines each interleaving of a thread that queues events,
 * two that take them, one that removes them, and a peer: the invariant holds, and no thread waits
 * while an event is queued and no thread or peer is about to add its unit.
 *
 * channel.lock guards the members. Two things happen without it: event_fd_post() of the units that
 * units_signal_begin() returns, and waiting for a unit by the functions of event_fd.h.
 */
struct channel_units {
	int fd; /* an eventfd in semaphore mode (event_fd.h) */
	uint32_t queued;
	uint32_t due;
	uint32_t missing;
	uint32_t promised;
	/* threads that take due units, which are not added to the descriptor in the meantime */
	uint32_t spinners;
	uint32_t signallers; /* threads between units_signal_begin() and units_signal_end() */
	bool has_promises;   /* peers have ever been able to add units */
	bool may_lack;	     /* the queued events may have fewer units than one each */
	/* units_check_promise() has found that an event lacks its unit, and has not added it */
	bool is_overdue;
};

/* An event was queued. is_promised: a peer adds its unit, or has added it. */
void units_event_queued(struct channel_units *units, bool is_promised);

/* A thread has taken the event of a unit that it holds. */
void units_event_taken(struct channel_units *units);

/* `count` events were removed that no thread has taken. */
void units_events_removed(struct channel_units *units, uint32_t count);

/*
 * A peer adds a unit for which no event was queued. An event that is queued already gets it in
 * place of its own unit, or the unit is removed when it arrives. At least one event is queued.
 */
void units_promise_absorbed(struct channel_units *units);

/*
 * A thread holds a unit and the queue is empty. units_returned(): the thread goes on waiting.
 * units_event_added(): it has queued an event without a completion for this unit, because the
 * application may have seen that the descriptor was readable.
 */
void units_returned(struct channel_units *units);
void units_event_added(struct channel_units *units);

/* As units_returned(), but a unit of a peer stays in the descriptor. */
void units_put_back(struct channel_units *units);

/* Takes a due unit, if any. Returns whether it did. */
bool units_take_due(struct channel_units *units);

/* Takes a unit that is due or in the descriptor. Does not call the kernel if there can be none. */
bool units_try(struct channel_units *units);

/* Whether a unit may be in the descriptor that a thread may take. */
bool units_may_be_there(const struct channel_units *units);

/* Between these calls a thread polls: due units are not added to the descriptor, unless it ends. */
void units_spin_begin(struct channel_units *units);
void units_spin_end(struct channel_units *units);

/*
 * Returns the number of units that the caller adds to the descriptor, without the lock, before it
 * calls units_signal_end().
 */
uint32_t units_signal_begin(struct channel_units *units);
void units_signal_end(struct channel_units *units);

/*
 * A unit was promised. Whether all queued events have units now; otherwise the call is to be
 * repeated. The second call adds a missing unit, because a peer may be about to add it at the first
 * one. at_once: the first one does.
 */
bool units_check_promise(struct channel_units *units, bool at_once);

#endif
