/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_ANALYSIS_H
#define USRDMA_TOOL_TRACE_ANALYSIS_H

#include <stdio.h>

#include "model.h"
#include "read.h"

/*
 * What is printed. `counts` is NULL if the records were not read from a file. With qpn 0 every
 * connection is printed.
 */
struct analysis {
	const struct model *model;
	const struct trace_read_counts *counts;
	const char *source; /* name of the file */
	uint32_t qpn;
};

void analysis_print(FILE *out, const struct analysis *analysis);

/* One JSON object. 0 or -ENOMEM. */
int analysis_print_json(FILE *out, const struct analysis *analysis)
	__attribute__((warn_unused_result));

/* Whether a connection is among those that are printed. */
bool analysis_wants(const struct analysis *analysis, uint32_t conn_index);

#define FINDING_BYTES 240

/* Calls `found` with a sentence for each problem of the connection. */
void analysis_find(const struct model *model, const struct conn *conn,
		   void (*found)(void *ctx, const char *sentence), void *ctx);

/* Names a side: "10.0.0.1 QP 0x11", with program and pid if they are known. */
const char *analysis_side(const struct model *model, const struct conn_side *side,
			  char out[FINDING_BYTES]);

const char *analysis_transport(const struct conn *conn);

/* Payload bytes per second of one direction; 0: no time passed. */
uint64_t analysis_bytes_per_s(const struct conn *conn, const struct conn_dir *dir);

#endif
