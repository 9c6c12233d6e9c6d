/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <string.h>

/* Repetitions that are worth a fold: the first and the last one are shown. */
#define FOLD_REPEATS_MIN 4
#define FOLD_STEPS_MIN	 5 /* hidden by a fold */
/* Rows that are shown before and after a notable step of a trace with too many rows. */
#define AROUND_NOTABLE 4

/* How often the `period` steps at `at` are repeated, themselves included. */
static uint32_t count_repeats(const struct steps *steps, uint32_t at, uint32_t period)
{
	uint32_t matched = period;

	while (at + matched < steps->count &&
	       steps->list[at + matched].signature == steps->list[at + matched - period].signature)
		matched++;
	return matched / period;
}

/* The period at `at` that hides the most steps; 0: none. */
static uint32_t best_period(const struct steps *steps, uint32_t at, uint32_t *repeats)
{
	uint32_t best = 0, best_hidden = FOLD_STEPS_MIN - 1;

	for (uint32_t period = 1; period <= STEP_PERIOD_MAX && at + period < steps->count;
	     period++) {
		uint32_t count = count_repeats(steps, at, period);
		uint32_t hidden = count < FOLD_REPEATS_MIN ? 0 : (count - 2) * period;

		/* A multiple of a period hides fewer steps or the same number. */
		if (hidden > best_hidden) {
			best_hidden = hidden;
			best = period;
			*repeats = count;
		}
	}
	return best;
}

/*
 * The payload that a step transfers: a READ request and a WR that is posted have the length of
 * another step.
 */
static uint64_t payload_of(const struct steps *steps, const struct step *step)
{
	const struct item *item = &steps->model->items[step->item];
	const struct opcode_info *info;

	if (step->kind != STEP_ARROW || item->kind != ITEM_PACKET)
		return 0;
	info = opcode_info(item->packet.opcode);
	return info->is_read && info->is_request ? 0 : step->bytes;
}

/* The fold of all but the first and the last repetition. */
static struct step fold_of(const struct steps *steps, uint32_t at, uint32_t period,
			   uint32_t repeats)
{
	const struct step *first = &steps->list[at + period];
	const struct step *end = &steps->list[at + period * (repeats - 1)];
	struct step fold = *first;

	fold.kind = STEP_FOLD;
	fold.period = (uint8_t)period;
	fold.repeats = repeats - 2;
	fold.packets = 0;
	fold.bytes = 0;
	fold.wait_item = MODEL_NONE;
	for (const struct step *step = first; step < end; step++) {
		fold.packets += step->packets;
		fold.bytes += payload_of(steps, step);
		fold.end_ns = step->end_ns;
		fold.is_notable |= step->is_notable;
	}
	/* The number of repetitions differs between folds that a second pass joins. */
	fold.signature = hash_mix(first->signature, period);
	return fold;
}

/* One pass from the first step to the last. Copies down within the list. */
static void fold_pass(struct steps *steps)
{
	uint32_t from = 0, to = 0;

	while (from < steps->count) {
		uint32_t repeats = 0;
		uint32_t period = best_period(steps, from, &repeats);
		struct step fold;

		if (!period) {
			steps->list[to++] = steps->list[from++];
			continue;
		}
		fold = fold_of(steps, from, period, repeats);
		memmove(&steps->list[to], &steps->list[from], period * sizeof(fold));
		to += period;
		steps->list[to++] = fold;
		from += period * (repeats - 1);
		memmove(&steps->list[to], &steps->list[from], period * sizeof(fold));
		to += period;
		from += period;
	}
	steps->count = to;
}

void steps_fold(struct steps *steps)
{
	fold_pass(steps);
}

/*
 * If there are more than rows_max steps, shows the first ones, the last ones and those near notable
 * steps, and replaces the others by folds.
 */
void steps_hide(struct steps *steps, uint32_t rows_max)
{
	uint32_t edge = rows_max / 8, shown = 0, to = 0;
	uint32_t count = steps->count, next_notable = 0, last_notable = 0;
	bool has_notable = false;

	if (count <= rows_max)
		return;
	for (uint32_t i = 0; i < count; i++) {
		struct step step = steps->list[i];
		bool is_near;

		if (next_notable < i)
			next_notable = i;
		while (next_notable < count && !steps->list[next_notable].is_notable)
			next_notable++;
		if (next_notable == i) {
			last_notable = i;
			has_notable = true;
		}
		is_near = (next_notable < count && next_notable - i <= AROUND_NOTABLE) ||
			  (has_notable && i - last_notable <= AROUND_NOTABLE);
		if (i < edge || count - i <= edge || (is_near && shown < rows_max)) {
			shown++;
			steps->list[to++] = step;
			continue;
		}
		if (to && steps->list[to - 1].kind == STEP_FOLD && steps->list[to - 1].hidden) {
			steps->list[to - 1].hidden++;
			steps->list[to - 1].end_ns = step.end_ns;
			continue;
		}
		step.kind = STEP_FOLD;
		step.hidden = 1;
		steps->list[to++] = step;
	}
	steps->count = to;
}
