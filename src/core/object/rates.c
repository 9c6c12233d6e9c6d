/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Converts static rates (IBA 1.x §9.11) between enum ibv_rate, multiples of 2.5 Gbit/s and Mbit/s.
 */

#include <infiniband/verbs.h>
#include <stddef.h>

#include "base/util.h"

#define NOT_A_RATE (-1)

/*
 * One rate. *mult* is NOT_A_RATE if the API defines no integral multiple of 2.5 Gbit/s. For 28 and
 * 50 Gbit/s the API defines a rounded multiple.
 */
struct rate {
	int mult;
	int mbps;
};

static const struct rate rates[] = {
	[IBV_RATE_MAX] = {NOT_A_RATE, NOT_A_RATE},
	[1] = {NOT_A_RATE, NOT_A_RATE},
	[IBV_RATE_2_5_GBPS] = {1, 2500},
	[IBV_RATE_5_GBPS] = {2, 5000},
	[IBV_RATE_10_GBPS] = {4, 10000},
	[IBV_RATE_20_GBPS] = {8, 20000},
	[IBV_RATE_30_GBPS] = {12, 30000},
	[IBV_RATE_40_GBPS] = {16, 40000},
	[IBV_RATE_60_GBPS] = {24, 60000},
	[IBV_RATE_80_GBPS] = {32, 80000},
	[IBV_RATE_120_GBPS] = {48, 120000},
	[IBV_RATE_14_GBPS] = {NOT_A_RATE, 14062},
	[IBV_RATE_56_GBPS] = {NOT_A_RATE, 56250},
	[IBV_RATE_112_GBPS] = {NOT_A_RATE, 112500},
	[IBV_RATE_168_GBPS] = {NOT_A_RATE, 168750},
	[IBV_RATE_25_GBPS] = {NOT_A_RATE, 25781},
	[IBV_RATE_100_GBPS] = {NOT_A_RATE, 103125},
	[IBV_RATE_200_GBPS] = {NOT_A_RATE, 206250},
	[IBV_RATE_300_GBPS] = {NOT_A_RATE, 309375},
	[IBV_RATE_28_GBPS] = {11, 28125},
	[IBV_RATE_50_GBPS] = {20, 53125},
	[IBV_RATE_400_GBPS] = {160, 425000},
	[IBV_RATE_600_GBPS] = {240, 637500},
	[IBV_RATE_800_GBPS] = {320, 850000},
	[IBV_RATE_1200_GBPS] = {480, 1275000},
};

#define RATE_COUNT COUNT(rates)

_Static_assert(RATE_COUNT == IBV_RATE_1200_GBPS + 1, "a rate lacks its row");

int ibv_rate_to_mult(enum ibv_rate rate)
{
	return (size_t)rate < RATE_COUNT ? rates[rate].mult : NOT_A_RATE;
}

int ibv_rate_to_mbps(enum ibv_rate rate)
{
	return (size_t)rate < RATE_COUNT ? rates[rate].mbps : NOT_A_RATE;
}

enum ibv_rate mult_to_ibv_rate(int mult)
{
	size_t rate;

	for (rate = IBV_RATE_2_5_GBPS; rate < RATE_COUNT; rate++) {
		if (mult > 0 && rates[rate].mult == mult)
			return (enum ibv_rate)rate;
	}
	return IBV_RATE_MAX;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	size_t rate;

	for (rate = IBV_RATE_2_5_GBPS; rate < RATE_COUNT; rate++) {
		if (rates[rate].mbps == mbps)
			return (enum ibv_rate)rate;
	}
	return IBV_RATE_MAX;
}
