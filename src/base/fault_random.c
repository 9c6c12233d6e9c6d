/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_random.h"

/* Limit of a Pareto value in units of its mean. */
#define PARETO_MAX 100.0

uint64_t fault_random_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t fault_random_of_pass(uint64_t seed, int i, uint64_t pass)
{
	const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15);

	return fault_random_mix(fault_random_mix(seed + gamma * (uint64_t)(i + 1)) + gamma * pass);
}

/* A number in [0, 1). */
static double fraction_of(uint64_t random)
{
	return (double)(random >> 11) / (double)(UINT64_C(1) << 53);
}

/*
 * Approximates a standard normal value by the sum of 12 uniform ones, the Irwin-Hall distribution.
 */
static double normal_of(uint64_t random)
{
	double sum = -6.0;

	for (int i = 0; i < 12; i++) {
		random = fault_random_mix(random + 1);
		sum += fraction_of(random);
	}
	return sum;
}

/* The square root by Newton's method. `x` is in (0, 1]. */
static double root_of(double x)
{
	double root = 1.0;

	for (int i = 0; i < 64; i++)
		root = (root + x / root) / 2.0;
	return root;
}

/*
 * Inverse transform sampling of a Pareto distribution with shape 2 and scale 1, minus 1: its mean
 * is 1.
 */
static double pareto_of(uint64_t random)
{
	double value = 1.0 / root_of(1.0 - fraction_of(random)) - 1.0;

	return value < PARETO_MAX ? value : PARETO_MAX;
}

uint64_t fault_random_delay(const struct fault_rule *rule, uint64_t random)
{
	double value, ns;

	if (!rule->jitter_ns)
		return rule->delay_ns;
	switch (rule->distribution) {
	case FAULT_NORMAL:
		value = normal_of(random);
		break;
	case FAULT_PARETO:
		value = pareto_of(random);
		break;
	default:
		value = 2.0 * fraction_of(random) - 1.0;
		break;
	}
	ns = (double)rule->delay_ns + value * (double)rule->jitter_ns;
	return ns > 0.0 ? (uint64_t)ns : 0;
}
