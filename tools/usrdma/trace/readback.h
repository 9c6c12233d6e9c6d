/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_READBACK_H
#define USRDMA_TOOL_TRACE_READBACK_H

#include <stdio.h>

#include "model.h"
#include "options.h"
#include "read.h"
#include "synth.h"

/*
 * `usrdma trace -r`: reads options->read_path. Prints the analysis, if options->wants_json as JSON;
 * as text only if options->wants_analysis, or if `also` is NULL and no diagram is requested. Writes
 * the diagram to options->diagram_path if it is not NULL. `also`: a further consumer of the
 * records, or NULL. Prints its errors. Returns the exit status.
 */
int trace_read_back(const struct trace_options *options, const struct trace_out *also);

/*
 * Reads a capture file, and writes the diagram of a connection and the analysis as part of an HTML
 * page. 0, or -errno and a sentence in `why`.
 */
int trace_print_part(FILE *out, const char *path, char why[TRACE_WHY_BYTES])
	__attribute__((warn_unused_result));

/*
 * A consumer that writes the diagram of the records that it received at the end of the trace,
 * prints their analysis, and prints its errors. The strings stay valid. A path that ends in .html
 * creates a page.
 */
struct trace_diagram {
	const char *path;   /* NULL: no diagram */
	const char *source; /* shown in the heading */
	uint32_t qpn;	    /* of the connection; 0: diagram_choose() */
	bool wants_analysis;
	bool wants_json;    /* the analysis is JSON */
	struct model model; /* this and the following members are set by trace_diagram_open() */
	struct synth_filter
		filter; /* packets in place of the events of the shared-memory transport */
};

/* Sets `out`. 0 or -ENOMEM. The caller calls trace_diagram_close() also after a failure. */
int trace_diagram_open(struct trace_diagram *diagram, struct trace_out *out)
	__attribute__((warn_unused_result));
void trace_diagram_close(struct trace_diagram *diagram);

#endif
