/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_RULES_H
#define TESTS_SIM_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fault rules of a run (base/fault.h). */

#define RULES_BYTES 512

/* Probabilities of faults of packets, in the unit SIM_CERTAIN; 0: no rule. */
struct rules_rates {
	unsigned drop;
	unsigned delay; /* so that later packets overtake it */
	uint64_t delay_us;
	unsigned duplicate;
	unsigned corrupt;
	unsigned mark;
};

/* Returns the rules as text, in `text`; NULL: all rates are 0. */
const char *rules_of_rates(char text[RULES_BYTES], uint64_t seed, const struct rules_rates *rates);

/* Whether `rules`, which may be NULL, have a rule with this action. */
bool rules_have(const char *rules, const char *action);

#endif
