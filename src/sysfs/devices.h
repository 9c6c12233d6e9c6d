/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_DEVICES_H
#define USRDMA_SYSFS_DEVICES_H

#include <stdint.h>

#include "ipc/msg.h"

/* The daemon's list of devices. The caller frees items. */
struct device_list {
	struct ipc_device_reply *items;
	uint32_t count;
	uint64_t fingerprint; /* of the content, to detect changes */
};

/* Requests the list of the daemon, which is started if necessary. 0 or -errno. */
int devices_get(struct device_list *list) __attribute__((warn_unused_result));

/*
 * Writes the tree (sysfs/tree.h) of the devices that this process has on these interfaces. 0 or
 * -errno.
 */
int devices_build(int root_fd, const struct device_list *list) __attribute__((warn_unused_result));

#endif
