/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_RECORD_H
#define USRDMA_TOOL_TRACE_RECORD_H

#include <stdint.h>

#include "base/trace.h"

/*
 * An event with its origin: what the rings of running processes and capture files contain, and what
 * the text output, the capture writer, the analysis and the diagram read. The strings belong to the
 * source of the record and are valid during put() only. They and the event contain arbitrary bytes:
 * processes of other users and files of others supply them.
 */
struct trace_record {
	uint64_t time_ns;    /* CLOCK_REALTIME */
	uint32_t pid;	     /* 0: unknown */
	const char *program; /* "": unknown; never NULL */
	const char *device;  /* "": unknown; never NULL */
	uint64_t lost;	     /* records of the same process that were lost before this one */
	struct trace_event event;
};

/*
 * A consumer of records in the order of time. put() and end() return 0 or -errno; after an error
 * neither is called again. end() is called once after the last record. -ECANCELED: the consumer has
 * printed its error.
 */
struct trace_out {
	int (*put)(void *ctx, const struct trace_record *record);
	int (*end)(void *ctx);
	void *ctx;
};

#endif
