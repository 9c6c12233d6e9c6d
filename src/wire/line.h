/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_LINE_H
#define USRDMA_WIRE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"

/*
 * A string that is appended to until its buffer is full; always NUL-terminated. On the stack of the
 * printing function.
 */
struct line {
	char *out;
	size_t room; /* including the NUL, at least 1 */
	size_t len;
};

__attribute__((format(printf, 2, 3))) void line_add(struct line *line, const char *format, ...);

/* Appends a name of an opcode or message in lower case, with underscores replaced by spaces. */
void line_add_words(struct line *line, const char *name);

void line_add_gid(struct line *line, const uint8_t gid[GID_BYTES]);

#endif
