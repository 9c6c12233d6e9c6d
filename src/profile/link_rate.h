/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_PROFILE_LINK_RATE_H
#define USRDMA_PROFILE_LINK_RATE_H

#include <stdint.h>

struct profile;

/*
 * Rate, width and speed of a port. ibv_query_port() and the file `rate` in sysfs report the same
 * ones.
 */
struct link_rate {
	uint32_t mbps;	/* of the profile or of the interface */
	uint32_t lanes; /* 1, 2, 4, 8 or 12 */
	uint8_t width;	/* LinkWidthActive */
	uint8_t speed;	/* LinkSpeedActive */
};

/*
 * interface_mbps: the speed of the interface; 0: the interface reports none. profile may be NULL.
 */
struct link_rate link_rate_of(const struct profile *profile, uint32_t interface_mbps);

#endif
