/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/channel_units.h"

#include "core/object/event_fd.h"

/* Whether a thread of this process is about to add a unit, or has just added one. */
static bool is_signalled(const struct channel_units *units)
{
	return units->due || units->signallers;
}

/*
 * Removes units of removed events from the descriptor. If a peer that promised a unit was killed,
 * this may be the unit of another event. A unit is then added as soon as none is left for the
 * queued events.
 */
static void units_settle(struct channel_units *units)
{
	units->may_lack |= units->has_promises && (units->promised || units->missing);
	units->missing = event_fd_drain(units->fd, units->missing);
	if (units->promised > units->queued)
		units->promised = units->queued;
	if (!units->queued)
		units->may_lack = false;
	if (units->may_lack && !is_signalled(units) && !event_fd_is_readable(units->fd))
		event_fd_post(units->fd, 1);
}

void units_event_queued(struct channel_units *units, bool is_promised)
{
	units->queued++;
	if (!is_promised) {
		units->due++;
		return;
	}
	units->promised++;
	units->is_overdue = false;
}

void units_event_taken(struct channel_units *units)
{
	units->queued--;
	units_settle(units);
}

void units_events_removed(struct channel_units *units, uint32_t count)
{
	uint32_t due = count < units->due ? count : units->due;

	units->queued -= count;
	units->due -= due;
	units->missing += count - due;
	units_settle(units);
}

void units_promise_absorbed(struct channel_units *units)
{
	units->is_overdue = false;
	if (units_take_due(units))
		units->promised++;
	else
		units->missing++;
}

void units_returned(struct channel_units *units)
{
	if (units->missing)
		units->missing--;
}

void units_event_added(struct channel_units *units)
{
	units_returned(units);
	units->queued++;
}

void units_put_back(struct channel_units *units)
{
	if (units->has_promises && !units->missing)
		event_fd_post(units->fd, 1);
	else
		units_returned(units);
}

bool units_take_due(struct channel_units *units)
{
	if (!units->due)
		return false;
	units->due--;
	return true;
}

bool units_may_be_there(const struct channel_units *units)
{
	return units->queued || units->missing;
}

bool units_try(struct channel_units *units)
{
	return units_take_due(units) || (units_may_be_there(units) && !event_fd_try(units->fd));
}

void units_spin_begin(struct channel_units *units)
{
	units->spinners++;
}

void units_spin_end(struct channel_units *units)
{
	if (--units->spinners || !units->due)
		return;
	event_fd_post(units->fd, units->due);
	units->due = 0;
	units_settle(units);
}

uint32_t units_signal_begin(struct channel_units *units)
{
	uint32_t count = units->spinners ? 0 : units->due;

	units->signallers++;
	units->due -= count;
	return count;
}

void units_signal_end(struct channel_units *units)
{
	units->signallers--;
	/* Units of events that were removed in between. */
	units_settle(units);
}

bool units_check_promise(struct channel_units *units, bool at_once)
{
	bool may_add = units->is_overdue || at_once;

	units->is_overdue = true;
	if (!units->queued || is_signalled(units) || event_fd_is_readable(units->fd))
		return true;
	if (may_add)
		event_fd_post(units->fd, 1);
	return may_add;
}
