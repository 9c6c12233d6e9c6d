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
	bool wants_all;		  /* text: every event, not only those of struct trace_text */
	bool wants_text;     /* also the records of a file that is read, or beside a capture file */
	bool wants_json;     /* analysis as JSON */
	bool wants_analysis; /* also of a live trace, or beside a diagram */
	bool wants_profile;  /* only prints the directory of the profile for Wireshark */
	char **program;	     /* arguments of the program to start, NULL-terminated; NULL: none */
};

#define TRACE_OPTION_WHY_BYTES 160

/* Reads argv[1] and the following arguments. 0, or -EINVAL with a sentence in `why`. */
int trace_options_parse(struct trace_options *options, char **argv,
			char why[TRACE_OPTION_WHY_BYTES]) __attribute__((warn_unused_result));

#endif
