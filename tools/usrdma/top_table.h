/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOLS_TOP_TABLE_H
#define USRDMA_TOOLS_TOP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The tables of `usrdma top`: columns that are narrowed and omitted until a line fits the terminal.
 */

#define TOP_CELL_BYTES 32
/* Omitted never. */
#define TOP_KEEP 0

struct top_column {
	const char *title;
	const char *short_title;
	int width;
	int short_width;
	int omitted;  /* order in which columns are omitted, from 1; TOP_KEEP */
	bool is_left; /* aligned; longer text is cut */
};

struct top_fit {
	const struct top_column *columns;
	int count;
	int width;	/* 0: any length */
	uint32_t shown; /* bits, by column */
	bool is_short;
};

typedef char top_cell[TOP_CELL_BYTES];

/*
 * Chooses the columns for lines of at most `width` characters; 0: any length. The column `kept` is
 * not omitted.
 */
void top_table_fit(struct top_fit *fit, const struct top_column *columns, int count, int width,
		   int kept);

void top_table_print_head(const struct top_fit *fit);
/* `cells` has one text for each column. */
void top_table_print_row(const struct top_fit *fit, const top_cell *cells);

/* Writes a number; one that is too long for its column in millions. */
void top_table_number(const struct top_fit *fit, int column, top_cell cell, double value,
		      int decimals);

#endif
