/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_RULE_H
#define USRDMA_BASE_FAULT_RULE_H

#include <assert.h>

#include "base/fault.h"

/* Parsed rules: fault_parse.c creates them, fault_set.c applies them. */

/* Probability 1; probabilities are in this unit. */
#define FAULT_CERTAIN 1000000000u

#define FAULT_NAME_BYTES 64
#define FAULT_GID_BYTES	 16

/* Distribution of the variable part of a delay: normal with this standard deviation, and so on. */
enum fault_distribution {
	FAULT_UNIFORM, /* from -jitter to +jitter */
	FAULT_NORMAL,  /* jitter is the standard deviation */
	/*
	 * Pareto with shape 2, shifted to start at 0, with jitter as mean; at most 100 times as
	 * much
	 */
	FAULT_PARETO,
	FAULT_DISTRIBUTION_COUNT
};

/* Bits of the conditions on the subject of a pass. */
enum fault_condition {
	FAULT_IF_DEV = 1 << 0,
	FAULT_IF_QP = 1 << 1,
	FAULT_IF_TYPE = 1 << 2,
	FAULT_IF_OP = 1 << 3,
	FAULT_IF_PEER = 1 << 4,
	FAULT_IF_NAME = 1 << 5,
	FAULT_IF_DIR = 1 << 6, /* it selects some of the rule's points */
};

struct fault_rule {
	enum fault_point point; /* the first of `points` */
	uint32_t points;	/* bits: 1 << enum fault_point */
	enum fault_action action;
	int code;
	uint64_t vendor_err;
	bool has_vendor_err;
	uint64_t delay_ns;
	uint64_t jitter_ns;
	enum fault_distribution distribution;
	uint64_t bytes_per_s; /* RATE */
	uint64_t count;	      /* REORDER */
	uint32_t probability;
	uint64_t nth;	  /* 0: any pass */
	uint64_t every;	  /* 0: any pass; otherwise the passes that it divides */
	uint64_t times;	  /* 0: no limit */
	uint64_t from_ns; /* since the start of the rules; 0: no limit, also for the next */
	uint64_t until_ns;
	uint64_t pid;			/* 0: any */
	char program[FAULT_NAME_BYTES]; /* "": any program */
	unsigned int conditions; /* enum fault_condition: those of the next members that are set */
	char device[FAULT_NAME_BYTES];
	char call[FAULT_NAME_BYTES];
	uint32_t qpn;
	uint32_t qp_types; /* bits: 1 << enum ibv_qp_type */
	uint32_t ops;	   /* bits: 1 << enum fault_op */
	uint8_t peer[FAULT_GID_BYTES];
};
static_assert(FAULT_POINT_COUNT <= 32, "fault_rule.points has a bit for each point");
static_assert(FAULT_OP_COUNT <= 32, "fault_rule.ops has a bit for each operation");

struct fault_rules {
	uint64_t seed;
	uint64_t start_ns; /* 0: the time when the rules are applied */
	int count;
	struct fault_rule rules[FAULT_RULES_MAX];
};

/* Parses `text`. 0, or -EINVAL and the cause as text in `why`. */
int fault_parse(const char *text, struct fault_rules *rules, char *why, size_t why_bytes)
	__attribute__((warn_unused_result));

#endif
