/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_FAULT_TEXT_H
#define TOOLS_USRDMA_FAULT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault_rule.h"

/* Fault rules as text, one rule on each line. The lines have the positions of the parsed rules. */
struct fault_text {
	uint64_t seed;
	int count;
	char *rules[FAULT_RULES_MAX];
};

#define FAULT_WHY_BYTES 160

/*
 * Adds the rules of `text` and takes its seed. `more`: conditions that are appended to each rule
 * that the process of a program passes, each after a colon; "": none. False: the rules are invalid;
 * `why` is the cause. Nothing was added.
 */
bool fault_text_add(struct fault_text *to, const char *text, const char *more, char *why,
		    size_t why_bytes);

/*
 * The text for the daemon, with seed and start time, which the caller frees. NULL: out of memory.
 */
char *fault_text_join(const struct fault_text *text, uint64_t start_ns);

void fault_text_free(struct fault_text *text);

#endif
