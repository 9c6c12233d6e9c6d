/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_value.h"

/* Maximum length of a clause that is quoted in a message. */
#define QUOTED_MAX 40

/* Maximum number of packets that overtake a packet. */
#define REORDER_MAX 1000u

#define ONE(action)    (1u << FAULT_##action)
#define PACKET_ACTIONS (ONE(DROP) | ONE(DUPLICATE) | ONE(CORRUPT))
#define WIRE_ACTIONS   (PACKET_ACTIONS | ONE(DELAY) | ONE(RATE) | ONE(REORDER) | ONE(MARK))

#define DEVICE_ACTIONS                                                                  \
	(ONE(DOWN) | ONE(REMOVE) | ONE(GID_CHANGE) | ONE(LID_CHANGE) | ONE(SM_CHANGE) | \
	 ONE(CLIENT_REREGISTER))
#define MAD_ACTIONS (PACKET_ACTIONS | ONE(DELAY) | ONE(REJECT))

#define PACKET_CONDITIONS (FAULT_IF_DEV | FAULT_IF_QP | FAULT_IF_TYPE | FAULT_IF_OP | FAULT_IF_PEER)
#define WIRE_CONDITIONS	  (PACKET_CONDITIONS | FAULT_IF_DIR)
#define MAD_CONDITIONS	  (FAULT_IF_DEV | FAULT_IF_OP | FAULT_IF_PEER | FAULT_IF_DIR)

#define AT(point) (UINT32_C(1) << FAULT_##point)
#define SENT	  (AT(PACKET_SEND) | AT(MAD_SEND) | AT(MESSAGE))
#define RECEIVED  (AT(PACKET_RECEIVE) | AT(MAD_RECEIVE) | AT(MESSAGE_RECEIVE))

/*
 * The actions that each point supports, as bits of enum fault_action, and the conditions on its
 * subject.
 */
static const struct {
	unsigned int actions;
	unsigned int conditions; /* enum fault_condition */
} supported[FAULT_POINT_COUNT] = {
	[FAULT_PACKET_SEND] = {WIRE_ACTIONS, WIRE_CONDITIONS},
	[FAULT_PACKET_RECEIVE] = {WIRE_ACTIONS, WIRE_CONDITIONS},
	[FAULT_MAD_SEND] = {MAD_ACTIONS, MAD_CONDITIONS},
	[FAULT_MAD_RECEIVE] = {MAD_ACTIONS, MAD_CONDITIONS},
	[FAULT_FIFO_SEND] = {ONE(FAIL), 0},
	[FAULT_FIFO_RECEIVE] = {PACKET_ACTIONS, FAULT_IF_QP},
	[FAULT_WR_POST] = {ONE(FAIL), PACKET_CONDITIONS},
	[FAULT_WR_EXECUTE] = {ONE(FAIL), PACKET_CONDITIONS},
	[FAULT_QP_MODIFY] = {ONE(FAIL), FAULT_IF_DEV | FAULT_IF_QP | FAULT_IF_TYPE},
	[FAULT_IPC_CALL] = {ONE(FAIL) | ONE(DELAY), 0},
	[FAULT_COMPLETION] = {ONE(FAIL) | ONE(DELAY) | ONE(DROP), PACKET_CONDITIONS},
	[FAULT_QP_EVENT] = {ONE(ERROR) | ONE(SRQ_LIMIT) | ONE(OVERRUN) | ONE(DISCONNECT),
			    PACKET_CONDITIONS},
	[FAULT_RECEIVE] = {ONE(EMPTY), PACKET_CONDITIONS},
	[FAULT_CALL] = {ONE(FAIL) | ONE(DELAY), FAULT_IF_NAME},
	[FAULT_DEVICE] = {DEVICE_ACTIONS, FAULT_IF_DEV},
	[FAULT_PROCESS] = {ONE(STOP) | ONE(KILL), 0},
	[FAULT_CONNECTION] = {ONE(DISCONNECT), PACKET_CONDITIONS & ~(unsigned int)FAULT_IF_OP},
	[FAULT_MESSAGE] = {PACKET_ACTIONS | ONE(DELAY) | ONE(RATE), WIRE_CONDITIONS},
	[FAULT_MESSAGE_RECEIVE] = {PACKET_ACTIONS, WIRE_CONDITIONS},
	[FAULT_ACCESS] = {ONE(DENY), PACKET_CONDITIONS},
};

/* Names of the points of both directions. */
static const struct {
	const char *name;
	uint32_t points;
} families[] = {
	{"packet", AT(PACKET_SEND) | AT(PACKET_RECEIVE)},
	{"mad", AT(MAD_SEND) | AT(MAD_RECEIVE)},
};

/* Replaces the rule's points. false: no point is left. */
static bool set_points(struct fault_rule *rule, uint32_t points)
{
	rule->points = points;
	rule->point = points ? (enum fault_point)__builtin_ctz(points) : FAULT_POINT_COUNT;
	return points;
}

static bool parse_point(struct fault_span text, struct fault_rule *rule)
{
	for (unsigned int i = 0; i < FAULT_POINT_COUNT; i++) {
		if (fault_span_is(text, fault_point_name((enum fault_point)i)))
			return set_points(rule, UINT32_C(1) << i);
	}
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (fault_span_is(text, families[i].name))
			return set_points(rule, families[i].points);
	}
	return false;
}

static const char *parse_code(struct fault_span text, struct fault_rule *rule)
{
	bool is_status = rule->point == FAULT_WR_EXECUTE || rule->point == FAULT_COMPLETION;
	struct fault_span name = rule->point == FAULT_COMPLETION ? fault_span_split(&text, '/') :
								   text;

	if (rule->point == FAULT_FIFO_SEND) {
		rule->code = ENOBUFS;
		return NULL;
	}
	if (!fault_value_word(name, is_status ? fault_status_names : fault_errno_names,
			      &rule->code))
		return "fail needs an errno (wr.execute, completion: a completion status)";
	if (rule->point != FAULT_COMPLETION || !text.len)
		return NULL;
	rule->has_vendor_err = true;
	return fault_value_number(text, &rule->vendor_err) && rule->vendor_err <= UINT32_MAX ?
		       NULL :
		       "the vendor error after '/' is a number of 32 bits";
}

/* The reason of a REJ has 16 bits (IBA 1.x §12.6.7). */
static const char *parse_reject(struct fault_span text, struct fault_rule *rule)
{
	uint64_t number = 0;

	if (!fault_value_word(text, fault_reject_names, &rule->code)) {
		if (!fault_value_positive(text, &number) || number > UINT16_MAX)
			return "reject needs a reason: 1 to 65535, or a name such as CONSUMER_DEFINED";
		rule->code = (int)number;
	}
	rule->conditions |= FAULT_IF_OP;
	rule->ops = UINT32_C(1) << FAULT_OP_CM;
	return NULL;
}

/* NULL, or an error message. */
static const char *parse_action(struct fault_span text, struct fault_rule *rule)
{
	struct fault_span name = fault_span_split(&text, '=');
	unsigned int i = 0;

	while (i < FAULT_ACTION_COUNT &&
	       !fault_span_is(name, fault_action_name((enum fault_action)i)))
		i++;
	if (i == FAULT_ACTION_COUNT)
		return "unknown action; usrdma(7) lists the actions of each point";
	rule->action = (enum fault_action)i;
	if (!(supported[rule->point].actions & 1u << i))
		return "the point does not support this action";
	switch (rule->action) {
	case FAULT_DELAY:
		return fault_value_delay(text, rule) ?
			       NULL :
			       "delay needs a time of at most 3600s, such as 10ms or 10ms~2ms,normal";
	case FAULT_RATE:
		return fault_value_rate(text, &rule->bytes_per_s) ?
			       NULL :
			       "rate needs a number of bytes per second, at most 1000G";
	case FAULT_REORDER:
		rule->count = 1;
		return !text.len || (fault_value_positive(text, &rule->count) &&
				     rule->count <= REORDER_MAX) ?
			       NULL :
			       "reorder needs no value, or a number of packets from 1 to 1000";
	case FAULT_FAIL:
		return parse_code(text, rule);
	case FAULT_REJECT:
		return parse_reject(text, rule);
	default:
		return text.len ? "this action has no value" : NULL;
	}
}

/* The conditions that every point supports. *is_known: the name is that of such a condition. */
static const char *parse_general(struct fault_span name, struct fault_span text,
				 struct fault_rule *rule, bool *is_known)
{
	*is_known = true;
	if (fault_span_is(name, "p"))
		return fault_value_probability(text, &rule->probability) ?
			       NULL :
			       "p is a number from 0 to 1";
	if (fault_span_is(name, "nth"))
		return fault_value_positive(text, &rule->nth) ? NULL : "nth is a number from 1";
	if (fault_span_is(name, "every"))
		return fault_value_positive(text, &rule->every) ? NULL : "every is a number from 1";
	if (fault_span_is(name, "times"))
		return fault_value_positive(text, &rule->times) ? NULL : "times is a number from 1";
	if (fault_span_is(name, "from"))
		return fault_value_time(text, &rule->from_ns) ? NULL :
								"from is a time of at most 3600s";
	if (fault_span_is(name, "until"))
		return fault_value_time(text, &rule->until_ns) && rule->until_ns ?
			       NULL :
			       "until is a time above 0 and of at most 3600s";
	/* Programs of one user share a device. */
	if (rule->point == FAULT_DEVICE &&
	    (fault_span_is(name, "pid") || fault_span_is(name, "prog")))
		return "a device rule applies to all programs of the user, not to pid or prog";
	if (fault_span_is(name, "pid"))
		return fault_value_positive(text, &rule->pid) ? NULL : "pid is a number from 1";
	if (fault_span_is(name, "prog"))
		return fault_value_name(text, rule->program) ?
			       NULL :
			       "prog is the name of a program, of at most 63 characters";
	*is_known = false;
	return NULL;
}

static const char *parse_dev(struct fault_span text, struct fault_rule *rule)
{
	return fault_value_name(text, rule->device) ?
		       NULL :
		       "dev is the name of a device or interface, of at most 63 characters";
}

static const char *parse_qp(struct fault_span text, struct fault_rule *rule)
{
	return fault_value_qpn(text, &rule->qpn) ? NULL : "qp is a QPN, 1 to 0xffffff";
}

static const char *parse_type(struct fault_span text, struct fault_rule *rule)
{
	return fault_value_words(text, fault_qp_type_names, &rule->qp_types) ?
		       NULL :
		       "type is RC, UC, UD, XRC_SEND or XRC_RECV";
}

static const char *parse_op(struct fault_span text, struct fault_rule *rule)
{
	if (!fault_value_words(text, fault_op_names, &rule->ops))
		return "op is an operation such as SEND, WRITE, READ, ATOMIC, ACK, or a MAD such as REP";
	return rule->action == FAULT_REJECT && rule->ops != UINT32_C(1) << FAULT_OP_CM ?
		       "reject applies to op=REQ only" :
		       NULL;
}

static const char *parse_peer(struct fault_span text, struct fault_rule *rule)
{
	return fault_value_gid(text, rule->peer) ?
		       NULL :
		       "peer is an IPv4 address, or an IPv6 address in brackets";
}

static const char *parse_call(struct fault_span text, struct fault_rule *rule)
{
	return fault_value_name(text, rule->call) && fault_call_is_known(rule->call) ?
		       NULL :
		       "name is that of a call, such as ibv_reg_mr; usrdma(7) describes which";
}

/*
 * Without this condition, a rule for messages applies to sent messages only, so that each message
 * passes it once.
 */
static const char *parse_dir(struct fault_span text, struct fault_rule *rule)
{
	uint32_t points = rule->points;
	bool is_received = fault_span_is(text, "received");

	if (!is_received && !fault_span_is(text, "sent"))
		return "dir is sent or received";
	if (points == AT(MESSAGE))
		points |= AT(MESSAGE_RECEIVE);
	return set_points(rule, points & (is_received ? RECEIVED : SENT)) ?
		       NULL :
		       "the point is that of the other direction";
}

static const char *parse_condition(struct fault_span text, struct fault_rule *rule)
{
	static const struct {
		const char *name;
		enum fault_condition bit;
		const char *(*parse)(struct fault_span text, struct fault_rule *rule);
	} conditions[] = {
		{"dev", FAULT_IF_DEV, parse_dev},    {"qp", FAULT_IF_QP, parse_qp},
		{"type", FAULT_IF_TYPE, parse_type}, {"op", FAULT_IF_OP, parse_op},
		{"peer", FAULT_IF_PEER, parse_peer}, {"name", FAULT_IF_NAME, parse_call},
		{"dir", FAULT_IF_DIR, parse_dir},
	};
	struct fault_span name = fault_span_split(&text, '=');
	bool is_known;
	const char *wrong = parse_general(name, text, rule, &is_known);

	if (is_known)
		return wrong;
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (!fault_span_is(name, conditions[i].name))
			continue;
		if (!(supported[rule->point].conditions & conditions[i].bit))
			return "the point does not support this condition";
		rule->conditions |= conditions[i].bit;
		return conditions[i].parse(text, rule);
	}
	return "unknown condition (p, nth, every, times, from, until, pid, prog, dev, qp, type, op, peer, name or dir)";
}

static const char *parse_rule(struct fault_span text, struct fault_rule *rule)
{
	const char *wrong;

	*rule = (struct fault_rule){.probability = FAULT_CERTAIN};
	if (!parse_point(fault_span_split(&text, ':'), rule))
		return "unknown fault point";
	wrong = parse_action(fault_span_split(&text, ':'), rule);
	while (!wrong && text.len)
		wrong = parse_condition(fault_span_field(&text, ':'), rule);
	/* dir may have replaced the point. */
	if (!wrong && !(supported[rule->point].actions & 1u << rule->action))
		wrong = "the point does not support this action in this direction";
	return wrong;
}

static const char *parse_clause(struct fault_span text, struct fault_rules *rules)
{
	struct fault_span value = text;
	struct fault_span name = fault_span_split(&value, '=');

	if (fault_span_is(name, "seed"))
		return fault_value_number(value, &rules->seed) ? NULL : "seed is a number";
	if (fault_span_is(name, "start"))
		return fault_value_number(value, &rules->start_ns) ? NULL : "start is a number";
	if (rules->count == FAULT_RULES_MAX)
		return "too many rules";
	return parse_rule(text, &rules->rules[rules->count++]);
}

int fault_parse(const char *text, struct fault_rules *rules, char *why, size_t why_bytes)
{
	struct fault_span rest = {text, strlen(text)};

	*rules = (struct fault_rules){.seed = 1};
	while (rest.len) {
		struct fault_span line = fault_span_split(&rest, '\n');
		struct fault_span clauses = fault_span_split(&line, '#');

		while (clauses.len) {
			struct fault_span clause = fault_span_trim(fault_span_split(&clauses, ';'));
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
