/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_TEXT_H
#define USRDMA_TOOL_TRACE_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "record.h"

/* Output of records as text: a line for each. */
struct trace_text {
	FILE *file;
	bool wants_all; /* also messages to the daemon and congestion windows */
	/* also packets, FIFO elements and one-sided operations without errors */
	bool wants_packets;
};

struct trace_out trace_text_out(struct trace_text *text);

/* The process, the type and the description of a record. Truncated, NUL-terminated. */
void trace_text_describe(char *out, size_t out_bytes, const struct trace_record *record);

/*
 * The line of a record without newline: time of day, process, type, description. Truncated,
 * NUL-terminated.
 */
void trace_text_format(char *out, size_t out_bytes, const struct trace_record *record);

#endif
