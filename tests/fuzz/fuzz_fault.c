/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of USRDMA_FAULT and of the file that USRDMA_FAULTS names. Accepted rules are within their limits; a refusal has
 * a reason. Target: fault_parse.c.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_rule.h"

#define TEXT_BYTES 2048
#define WHY_BYTES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_true)
{
	if (!is_true)
		abort();
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
	}
	return 0;
}
