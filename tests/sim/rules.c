/* SPDX-License-Identifier: BSD-2-Clause */
#include "rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rules_add(char text[RULES_BYTES], const char *action, unsigned rate)
{
	size_t len = strlen(text);

	if (rate && snprintf(text + len, RULES_BYTES - len, ";packet.send:%s:p=%u.%04u", action,
			     rate / 10000, rate % 10000) >= (int)(RULES_BYTES - len))
		abort();
}

/* Half of the delayed packets are delayed for a time, the others until a later packet follows. */
const char *rules_of_rates(char text[RULES_BYTES], uint64_t seed, const struct rules_rates *rates)
{
	char delay[64];
	size_t len;

	snprintf(text, RULES_BYTES, "seed=%" PRIu64, seed);
	len = strlen(text);
	snprintf(delay, sizeof(delay), "delay=%" PRIu64 "us~%" PRIu64 "us", rates->delay_us,
		 rates->delay_us);
	rules_add(text, "drop", rates->drop);
	rules_add(text, delay, rates->delay / 2);
	rules_add(text, "reorder", rates->delay / 4);
	rules_add(text, "reorder=3", rates->delay / 4);
	rules_add(text, "duplicate", rates->duplicate);
	rules_add(text, "corrupt", rates->corrupt);
	rules_add(text, "mark", rates->mark);
	return text[len] ? text : NULL;
}

bool rules_have(const char *rules, const char *action)
{
	return rules && strstr(rules, action);
}
