/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_TREE_H
#define USRDMA_SYSFS_TREE_H

#include <stdint.h>

#include "ipc/msg.h"

/*
 * What Linux shows of an RDMA device in /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband, as ordinary
 * files below a directory of the caller's: infiniband/, infiniband_verbs/ and dev/. Programs look there for the interface
 * of a device, its GIDs and their types.
 */

/* The directories, and what is not about one device. 0 or -errno. */
int tree_begin(int root_fd) __attribute__((warn_unused_result));

/* Everything about one device. 0 or -errno; -EINVAL for a name that is no file name. */
int tree_add_device(int root_fd, const struct ipc_device_reply *info)
	__attribute__((warn_unused_result));

/* Removes what is below the directory `name` of parent_fd, and itself; symbolic links are not followed. */
void tree_remove(int parent_fd, const char *name);

#endif
