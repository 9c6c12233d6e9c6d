/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_SNAPSHOT_H
#define USRDMA_SYSFS_SNAPSHOT_H

#include <stdbool.h>

#include "sysfs/devices.h"

/*
 * Writes the tree (sysfs/tree.h) below the directory `root`, with the files that the preloaded
 * library adds only when a program reads them: all entries of the GID tables, and with has_counters
 * the counters with their values of this moment, which are 0 otherwise. Nothing updates the files.
 * 0 or -errno.
 */
int snapshot_write(const char *root, const struct device_list *list, bool has_counters)
	__attribute__((warn_unused_result));

#endif
