/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_LINE_H
#define USRDMA_BASE_TRACE_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Appends text to a buffer, truncated. The printers of frequent events use it: snprintf() takes
 * longer for one event than the process for recording several.
 */
struct trace_line {
	char *at;
	char *end; /* the last byte, for the NUL */
};

/* The buffer has at least 1 byte. It contains a string after each call. */
static inline struct trace_line trace_line_begin(char *out, size_t out_bytes)
{
	*out = '\0';
	return (struct trace_line){.at = out, .end = out + out_bytes - 1};
}

static inline void trace_line_bytes(struct trace_line *line, const char *from, size_t bytes)
{
	size_t left = (size_t)(line->end - line->at);

	if (bytes > left)
		bytes = left;
	memcpy(line->at, from, bytes);
	line->at += bytes;
	*line->at = '\0';
}

static inline void trace_line_text(struct trace_line *line, const char *text)
{
	trace_line_bytes(line, text, strlen(text));
}

/* With at least `digits` digits. */
static inline void trace_line_decimal(struct trace_line *line, uint64_t value, unsigned int digits)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value || sizeof(text) - at < digits);
	trace_line_bytes(line, text + at, sizeof(text) - at);
}

/* With the prefix 0x. */
static inline void trace_line_hex(struct trace_line *line, uint64_t value)
{
	char text[18];
	size_t at = sizeof(text);

	do {
		text[--at] = "0123456789abcdef"[value % 16];
		value /= 16;
	} while (value);
	text[--at] = 'x';
	text[--at] = '0';
	trace_line_bytes(line, text + at, sizeof(text) - at);
}

/* A text and a number. */
static inline void trace_line_text_decimal(struct trace_line *line, const char *text,
					   uint64_t value)
{
	trace_line_text(line, text);
	trace_line_decimal(line, value, 1);
}

static inline void trace_line_text_hex(struct trace_line *line, const char *text, uint64_t value)
{
	trace_line_text(line, text);
	trace_line_hex(line, value);
}

#endif
