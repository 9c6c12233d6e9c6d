/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_value.h"

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

/* Copies the rules to lines, each with the conditions `more`. */
static bool copy_rules(struct fault_text *to, const char *text, const char *more)
{
	struct fault_span rest = {text, strlen(text)}, rule;

	while (rest.len) {
		struct fault_span line = fault_span_split(&rest, '\n');
		struct fault_span clauses = fault_span_split(&line, '#');

		while (next_rule(&clauses, &rule)) {
			if (to->count == FAULT_RULES_MAX ||
			    asprintf(&to->rules[to->count], "%.*s%s", (int)rule.len, rule.at,
				     more) < 0)
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
	if (is_valid && !copy_rules(to, text, more)) {
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
