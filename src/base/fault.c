/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_rule.h"
#include "base/trace.h"
#include "base/util.h"

static const char *const point_names[] = {
	[FAULT_PACKET_SEND] = "packet.send", [FAULT_PACKET_RECEIVE] = "packet.receive",
	[FAULT_MAD_SEND] = "mad.send",	     [FAULT_MAD_RECEIVE] = "mad.receive",
	[FAULT_FIFO_SEND] = "fifo.send",     [FAULT_FIFO_RECEIVE] = "fifo.receive",
	[FAULT_WR_POST] = "wr.post",	     [FAULT_WR_EXECUTE] = "wr.execute",
	[FAULT_QP_MODIFY] = "qp.modify",     [FAULT_IPC_CALL] = "ipc.call",
};
static_assert(COUNT(point_names) == FAULT_POINT_COUNT, "every fault point has a name");

static const char *const action_names[] = {
	[FAULT_DROP] = "drop",	 [FAULT_DUPLICATE] = "duplicate", [FAULT_CORRUPT] = "corrupt",
	[FAULT_DELAY] = "delay", [FAULT_FAIL] = "fail",
};
static_assert(COUNT(action_names) == FAULT_ACTION_COUNT, "every action has a name");

/* Written by fault_configure() only. */
static struct fault_rules config;

/* Several threads may pass points at the same time, so all members that change are atomic. */
static _Atomic uint64_t passes[FAULT_RULES_MAX];
static _Atomic uint64_t firings[FAULT_RULES_MAX];

const char *fault_point_name(enum fault_point point)
{
	return (unsigned int)point < FAULT_POINT_COUNT ? point_names[point] : "unknown";
}

const char *fault_action_name(enum fault_action action)
{
	return (unsigned int)action < FAULT_ACTION_COUNT ? action_names[action] : "unknown";
}

/* The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/*
 * The random number for pass n of a rule: element n of the rule's own SplitMix64 sequence. It does not depend on
 * other rules and threads, so the seed alone determines on which passes a rule fires.
 */
static uint64_t random_of_pass(int i, uint64_t pass)
{
	const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15);

	return mix(mix(config.seed + gamma * (uint64_t)(i + 1)) + gamma * pass);
}

int fault_configure(const char *rules, char *why, size_t why_bytes)
{
	int ret = 0;

	atomic_fetch_and(&probe_mask, ~PROBE_FAULT);
	config = (struct fault_rules){.count = 0};
	if (rules)
		ret = fault_parse(rules, &config, why, why_bytes);
	if (ret)
		config.count = 0;
	for (int i = 0; i < FAULT_RULES_MAX; i++) {
		atomic_store(&passes[i], 0);
		atomic_store(&firings[i], 0);
	}
	if (config.count)
		atomic_fetch_or(&probe_mask, PROBE_FAULT);
	return ret;
}

/* Counts one firing of the rule; false: the rule has fired `times` times. */
static bool take_firing(int i)
{
	uint64_t fired = atomic_load(&firings[i]);

	do {
		if (config.rules[i].times && fired >= config.rules[i].times)
			return false;
	} while (!atomic_compare_exchange_weak(&firings[i], &fired, fired + 1));
	return true;
}

static bool rule_fires(int i, uint64_t pass)
{
	const struct fault_rule *rule = &config.rules[i];

	if (rule->nth && rule->nth != pass)
		return false;
	if (rule->every && pass % rule->every != 0)
		return false;
	if (rule->probability < FAULT_CERTAIN &&
	    (random_of_pass(i, pass) >> 32) * FAULT_CERTAIN >> 32 >= rule->probability)
		return false;
	return take_firing(i);
}

static void print_fault(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_fault *fault = &event->fault;
	int len = snprintf(out, out_bytes, "%s %s pass %" PRIu64,
			   fault_point_name((enum fault_point)fault->point),
			   fault_action_name((enum fault_action)fault->action), fault->pass);

	if (len < 0 || (size_t)len >= out_bytes)
		return;
	if (fault->action == FAULT_FAIL)
		snprintf(out + len, out_bytes - (size_t)len, " code %d", fault->code);
	else if (fault->action == FAULT_DELAY)
		snprintf(out + len, out_bytes - (size_t)len, " %" PRIu64 " us",
			 fault->delay_ns / 1000);
}

static void trace_fault(enum fault_point point, const struct fault *fault, uint64_t pass)
{
	static const struct trace_point fault_point = {TRACE_FAULT, "fault", print_fault};
	struct trace_event event = {
		.fault =
			{
				.point = point,
				.action = fault->action,
				.code = fault->code,
				.delay_ns = fault->delay_ns,
				.pass = pass,
			},
	};

	trace_emit(&fault_point, &event);
}

static bool is_of_this_program(const struct fault_rule *rule)
{
	return !rule->program[0] || strcmp(rule->program, program_invocation_short_name) == 0;
}

bool fault_decide(enum fault_point point, struct fault *fault)
{
	bool is_due = false;

	for (int i = 0; i < config.count; i++) {
		const struct fault_rule *rule = &config.rules[i];
		uint64_t pass;

		if (rule->point != point || !is_of_this_program(rule))
			continue;
		pass = atomic_fetch_add(&passes[i], 1) + 1;
		if (is_due || !rule_fires(i, pass))
			continue;
		is_due = true;
		*fault = (struct fault){
			.action = rule->action,
			.code = rule->code,
			.delay_ns = rule->delay_ns,
			.random = mix(random_of_pass(i, pass)),
		};
		if (trace_is_on())
			trace_fault(point, fault, pass);
	}
	return is_due;
}

int fault_decide_code(enum fault_point point)
{
	struct fault fault;

	return fault_decide(point, &fault) ? fault.code : 0;
}
