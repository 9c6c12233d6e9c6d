/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_VIEW_MOUNT_H
#define TOOLS_USRDMA_VIEW_MOUNT_H

/*
 * Mounts the directory `name` ("sys" or "dev") of a tree (sysfs/tree.h) over the directory of the
 * kernel with this name: each directory of the tree that the kernel does not have, and each of
 * tree_places. All other files remain those of the kernel. The process needs a mount namespace of
 * its own. Changes the current directory. 0 or -errno; `what` has the path of the mount that failed
 * and PATH_MAX bytes.
 */
int view_mount(const char *view, const char *name, char *what) __attribute__((warn_unused_result));

/* Mounts an empty file system on a directory. 0 or -errno. */
int view_mount_empty(const char *path) __attribute__((warn_unused_result));

#endif
