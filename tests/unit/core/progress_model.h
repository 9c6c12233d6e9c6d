/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_PROGRESS_MODEL_H
#define USRDMA_TESTS_UNIT_CORE_PROGRESS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine/progress.h"

/* The actors of test_progress_model.c, and their steps. */

#define THREADS	 2
#define ENGINE	 THREADS /* the actor that is the engine thread */
#define ACTORS	 (THREADS + 1)
#define MESSAGES 1 /* messages and units at one time */
#define CHOICES	 5

enum at {
	OUT, /* computes */
	/* a blocking ibv_get_cq_event() */
	SERVE_WILL_BLOCK,
	SERVE_SPINS,
	SERVE_BEGINS,
	SERVE_WAITS, /* in epoll_wait(2), for the channel and the doorbell */
	SERVE_LEAVES,
	SERVE_GIVES_UP, /* another thread polls: leaves, and then waits for the channel only */
	READS,
	/* an ibv_get_cq_event() that does not block, a spin in ibv_poll_cq(), poll(2) */
	LOOK_WILL_BLOCK,
	LOOK_BEGINS,
	LOOK_SPIN_ENTERS,
	LOOK_SPINS,
	LOOK_SPIN_LEAVES,
	LOOK_SLEEPS, /* without a spin */
	LOOK_WAITS,
	LOOK_WOKEN,
	/* usrdma_wait_begins(), poll(2), usrdma_wait_ends() */
	ELSE_WILL_BLOCK,
	ELSE_BEGINS,
	ELSE_WAITS,
	ELSE_ENDS,
	/* the engine thread */
	TURNS,
	RESTS,
};

enum peer { PEER_IDLE, PEER_HAS_SENT, PEER_HAS_PROMISED, PEER_KILLED };

struct actor {
	uint8_t at;    /* enum at */
	uint8_t units; /* that it adds to the descriptor when it releases the lock */
	uint8_t wakes; /* the engine thread, after this */
};

/* Compared as bytes; the padding is 0. */
struct state {
	struct progress_now now;
	struct actor actors[ACTORS];
	uint8_t wait;		/* enum progress_wait of the engine thread */
	uint8_t peer;		/* enum peer */
	uint8_t received;	/* messages in the FIFO */
	uint8_t promised;	/* messages in the FIFO whose unit the peer adds */
	uint8_t fd;		/* units in the channel's descriptor */
	uint8_t is_external;	/* comp_channel.is_external */
	uint8_t wants_doorbell; /* read by the peer */
	uint8_t takes_wakes;	/* the same */
	uint8_t pauses;		/* direct_wake.pauses */
	uint8_t doorbell;	/* the peer has rung it */
	uint8_t own_doorbell;
	uint8_t has_polled; /* since the last tick */
	uint8_t is_new;	    /* direct_wake.messages changed */
	uint8_t is_unchecked;
	uint8_t is_replaced; /* the unit that the peer is about to add was added for it */
	uint8_t dead;	     /* units that the killed peer has not added */
};

static inline enum progress_state state_of(const struct state *s)
{
	return progress_state(&s->now);
}

/*
 * One of several steps of an actor, by `choice` below CHOICES. Returns whether the actor can take
 * it; otherwise the state is invalid.
 */
bool step_thread(struct state *s, struct actor *actor, unsigned int choice);
bool step_engine(struct state *s, unsigned int choice);
bool step_peer(struct state *s, unsigned int choice);

/* Nothing happens without a further call or message, and all messages were executed. */
bool is_quiet(const struct state *s);

#endif
