/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress_model.h"

static void publish_wakes(struct state *s)
{
	s->takes_wakes = progress_has_wakes(state_of(s)) && !s->pauses;
}

/* As direct_wake_end() and direct_wake_look(). A unit that is added at once may be one too many. */
static void check_promises(struct state *s, bool at_once)
{
	if (!s->is_unchecked || s->promised || (s->peer == PEER_HAS_PROMISED && !at_once))
		return;
	s->is_replaced |= s->peer == PEER_HAS_PROMISED;
	s->fd = (uint8_t)(s->fd + s->dead + (s->peer == PEER_HAS_PROMISED));
	s->dead = 0;
	s->is_unchecked = false;
}

static void run(struct state *s, struct actor *actor);

static void act(struct state *s, struct actor *actor, struct progress_cell cell)
{
	if (cell.actions & PROGRESS_DO_STOP_DOORBELLS)
		s->wants_doorbell = false;
	if (cell.actions & PROGRESS_DO_REQUEST_DOORBELLS) {
		s->wants_doorbell = true;
		run(s, actor);
	}
	if (cell.actions & (PROGRESS_DO_BEGIN_WAKES | PROGRESS_DO_END_WAKES))
		publish_wakes(s);
	if (cell.actions & PROGRESS_DO_END_WAKES)
		check_promises(s, true);
	if (cell.actions & PROGRESS_DO_WAKE_THREAD)
		actor->wakes = true;
}

static void run(struct state *s, struct actor *actor)
{
	s->is_new |= s->is_external && s->received + s->promised;
	actor->units = (uint8_t)(actor->units + s->received);
	s->received = 0;
	for (; s->promised; s->promised--) {
		s->is_unchecked = true;
		act(s, actor, progress_unit_promised(&s->now));
	}
}

static void turn(struct state *s, struct actor *actor)
{
	run(s, actor);
	s->wants_doorbell = true;
}

static bool take_due(struct actor *actor)
{
	if (!actor->units)
		return false;
	actor->units--;
	return true;
}

static bool may_serve(const struct state *s)
{
	return progress_may_serve(state_of(s));
}

static void set_external(struct state *s, struct actor *actor, bool is_external)
{
	if (s->is_external == is_external)
		return;
	s->is_external = is_external;
	act(s, actor, progress_channel_changes(&s->now, is_external));
}

static void will_block(struct state *s, struct actor *actor, enum at next)
{
	actor->at = (uint8_t)next;
	if (progress_is_polled(state_of(s)))
		act(s, actor, progress_will_block(&s->now));
}

/* The function begin() of engine_serve.c. */
static void begin(struct state *s, struct actor *actor, bool is_blocking)
{
	bool serves = is_blocking && may_serve(s);

	set_external(s, actor, !serves);
	turn(s, actor);
	if (take_due(actor)) {
		actor->at = OUT;
		return;
	}
	actor->at = (uint8_t)(serves ? SERVE_WAITS : is_blocking ? READS : LOOK_SPIN_ENTERS);
	if (serves)
		act(s, actor, progress_server_enters(&s->now));
}

/* The function serve_turn() of engine_serve.c. */
static void serve_turn(struct state *s, struct actor *actor)
{
	s->doorbell = false;
	actor->at = SERVE_GIVES_UP;
	if (!may_serve(s))
		return;
	run(s, actor);
	s->wants_doorbell |= s->now.servers > 1;
	if (take_due(actor)) {
		act(s, actor, progress_server_leaves(&s->now));
		actor->at = OUT;
		return;
	}
	turn(s, actor);
	actor->at = SERVE_WAITS;
}

static bool step_serve(struct state *s, struct actor *actor, unsigned int choice)
{
	switch ((enum at)actor->at) {
	case SERVE_WILL_BLOCK:
		will_block(s, actor, SERVE_BEGINS);
		if (!choice || progress_has_external(&s->now) || !may_serve(s))
			return !choice;
		act(s, actor, progress_serve_spin_begins(&s->now));
		actor->at = SERVE_SPINS;
		return true;
	case SERVE_SPINS:
		if (choice) {
			run(s, actor);
			return may_serve(s);
		}
		actor->at = (uint8_t)(take_due(actor) ? OUT : SERVE_BEGINS);
		act(s, actor, progress_serve_spin_ends(&s->now));
		return true;
	case SERVE_BEGINS:
		begin(s, actor, true);
		return true;
	case SERVE_WAITS:
		if (s->fd && !s->doorbell) {
			s->fd--;
			actor->at = SERVE_LEAVES;
			return true;
		}
		if (!s->doorbell)
			return false;
		serve_turn(s, actor);
		return true;
	case SERVE_LEAVES:
	case SERVE_GIVES_UP:
		act(s, actor, progress_server_leaves(&s->now));
		actor->at = (uint8_t)(actor->at == SERVE_LEAVES ? OUT : READS);
		return true;
	default: /* READS */
		if (!s->fd)
			return false;
		s->fd--;
		actor->at = OUT;
		return true;
	}
}

static void prepare_to_sleep(struct state *s, struct actor *actor)
{
	if (!may_serve(s))
		return;
	act(s, actor, progress_lone_spin_ends(&s->now));
	turn(s, actor);
}

static void spin_enter(struct state *s, struct actor *actor)
{
	actor->at = LOOK_WAITS;
	if (!may_serve(s))
		return;
	actor->at = LOOK_SPINS;
	s->pauses++;
	publish_wakes(s);
	if (progress_waits_for_one_channel(&s->now))
		act(s, actor, progress_lone_spin_begins(&s->now));
}

static bool step_look(struct state *s, struct actor *actor, unsigned int choice)
{
	switch ((enum at)actor->at) {
	case LOOK_WILL_BLOCK:
		will_block(s, actor, LOOK_BEGINS);
		return true;
	case LOOK_BEGINS:
		begin(s, actor, false);
		return true;
	case LOOK_SPIN_ENTERS:
		if (choice)
			spin_enter(s, actor);
		else
			actor->at = LOOK_SLEEPS;
		return true;
	case LOOK_SPINS:
		if (!choice)
			actor->at = LOOK_SPIN_LEAVES;
		else
			run(s, actor);
		return !choice || may_serve(s);
	case LOOK_SPIN_LEAVES:
		/* With a completion, the application computes. */
		s->pauses--;
		publish_wakes(s);
		actor->at = (uint8_t)(s->fd ? OUT : LOOK_WAITS);
		if (s->fd)
			s->fd--;
		else
			prepare_to_sleep(s, actor);
		return true;
	case LOOK_SLEEPS:
		actor->at = LOOK_WAITS;
		if (progress_spins_alone(state_of(s)))
			prepare_to_sleep(s, actor);
		return true;
	case LOOK_WAITS:
		if (!s->fd)
			return false;
		s->fd--;
		actor->at = LOOK_WOKEN;
		return true;
	default: /* LOOK_WOKEN: the event of the unit may be in a message */
		if (may_serve(s))
			turn(s, actor);
		actor->at = OUT;
		return true;
	}
}

static bool step_elsewhere(struct state *s, struct actor *actor)
{
	switch ((enum at)actor->at) {
	case ELSE_WILL_BLOCK:
		will_block(s, actor, ELSE_BEGINS);
		return true;
	case ELSE_BEGINS:
		act(s, actor, progress_wait_begins(&s->now));
		actor->at = ELSE_WAITS;
		return true;
	case ELSE_WAITS:
		if (!s->fd)
			return false;
		s->fd--;
		actor->at = ELSE_ENDS;
		return true;
	default:
		progress_wait_ends(&s->now);
		actor->at = OUT;
		return true;
	}
}

/* A new call, or a poll. */
static bool step_out(struct state *s, struct actor *actor, unsigned int choice)
{
	static const uint8_t calls[] = {SERVE_WILL_BLOCK, LOOK_WILL_BLOCK, ELSE_WILL_BLOCK};

	if (choice < sizeof(calls)) {
		actor->at = calls[choice];
		return true;
	}
	s->has_polled = true;
	if (choice > 3 && !progress_is_polled(state_of(s)))
		act(s, actor, progress_polls_long(&s->now));
	run(s, actor);
	return choice <= 4;
}

static bool step_call(struct state *s, struct actor *actor, unsigned int choice)
{
	if (actor->at == OUT)
		return step_out(s, actor, choice);
	if (choice > 1)
		return false;
	if (actor->at <= READS)
		return step_serve(s, actor, choice);
	return actor->at <= LOOK_WOKEN ? step_look(s, actor, choice) :
					 !choice && step_elsewhere(s, actor);
}

/* When the lock is released. A spinning thread takes its units itself. */
static void release(struct state *s, struct actor *actor)
{
	if (actor->at != SERVE_SPINS) {
		s->fd = (uint8_t)(s->fd + actor->units);
		actor->units = 0;
	}
	s->own_doorbell |= actor->wakes;
	actor->wakes = 0;
}

bool step_thread(struct state *s, struct actor *actor, unsigned int choice)
{
	if (!step_call(s, actor, choice))
		return false;
	release(s, actor);
	return true;
}

static bool server_waits(const struct state *s)
{
	return s->actors[0].at == SERVE_WAITS || s->actors[1].at == SERVE_WAITS;
}

static bool step_rest(struct state *s, struct actor *actor)
{
	bool sees_doorbell = s->doorbell;

	actor->at = TURNS;
	switch ((enum progress_wait)s->wait) {
	case PROGRESS_WAIT_AGAIN:
		return true;
	case PROGRESS_WAIT_OWN_TICK:
		s->own_doorbell = false;
		return true;
	case PROGRESS_WAIT_PARKED:
		sees_doorbell &= !server_waits(s);
		if (!s->own_doorbell && !sees_doorbell)
			return false;
		break;
	case PROGRESS_WAIT_ALL:
		if (!s->own_doorbell && !sees_doorbell)
			return false;
		break;
	default:
		break;
	}
	s->own_doorbell = false;
	s->doorbell &= !sees_doorbell;
	return true;
}

static enum progress_input look(struct state *s, unsigned int actions, bool is_past)
{
	if (actions & PROGRESS_DO_CHECK)
		return s->is_unchecked ? PROGRESS_IN_WAKES_PENDING : PROGRESS_IN_WAKES_OVER;
	if (!s->is_new && !progress_has_wakes(state_of(s)) && !s->is_unchecked)
		return PROGRESS_IN_WAKES_OVER;
	check_promises(s, false);
	if (s->is_new) {
		s->is_new = false;
		return PROGRESS_IN_WAKES_NEW;
	}
	return is_past && !s->is_unchecked ? PROGRESS_IN_WAKES_OVER : PROGRESS_IN_WAKES_PENDING;
}

static void end_turn(struct state *s, struct actor *actor, struct progress_cell cell, bool is_past)
{
	act(s, actor, cell);
	if (cell.actions & (PROGRESS_DO_LOOK | PROGRESS_DO_CHECK)) {
		cell = progress_wakes(&s->now, look(s, cell.actions, is_past));
		act(s, actor, cell);
	}
	s->wait = cell.wait;
}

static void engine_turns(struct state *s, struct actor *actor, bool is_past)
{
	if (progress_is_polled(state_of(s)) && s->has_polled) {
		s->has_polled = false;
		end_turn(s, actor, progress_tick_polled(&s->now), is_past);
		run(s, actor);
		return;
	}
	if (progress_is_polled(state_of(s)))
		act(s, actor, progress_tick_unpolled(&s->now));
	s->has_polled = false;
	turn(s, actor);
	end_turn(s, actor, progress_turn_ends(&s->now, true), is_past);
}

bool step_engine(struct state *s, unsigned int choice)
{
	struct actor *actor = &s->actors[ENGINE];

	if (choice > 1)
		return false;
	if (actor->at == RESTS)
		return !choice && step_rest(s, actor);
	actor->at = RESTS;
	engine_turns(s, actor, !choice);
	release(s, actor);
	return true;
}

static unsigned int messages(const struct state *s)
{
	unsigned int count = 0u + s->received + s->promised + s->fd + s->dead;

	for (int i = 0; i < ACTORS; i++)
		count += s->actors[i].units;
	return count + (s->peer == PEER_HAS_PROMISED);
}

bool step_peer(struct state *s, unsigned int choice)
{
	switch ((enum peer)s->peer) {
	case PEER_IDLE:
		if (choice || messages(s) >= MESSAGES)
			return false;
		if (s->takes_wakes && s->is_external) {
			s->promised++;
			s->peer = PEER_HAS_PROMISED;
		} else {
			s->received++;
			s->peer = PEER_HAS_SENT;
		}
		return true;
	case PEER_HAS_SENT:
		s->doorbell |= s->wants_doorbell;
		s->wants_doorbell = false;
		s->peer = PEER_IDLE;
		return !choice;
	case PEER_HAS_PROMISED:
		s->peer = choice ? PEER_KILLED : PEER_IDLE;
		s->fd = (uint8_t)(s->fd + !choice);
		s->dead = (uint8_t)(s->dead + (choice && !s->is_replaced));
		s->is_replaced = false;
		return choice <= 1;
	default:
		return false;
	}
}

bool is_quiet(const struct state *s)
{
	for (int i = 0; i < THREADS; i++) {
		uint8_t at = s->actors[i].at;

		if (at != OUT && at != SERVE_WAITS && at != READS && at != LOOK_WAITS &&
		    at != ELSE_WAITS)
			return false;
		if (at != OUT && s->fd)
			return false;
	}
	return !s->received && !s->promised && !s->dead && !s->own_doorbell &&
	       s->actors[ENGINE].at == RESTS &&
	       (s->wait == PROGRESS_WAIT_ALL || s->wait == PROGRESS_WAIT_PARKED);
}
