/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_rule.h"

/* Maximum length of a clause that is quoted in a message. */
#define QUOTED_MAX 40
/* What may stand around a clause and between clauses. */
#define BLANKS " \t\r"
/* Maximum number of decimal places of a probability. */
#define DECIMALS 9

#define ONE(action)    (1u << FAULT_##action)
#define PACKET_ACTIONS (ONE(DROP) | ONE(DUPLICATE) | ONE(CORRUPT))

/* The actions that each point supports, as bits of enum fault_action. */
static const unsigned int supported[FAULT_POINT_COUNT] = {
	[FAULT_PACKET_SEND] = PACKET_ACTIONS | ONE(DELAY),
	[FAULT_PACKET_RECEIVE] = PACKET_ACTIONS | ONE(DELAY),
	[FAULT_MAD_SEND] = PACKET_ACTIONS,
	[FAULT_MAD_RECEIVE] = PACKET_ACTIONS,
	[FAULT_FIFO_SEND] = ONE(FAIL),
	[FAULT_FIFO_RECEIVE] = PACKET_ACTIONS,
	[FAULT_WR_POST] = ONE(FAIL),
	[FAULT_WR_EXECUTE] = ONE(FAIL),
	[FAULT_QP_MODIFY] = ONE(FAIL),
	[FAULT_IPC_CALL] = ONE(FAIL) | ONE(DELAY),
};

struct name {
	const char *word;
	int code;
};

#define ERRNO(name)         \
	{                   \
#name, name \
	}

static const struct name errno_names[] = {
	ERRNO(EACCES),	    ERRNO(EADDRINUSE),	 ERRNO(EADDRNOTAVAIL), ERRNO(EAGAIN),
	ERRNO(EBUSY),	    ERRNO(ECONNREFUSED), ERRNO(ECONNRESET),    ERRNO(EDQUOT),
	ERRNO(EEXIST),	    ERRNO(EFAULT),	 ERRNO(EHOSTUNREACH),  ERRNO(EINTR),
	ERRNO(EINVAL),	    ERRNO(EIO),		 ERRNO(EMFILE),	       ERRNO(EMSGSIZE),
	ERRNO(ENETUNREACH), ERRNO(ENFILE),	 ERRNO(ENOBUFS),       ERRNO(ENODEV),
	ERRNO(ENOENT),	    ERRNO(ENOMEM),	 ERRNO(ENOSPC),	       ERRNO(EOPNOTSUPP),
	ERRNO(EPERM),	    ERRNO(EPIPE),	 ERRNO(EPROTO),	       ERRNO(ETIMEDOUT),
	{NULL, 0},
};

/* enum ibv_wc_status; its values are part of the ABI. */
static const struct name status_names[] = {
	{"LOC_LEN_ERR", 1},	    {"LOC_QP_OP_ERR", 2},
	{"LOC_EEC_OP_ERR", 3},	    {"LOC_PROT_ERR", 4},
	{"WR_FLUSH_ERR", 5},	    {"MW_BIND_ERR", 6},
	{"BAD_RESP_ERR", 7},	    {"LOC_ACCESS_ERR", 8},
	{"REM_INV_REQ_ERR", 9},	    {"REM_ACCESS_ERR", 10},
	{"REM_OP_ERR", 11},	    {"RETRY_EXC_ERR", 12},
	{"RNR_RETRY_EXC_ERR", 13},  {"LOC_RDD_VIOL_ERR", 14},
	{"REM_INV_RD_REQ_ERR", 15}, {"REM_ABORT_ERR", 16},
	{"INV_EECN_ERR", 17},	    {"INV_EEC_STATE_ERR", 18},
	{"FATAL_ERR", 19},	    {"RESP_TIMEOUT_ERR", 20},
	{"GENERAL_ERR", 21},	    {NULL, 0},
};

/* A part of the text, not NUL-terminated. */
struct span {
	const char *at;
	size_t len;
};

/*
 * Removes the text up to the first `mark`, and the mark, from *rest and returns the text; all of it if there is no
 * mark.
 */
static struct span split(struct span *rest, char mark)
{
	const char *end = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
	struct span part = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t taken = part.len + (end ? 1 : 0);

	rest->at += taken;
	rest->len -= taken;
	return part;
}

static struct span span_trim(struct span span)
{
	while (span.len && strchr(BLANKS, *span.at)) {
		span.at++;
		span.len--;
	}
	while (span.len && strchr(BLANKS, span.at[span.len - 1]))
		span.len--;
	return span;
}

static bool span_is(struct span span, const char *word)
{
	return strlen(word) == span.len && memcmp(span.at, word, span.len) == 0;
}

/* Removes decimal digits from the front. false: no digits, or overflow. */
static bool fault_parse_take_number(struct span *span, uint64_t *number)
{
	const char *first = span->at;

	*number = 0;
	for (; span->len && *span->at >= '0' && *span->at <= '9'; span->at++, span->len--) {
		uint64_t digit = (uint64_t)(*span->at - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return span->at != first;
}

static bool fault_parse_number(struct span text, uint64_t *number)
{
	return fault_parse_take_number(&text, number) && !text.len;
}

static bool parse_positive(struct span text, uint64_t *number)
{
	return fault_parse_number(text, number) && *number;
}

/* Accepts "0.25", "1", ".5". strtod() would depend on the locale. */
static bool parse_probability(struct span text, uint32_t *probability)
{
	struct span whole = split(&text, '.');
	uint64_t units = 0, parts = 0;
	size_t decimals = text.len;

	if (whole.len && !fault_parse_number(whole, &units))
		return false;
	if (decimals > DECIMALS || (decimals && !fault_parse_number(text, &parts)) ||
	    (!whole.len && !decimals))
		return false;
	for (; decimals < DECIMALS; decimals++)
		parts *= 10;
	if (units > 1 || (units && parts))
		return false;
	*probability = units ? FAULT_CERTAIN : (uint32_t)parts;
	return true;
}

static bool parse_time(struct span text, uint64_t *ns)
{
	uint64_t unit_ns;

	if (!fault_parse_take_number(&text, ns))
		return false;
	if (span_is(text, "us"))
		unit_ns = CLOCK_NS_PER_US;
	else if (span_is(text, "ms"))
		unit_ns = CLOCK_NS_PER_MS;
	else if (span_is(text, "s"))
		unit_ns = CLOCK_NS_PER_S;
	else
		return false;
	/* A delay of more than one hour is rejected, so that a deadline cannot overflow. */
	if (*ns > 3600 * CLOCK_NS_PER_S / unit_ns)
		return false;
	*ns *= unit_ns;
	return true;
}

static bool parse_code(struct span text, enum fault_point point, int *code)
{
	const struct name *name = point == FAULT_WR_EXECUTE ? status_names : errno_names;

	for (; name->word; name++) {
		if (span_is(text, name->word)) {
			*code = name->code;
			return true;
		}
	}
	return false;
}

static bool parse_point(struct span text, enum fault_point *point)
{
	for (unsigned int i = 0; i < FAULT_POINT_COUNT; i++) {
		*point = (enum fault_point)i;
		if (span_is(text, fault_point_name(*point)))
			return true;
	}
	return false;
}

/* NULL, or an error message. */
static const char *parse_action(struct span text, struct fault_rule *rule)
{
	struct span name = split(&text, '=');
	unsigned int i = 0;

	while (i < FAULT_ACTION_COUNT && !span_is(name, fault_action_name((enum fault_action)i)))
		i++;
	if (i == FAULT_ACTION_COUNT)
		return "unknown action (drop, duplicate, corrupt, delay=TIME or fail=CODE)";
	rule->action = (enum fault_action)i;
	if (!(supported[rule->point] & 1u << i))
		return "the point does not support this action";
	if (rule->action == FAULT_DELAY)
		return parse_time(text, &rule->delay_ns) ?
			       NULL :
			       "delay needs a time of at most 3600s, such as 10ms";
	if (rule->point == FAULT_FIFO_SEND)
		rule->code = ENOBUFS;
	else if (rule->action == FAULT_FAIL)
		return parse_code(text, rule->point, &rule->code) ?
			       NULL :
			       "fail needs an errno (wr.execute: a completion status)";
	return text.len ? "this action has no value" : NULL;
}

static bool parse_program(struct span text, char program[FAULT_PROGRAM_BYTES])
{
	if (!text.len || text.len >= FAULT_PROGRAM_BYTES)
		return false;
	memcpy(program, text.at, text.len);
	program[text.len] = '\0';
	return true;
}

static const char *parse_condition(struct span text, struct fault_rule *rule)
{
	struct span name = split(&text, '=');

	if (span_is(name, "p"))
		return parse_probability(text, &rule->probability) ? NULL :
								     "p is a number from 0 to 1";
	if (span_is(name, "nth"))
		return parse_positive(text, &rule->nth) ? NULL : "nth is a number from 1";
	if (span_is(name, "every"))
		return parse_positive(text, &rule->every) ? NULL : "every is a number from 1";
	if (span_is(name, "times"))
		return parse_positive(text, &rule->times) ? NULL : "times is a number from 1";
	if (span_is(name, "prog"))
		return parse_program(text, rule->program) ?
			       NULL :
			       "prog is the name of a program, of at most 63 characters";
	return "unknown condition (p, nth, every, times or prog)";
}

static const char *parse_rule(struct span text, struct fault_rule *rule)
{
	const char *wrong;

	*rule = (struct fault_rule){.probability = FAULT_CERTAIN};
	if (!parse_point(split(&text, ':'), &rule->point))
		return "unknown fault point";
	wrong = parse_action(split(&text, ':'), rule);
	while (!wrong && text.len)
		wrong = parse_condition(split(&text, ':'), rule);
	return wrong;
}

static const char *parse_clause(struct span text, struct fault_rules *rules)
{
	struct span value = text;

	if (span_is(split(&value, '='), "seed"))
		return fault_parse_number(value, &rules->seed) ? NULL : "seed is a number";
	if (rules->count == FAULT_RULES_MAX)
		return "too many rules";
	return parse_rule(text, &rules->rules[rules->count++]);
}

int fault_parse(const char *text, struct fault_rules *rules, char *why, size_t why_bytes)
{
	struct span rest = {text, strlen(text)};

	*rules = (struct fault_rules){.seed = 1};
	while (rest.len) {
		struct span line = split(&rest, '\n');
		struct span clauses = split(&line, '#');

		while (clauses.len) {
			struct span clause = span_trim(split(&clauses, ';'));
			const char *wrong = clause.len ? parse_clause(clause, rules) : NULL;

			if (!wrong)
				continue;
			snprintf(why, why_bytes, "'%.*s': %s",
				 (int)(clause.len < QUOTED_MAX ? clause.len : QUOTED_MAX),
				 clause.at, wrong);
			return -EINVAL;
		}
	}
	return 0;
}
