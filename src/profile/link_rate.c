/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/link_rate.h"

#include <stddef.h>

#include "profile/profile.h"

#define SPEED_UNKNOWN_MBPS 10000 /* used if the interface reports no speed */
#define MBPS_A_GBPS	   1000

/*
 * The highest link speed whose rate on this number of lanes does not exceed the rate of the port.
 */
static uint8_t lane_speed(uint32_t mbps, uint32_t lanes)
{
	/* IBA 1.x §14.2.5.6: LinkSpeedActive. */
	static const struct {
		uint32_t mbps;
		uint8_t speed;
	} speeds[] = {{100000, 128}, {50000, 64}, {25000, 32}, {14000, 16},
		      {10000, 4},    {5000, 2},	  {0, 1}};
	size_t i = 0;

	while (mbps / lanes < speeds[i].mbps)
		i++;
	return speeds[i].speed;
}

/* IBA 1.x §14.2.5.6: LinkWidthActive, bits for 1x, 4x, 8x, 12x and 2x. */
static uint8_t lane_width(uint32_t lanes)
{
	return lanes == 1 ? 1 : lanes == 4 ? 2 : lanes == 8 ? 4 : lanes == 12 ? 8 : 16;
}

/*
 * Selects the highest number of lanes and speed whose rate does not exceed the rate of the
 * interface.
 */
static void fill_lanes_and_speed(struct link_rate *rate)
{
	static const struct {
		uint32_t mbps;
		uint32_t lanes;
		uint8_t speed;
	} rates[] = {
		{400000, 4, 128}, {200000, 4, 64}, {100000, 4, 32}, {50000, 1, 64},
		{40000, 4, 4},	  {25000, 1, 32},  {10000, 1, 4},   {0, 1, 1},
	};
	size_t i = 0;

	while (rate->mbps < rates[i].mbps)
		i++;
	rate->lanes = rates[i].lanes;
	rate->speed = rates[i].speed;
}

struct link_rate link_rate_of(const struct profile *profile, uint32_t interface_mbps)
{
	uint64_t gbps = profile_value(profile, PROFILE_RATE, 0);
	struct link_rate rate = {
		.mbps = interface_mbps ? interface_mbps : SPEED_UNKNOWN_MBPS,
		.lanes = (uint32_t)profile_value(profile, PROFILE_LANES, 0),
	};

	if (gbps)
		rate.mbps = (uint32_t)(gbps * MBPS_A_GBPS);
	if (rate.lanes)
		rate.speed = lane_speed(rate.mbps, rate.lanes);
	else
		fill_lanes_and_speed(&rate);
	rate.width = lane_width(rate.lanes);
	return rate;
}
