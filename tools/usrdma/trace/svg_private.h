/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_SVG_PRIVATE_H
#define USRDMA_TOOL_TRACE_SVG_PRIVATE_H

#include <stdio.h>

#include "steps.h"

/* The layout of a diagram. All lengths are in pixels. */
#define AXIS_X	      96 /* right edge of the times */
#define EDGE	      24
#define LIFE_DISTANCE 570
#define NOTE_WIDTH    176
#define NOTE_HEIGHT   30
#define NOTE_GAP      12
#define BOX_WIDTH     250
#define BOX_HEIGHT    66
#define BOX_Y	      96
#define FIRST_ROW_Y   (BOX_Y + BOX_HEIGHT + 34)
#define ROW_HEIGHT    34
#define NOTE_ROW      38
#define FOLD_HEIGHT   40
#define PHASE_HEIGHT  34
#define PAUSE_HEIGHT  24
#define SLANT	      6 /* an arrow ends this much lower */
#define LEGEND_WIDTH  150
#define LEGEND_ROW    22
#define LABEL_CHARS   86 /* of an arrow's text */
#define NOTE_CHARS    27
#define WAIT_BACK     40 /* rows that are searched for the start of a wait */

struct row {
	int y; /* start of the arrow, middle of a note or fold */
	uint64_t pause_ns;
	bool joins_previous; /* a note in the row before it */
};

struct drawing {
	FILE *out;
	const struct steps *steps;
	struct row *rows;
	int width, height;
	int life_x[2]; /* the lifelines */
	uint32_t used; /* bits: enum step_style */
};

/* Sets the columns and the rows of a drawing with steps and allocated rows. */
void svg_lay_out(struct drawing *drawing);

#endif
