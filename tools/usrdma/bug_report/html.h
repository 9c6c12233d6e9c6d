/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_BUG_REPORT_HTML_H
#define TOOLS_USRDMA_BUG_REPORT_HTML_H

#include <stdint.h>
#include <stdio.h>

/*
 * Elements of an HTML page. Every text is written with the escapes of HTML: names, rules and texts
 * of other processes, users and hosts can contain any bytes. `id` and `class` are constants of this
 * program.
 */
void html_text(FILE *out, const char *text);
void html_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* <p> with a text. */
void html_paragraph(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

void html_section(FILE *out, const char *id, const char *title);
void html_section_end(FILE *out);
void html_subtitle(FILE *out, const char *title); /* <h3> */

/* A table that can be scrolled on a narrow screen. `heads` ends with NULL. */
void html_table(FILE *out, const char *caption, const char *const *heads);
void html_table_end(FILE *out);
void html_row(FILE *out, const char *head); /* begins a row; `head` is its first cell */
void html_row_end(FILE *out);
void html_cell(FILE *out, const char *text);
void html_cell_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void html_cell_number(FILE *out, uint64_t number); /* aligned to the right */

/* A list of names and values: html_list(), html_entry() for each, html_list_end(). */
void html_list(FILE *out);
void html_entry(FILE *out, const char *name, const char *text);
void html_entry_format(FILE *out, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void html_list_end(FILE *out);

/* style.c: the head of the page, up to <body>, with its style sheet. */
void html_head(FILE *out, const char *title);

#endif
