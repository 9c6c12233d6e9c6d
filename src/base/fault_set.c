/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_names.h"
#include "base/fault_random.h"

/*
 * A hash table with linear probing counts the passes of each pair of rule and QPN. Entries are not
 * removed. A pair that finds no entry uses the number of the rule's pass.
 */
#define FLOWS	     4096u
#define FLOWS_PROBED 16u

struct fault_flow {
	_Atomic uint64_t key; /* 0: unused */
	_Atomic uint64_t passes;
};

struct fault_set {
	struct fault_rules rules;
	uint64_t generation;
	struct fault_set *next_retired;
	struct fault_counter counters[FAULT_RULES_MAX];
	/* RATE: the end of the last transmission */
	_Atomic uint64_t busy_until_ns[FAULT_RULES_MAX];
	struct fault_flow flows[FLOWS];
};

struct fault_set *fault_set_new(const char *text, uint64_t generation, char *why, size_t why_bytes,
				int *error)
{
	struct fault_set *set = calloc(1, sizeof(*set));

	*error = -ENOMEM;
	if (!set)
		return NULL;
	*error = fault_parse(text, &set->rules, why, why_bytes);
	if (*error) {
		free(set);
		return NULL;
	}
	if (!set->rules.start_ns)
		set->rules.start_ns = clock_now_ns();
	set->generation = generation;
	return set;
}

void fault_set_free(struct fault_set *set)
{
	free(set);
}

struct fault_set **fault_set_next_retired(struct fault_set *set)
{
	return &set->next_retired;
}

uint64_t fault_set_generation(const struct fault_set *set)
{
	return set->generation;
}

const struct fault_rules *fault_set_rules(const struct fault_set *set)
{
	return &set->rules;
}

struct fault_count fault_set_count(const struct fault_set *set, int rule)
{
	return (struct fault_count){
		.passes = atomic_load(&set->counters[rule].passes),
		.firings = atomic_load(&set->counters[rule].firings),
	};
}

static bool is_device(const struct fault_rule *rule, const struct fault_subject *subject)
{
	return (subject->device && strcmp(rule->device, subject->device) == 0) ||
	       (subject->netdev && strcmp(rule->device, subject->netdev) == 0);
}

static bool matches_subject(const struct fault_rule *rule, const struct fault_subject *subject)
{
	unsigned int conditions = rule->conditions;

	if ((conditions & FAULT_IF_DEV) && !is_device(rule, subject))
		return false;
	if ((conditions & FAULT_IF_QP) && rule->qpn != subject->qpn)
		return false;
	if ((conditions & FAULT_IF_TYPE) &&
	    !(subject->qp_type && rule->qp_types & UINT32_C(1) << (subject->qp_type & 31)))
		return false;
	if ((conditions & FAULT_IF_OP) && !(subject->op && rule->ops & UINT32_C(1) << subject->op))
		return false;
	if ((conditions & FAULT_IF_PEER) &&
	    !(subject->peer && memcmp(rule->peer, subject->peer, sizeof(rule->peer)) == 0))
		return false;
	if ((conditions & FAULT_IF_NAME) &&
	    !(subject->call && fault_call_is(rule->call, subject->call)))
		return false;
	return true;
}

static bool matches_process(const struct fault_rule *rule, const struct fault_subject *subject)
{
	const char *program = subject->pid ? subject->program : program_invocation_short_name;
	pid_t pid = subject->pid ? subject->pid : getpid();

	if (rule->program[0] && !(program && strcmp(rule->program, program) == 0))
		return false;
	return !rule->pid || rule->pid == (uint64_t)pid;
}

static uint64_t pass_time_ns(const struct fault_subject *subject)
{
	return subject->now_ns ? subject->now_ns : clock_now_ns();
}

static bool is_in_time(const struct fault_set *set, const struct fault_rule *rule,
		       const struct fault_subject *subject)
{
	uint64_t now_ns, elapsed_ns;

	if (!rule->from_ns && !rule->until_ns)
		return true;
	now_ns = pass_time_ns(subject);
	elapsed_ns = now_ns > set->rules.start_ns ? now_ns - set->rules.start_ns : 0;
	return elapsed_ns >= rule->from_ns && (!rule->until_ns || elapsed_ns < rule->until_ns);
}

/* Counts a pass of the pair of rule and QPN and returns its number; `pass` is the rule's. */
static uint64_t pass_of_qp(struct fault_set *set, int i, uint32_t qpn, uint64_t pass)
{
	uint64_t key = (uint64_t)(i + 1) << 32 | qpn;
	uint64_t first = fault_random_mix(key);

	if (!qpn)
		return pass;
	for (uint64_t n = 0; n < FLOWS_PROBED; n++) {
		struct fault_flow *flow = &set->flows[(first + n) % FLOWS];
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&flow->key, &found, key) || found == key)
			return atomic_fetch_add(&flow->passes, 1) + 1;
	}
	return pass;
}

/* Counts one firing of the rule; false: the rule has fired `times` times. */
static bool take_firing(struct fault_counter *counter, const struct fault_rule *rule)
{
	uint64_t fired = atomic_load(&counter->firings);

	do {
		if (rule->times && fired >= rule->times)
			return false;
	} while (!atomic_compare_exchange_weak(&counter->firings, &fired, fired + 1));
	return true;
}

static bool rule_fires(struct fault_set *set, int i, uint64_t pass, uint64_t random)
{
	const struct fault_rule *rule = &set->rules.rules[i];

	if (rule->nth && rule->nth != pass)
		return false;
	if (rule->every && pass % rule->every != 0)
		return false;
	if (rule->probability < FAULT_CERTAIN &&
	    (random >> 32) * FAULT_CERTAIN >> 32 >= rule->probability)
		return false;
	return take_firing(&set->counters[i], rule);
}

/* The delay until the object leaves a queue that is served at the rule's rate. */
static uint64_t rate_delay_ns(struct fault_set *set, int i, const struct fault_subject *subject)
{
	uint64_t rate = set->rules.rules[i].bytes_per_s;
	uint64_t now_ns = pass_time_ns(subject), end_ns;
	uint64_t busy_ns = atomic_load(&set->busy_until_ns[i]);
	uint64_t takes_ns = subject->bytes * CLOCK_NS_PER_S / rate + 1;

	do {
		end_ns = (busy_ns > now_ns ? busy_ns : now_ns) + takes_ns;
	} while (!atomic_compare_exchange_weak(&set->busy_until_ns[i], &busy_ns, end_ns));
	return end_ns - now_ns;
}

static void fill_fault(struct fault_set *set, int i, const struct fault_subject *subject,
		       uint64_t random, struct fault *fault)
{
	const struct fault_rule *rule = &set->rules.rules[i];

	*fault = (struct fault){
		.action = rule->action == FAULT_RATE ? FAULT_DELAY : rule->action,
		.code = rule->code,
		.vendor_err = (uint32_t)rule->vendor_err,
		.has_vendor_err = rule->has_vendor_err,
		.count = rule->count,
		.random = fault_random_mix(random),
	};
	if (rule->action == FAULT_RATE)
		fault->delay_ns = rate_delay_ns(set, i, subject);
	else if (rule->action == FAULT_DELAY)
		fault->delay_ns = fault_random_delay(rule, fault->random);
}

bool fault_set_decide(struct fault_set *set, enum fault_point point,
		      const struct fault_subject *subject, bool is_taken,
		      struct fault_counter *shared, struct fault *fault,
		      struct fault_firing *firing)
{
	bool is_due = false;

	for (int i = 0; i < set->rules.count; i++) {
		const struct fault_rule *rule = &set->rules.rules[i];
		uint64_t pass, random;

		if (!(rule->points >> point & 1) || !matches_process(rule, subject) ||
		    !matches_subject(rule, subject) || !is_in_time(set, rule, subject))
			continue;
		pass = atomic_fetch_add(&set->counters[i].passes, 1) + 1;
		if (shared)
			atomic_fetch_add(&shared[i].passes, 1);
		random = fault_random_of_pass(set->rules.seed, i,
					      pass_of_qp(set, i, subject->qpn, pass));
		if (is_taken || is_due || !rule_fires(set, i, pass, random))
			continue;
		is_due = true;
		if (shared)
			atomic_fetch_add(&shared[i].firings, 1);
		fill_fault(set, i, subject, random, fault);
		fault->counter = shared ? &shared[i] : NULL;
		*firing = (struct fault_firing){.rule = i, .pass = pass};
	}
	return is_due;
}
