/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "access_model.h"

unsigned int access_pair_of(const struct access_setup *setup, unsigned int thread)
{
	return setup->is_one_process ? 0 : thread;
}

bool access_is_in_kernel(const struct access_setup *setup, const struct initiator_state *thread)
{
	return !setup->is_mapped && thread->pc >= AT_LOOKUP && thread->pc <= AT_RETURN;
}

static enum initiator_pc first_of_copy(const struct access_setup *setup)
{
	return setup->is_mapped ? AT_FIRST_PIECE : AT_SYSCALL_INSTRUCTION;
}

static enum initiator_pc last_of_sequence(const struct access_setup *setup)
{
	if (!setup->is_mapped)
		return AT_SYSCALL_INSTRUCTION;
	if (setup->omission == CONTINUES_AFTER_COMMIT)
		return AT_RETURN;
	return setup->omission == COPIES_AFTER_SEQUENCE ? AT_COMPARE_MR : AT_SECOND_PIECE;
}

static bool is_in_sequence(const struct access_setup *setup, const struct initiator_state *thread)
{
	return setup->omission != NO_RESTARTABLE_SEQUENCE && thread->pc >= AT_COMPARE_ADMISSION &&
	       thread->pc <= last_of_sequence(setup);
}

static uint8_t look_up(const struct access_setup *setup, const struct access_state *state)
{
	switch ((enum engine_end)state->engine) {
	case ENGINE_LIVES:
	case ENGINE_LIFE_CHANGED:
		return IMAGE_ORIGINAL;
	case ENGINE_ID_FREE:
		return setup->omission == TARGETS_PID ? IMAGE_ORIGINAL : IMAGE_NONE;
	case ENGINE_EXEC:
		return setup->omission == TARGETS_PID ? IMAGE_OTHER : IMAGE_NONE;
	case ENGINE_ID_REUSED:
		return IMAGE_OTHER;
	}
	return IMAGE_NONE;
}

/*
 * A program that polls the last word sees the state after each step: the word is whole, and all
 * other bytes precede it. The word is stored once, because the program may store to it when it has
 * read the new value.
 */
static void copy_piece(struct access_state *state, struct initiator_state *thread, uint8_t stored)
{
	if (thread->image == IMAGE_OTHER || thread->qp == HOLDS_OVER || thread->mr == HOLDS_OVER)
		state->is_violated = true;
	if (thread->stored & stored & STORED_WORD)
		state->is_violated = true;
	thread->stored |= stored;
	if (thread->stored & STORED_WORD)
		thread->stored &= (uint8_t)~STORED_PART_OF_WORD;
	if (thread->stored & STORED_PART_OF_WORD ||
	    (thread->stored & STORED_WORD && !(thread->stored & STORED_BODY)))
		state->is_violated = true;
}

static uint8_t first_piece(enum omission omission)
{
	switch (omission) {
	case DIVIDES_LAST_WORD:
		return STORED_BODY | STORED_PART_OF_WORD;
	case STORES_LAST_WORD_FIRST:
		return STORED_WORD;
	default:
		return STORED_BODY;
	}
}

static uint8_t second_piece(enum omission omission)
{
	return omission == STORES_LAST_WORD_FIRST ? STORED_BODY : STORED_WORD;
}

static void drop_registers(struct initiator_state *thread)
{
	thread->qp = HOLDS_NOTHING;
	thread->is_qp_changed = false;
	thread->mr = HOLDS_NOTHING;
	thread->is_mr_changed = false;
	thread->image = IMAGE_NONE;
}

static uint8_t announced(enum omission omission)
{
	switch (omission) {
	case ANNOUNCES_NO_QPN:
		return NAMES_MR;
	case ANNOUNCES_NO_RKEY:
		return NAMES_QP;
	default:
		return NAMES_MR | NAMES_QP;
	}
}

/* Announcement and check: onesided.c, move_chunk() and check_access(). */
static void step_check(const struct access_setup *setup, struct access_state *state,
		       unsigned int index)
{
	struct initiator_state *thread = &state->threads[index];
	struct pair_state *pair = &state->pairs[access_pair_of(setup, index)];
	bool is_late = setup->omission == ANNOUNCES_AFTER_COMPARISON;

	switch (thread->pc) {
	case AT_IDLE:
		pair->is_locked = setup->omission != THREADS_SHARE_ANNOUNCEMENT;
		thread->pc = is_late ? AT_ADMISSION : AT_THREAD_ID;
		break;
	case AT_THREAD_ID:
		pair->tid = setup->omission == ANNOUNCES_LEADER_ID ? 1 : (uint8_t)(index + 1);
		thread->pc = AT_ANNOUNCEMENT;
		break;
	case AT_ANNOUNCEMENT:
		pair->accessing = announced(setup->omission);
		thread->pc = is_late ? (uint8_t)first_of_copy(setup) : AT_ADMISSION;
		break;
	case AT_ADMISSION:
		thread->pc = pair->is_admitted ? AT_LIFE : AT_CLEAR;
		break;
	case AT_LIFE:
		thread->pc = state->engine == ENGINE_LIVES ? AT_QP_WORD : AT_CLEAR;
		break;
	case AT_QP_WORD:
		thread->qp = HOLDS_LIVE;
		thread->is_qp_changed = false;
		thread->pc = state->is_qp_published ? AT_MR_WORD : AT_CLEAR;
		break;
	case AT_MR_WORD:
		thread->mr = HOLDS_WORD;
		thread->is_mr_changed = false;
		thread->pc = state->is_mr_published ? AT_MR_CONTENTS : AT_CLEAR;
		break;
	case AT_MR_CONTENTS:
		thread->mr = state->mr_contents;
		thread->pc = AT_QP_WORD_AGAIN;
		break;
	case AT_QP_WORD_AGAIN:
		thread->pc = thread->is_qp_changed ? AT_QP_WORD : AT_MR_WORD_AGAIN;
		break;
	case AT_MR_WORD_AGAIN:
		thread->pc = thread->is_mr_changed ? AT_QP_WORD : AT_COMPARE_ADMISSION;
		break;
	default:
		assert(false);
	}
}

/*
 * The step after one that succeeded. Memory that is mapped is found without the id, and copied
 * without a system call.
 */
static uint8_t next_step(const struct access_setup *setup, struct initiator_state *thread)
{
	if (setup->is_mapped && thread->pc == AT_COMPARE_MR) {
		thread->image = IMAGE_ORIGINAL;
		return (uint8_t)first_of_copy(setup);
	}
	if (setup->is_mapped && thread->pc == AT_SECOND_PIECE &&
	    setup->omission != CONTINUES_AFTER_COMMIT)
		return AT_CLEAR;
	return thread->pc + 1;
}

/* guarded_copy.c, and the system call. The words that were loaded identified published objects. */
static void step_copy(const struct access_setup *setup, struct access_state *state,
		      unsigned int index)
{
	struct initiator_state *thread = &state->threads[index];
	struct pair_state *pair = &state->pairs[access_pair_of(setup, index)];
	bool is_same = true;

	switch (thread->pc) {
	case AT_COMPARE_ADMISSION:
		is_same = pair->is_admitted || setup->omission == COMPARES_NO_ADMISSION;
		break;
	case AT_COMPARE_LIFE:
		is_same = state->engine == ENGINE_LIVES || setup->omission == COMPARES_NO_LIFE;
		break;
	case AT_COMPARE_QP:
		is_same = (state->is_qp_published && !thread->is_qp_changed) ||
			  setup->omission == COMPARES_NO_QP;
		break;
	case AT_COMPARE_MR:
		is_same = (state->is_mr_published && !thread->is_mr_changed) ||
			  setup->omission == COMPARES_NO_MR;
		if (is_same && setup->omission == ANNOUNCES_AFTER_COMPARISON) {
			thread->pc = AT_THREAD_ID;
			return;
		}
		break;
	case AT_SYSCALL_INSTRUCTION:
		thread->is_qp_changed = false;
		thread->is_mr_changed = false;
		if (setup->omission == CLEARS_ANNOUNCEMENT_EARLY)
			pair->accessing = 0;
		break;
	case AT_LOOKUP:
		thread->image = look_up(setup, state);
		if (thread->image == IMAGE_NONE) {
			drop_registers(thread);
			thread->pc = AT_RETURN;
			return;
		}
		break;
	case AT_FIRST_PIECE:
		copy_piece(state, thread, first_piece(setup->omission));
		break;
	case AT_SECOND_PIECE:
		copy_piece(state, thread, second_piece(setup->omission));
		drop_registers(thread);
		break;
	case AT_RETURN:
		break;
	case AT_CLEAR:
		pair->accessing = 0;
		pair->is_locked = false;
		drop_registers(thread);
		thread->stored = 0;
		thread->pc = AT_IDLE;
		return;
	default:
		assert(false);
	}
	thread->pc = is_same ? next_step(setup, thread) : AT_CLEAR;
}

bool access_thread_step(const struct access_setup *setup, struct access_state *state,
			unsigned int thread)
{
	uint8_t pc = state->threads[thread].pc;

	if (pc == AT_IDLE && state->pairs[access_pair_of(setup, thread)].is_locked)
		return false;
	if (pc < AT_COMPARE_ADMISSION)
		step_check(setup, state, thread);
	else
		step_copy(setup, state, thread);
	return true;
}

/* The thread leaves the processor for another reason than preemption in the kernel. */
static void interrupt(const struct access_setup *setup, struct initiator_state *thread,
		      enum thread_run run)
{
	thread->run = (uint8_t)run;
	if (is_in_sequence(setup, thread))
		thread->pc = AT_COMPARE_ADMISSION;
}

static void emit_suspensions(const struct access_setup *setup, const struct access_state *state,
			     unsigned int index, access_emit *emit, void *context)
{
	struct access_state next = *state;
	struct initiator_state *thread = &next.threads[index];
	bool is_in_kernel = access_is_in_kernel(setup, thread);

	if (is_in_sequence(setup, thread)) {
		interrupt(setup, thread, RUNS);
		emit(context, &next, "preempted, compares again");
		thread->pc = AT_CLEAR;
		emit(context, &next, "preempted, declines");
		next = *state;
	}
	if (setup->features & WITH_STOP && (!is_in_kernel || thread->pc == AT_RETURN)) {
		interrupt(setup, thread, STOPPED);
		emit(context, &next, "stopped");
		next = *state;
	}
	if (setup->features & WITH_HELD &&
	    (!is_in_kernel || thread->pc == AT_LOOKUP || thread->pc == AT_SECOND_PIECE)) {
		interrupt(setup, thread, HELD);
		emit(context, &next, "held");
	}
}

/* A killed thread ends on its way back to user mode. Its announcement and its lock stay. */
static void emit_death(const struct access_setup *setup, const struct access_state *state,
		       unsigned int index, access_emit *emit, void *context)
{
	struct access_state next = *state;
	struct initiator_state *thread = &next.threads[index];

	if (!(setup->features & WITH_KILL) ||
	    (access_is_in_kernel(setup, thread) && thread->pc != AT_RETURN))
		return;
	drop_registers(thread);
	thread->stored = 0;
	thread->pc = AT_IDLE;
	thread->run = DEAD;
	emit(context, &next, "dies");
}

void access_thread_events(const struct access_setup *setup, const struct access_state *state,
			  access_emit *emit, void *context)
{
	for (unsigned int i = 0; i < setup->threads; i++) {
		struct access_state next = *state;

		switch ((enum thread_run)state->threads[i].run) {
		case RUNS:
			if (access_thread_step(setup, &next, i))
				emit(context, &next, "takes its next step");
			if (state->threads[i].pc == AT_IDLE)
				break;
			emit_suspensions(setup, state, i, emit, context);
			emit_death(setup, state, i, emit, context);
			break;
		case STOPPED:
		case HELD:
			next.threads[i].run = RUNS;
			emit(context, &next, "continues");
			emit_death(setup, state, i, emit, context);
			break;
		case DEAD:
			next.threads[i].run = REUSED;
			emit(context, &next, "has its id reused");
			break;
		case REUSED:
			break;
		}
	}
}

/*
 * Whether a thread has compared the life word and not yet looked the id up. The model assumes that
 * the id is not reused in this interval (docs/memory-safety.md, Limits). A thread that is preempted
 * in user mode compares again.
 */
static bool is_being_looked_up(const struct access_state *state)
{
	for (unsigned int i = 0; i < ACCESS_THREADS; i++) {
		if (state->threads[i].pc > AT_COMPARE_LIFE && state->threads[i].pc <= AT_LOOKUP)
			return true;
	}
	return false;
}

void access_engine_events(const struct access_setup *setup, const struct access_state *state,
			  access_emit *emit, void *context)
{
	struct access_state next = *state;

	if (!(setup->features & WITH_END) || state->engine == ENGINE_ID_REUSED)
		return;
	if (state->engine < ENGINE_EXEC) {
		next.engine++;
		emit(context, &next, "engine thread ends");
	}
	if (state->engine < ENGINE_ID_FREE ||
	    (is_being_looked_up(state) && setup->omission != ALLOWS_EARLY_ID_REUSE))
		return;
	next.engine = ENGINE_ID_REUSED;
	emit(context, &next, "engine thread's id is reused");
}
