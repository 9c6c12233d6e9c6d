/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_SET_H
#define USRDMA_BASE_FAULT_SET_H

#include "base/fault_rule.h"

/*
 * A set of rules and its counts. The rules are constant and the counts are atomic, so any number of
 * threads may use a set at the same time. The owner frees it when no thread uses it.
 */
struct fault_set;

/*
 * A new set; NULL with *error: -EINVAL and the cause as text in `why`, or -ENOMEM. `generation` is
 * only stored.
 */
struct fault_set *fault_set_new(const char *text, uint64_t generation, char *why, size_t why_bytes,
				int *error) __attribute__((warn_unused_result));
void fault_set_free(struct fault_set *set);

uint64_t fault_set_generation(const struct fault_set *set);
const struct fault_rules *fault_set_rules(const struct fault_set *set);
struct fault_count fault_set_count(const struct fault_set *set, int rule);

/* A firing: the position of the rule, and the number of the pass among those of the rule. */
struct fault_firing {
	int rule;
	uint64_t pass;
};

/*
 * Counts the pass for each matching rule. Returns whether a rule fires; not if is_taken, which
 * means that a rule of another set has fired on this pass. `shared`: further counters, or NULL.
 */
bool fault_set_decide(struct fault_set *set, enum fault_point point,
		      const struct fault_subject *subject, bool is_taken,
		      struct fault_counter *shared, struct fault *fault,
		      struct fault_firing *firing);

/* Sets that were replaced form a list until no thread uses them. */
struct fault_set **fault_set_next_retired(struct fault_set *set);

#endif
