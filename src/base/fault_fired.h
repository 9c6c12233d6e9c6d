/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_FIRED_H
#define USRDMA_BASE_FAULT_FIRED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The last fault rule that fired for a queue pair, or in the daemon for a process: reports of
 * failures name it, because the failure may be injected. A fixed table, in which objects can
 * displace each other. Any thread; no locks, also in the child of a fork().
 */
struct fault_fired {
	int rule;		/* position, from 1 */
	bool is_of_environment; /* USRDMA_FAULT or USRDMA_FAULTS, not `usrdma fault` */
	uint64_t age_ns;	/* rounded down to FAULT_FIRED_UNIT_NS */
};

#define FAULT_FIRED_UNIT_NS   (UINT64_C(1) << 24)
#define FAULT_FIRED_WINDOW_NS UINT64_C(60000000000)

/*
 * Records that a rule fired for the process, or with pid 0 for the queue pair of this process. No
 * effect if both are 0.
 */
void fault_fired_note(pid_t pid, uint32_t qpn, int rule, bool is_of_environment);

/* Whether a rule fired within FAULT_FIRED_WINDOW_NS, and which. */
bool fault_fired_for_qp(uint32_t qpn, struct fault_fired *fired);
bool fault_fired_for_process(pid_t pid, struct fault_fired *fired);

/*
 * The form in a report of a failure: 0, or the position of the rule and FAULT_FIRED_ENVIRONMENT.
 * The age is in ms, at most UINT16_MAX.
 */
#define FAULT_FIRED_ENVIRONMENT UINT16_C(0x8000)
uint16_t fault_fired_code(const struct fault_fired *fired, uint16_t *age_ms);

#endif
