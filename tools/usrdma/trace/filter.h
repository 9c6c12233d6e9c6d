/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_FILTER_H
#define USRDMA_TOOL_TRACE_FILTER_H

#include "options.h"

/* Consumers between the source of records and the outputs. */

/*
 * Passes the records of --pid, --qp and --device on. Records that concern no QP pass --qp; a packet
 * passes it if either of its QPs is the requested one.
 */
struct trace_filter {
	const struct trace_options *options;
	struct trace_out next;
	uint32_t peer_qpn; /* of the requested QP; 0: not known yet */
};

struct trace_out trace_filter_out(struct trace_filter *filter);

/* Passes each record to several consumers. */
#define TRACE_TEE_MAX 4
struct trace_tee {
	struct trace_out outs[TRACE_TEE_MAX];
	int count;
};

struct trace_out trace_tee_out(struct trace_tee *tee);

#endif
