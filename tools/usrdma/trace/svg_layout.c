/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the steps of a diagram are drawn. */
#include <stdlib.h>

#include "svg_private.h"

/*
 * A pause is marked if it has this length and is this many times as long as the usual distance of
 * two rows.
 */
#define PAUSE_MIN_NS UINT64_C(1000000)
#define PAUSE_FACTOR 8

static int compare_times(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* The median of the time between two steps; 0: fewer than two. */
static uint64_t usual_distance(const struct steps *steps)
{
	uint64_t *distances = calloc(steps->count + 1, sizeof(*distances));
	uint64_t median = 0;

	if (!distances)
		return 0;
	for (uint32_t i = 1; i < steps->count; i++)
		distances[i - 1] = steps->list[i].time_ns > steps->list[i - 1].time_ns ?
					   steps->list[i].time_ns - steps->list[i - 1].time_ns :
					   0;
	if (steps->count > 1) {
		qsort(distances, steps->count - 1, sizeof(*distances), compare_times);
		median = distances[(steps->count - 1) / 2];
	}
	free(distances);
	return median;
}

static int row_height(const struct step *step)
{
	switch (step->kind) {
	case STEP_FOLD:
		return FOLD_HEIGHT;
	case STEP_PHASE:
		return PHASE_HEIGHT;
	case STEP_NOTE:
		return NOTE_ROW;
	default:
		return ROW_HEIGHT;
	}
}

/* Notes at both sides of one arrow share its row. */
static bool note_joins(const struct steps *steps, uint32_t index, const bool taken[2])
{
	const struct step *step = &steps->list[index];

	return index && step->kind == STEP_NOTE && !taken[step->side] &&
	       steps->list[index - 1].kind != STEP_FOLD &&
	       steps->list[index - 1].kind != STEP_PHASE;
}

/*
 * The positions of the lifelines: with notes at their outer sides, if the trace contains events of
 * the processes.
 */
static void lay_out_columns(struct drawing *drawing)
{
	bool has_notes = false;

	for (uint32_t i = 0; i < drawing->steps->count; i++)
		has_notes |= drawing->steps->list[i].kind == STEP_NOTE;
	drawing->life_x[0] = AXIS_X + 12 + (has_notes ? NOTE_WIDTH + NOTE_GAP : BOX_WIDTH / 2);
	drawing->life_x[1] = drawing->life_x[0] + LIFE_DISTANCE;
	drawing->width = drawing->life_x[1] + (has_notes ? NOTE_WIDTH + NOTE_GAP : BOX_WIDTH / 2) +
			 EDGE;
}

static void lay_out_rows(struct drawing *drawing)
{
	const struct steps *steps = drawing->steps;
	uint64_t limit_ns = usual_distance(steps) * PAUSE_FACTOR;
	bool taken[2] = {true, true};
	uint64_t before_ns = 0;
	int y = FIRST_ROW_Y, bottom = y;

	if (limit_ns < PAUSE_MIN_NS)
		limit_ns = PAUSE_MIN_NS;
	for (uint32_t i = 0; i < steps->count; i++) {
		const struct step *step = &steps->list[i];
		struct row *row = &drawing->rows[i];
		uint64_t now_ns = step->time_ns;

		if (i && now_ns > before_ns && now_ns - before_ns >= limit_ns)
			row->pause_ns = now_ns - before_ns;
		if (!row->pause_ns && note_joins(steps, i, taken)) {
			row->joins_previous = true;
			row->y = drawing->rows[i - 1].y;
			if (bottom < row->y + NOTE_ROW)
				bottom = row->y + NOTE_ROW;
		} else {
			y = i ? bottom : y;
			y += row->pause_ns ? PAUSE_HEIGHT : 0;
			row->y = y;
			bottom = y + row_height(step);
			taken[0] = taken[1] = false;
		}
		if (step->kind == STEP_NOTE)
			taken[step->side] = true;
		if (step->kind == STEP_NOTE || step->kind == STEP_ARROW)
			drawing->used |= 1u << step->style;
		if (now_ns > before_ns || !i)
			before_ns = now_ns;
		if (step->kind == STEP_FOLD)
			before_ns = step->end_ns;
	}
	drawing->height = bottom;
}

void svg_lay_out(struct drawing *drawing)
{
	lay_out_columns(drawing);
	lay_out_rows(drawing);
}
