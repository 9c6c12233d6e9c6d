/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_COUNTERS_H
#define USRDMA_SYSFS_COUNTERS_H

#include <limits.h>
#include <stdint.h>

#include "profile/profile.h"

/*
 * The files of counters/ and hw_counters/ of a port. Those that usrdma counts for each device get
 * their values when a program opens them; the others are 0.
 */

/* A device, and the name under which the process sees it. */
struct counters_device {
	const char *name;
	uint32_t dev_id;
	const struct profile *profile;
};

/*
 * Adds the files to the directory of a port, with the names that the driver of the profile has.
 * root_fd: the tree. 0 or -errno.
 */
int counters_add(int root_fd, int port_fd, const struct counters_device *device)
	__attribute__((warn_unused_result));

/*
 * If `path` names such a file in a tree, or its directory, writes the values that the daemon knows
 * now. If the daemon does not answer, the files keep their values. The first root_bytes of the path
 * are the root of the tree.
 */
void counters_refresh(const char path[PATH_MAX], size_t root_bytes);

#endif
