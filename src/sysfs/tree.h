/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_TREE_H
#define USRDMA_SYSFS_TREE_H

#include <stdint.h>

#include "ipc/msg.h"
#include "profile/view.h"

/*
 * Creates files with the content that Linux has for an RDMA device in /sys and /dev. They have the
 * same paths below a directory of the caller, the root of the tree: sys/class/infiniband is that of
 * the devices. Programs read them to determine the interface of a device, its place in the machine,
 * its GIDs and the types of the GIDs.
 */

/*
 * Directories of the kernel whose files are those of the tree, where they have the same paths; the
 * last element is NULL. The directories of PCI functions and of devices that belong to one are
 * others (parent_pci_length()).
 */
extern const char *const tree_places[];

/* Creates the directories and the files that do not belong to one device. 0 or -errno. */
int tree_begin(int root_fd) __attribute__((warn_unused_result));

/*
 * Adds the files of one device: its interface, and its name and profile in this process. 0 or
 * -errno; -EINVAL if a name is not a valid file name.
 */
int tree_add_device(int root_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen) __attribute__((warn_unused_result));

/* Removes the directory `name` of parent_fd and its content; does not follow symbolic links. */
void tree_remove(int parent_fd, const char *name);

#endif
