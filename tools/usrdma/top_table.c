/* SPDX-License-Identifier: BSD-2-Clause */
#include "top_table.h"

#include <stdio.h>
#include <string.h>

#define MILLION	   1e6
#define LINE_BYTES 512

static int column_width(const struct top_fit *fit, int i)
{
	return fit->is_short ? fit->columns[i].short_width : fit->columns[i].width;
}

static int line_width(const struct top_fit *fit)
{
	int width = 0;

	for (int i = 0; i < fit->count; i++) {
		if (fit->shown >> i & 1)
			width += column_width(fit, i) + (width > 0);
	}
	return width;
}

/* Removes the next column in the order of omission; false: none is left. */
static bool omit_next(struct top_fit *fit, int kept)
{
	int next = -1;

	for (int i = 0; i < fit->count; i++) {
		if (i == kept || !(fit->shown >> i & 1) || fit->columns[i].omitted == TOP_KEEP)
			continue;
		if (next < 0 || fit->columns[i].omitted < fit->columns[next].omitted)
			next = i;
	}
	if (next < 0)
		return false;
	fit->shown &= ~(UINT32_C(1) << next);
	return true;
}

void top_table_fit(struct top_fit *fit, const struct top_column *columns, int count, int width,
		   int kept)
{
	*fit = (struct top_fit){
		.columns = columns,
		.count = count,
		.width = width,
		.shown = (UINT32_C(1) << count) - 1,
	};
	if (!width)
		return;
	fit->is_short = line_width(fit) > width;
	while (line_width(fit) > width && omit_next(fit, kept))
		;
}

/* Appends a cell to the line. */
static void add_cell(const struct top_fit *fit, int i, const char *text, char line[LINE_BYTES])
{
	size_t used = strlen(line);
	int width = column_width(fit, i);

	if (fit->shown >> i & 1)
		snprintf(line + used, LINE_BYTES - used,
			 fit->columns[i].is_left ? "%s%-*.*s" : "%s%*.*s", used ? " " : "", width,
			 fit->columns[i].is_left ? width : TOP_CELL_BYTES, text);
}

/* Even the columns that are kept may be wider than the terminal. */
static void print_line(const struct top_fit *fit, const char *line)
{
	printf("%.*s\n", fit->width ? fit->width : LINE_BYTES, line);
}

void top_table_print_head(const struct top_fit *fit)
{
	char line[LINE_BYTES] = "";

	for (int i = 0; i < fit->count; i++)
		add_cell(fit, i,
			 fit->is_short ? fit->columns[i].short_title : fit->columns[i].title, line);
	print_line(fit, line);
}

void top_table_print_row(const struct top_fit *fit, const top_cell *cells)
{
	char line[LINE_BYTES] = "";

	for (int i = 0; i < fit->count; i++)
		add_cell(fit, i, cells[i], line);
	print_line(fit, line);
}

void top_table_number(const struct top_fit *fit, int column, top_cell cell, double value,
		      int decimals)
{
	snprintf(cell, TOP_CELL_BYTES, "%.*f", decimals, value);
	if (strlen(cell) > (size_t)column_width(fit, column))
		snprintf(cell, TOP_CELL_BYTES, "%.0fM", value / MILLION);
}
