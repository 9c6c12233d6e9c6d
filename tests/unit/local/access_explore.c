/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_model.h"

#define STATES_MAX  (1u << 20)
#define BUCKETS	    (1u << 21)
#define STATE_WORDS (sizeof(struct access_state) / sizeof(uint64_t))

/*
 * Depth-first search. States are appended in the order in which they are found; `stack` holds those
 * whose successors were not visited, and the buckets hold indices + 1, by open addressing.
 */
struct exploration {
	const struct access_setup *setup;
	struct access_state *states;
	uint32_t *parents;
	const char **steps;
	uint32_t *stack;
	uint32_t *buckets;
	uint32_t count;
	uint32_t depth;
	uint32_t current;
	enum access_finding finding;
};

static uint32_t hash(const struct access_state *state)
{
	uint64_t words[STATE_WORDS];
	uint64_t sum = 0;

	memcpy(words, state, sizeof(words));
	for (size_t i = 0; i < STATE_WORDS; i++) {
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
	}
	return (uint32_t)(sum >> 16) % BUCKETS;
}

/* The steps that lead to the state, the last one first. */
static void print_trace(const struct exploration *exploration, uint32_t index)
{
	if (!getenv("ACCESS_MODEL_TRACE"))
		return;
	for (; index; index = exploration->parents[index]) {
		const struct access_state *state = &exploration->states[index];

		fprintf(stderr, "%s: threads at %u, %u; owner at %u, %u\n",
			exploration->steps[index], state->threads[0].pc, state->threads[1].pc,
			state->op, state->owner_pc);
	}
}

static void judge(struct exploration *exploration, uint32_t index)
{
	const struct access_state *state = &exploration->states[index];

	if (state->is_violated) {
		exploration->finding = FOUND_UNSAFE;
	} else if ((state->op == OWNER_REVOKES_MR || state->op == OWNER_REVOKES_QP) &&
		   state->owner_pc == AT_LOOK && !state->peer && state->engine < ENGINE_EXEC &&
		   !access_call_can_return(exploration->setup, state)) {
		exploration->finding = FOUND_STUCK;
	}
	if (exploration->finding != ALWAYS_SAFE)
		print_trace(exploration, index);
}

static void visit(void *context, const struct access_state *state, const char *step)
{
	struct exploration *exploration = context;
	uint32_t bucket = hash(state);
	uint32_t index = exploration->count;

	if (exploration->finding != ALWAYS_SAFE)
		return;
	for (; exploration->buckets[bucket]; bucket = (bucket + 1) % BUCKETS) {
		if (!memcmp(&exploration->states[exploration->buckets[bucket] - 1], state,
			    sizeof(*state)))
			return;
	}
	if (index == STATES_MAX) {
		exploration->finding = FOUND_TOO_MANY;
		return;
	}
	exploration->count++;
	exploration->buckets[bucket] = index + 1;
	exploration->states[index] = *state;
	exploration->parents[index] = exploration->current;
	exploration->steps[index] = step;
	exploration->stack[exploration->depth++] = index;
	judge(exploration, index);
}

static void *allocate(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		abort();
	return memory;
}

enum access_finding access_explore(const struct access_setup *setup, size_t *states)
{
	struct exploration exploration = {
		.setup = setup,
		.states = allocate(STATES_MAX, sizeof(*exploration.states)),
		.parents = allocate(STATES_MAX, sizeof(*exploration.parents)),
		.steps = allocate(STATES_MAX, sizeof(*exploration.steps)),
		.stack = allocate(STATES_MAX, sizeof(*exploration.stack)),
		.buckets = allocate(BUCKETS, sizeof(*exploration.buckets)),
	};
	struct access_state state = access_start(setup);

	visit(&exploration, &state, "start");
	while (exploration.depth && exploration.finding == ALWAYS_SAFE) {
		exploration.current = exploration.stack[--exploration.depth];
		state = exploration.states[exploration.current];
		access_thread_events(setup, &state, visit, &exploration);
		access_engine_events(setup, &state, visit, &exploration);
		access_owner_steps(setup, &state, visit, &exploration);
	}
	*states = exploration.count;
	free(exploration.states);
	free(exploration.parents);
	free(exploration.steps);
	free(exploration.stack);
	free(exploration.buckets);
	return exploration.finding;
}
