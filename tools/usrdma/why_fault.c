/* SPDX-License-Identifier: BSD-2-Clause */
/* Sentences of usrdma why about injected faults. */
#include "base/clock.h"
#include "base/fault_fired.h"
#include "why.h"

#define AGE_SHOWN_MS 100

const struct ipc_failure *why_fault(const struct why_list *list, size_t root)
{
	const struct why_failure *cause = &list->failures[root];

	if (cause->is.fault_rule)
		return &cause->is;
	if (list->failures[cause->opposite].is.fault_rule)
		return &list->failures[cause->opposite].is;
	for (size_t i = 0; i < list->count; i++) {
		if (list->failures[i].is.fault_rule && why_root(list, i) == root)
			return &list->failures[i].is;
	}
	return NULL;
}

void why_write_fault(FILE *out, const struct ipc_failure *failure)
{
	bool is_of_environment = failure->fault_rule & FAULT_FIRED_ENVIRONMENT;

	fprintf(out, "rule %u of %s fired for %s (pid %d)",
		failure->fault_rule & ~(unsigned int)FAULT_FIRED_ENVIRONMENT,
		is_of_environment ? "USRDMA_FAULT or USRDMA_FAULTS" : "'usrdma fault'",
		failure->program, failure->pid);
	if (failure->fault_age_ms >= AGE_SHOWN_MS) {
		fputc(' ', out);
		why_write_duration(out, failure->fault_age_ms * CLOCK_NS_PER_MS);
	} else {
		fputs(" immediately", out);
	}
	fputs(" before: the failure is probably injected", out);
}
