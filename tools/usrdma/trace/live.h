/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_LIVE_H
#define USRDMA_TOOL_TRACE_LIVE_H

#include "options.h"
#include "record.h"

/*
 * Traces running processes: reads the trace rings that the daemon passes, and puts their records
 * into `out` in the order of time. Ends with the duration, at SIGINT or SIGTERM, or when
 * options->program has ended, which it starts with the libraries of usrdma. Calls out->end().
 * Prints its own errors.
 *
 * Returns the exit status: that of the program, if there is one; otherwise EXIT_SUCCESS or
 * EXIT_FAILURE.
 */
int trace_live(const struct trace_options *options, const struct trace_out *out);

#endif
