/* SPDX-License-Identifier: BSD-2-Clause */
#include "access_model.h"

/* Longer than any access or any scan of the announcements. */
#define STEPS_MAX 64

struct access_state access_start(const struct access_setup *setup)
{
	struct access_state state = {
		.is_mr_published = true,
		.mr_contents = HOLDS_LIVE,
		.is_qp_published = true,
	};
	unsigned int pairs = access_pair_of(setup, setup->threads - 1) + 1;

	for (unsigned int i = 0; i < pairs; i++) {
		state.pairs[i].is_admitted = true;
		state.pairs[i].is_listed = true;
	}
	return state;
}

/* The entry gets a new generation: threads that loaded its word detect the change. */
static void change_mr(const struct access_setup *setup, struct access_state *state, bool published)
{
	state->is_mr_published = published;
	for (unsigned int i = 0; i < setup->threads; i++) {
		struct initiator_state *thread = &state->threads[i];

		if (thread->mr && !access_is_in_kernel(setup, thread) &&
		    setup->omission != NO_GENERATION)
			thread->is_mr_changed = true;
	}
}

static void change_qp(const struct access_setup *setup, struct access_state *state, bool published)
{
	state->is_qp_published = published;
	for (unsigned int i = 0; i < setup->threads; i++) {
		struct initiator_state *thread = &state->threads[i];

		if (thread->qp && !access_is_in_kernel(setup, thread) &&
		    setup->omission != NO_GENERATION)
			thread->is_qp_changed = true;
	}
}

/* The change of the published objects by the owner's operation. */
static void change_entry(const struct access_setup *setup, struct access_state *state,
			 bool published)
{
	if (state->op == OWNER_REVOKES_QP)
		change_qp(setup, state, published);
	else
		change_mr(setup, state, published);
}

static void end_op(struct access_state *state)
{
	state->op = state->outer_op;
	state->outer_op = OWNER_IDLE;
	state->owner_pc = state->op == OWNER_IDLE ? AT_WITHDRAWAL : AT_LOOK;
	state->peer = 0;
	state->tid_loaded = 0;
}

/* The revoking call returns successfully. */
static void return_success(const struct access_setup *setup, struct access_state *state)
{
	if (state->op == OWNER_REVOKES_MR)
		state->mr_contents = HOLDS_OVER;
	for (unsigned int i = 0; i < setup->threads; i++) {
		struct initiator_state *thread = &state->threads[i];

		if (state->op == OWNER_REVOKES_MR && thread->mr == HOLDS_LIVE)
			thread->mr = HOLDS_OVER;
		if (state->op == OWNER_REVOKES_QP && thread->qp == HOLDS_LIVE)
			thread->qp = HOLDS_OVER;
	}
	end_op(state);
}

static bool is_harmless(const struct access_setup *setup, const struct access_state *state)
{
	const struct initiator_state *thread;

	if (!state->tid_loaded || setup->omission == EXAMINES_NO_THREAD)
		return false;
	thread = &state->threads[state->tid_loaded - 1];
	switch ((enum thread_run)thread->run) {
	case RUNS:
		return false;
	case HELD:
		return !access_is_in_kernel(setup, thread) ||
		       setup->omission == TAKES_HELD_AS_HARMLESS;
	case REUSED:
		return setup->omission != PROBES_NO_IMAGE;
	case STOPPED:
	case DEAD:
		return true;
	}
	return false;
}

/* The peer has no access in progress. */
static void pass_peer(struct access_state *state)
{
	if (state->op == OWNER_FREES_PEER) {
		state->pairs[state->peer].is_listed = false;
		end_op(state);
		return;
	}
	state->peer++;
	state->owner_pc = AT_LOOK;
	state->tid_loaded = 0;
}

static void step_look(const struct access_setup *setup, struct access_state *state)
{
	const struct pair_state *pair = &state->pairs[state->peer];
	unsigned int mask = NAMES_MR | NAMES_QP;

	if (state->peer == access_pair_of(setup, setup->threads - 1) + 1) {
		if (setup->omission == LOOKS_BEFORE_WITHDRAWAL)
			state->owner_pc = AT_WITHDRAWAL;
		else
			return_success(setup, state);
		return;
	}
	if (state->op == OWNER_REVOKES_MR)
		mask = NAMES_MR;
	else if (state->op == OWNER_REVOKES_QP)
		mask = NAMES_QP;
	if (pair->is_listed && pair->accessing & mask)
		state->owner_pc = AT_LOOK_ID;
	else
		pass_peer(state);
}

static void step_withdraw(const struct access_setup *setup, struct access_state *state)
{
	change_entry(setup, state, false);
	if (setup->omission == LOOKS_BEFORE_WITHDRAWAL)
		return_success(setup, state);
	else
		state->owner_pc = AT_LOOK;
}

/*
 * A step of a call that has no alternative; false: the thread that was examined may be about to
 * move bytes.
 */
static bool step_scan(const struct access_setup *setup, struct access_state *state)
{
	switch ((enum owner_pc)state->owner_pc) {
	case AT_WITHDRAWAL:
		step_withdraw(setup, state);
		return true;
	case AT_LOOK:
		step_look(setup, state);
		return true;
	case AT_LOOK_ID:
		state->tid_loaded = state->pairs[state->peer].tid;
		state->owner_pc = AT_LOOK_STATE;
		return true;
	case AT_LOOK_STATE:
		if (!is_harmless(setup, state))
			return false;
		pass_peer(state);
		return true;
	}
	return false;
}

static void emit_wait(const struct access_setup *setup, const struct access_state *state,
		      access_emit *emit, void *context)
{
	struct access_state next = *state;

	if (state->op == OWNER_FREES_PEER) {
		end_op(&next);
		emit(context, &next, "owner keeps the peer");
		return;
	}
	next.owner_pc = AT_LOOK;
	next.peer = 0;
	next.tid_loaded = 0;
	emit(context, &next, "owner looks again");
	if (setup->omission == NEVER_GIVES_UP)
		return;
	change_entry(setup, &next, true);
	end_op(&next);
	emit(context, &next, "owner answers EBUSY");
}

/*
 * PEER_GONE, and the end of peers that are gone: when the owner is idle, and between two scans of
 * the announcements.
 */
static void emit_gone(const struct access_setup *setup, const struct access_state *state,
		      access_emit *emit, void *context)
{
	if (!(setup->features & WITH_GONE))
		return;
	for (unsigned int i = 0; i <= access_pair_of(setup, setup->threads - 1); i++) {
		struct access_state next = *state;
		struct pair_state *pair = &next.pairs[i];

		if (!pair->is_listed)
			continue;
		if (!pair->is_gone) {
			pair->is_gone = true;
			pair->is_admitted = setup->omission == KEEPS_ADMISSION;
			pair->is_listed = setup->omission != FORGETS_GONE_PEER;
			emit(context, &next, "owner takes PEER_GONE");
			continue;
		}
		next.outer_op = state->op;
		next.op = OWNER_FREES_PEER;
		next.owner_pc = AT_LOOK;
		next.peer = (uint8_t)i;
		emit(context, &next, "owner examines the gone peer");
	}
}

static void begin(const struct access_setup *setup, struct access_state *state, enum owner_op op)
{
	state->op = (uint8_t)op;
	state->owner_pc = setup->omission == LOOKS_BEFORE_WITHDRAWAL ? AT_LOOK : AT_WITHDRAWAL;
}

static void emit_new_op(const struct access_setup *setup, const struct access_state *state,
			access_emit *emit, void *context)
{
	struct access_state next = *state;

	if (state->is_mr_published) {
		begin(setup, &next, OWNER_REVOKES_MR);
		emit(context, &next, "owner revokes the MR");
	} else {
		next.op = OWNER_PUBLISHES_MR;
		next.mr_contents = HOLDS_LIVE;
		emit(context, &next, "owner writes another range");
	}
	next = *state;
	if (!(setup->features & WITH_QP))
		return;
	if (state->is_qp_published) {
		begin(setup, &next, OWNER_REVOKES_QP);
		emit(context, &next, "owner revokes the QP");
	} else {
		change_qp(setup, &next, true);
		emit(context, &next, "owner publishes the QP");
	}
}

void access_owner_steps(const struct access_setup *setup, const struct access_state *state,
			access_emit *emit, void *context)
{
	struct access_state next = *state;

	if (state->engine >= ENGINE_EXEC)
		return;
	switch ((enum owner_op)state->op) {
	case OWNER_IDLE:
		emit_new_op(setup, state, emit, context);
		emit_gone(setup, state, emit, context);
		return;
	case OWNER_PUBLISHES_MR:
		change_mr(setup, &next, true);
		end_op(&next);
		emit(context, &next, "owner publishes the MR");
		return;
	case OWNER_REVOKES_MR:
	case OWNER_REVOKES_QP:
		if (state->owner_pc == AT_LOOK && !state->peer)
			emit_gone(setup, state, emit, context);
		break;
	case OWNER_FREES_PEER:
		break;
	}
	if (step_scan(setup, &next))
		emit(context, &next, "owner takes its next step");
	else
		emit_wait(setup, state, emit, context);
}

static bool is_held_in_kernel(const struct access_setup *setup, const struct access_state *state)
{
	for (unsigned int i = 0; i < setup->threads; i++) {
		if (state->threads[i].run == HELD && access_is_in_kernel(setup, &state->threads[i]))
			return true;
	}
	return false;
}

/*
 * Whether the owner's call returns when nothing new happens: the threads that run end their
 * accesses and begin none, and the owner looks once more. EBUSY is right only if something holds a
 * thread inside the system call.
 */
bool access_call_can_return(const struct access_setup *setup, const struct access_state *state)
{
	struct access_state next = *state;

	for (unsigned int i = 0; i < setup->threads; i++) {
		struct initiator_state *thread = &next.threads[i];

		for (int steps = 0; thread->run == RUNS && thread->pc != AT_IDLE; steps++) {
			if (steps == STEPS_MAX || !access_thread_step(setup, &next, i))
				return false;
		}
	}
	for (int steps = 0; steps < STEPS_MAX; steps++) {
		if (!step_scan(setup, &next))
			return is_held_in_kernel(setup, state) && setup->omission != NEVER_GIVES_UP;
		if (next.op == OWNER_IDLE)
			return true;
	}
	return false;
}
