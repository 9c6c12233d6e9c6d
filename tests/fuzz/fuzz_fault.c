/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of USRDMA_FAULT and of the file that USRDMA_FAULTS names. Accepted rules are within
 * their limits; a refusal has a reason. Targets: fault_parse.c, fault_value.c, fault_set.c.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_random.h"
#include "base/fault_set.h"
#include "base/util.h"

#define TEXT_BYTES 2048
#define WHY_BYTES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void check_rule_of_subject(const struct fault_rule *rule)
{
	must(!(rule->conditions & FAULT_IF_DEV) || rule->device[0]);
	must(!(rule->conditions & FAULT_IF_QP) || (rule->qpn && rule->qpn <= MASK_24));
	must(!(rule->conditions & FAULT_IF_TYPE) || rule->qp_types);
	must(!(rule->conditions & FAULT_IF_OP) || rule->ops);
	must(fault_random_delay(rule, rule->nth) < 400000 * CLOCK_NS_PER_S);
}

/* Passes each point with an unknown and with a known subject. */
static void pass_all_points(const char *text)
{
	static const uint8_t peer[FAULT_GID_BYTES];
	const struct fault_subject subject = {
		.device = "usrdma0",
		.peer = peer,
		.qpn = 0x11,
		.qp_type = 2,
		.op = FAULT_OP_SEND,
		.bytes = 4096,
		.now_ns = 1,
	};
	struct fault_firing firing;
	struct fault fault;
	char why[WHY_BYTES];
	int error;
	struct fault_set *set = fault_set_new(text, 1, why, sizeof(why), &error);

	must(set != NULL);
	for (int i = 0; i < FAULT_POINT_COUNT; i++) {
		for (int pass = 0; pass < 3; pass++) {
			bool is_due = fault_set_decide(set, (enum fault_point)i, &subject, false,
						       NULL, &fault, &firing);

			must(!is_due || (fault.action != FAULT_RATE && firing.pass));
		}
	}
	fault_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_BYTES], why[WHY_BYTES] = "";
	static struct fault_rules rules;
	int ret;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	ret = fault_parse(text, &rules, why, sizeof(why));
	must(ret == 0 || (ret == -EINVAL && why[0] && memchr(why, '\0', sizeof(why))));
	must(rules.count >= 0 && rules.count <= FAULT_RULES_MAX);
	for (int i = 0; ret == 0 && i < rules.count; i++) {
		const struct fault_rule *rule = &rules.rules[i];

		must((unsigned int)rule->point < FAULT_POINT_COUNT &&
		     (unsigned int)rule->action < FAULT_ACTION_COUNT);
		must(rule->probability <= FAULT_CERTAIN && rule->code >= 0);
		must(memchr(rule->program, '\0', sizeof(rule->program)) != NULL);
		must(memchr(rule->device, '\0', sizeof(rule->device)) != NULL);
		must(rule->action != FAULT_RATE || rule->bytes_per_s);
		check_rule_of_subject(rule);
	}
	if (ret == 0)
		pass_all_points(text);
	return 0;
}
