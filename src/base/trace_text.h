/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_TEXT_H
#define USRDMA_BASE_TRACE_TEXT_H

#include "base/trace.h"

/*
 * The sink of USRDMA_LOG=trace: one line and one write(2) to standard error for each event. The write blocks if
 * standard error is a full pipe.
 */
void trace_text_open(void);

/* Writes the line of an event without newline, truncated to out_bytes and NUL-terminated. Returns its length. */
size_t trace_text_line(char *out, size_t out_bytes, const struct trace_point *point,
		       const struct trace_event *event);

#endif
