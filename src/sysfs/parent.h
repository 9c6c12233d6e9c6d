/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_PARENT_H
#define USRDMA_SYSFS_PARENT_H

#include <limits.h>
#include <stdbool.h>

#include "ipc/msg.h"
#include "profile/view.h"

/*
 * The device that an RDMA device belongs to. A profile with PCI ids is an adapter: its device is a
 * PCI function that exists in the tree only, alone on its bus. Other devices are virtual, as those
 * of rxe; their link `device` is the one of the network interface, or a directory of the tree if
 * the interface has none (ADR 0073).
 */
struct parent {
	/* in which infiniband/ and infiniband_verbs/ are, from the root of the tree */
	char directory[NAME_MAX];
	char device[PATH_MAX]; /* target of the link `device` of the RDMA device */
	const char *up;	       /* from the RDMA device's directory to sys/ */
};

/* Creates the files of the parent of a device. 0 or -errno. */
int parent_add(int root_fd, const struct ipc_device_reply *info, const struct view_device *seen,
	       struct parent *parent) __attribute__((warn_unused_result));

/*
 * Adds the link net/<interface>, from which programs determine the interface of a device. 0 or
 * -errno.
 */
int parent_add_net(int at, const char *interface) __attribute__((warn_unused_result));

/*
 * The length of the part of an absolute path that names a PCI function of a tree or its bus; 0: it
 * names none. The kernel may have a function of the same name.
 */
size_t parent_pci_length(const char *path);

#endif
