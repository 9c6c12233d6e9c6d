/* SPDX-License-Identifier: BSD-2-Clause */
#include "weak_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX (1u << 14)
#define BUCKETS	   (1u << 15)

struct weak_state {
	uint32_t done[WEAK_THREADS]; /* bit i: instruction i was performed, or is not executed */
	uint8_t vars[WEAK_VARS];
	uint8_t regs[WEAK_THREADS][WEAK_REGS];
	uint8_t barrier[WEAK_THREADS]; /* the threads that have executed the fence of membarrier */
};

struct weak_run {
	const struct weak_program *program;
	struct weak_state *states;
	uint32_t *buckets; /* indices + 1 of states, by open addressing */
	uint32_t count;
	bool is_found;
};

enum active { IS_ACTIVE, IS_SKIPPED, IS_UNKNOWN };

static bool weak_is_done(const struct weak_state *state, int thread, int i)
{
	return state->done[thread] >> i & 1;
}

static bool is_load(const struct weak_instr *instr)
{
	return instr->op == WEAK_LOAD || instr->op == WEAK_AWAIT || instr->op == WEAK_LOCK;
}

static bool is_store(const struct weak_instr *instr)
{
	return instr->op == WEAK_STORE || instr->op == WEAK_LOCK;
}

static bool is_full_fence(const struct weak_instr *instr)
{
	return instr->op == WEAK_MEMBARRIER ||
	       (instr->op == WEAK_FENCE && instr->order == WEAK_SEQ_CST);
}

static bool is_fence(const struct weak_instr *instr, enum weak_order order)
{
	return instr->op == WEAK_FENCE && instr->order == order;
}

/* The instruction that loads the register. */
static int defining_load(const struct weak_instr *instrs, uint8_t reg)
{
	int i = 0;

	while (instrs[i].op != WEAK_LOAD || instrs[i].reg != reg) {
		assert(instrs[i].op != WEAK_END);
		i++;
	}
	return i;
}

/* Whether the instruction is executed. Unknown until the registers of its guards are loaded. */
static enum active activity(const struct weak_state *state, const struct weak_instr *instrs,
			    int thread, int i)
{
	for (int g = 0; g < WEAK_GUARDS; g++) {
		const struct weak_guard *guard = &instrs[i].guards[g];
		enum active before;
		int load;

		if (!guard->reg)
			continue;
		load = defining_load(instrs, guard->reg);
		before = activity(state, instrs, thread, load);
		if (before != IS_ACTIVE)
			return before;
		if (!weak_is_done(state, thread, load))
			return IS_UNKNOWN;
		if ((state->regs[thread][guard->reg - 1] == guard->value) == guard->is_other)
			return IS_SKIPPED;
	}
	return IS_ACTIVE;
}

/* Accesses to one location: a load may read a preceding store before the store is performed. */
static bool is_ordered_by_location(const struct weak_instr *first, const struct weak_instr *second)
{
	if (first->var != second->var || !(is_load(first) || is_store(first)) ||
	    !(is_load(second) || is_store(second)))
		return false;
	return first->op != WEAK_STORE || second->op == WEAK_STORE || second->op == WEAK_LOCK;
}

/* The order of accesses with acquire and release, RCsc as LDAR and STLR. */
static bool is_ordered_by_access(const struct weak_instr *first, const struct weak_instr *second)
{
	if (is_load(first) && (first->order == WEAK_ACQUIRE || first->order == WEAK_SEQ_CST))
		return true;
	if (second->op == WEAK_STORE &&
	    (second->order == WEAK_RELEASE || second->order == WEAK_SEQ_CST))
		return true;
	return first->op == WEAK_STORE && first->order == WEAK_SEQ_CST && is_load(second) &&
	       second->order == WEAK_SEQ_CST;
}

/* An acquire fence is DMB ISHLD; a release fence orders later stores only (RISC-V FENCE RW,W). */
static bool is_ordered_by_fence(const struct weak_instr *first, const struct weak_instr *second)
{
	if (is_full_fence(first) || is_full_fence(second) || is_fence(first, WEAK_ACQUIRE) ||
	    is_fence(second, WEAK_RELEASE))
		return true;
	return (is_fence(second, WEAK_ACQUIRE) && is_load(first)) ||
	       (is_fence(first, WEAK_RELEASE) && is_store(second));
}

/* Whether `second`, which follows in the program, must wait until `first` was performed. */
static bool is_ordered(const struct weak_instr *first, const struct weak_instr *second)
{
	/* The branch of the loop. */
	if ((first->op == WEAK_AWAIT || first->op == WEAK_LOCK) &&
	    (is_store(second) || !is_load(second)))
		return true;
	return is_ordered_by_location(first, second) || is_ordered_by_access(first, second) ||
	       is_ordered_by_fence(first, second);
}

/* Whether the instruction can be performed now, as far as its own thread is concerned. */
static bool is_ready(const struct weak_state *state, const struct weak_instr *instrs, int thread,
		     int i)
{
	const struct weak_instr *instr = &instrs[i];
	bool may_speculate = instr->op == WEAK_LOAD || instr->op == WEAK_AWAIT;

	if (weak_is_done(state, thread, i) ||
	    (!may_speculate && activity(state, instrs, thread, i) != IS_ACTIVE))
		return false;
	if (instr->from && !weak_is_done(state, thread, defining_load(instrs, instr->from)))
		return false;
	for (int j = 0; j < i; j++) {
		if (!weak_is_done(state, thread, j) && is_ordered(&instrs[j], instr))
			return false;
	}
	return true;
}

static uint8_t weak_stored(const struct weak_state *state, const struct weak_instr *instr,
			   int thread)
{
	uint8_t from = instr->from ? state->regs[thread][instr->from - 1] : 0;

	return (uint8_t)(instr->value + from);
}

/* Both instructions follow the same branches. */
static bool have_same_guards(const struct weak_instr *first, const struct weak_instr *second)
{
	for (int g = 0; g < WEAK_GUARDS; g++) {
		if (first->guards[g].reg != second->guards[g].reg ||
		    first->guards[g].value != second->guards[g].value ||
		    first->guards[g].is_other != second->guards[g].is_other)
			return false;
	}
	return true;
}

/*
 * The value that a load reads. false: the load waits for a preceding store of its thread, of which
 * the value is not known yet, or whether it is executed if the load is.
 */
static bool weak_loaded(const struct weak_state *state, const struct weak_instr *instrs, int thread,
			int i, uint8_t *value)
{
	for (int j = i - 1; j >= 0; j--) {
		if (weak_is_done(state, thread, j) || instrs[j].op != WEAK_STORE ||
		    instrs[j].var != instrs[i].var)
			continue;
		if (activity(state, instrs, thread, j) != IS_ACTIVE &&
		    !have_same_guards(&instrs[j], &instrs[i]))
			return false;
		if (instrs[j].from &&
		    !weak_is_done(state, thread, defining_load(instrs, instrs[j].from)))
			return false;
		*value = weak_stored(state, &instrs[j], thread);
		return true;
	}
	*value = state->vars[instrs[i].var];
	return true;
}

/* Marks the instructions that are not executed. */
static void skip_inactive(struct weak_state *state, const struct weak_program *program)
{
	for (int t = 0; t < WEAK_THREADS; t++) {
		const struct weak_instr *instrs = program->threads[t];

		for (int i = 0; instrs[i].op; i++) {
			if (activity(state, instrs, t, i) != IS_SKIPPED)
				continue;
			state->done[t] |= 1u << i;
			if (instrs[i].reg)
				state->regs[t][instrs[i].reg - 1] = WEAK_NONE;
		}
	}
}

static uint32_t weak_hash(const struct weak_state *state)
{
	const uint8_t *bytes = (const uint8_t *)state;
	uint64_t sum = 0xcbf29ce484222325u;

	/* FNV-1a */
	for (size_t i = 0; i < sizeof(*state); i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3u;
	return (uint32_t)(sum ^ sum >> 32) % BUCKETS;
}

static void weak_add(struct weak_run *run, struct weak_state *state)
{
	uint32_t bucket;

	skip_inactive(state, run->program);
	bucket = weak_hash(state);
	for (; run->buckets[bucket]; bucket = (bucket + 1) % BUCKETS) {
		if (!memcmp(&run->states[run->buckets[bucket] - 1], state, sizeof(*state)))
			return;
	}
	assert(run->count < STATES_MAX);
	run->states[run->count++] = *state;
	run->buckets[bucket] = run->count;
}

/* Whether the thread is between two instructions: it has performed all preceding ones only. */
static bool is_between_instrs(const struct weak_state *state, const struct weak_instr *instrs,
			      int thread)
{
	int i = 0;

	while (weak_is_done(state, thread, i))
		i++;
	for (; instrs[i].op; i++) {
		if (weak_is_done(state, thread, i) &&
		    activity(state, instrs, thread, i) != IS_SKIPPED)
			return false;
	}
	return true;
}

/* One step of membarrier(2): another thread executes the fence, or the call returns. */
static bool step_membarrier(struct weak_run *run, const struct weak_state *state, int thread, int i)
{
	bool is_stepped = false, is_complete = true;
	struct weak_state next;

	for (int t = 0; t < WEAK_THREADS; t++) {
		if (t == thread || state->barrier[thread] >> t & 1)
			continue;
		is_complete = false;
		if (!is_between_instrs(state, run->program->threads[t], t))
			continue;
		next = *state;
		next.barrier[thread] |= (uint8_t)(1u << t);
		weak_add(run, &next);
		is_stepped = true;
	}
	if (!is_complete)
		return is_stepped;
	next = *state;
	next.barrier[thread] = 0;
	next.done[thread] |= 1u << i;
	weak_add(run, &next);
	return true;
}

/* Performs the instruction if it can be performed. */
static bool weak_step(struct weak_run *run, const struct weak_state *state, int thread, int i)
{
	const struct weak_instr *instrs = run->program->threads[thread], *instr = &instrs[i];
	struct weak_state next = *state;
	uint8_t value;

	if (!is_ready(state, instrs, thread, i))
		return false;
	if (instr->op == WEAK_MEMBARRIER)
		return step_membarrier(run, state, thread, i);
	if (is_load(instr)) {
		if (!weak_loaded(state, instrs, thread, i, &value))
			return false;
		if (instr->op == WEAK_AWAIT && value != instr->value)
			return false;
		if (instr->op == WEAK_LOCK && value)
			return false;
		if (instr->reg)
			next.regs[thread][instr->reg - 1] = value;
	}
	if (instr->op == WEAK_STORE)
		next.vars[instr->var] = weak_stored(state, instr, thread);
	if (instr->op == WEAK_LOCK)
		next.vars[instr->var] = 1;
	next.done[thread] |= 1u << i;
	weak_add(run, &next);
	return true;
}

static void weak_judge(struct weak_run *run, const struct weak_state *state)
{
	struct weak_end end = {0};

	memcpy(end.vars, state->vars, sizeof(end.vars));
	memcpy(end.regs, state->regs, sizeof(end.regs));
	for (int t = 0; t < WEAK_THREADS; t++) {
		for (int i = 0; run->program->threads[t][i].op; i++)
			end.is_stuck |= !weak_is_done(state, t, i);
	}
	run->is_found |= run->program->is_found(&end);
}

bool weak_search(const struct weak_program *program, unsigned int *states)
{
	struct weak_run run = {.program = program};
	struct weak_state first = {0};

	run.states = malloc(STATES_MAX * sizeof(*run.states));
	run.buckets = calloc(BUCKETS, sizeof(*run.buckets));
	assert(run.states && run.buckets);
	memcpy(first.vars, program->initial, sizeof(first.vars));
	memset(first.regs, WEAK_NONE, sizeof(first.regs));
	weak_add(&run, &first);
	for (uint32_t at = 0; at < run.count; at++) {
		const struct weak_state state = run.states[at];
		bool is_end = true;

		for (int t = 0; t < WEAK_THREADS; t++) {
			for (int i = 0; program->threads[t][i].op; i++)
				is_end &= !weak_step(&run, &state, t, i);
		}
		if (is_end)
			weak_judge(&run, &state);
	}
	if (states)
		*states = run.count;
	free(run.states);
	free(run.buckets);
	return run.is_found;
}
