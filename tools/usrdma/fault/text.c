/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_value.h"

/*
 * Whether a condition that the user adds to a set of rules restricts those of this point. Only the daemon passes the points of
 * MADs and devices, and they have no program; a device has a name.
 */
static bool is_restricted_by(enum fault_point point, struct fault_span condition)
{
	if (point == FAULT_DEVICE)
		return fault_span_is(fault_span_split(&condition, '='), "dev");
	return point != FAULT_MAD_SEND && point != FAULT_MAD_RECEIVE;
}

/* The rule with those of the conditions `more` that restrict it, each after a colon; NULL: out of memory. */
static char *restrict_rule(struct fault_span rule, enum fault_point point, const char *more)
{
	struct fault_span conditions = {more, strlen(more)};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fprintf(out, "%.*s", (int)rule.len, rule.at);
	while (conditions.len) {
		struct fault_span condition = fault_span_field(&conditions, ':');

		if (condition.len && is_restricted_by(point, condition))
			fprintf(out, ":%.*s", (int)condition.len, condition.at);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static bool is_setting(struct fault_span clause)
{
	struct fault_span name = fault_span_split(&clause, '=');

	return fault_span_is(name, "seed") || fault_span_is(name, "start");
}

/* The next clause of *line without surrounding blanks; false: the end of the line. */
static bool next_rule(struct fault_span *line, struct fault_span *rule)
{
	while (line->len) {
		*rule = fault_span_trim(fault_span_split(line, ';'));
		if (rule->len && !is_setting(*rule))
			return true;
	}
	return false;
}

/* Copies the rules to lines. `rules` are the parsed rules of `text`. */
static bool copy_rules(struct fault_text *to, const char *text, const char *more,
		       const struct fault_rules *rules)
{
	struct fault_span rest = {text, strlen(text)}, rule;
	int i = 0;

	while (rest.len) {
		struct fault_span line = fault_span_split(&rest, '\n');
		struct fault_span clauses = fault_span_split(&line, '#');

		while (next_rule(&clauses, &rule)) {
			if (to->count == FAULT_RULES_MAX)
				return false;
			to->rules[to->count] = restrict_rule(rule, rules->rules[i++].point, more);
			if (!to->rules[to->count])
				return false;
			to->count++;
		}
	}
	return true;
}

bool fault_text_add(struct fault_text *to, const char *text, const char *more, char *why,
		    size_t why_bytes)
{
	struct fault_rules *rules = malloc(sizeof(*rules));
	int before = to->count;
	bool is_valid;

	if (!rules) {
		snprintf(why, why_bytes, "out of memory");
		return false;
	}
	is_valid = fault_parse(text, rules, why, why_bytes) == 0;
	if (is_valid && !copy_rules(to, text, more, rules)) {
		snprintf(why, why_bytes, "more than %d rules", FAULT_RULES_MAX);
		is_valid = false;
	}
	if (is_valid && rules->seed != 1)
		to->seed = rules->seed;
	/* The appended conditions may be invalid. */
	for (int i = before; is_valid && i < to->count; i++)
		is_valid = fault_parse(to->rules[i], rules, why, why_bytes) == 0;
	while (!is_valid && to->count > before)
		free(to->rules[--to->count]);
	free(rules);
	return is_valid;
}

char *fault_text_join(const struct fault_text *text, uint64_t start_ns)
{
	char *joined = NULL;
	size_t bytes;
	FILE *out;

	if (!text->count)
		return strdup("");
	out = open_memstream(&joined, &bytes);
	if (!out)
		return NULL;
	fprintf(out, "start=%" PRIu64 "\nseed=%" PRIu64 "\n", start_ns, text->seed);
	for (int i = 0; i < text->count; i++)
		fprintf(out, "%s\n", text->rules[i]);
	if (fclose(out)) {
		free(joined);
		return NULL;
	}
	return joined;
}

void fault_text_free(struct fault_text *text)
{
	while (text->count)
		free(text->rules[--text->count]);
}
