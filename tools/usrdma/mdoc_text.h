/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_MDOC_TEXT_H
#define TOOLS_USRDMA_MDOC_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Filled text: words are put into lines of limited length. Zeros and the first two members: an
 * empty text.
 */
struct mdoc_text {
	FILE *out;
	int width;
	int indent;
	int column;	       /* 0: the line is empty */
	bool is_joined;	       /* no blank before the next word */
	bool needs_blank_line; /* before the next word */
	bool has_output;
};

/* Appends a word. Escape sequences of roff(7) are replaced. */
void mdoc_text_word(struct mdoc_text *text, const char *word);
/* The same without a blank and a line end before it. */
void mdoc_text_glue(struct mdoc_text *text, const char *word);
/* No blank before the next word. */
void mdoc_text_join(struct mdoc_text *text);
/* Appends the words of a line. */
void mdoc_text_words(struct mdoc_text *text, char *line);
/* Prints a line as it is. */
void mdoc_text_literal(struct mdoc_text *text, const char *line);

void mdoc_text_break(struct mdoc_text *text);
void mdoc_text_paragraph(struct mdoc_text *text);
/* Of the lines that begin later. */
void mdoc_text_indent(struct mdoc_text *text, int indent);

#endif
