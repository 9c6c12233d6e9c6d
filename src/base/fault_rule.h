/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_RULE_H
#define USRDMA_BASE_FAULT_RULE_H

#include "base/fault.h"

/* The parsed rules of USRDMA_FAULT and USRDMA_FAULTS: fault_parse.c creates them, fault.c applies them. */

/* Probability 1; probabilities are in this unit. */
#define FAULT_CERTAIN 1000000000u

#define FAULT_PROGRAM_BYTES 64

struct fault_rule {
	enum fault_point point;
	enum fault_action action;
	int code;
	uint64_t delay_ns;
	uint32_t probability;
	uint64_t nth;			   /* 0: any pass */
	uint64_t every;			   /* 0: any pass; otherwise the passes that it divides */
	uint64_t times;			   /* 0: no limit */
	char program[FAULT_PROGRAM_BYTES]; /* "": any program */
};

struct fault_rules {
	uint64_t seed;
	int count;
	struct fault_rule rules[FAULT_RULES_MAX];
};

/* Parses `text`. 0, or -EINVAL and the cause as text in `why`. */
int fault_parse(const char *text, struct fault_rules *rules, char *why, size_t why_bytes)
	__attribute__((warn_unused_result));

#endif
