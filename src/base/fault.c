/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_fired.h"
#include "base/fault_names.h"
#include "base/fault_set.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/trace_points.h"

/* The sources of rules, in the order in which their rules apply. */
enum fault_source { SOURCE_ENVIRONMENT, SOURCE_COMMAND, SOURCE_COUNT };

/* NULL: no rules. */
static struct fault_set *_Atomic sets[SOURCE_COUNT];

/*
 * Reclamation of replaced sets without locks, so that fork() cannot leave one locked. A thread that
 * uses a set is counted in `users` before it loads the pointer. A set in `retired` was replaced
 * before it was added, so when `users` is 0 afterwards, no thread uses it. If fork() copies a count
 * above 0, the child frees no sets.
 */
static _Atomic unsigned int users;
static struct fault_set *_Atomic retired;

static struct fault_counter *_Atomic shared_counters;

static _Atomic bool is_held;

static void set_retire(struct fault_set *set)
{
	struct fault_set **next = fault_set_next_retired(set);

	*next = atomic_load(&retired);
	while (!atomic_compare_exchange_weak(&retired, next, set))
		;
}

static void free_retired(void)
{
	struct fault_set *list = atomic_exchange(&retired, NULL);
	bool is_unused = atomic_load(&users) == 0;

	while (list) {
		struct fault_set *set = list;

		list = *fault_set_next_retired(set);
		if (is_unused)
			fault_set_free(set);
		else
			set_retire(set);
	}
}

static bool has_rules(void)
{
	if (atomic_load(&is_held))
		return true;
	for (int i = 0; i < SOURCE_COUNT; i++) {
		const struct fault_set *set = atomic_load(&sets[i]);

		if (set && fault_set_rules(set)->count)
			return true;
	}
	return false;
}

/* Another thread may replace a set between the check and the store, so the check is repeated. */
static void update_mask(void)
{
	bool is_on;

	do {
		is_on = has_rules();
		if (is_on)
			atomic_fetch_or(&probe_mask, PROBE_FAULT);
		else
			atomic_fetch_and(&probe_mask, ~PROBE_FAULT);
	} while (has_rules() != is_on);
}

void fault_hold(bool is_on)
{
	atomic_store(&is_held, is_on);
	atomic_fetch_add(&users, 1);
	update_mask();
	atomic_fetch_sub(&users, 1);
}

/* Replaces a set unless the set in force has the same or a later generation. */
static void install(enum fault_source source, struct fault_set *set, bool is_forced)
{
	struct fault_set *unused = set;
	struct fault_set *old;

	atomic_fetch_add(&users, 1);
	old = atomic_load(&sets[source]);
	while (is_forced || !old || fault_set_generation(old) < fault_set_generation(set)) {
		if (atomic_compare_exchange_weak(&sets[source], &old, set)) {
			unused = old;
			break;
		}
	}
	update_mask();
	atomic_fetch_sub(&users, 1);
	if (unused)
		set_retire(unused);
	free_retired();
}

bool fault_has_point(enum fault_point point)
{
	bool has_point = false;

	atomic_fetch_add(&users, 1);
	for (int i = 0; i < SOURCE_COUNT; i++) {
		const struct fault_set *set = atomic_load(&sets[i]);

		for (int n = 0; set && n < fault_set_rules(set)->count; n++)
			has_point |= fault_set_rules(set)->rules[n].points >> point & 1;
	}
	atomic_fetch_sub(&users, 1);
	return has_point;
}

int fault_configure(const char *rules, char *why, size_t why_bytes)
{
	struct fault_set *set = NULL;
	int error = 0;

	if (rules)
		set = fault_set_new(rules, 0, why, why_bytes, &error);
	if (error == -ENOMEM)
		snprintf(why, why_bytes, "out of memory");
	install(SOURCE_ENVIRONMENT, set, true);
	return error;
}

int fault_apply_text(const char *text, uint64_t generation, char *why, size_t why_bytes)
{
	int error;
	struct fault_set *set = fault_set_new(text, generation, why, why_bytes, &error);

	if (!set)
		return error;
	install(SOURCE_COMMAND, set, false);
	return 0;
}

void fault_share_counters(struct fault_counter *counters)
{
	atomic_store(&shared_counters, counters);
}

int fault_counters(struct fault_count counts[FAULT_RULES_MAX], uint64_t *generation)
{
	const struct fault_set *set;
	int count = 0;

	*generation = 0;
	atomic_fetch_add(&users, 1);
	set = atomic_load(&sets[SOURCE_COMMAND]);
	if (set) {
		count = fault_set_rules(set)->count;
		*generation = fault_set_generation(set);
	}
	for (int i = 0; i < count; i++)
		counts[i] = fault_set_count(set, i);
	atomic_fetch_sub(&users, 1);
	return count;
}

/* Appends to the text of *len bytes, which stays below out_bytes. */
__attribute__((format(printf, 4, 5))) static void fault_append(char *out, size_t out_bytes,
							       size_t *len, const char *format, ...)
{
	va_list args;
	int added;

	va_start(args, format);
	added = vsnprintf(out + *len, out_bytes - *len, format, args);
	va_end(args);
	if (added > 0)
		*len = *len + (size_t)added < out_bytes ? *len + (size_t)added : out_bytes - 1;
}

static void print_fault(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_fault *fault = &event->fault;
	const char *op = fault_op_name(fault->op);
	char netdev[sizeof(fault->netdev) + 1];
	size_t len = 0;

	fault_append(out, out_bytes, &len, "%s %s pass %" PRIu64,
		     fault_point_name((enum fault_point)fault->point),
		     fault_action_name((enum fault_action)fault->action), fault->pass);
	if (fault->action == FAULT_FAIL || fault->action == FAULT_REJECT)
		fault_append(out, out_bytes, &len, " code %d", fault->code);
	else if (fault->action == FAULT_DELAY)
		fault_append(out, out_bytes, &len, " %" PRIu64 " us", fault->delay_ns / 1000);
	if (op)
		fault_append(out, out_bytes, &len, " op %s", op);
	if (event->qpn)
		fault_append(out, out_bytes, &len, " qpn 0x%" PRIx32, event->qpn);
	if (fault->pid > 0)
		fault_append(out, out_bytes, &len, " pid %" PRId32, fault->pid);
	if (fault->netdev[0])
		fault_append(out, out_bytes, &len, " device %s",
			     trace_string(netdev, fault->netdev, sizeof(fault->netdev)));
}

const struct trace_point point_fault = {TRACE_FAULT, "fault", print_fault};

static void report(enum fault_point point, const struct fault_subject *subject,
		   const struct fault *fault, const struct fault_firing *firing,
		   enum fault_source source)
{
	struct trace_event event = {
		.qpn = subject->qpn,
		.fault =
			{
				.point = point,
				.action = fault->action,
				.code = fault->code,
				.delay_ns = fault->delay_ns,
				.pass = firing->pass,
				.op = subject->op,
				.pid = (int32_t)subject->pid,
			},
	};

	if (point == FAULT_DEVICE && subject->netdev)
		snprintf(event.fault.netdev, sizeof(event.fault.netdev), "%s", subject->netdev);

	log_debug("fault injected: %s %s by rule %d, pass %" PRIu64 ", qpn 0x%x",
		  fault_point_name(point), fault_action_name(fault->action), firing->rule + 1,
		  firing->pass, subject->qpn);
	fault_fired_note(subject->pid, subject->qpn, firing->rule + 1,
			 source == SOURCE_ENVIRONMENT);
	if (trace_is_on())
		trace_emit(&point_fault, &event);
}

static const struct fault_subject unknown_subject;

bool fault_decide(enum fault_point point, const struct fault_subject *subject, struct fault *fault)
{
	struct fault_firing firing;
	enum fault_source source = SOURCE_ENVIRONMENT;
	bool is_due = false;

	if (!subject)
		subject = &unknown_subject;
	atomic_fetch_add(&users, 1);
	for (int i = 0; i < SOURCE_COUNT; i++) {
		struct fault_set *set = atomic_load(&sets[i]);

		if (set &&
		    fault_set_decide(set, point, subject, is_due,
				     i == SOURCE_COMMAND ? atomic_load(&shared_counters) : NULL,
				     fault, &firing)) {
			is_due = true;
			source = (enum fault_source)i;
		}
	}
	atomic_fetch_sub(&users, 1);
	if (is_due)
		report(point, subject, fault, &firing, source);
	return is_due;
}

bool fault_decide_in(struct fault_set *set, struct fault_counter *counters, enum fault_point point,
		     const struct fault_subject *subject, struct fault *fault)
{
	struct fault_firing firing;

	if (!subject)
		subject = &unknown_subject;
	if (!fault_set_decide(set, point, subject, false, counters, fault, &firing))
		return false;
	report(point, subject, fault, &firing, SOURCE_COMMAND);
	return true;
}

void fault_failed(const struct fault *fault, int error)
{
	struct fault_counter *counter = fault->counter;

	log_debug("a fault rule: %s: %s", fault_action_name(fault->action), strerror(-error));
	if (!counter)
		return;
	atomic_fetch_sub(&counter->firings, 1);
	atomic_fetch_add(&counter->failures, 1);
	atomic_store(&counter->error, (uint64_t)-error);
}

int fault_decide_code(enum fault_point point, const struct fault_subject *subject)
{
	struct fault fault;

	return fault_decide(point, subject, &fault) ? fault.code : 0;
}

int fault_call_cold(const char *name)
{
	const struct fault_subject subject = {.call = name};
	struct fault fault;
	int saved;

	if (!fault_decide(FAULT_CALL, &subject, &fault))
		return 0;
	if (fault.action == FAULT_FAIL)
		return -fault.code;
	saved = errno;
	sys_sleep_ns(fault.delay_ns);
	errno = saved;
	return 0;
}

bool fault_call_fails_cold(const char *name)
{
	int ret = fault_call_cold(name);

	if (!ret)
		return false;
	trace_call_failed(name, -ret, 0);
	errno = -ret;
	return true;
}
