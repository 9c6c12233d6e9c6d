/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/progress.h"

static struct progress_cell progress_apply(struct progress_now *now, enum progress_input input)
{
	struct progress_cell cell = progress_cell(progress_state(now), input);

	if (cell.next != progress_state(now))
		atomic_store(&now->state, cell.next);
	return cell;
}

struct progress_cell progress_thread_starts(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_THREAD_STARTS);
}

struct progress_cell progress_polls_long(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_POLLS_LONG);
}

struct progress_cell progress_will_block(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_WILL_BLOCK);
}

struct progress_cell progress_server_enters(struct progress_now *now)
{
	now->servers++;
	now->has_changed = true;
	return progress_apply(now, PROGRESS_IN_SERVER_ENTERS);
}

/*
 * Acknowledgements may wait for the reply of this thread, so that the engine thread must tick even
 * if other threads serve. It must run the transports at once if the application of another channel
 * waits by other means.
 */
struct progress_cell progress_server_leaves(struct progress_now *now)
{
	now->servers--;
	now->has_changed = true;
	return progress_apply(now, !now->servers && progress_has_external(now) ?
					   PROGRESS_IN_LAST_SERVER_LEAVES :
					   PROGRESS_IN_SERVER_LEAVES);
}

struct progress_cell progress_serve_spin_begins(struct progress_now *now)
{
	now->has_changed = true;
	return progress_apply(now, PROGRESS_IN_SERVE_SPIN_BEGINS);
}

struct progress_cell progress_serve_spin_ends(struct progress_now *now)
{
	now->has_changed = true;
	return progress_apply(now, PROGRESS_IN_SERVE_SPIN_ENDS);
}

struct progress_cell progress_lone_spin_begins(struct progress_now *now)
{
	now->has_changed = true;
	return progress_apply(now, PROGRESS_IN_LONE_SPIN_BEGINS);
}

struct progress_cell progress_lone_spin_ends(struct progress_now *now)
{
	now->has_changed |= progress_spins_alone(progress_state(now));
	return progress_apply(now, PROGRESS_IN_LONE_SPIN_ENDS);
}

struct progress_cell progress_channel_changes(struct progress_now *now, bool is_external)
{
	now->external_channels += is_external ? 1 : -1u;
	return progress_apply(now, PROGRESS_IN_CHANNEL_CHANGES);
}

void progress_channel_ends(struct progress_now *now)
{
	now->external_channels--;
}

struct progress_cell progress_wait_begins(struct progress_now *now)
{
	now->external_waits++;
	now->has_changed = true;
	return progress_apply(now, PROGRESS_IN_WAIT_BEGINS);
}

void progress_wait_ends(struct progress_now *now)
{
	now->external_waits--;
	now->has_changed = true;
}

struct progress_cell progress_unit_promised(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_UNIT_PROMISED);
}

struct progress_cell progress_tick_polled(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_TICK_POLLED);
}

struct progress_cell progress_tick_unpolled(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_TICK_UNPOLLED);
}

static enum progress_input turn_input(const struct progress_now *now, bool may_spin_alone)
{
	if (now->servers)
		return now->has_changed ? PROGRESS_IN_TURN_SERVED : PROGRESS_IN_TURN_SERVED_LONG;
	if (!now->has_changed)
		return PROGRESS_IN_TURN_ELSEWHERE;
	if (!progress_has_external(now))
		return PROGRESS_IN_TURN_LEFT;
	return may_spin_alone && progress_waits_for_one_channel(now) ? PROGRESS_IN_TURN_ALONE :
								       PROGRESS_IN_TURN_ELSEWHERE;
}

struct progress_cell progress_turn_ends(struct progress_now *now, bool may_spin_alone)
{
	enum progress_input input = turn_input(now, may_spin_alone);

	now->has_changed = false;
	return progress_apply(now, input);
}

struct progress_cell progress_wakes(struct progress_now *now, enum progress_input input)
{
	return progress_apply(now, input);
}

struct progress_cell progress_daemon_lost(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_DAEMON_LOST);
}

struct progress_cell progress_forked(struct progress_now *now)
{
	return progress_apply(now, PROGRESS_IN_FORKED);
}
