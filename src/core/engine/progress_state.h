/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_PROGRESS_STATE_H
#define USRDMA_CORE_ENGINE_PROGRESS_STATE_H

#include <stdbool.h>

/*
 * Which threads run the transports of an engine, as a table: the next state, the actions, and what
 * the engine thread waits for, for each state and each input. docs/progress-states.md is generated
 * from it. core/engine/progress.h has the functions that apply the inputs.
 *
 * A state states what the engine thread waits for since its last turn, or what it has been woken
 * for; for the `polled` states, what it waited for before.
 */
enum progress_state {
	PROGRESS_NONE,	 /* the engine has no thread yet */
	PROGRESS_ENDED,	 /* the daemon was lost, or the process is the child of a fork() */
	PROGRESS_THREAD, /* the engine thread waits for all descriptors */
	/*
	 * direct wake-ups are on (core/engine/direct_wake.h): the engine thread waits for all
	 * descriptors for one tick
	 */
	PROGRESS_WAKES,
	/* threads serve, or stopped lately (core/engine/engine_serve.h): the engine thread ticks */
	PROGRESS_TICKS,
	PROGRESS_PARKED, /* threads serve for a longer time: the engine thread does not tick */
	/*
	 * A thread spins alone (core/engine/armed_spin.h): the engine thread was woken, and ticks
	 * after its next turn.
	 */
	PROGRESS_SPIN_BEGINS,
	PROGRESS_SPIN, /* the same, and the engine thread ticks */
	/* a thread spins alone, but direct wake-ups are on: as PROGRESS_WAKES */
	PROGRESS_SPIN_WAKES,
	/* The application polls: no doorbells are requested, and the engine thread ticks. */
	PROGRESS_POLLED,       /* the engine thread waited for all descriptors before */
	PROGRESS_POLLED_WAKES, /* direct wake-ups were on, until the next tick */
	PROGRESS_POLLED_TICKS, /* the engine thread ticked or was parked before */
	PROGRESS_COUNT
};

enum progress_input {
	/* threads of the application */
	PROGRESS_IN_POLLS_LONG, /* they have found CQs empty often enough */
	PROGRESS_IN_WILL_BLOCK,
	PROGRESS_IN_SERVER_ENTERS,
	PROGRESS_IN_SERVER_LEAVES,
	/*
	 * the last one, while the application waits elsewhere, so that only the engine thread can
	 * run the transports
	 */
	PROGRESS_IN_LAST_SERVER_LEAVES,
	PROGRESS_IN_SERVE_SPIN_BEGINS,
	PROGRESS_IN_SERVE_SPIN_ENDS,
	PROGRESS_IN_LONE_SPIN_BEGINS,
	PROGRESS_IN_LONE_SPIN_ENDS,
	PROGRESS_IN_CHANNEL_CHANGES, /* the application waits for a channel in another way */
	PROGRESS_IN_WAIT_BEGINS,     /* a thread waits elsewhere (usrdma_wait_begins()) */
	PROGRESS_IN_UNIT_PROMISED,   /* a peer adds the unit of an event that was queued */
	/* the engine thread */
	PROGRESS_IN_THREAD_STARTS,
	PROGRESS_IN_TICK_POLLED,   /* threads have polled since the last tick */
	PROGRESS_IN_TICK_UNPOLLED, /* no thread has */
	/*
	 * The end of a turn that leaves no work; the first one that applies. "Changed": a thread
	 * has begun or ended serving, a spin or an external wait since the last turn.
	 */
	PROGRESS_IN_TURN_SERVED,      /* threads serve, changed */
	PROGRESS_IN_TURN_SERVED_LONG, /* threads serve, unchanged */
	PROGRESS_IN_TURN_LEFT,	      /* changed; no thread serves, and nothing is external */
	PROGRESS_IN_TURN_ALONE, /* changed; one channel is external, whose thread may spin alone */
	PROGRESS_IN_TURN_ELSEWHERE, /* any other turn */
	/* answers to PROGRESS_DO_LOOK and PROGRESS_DO_CHECK */
	PROGRESS_IN_WAKES_NEW,	   /* a message for which direct wake-ups are possible */
	PROGRESS_IN_WAKES_PENDING, /* one arrived lately, or a promised unit was not checked */
	PROGRESS_IN_WAKES_OVER,
	/* ends */
	PROGRESS_IN_DAEMON_LOST,
	PROGRESS_IN_FORKED, /* in the child */
	PROGRESS_IN_COUNT
};

/* A set of actions. */
enum progress_action {
	PROGRESS_DO_WAKE_THREAD = 1 << 0, /* when the lock is released */
	PROGRESS_DO_STOP_DOORBELLS = 1 << 1,
	/* examines the FIFOs and sockets afterwards; arms the timer */
	PROGRESS_DO_REQUEST_DOORBELLS = 1 << 2,
	PROGRESS_DO_BEGIN_WAKES = 1 << 3, /* peers may wake threads of this process */
	/*
	 * No longer. The promised units are checked, and the acknowledgements that wait without a
	 * timer are sent: in this turn if the application polls, otherwise in the next one, which
	 * also finds the messages of peers that have not seen the end yet.
	 */
	PROGRESS_DO_END_WAKES = 1 << 4,
	PROGRESS_DO_LOOK = 1 << 5,  /* which PROGRESS_IN_WAKES_*? */
	PROGRESS_DO_CHECK = 1 << 6, /* is a promised unit unchecked? PENDING or OVER */
	PROGRESS_DO_NEVER = 1 << 7, /* the input does not occur in this state */
};
#define PROGRESS_ACTIONS 8

/* What the engine thread waits for until its next turn. */
enum progress_wait {
	PROGRESS_WAIT_NONE,	/* the input is not the end of a turn */
	PROGRESS_WAIT_BUSY,	/* nothing, but looks at all descriptors: work is pending */
	PROGRESS_WAIT_AGAIN,	/* nothing: another turn is necessary */
	PROGRESS_WAIT_ALL,	/* all descriptors of the engine */
	PROGRESS_WAIT_ALL_TICK, /* the same, for one tick */
	PROGRESS_WAIT_OWN_TICK, /* its own descriptors, for one tick */
	PROGRESS_WAIT_PARKED,	/* its own descriptors, and engine.watches.standby */
	PROGRESS_WAIT_COUNT
};

struct progress_cell {
	unsigned char next;    /* enum progress_state */
	unsigned char wait;    /* enum progress_wait */
	unsigned char actions; /* enum progress_action */
};

struct progress_cell progress_cell(enum progress_state state, enum progress_input input);
const char *progress_name(enum progress_state state);
const char *progress_input_name(enum progress_input input);
const char *progress_action_name(enum progress_action action);
const char *progress_wait_name(enum progress_wait wait);

#define PROGRESS_BIT(state) (1u << PROGRESS_##state)

static inline bool progress_is_in(enum progress_state state, unsigned int states)
{
	return states & 1u << state;
}

/* The application polls. */
static inline bool progress_is_polled(enum progress_state state)
{
	return state >= PROGRESS_POLLED;
}

/* A thread that begins to wait may run the transports itself. */
static inline bool progress_may_serve(enum progress_state state)
{
	return state >= PROGRESS_THREAD && state < PROGRESS_POLLED;
}

static inline bool progress_has_wakes(enum progress_state state)
{
	return progress_is_in(state, PROGRESS_BIT(WAKES) | PROGRESS_BIT(SPIN_WAKES) |
					     PROGRESS_BIT(POLLED_WAKES));
}

static inline bool progress_spins_alone(enum progress_state state)
{
	return state >= PROGRESS_SPIN_BEGINS && state <= PROGRESS_SPIN_WAKES;
}

/* The engine thread waits for the peers and the network, unless it is running. */
static inline bool progress_thread_waits(enum progress_state state)
{
	return progress_is_in(state, PROGRESS_BIT(THREAD) | PROGRESS_BIT(WAKES) |
					     PROGRESS_BIT(SPIN_BEGINS) | PROGRESS_BIT(SPIN_WAKES));
}

#endif
