/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_fired.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/fault.h"

#define ENTRIES 256u

/*
 * An entry is one word: the key, the rule, whether it is of the environment, and the time in units,
 * modulo 2^24 (78 hours).
 */
#define KEY_PROCESS UINT32_C(0x80000000)
#define KEY_SHIFT   32
#define RULE_SHIFT  25
#define RULE_MASK   0x7fu
#define ENVIRONMENT (UINT64_C(1) << 24)
#define UNITS_MASK  0xffffffu

static_assert(FAULT_RULES_MAX <= RULE_MASK, "a position has 7 bits");

static _Atomic uint64_t fired_entries[ENTRIES];

static uint32_t units_now(void)
{
	return (uint32_t)(clock_now_ns() / FAULT_FIRED_UNIT_NS) & UNITS_MASK;
}

/* QPNs have 24 bits. */
static uint32_t fired_key(pid_t pid, uint32_t qpn)
{
	return pid ? KEY_PROCESS | (uint32_t)pid : qpn;
}

void fault_fired_note(pid_t pid, uint32_t qpn, int rule, bool is_of_environment)
{
	uint32_t key = fired_key(pid, qpn);

	if (!key)
		return;
	atomic_store(&fired_entries[key % ENTRIES],
		     (uint64_t)key << KEY_SHIFT | (uint64_t)rule << RULE_SHIFT |
			     (is_of_environment ? ENVIRONMENT : 0) | units_now());
}

static bool find_key(uint32_t key, struct fault_fired *fired)
{
	uint64_t entry = atomic_load(&fired_entries[key % ENTRIES]);
	uint32_t units = (units_now() - (uint32_t)entry) & UNITS_MASK;

	if (!key || entry >> KEY_SHIFT != key)
		return false;
	fired->rule = (int)(entry >> RULE_SHIFT & RULE_MASK);
	fired->is_of_environment = entry & ENVIRONMENT;
	fired->age_ns = units * FAULT_FIRED_UNIT_NS;
	return fired->age_ns <= FAULT_FIRED_WINDOW_NS;
}

bool fault_fired_for_qp(uint32_t qpn, struct fault_fired *fired)
{
	return find_key(fired_key(0, qpn), fired);
}

bool fault_fired_for_process(pid_t pid, struct fault_fired *fired)
{
	return pid && find_key(fired_key(pid, 0), fired);
}

uint16_t fault_fired_code(const struct fault_fired *fired, uint16_t *age_ms)
{
	uint64_t ms = fired->age_ns / CLOCK_NS_PER_MS;

	*age_ms = ms < UINT16_MAX ? (uint16_t)ms : UINT16_MAX;
	return (uint16_t)((unsigned int)fired->rule |
			  (fired->is_of_environment ? FAULT_FIRED_ENVIRONMENT : 0u));
}
