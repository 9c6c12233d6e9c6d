/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One event with arbitrary bytes, as a process of another user or a capture file of another person
 * supplies it. Each printer writes a terminated text that fits into its buffer. Target: the
 * printers of all event types.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/usrdma/trace/points.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printer(const struct trace_event *event, size_t out_bytes)
{
	char *out = malloc(out_bytes);

	if (!out)
		abort();
	memset(out, 'x', out_bytes);
	out[0] = '\0';
	trace_point_of(event->type)->print(out, out_bytes, event);
	if (!memchr(out, '\0', out_bytes))
		abort();
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_event event = {0};

	memcpy(&event, data, size < sizeof(event) ? size : sizeof(event));
	check_printer(&event, 3072);
	check_printer(&event, 40);
	return 0;
}
