/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_LINE_H
#define USRDMA_WIRE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"

/* A line that grows until its buffer is full, always terminated; lives on the stack of the function that prints. */
struct line {
	char *out;
	size_t room; /* with the terminator, at least 1 */
	size_t len;
};

__attribute__((format(printf, 2, 3))) void line_add(struct line *line, const char *format, ...);

/* A name of the tables in lower case, its underscores as blanks. */
void line_add_words(struct line *line, const char *name);

void line_add_gid(struct line *line, const uint8_t gid[GID_BYTES]);

#endif
