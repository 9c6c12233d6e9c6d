/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_OPTIONS_H
#define USRDMA_TOOL_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* The options of `usrdma trace`. The strings are those of argv. */
struct trace_options {
	uint32_t pid;		  /* 0: every process */
	uint32_t qpn;		  /* 0: every QP */
	const char *device;	  /* NULL: every device */
	const char *write_path;	  /* NULL: no capture file; "-": standard output */
	const char *read_path;	  /* NULL: live */
	const char *diagram_path; /* NULL: no diagram */
	double duration_s;	  /* 0: until the user ends the command or the program ends */
	bool wants_json;	  /* analysis of a file as JSON */
	char **program; /* arguments of the program to start, NULL-terminated; NULL: none */
};

/* Whether the record passes --pid, --qp and --device. An event without QPN passes --qp if its type concerns no QP. */
bool trace_options_match(const struct trace_options *options, const struct trace_record *record);

#endif
