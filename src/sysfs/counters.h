/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_COUNTERS_H
#define USRDMA_SYSFS_COUNTERS_H

#include "profile/profile.h"

/*
 * Adds counters/ and hw_counters/ to the directory of a port, with the names that the driver of the profile has. root_fd: the tree.
 * 0 or -errno.
 */
int counters_add(int root_fd, int port_fd, const struct profile *profile)
	__attribute__((warn_unused_result));

#endif
