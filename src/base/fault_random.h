/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_RANDOM_H
#define USRDMA_BASE_FAULT_RANDOM_H

#include "base/fault_rule.h"

/* The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
uint64_t fault_random_mix(uint64_t z);

/*
 * The random number for pass n of the rule at position i: element n of the rule's own SplitMix64
 * sequence, which depends on the seed only.
 */
uint64_t fault_random_of_pass(uint64_t seed, int i, uint64_t pass);

/* The delay of a rule for this random number. */
uint64_t fault_random_delay(const struct fault_rule *rule, uint64_t random);

#endif
