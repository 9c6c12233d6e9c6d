/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_REDIRECT_H
#define USRDMA_SYSFS_REDIRECT_H

#include <limits.h>

/*
 * Maps a path of the kernel's RDMA devices to the tree of this process (sysfs/tree.h). The tree is
 * created at the first such path, updated from the daemon's device list, and removed when the
 * process exits. Other paths are returned unchanged, and all paths if the daemon cannot be reached
 * or the process has more privileges than its user (AT_SECURE in getauxval(3)). path may be NULL. A
 * changed path is written to `where`. Preserves errno. May be called by any thread, not by a signal
 * handler.
 */
const char *redirect_path(const char *path, char where[PATH_MAX]);

/*
 * Changes a path that a call returned: one in a tree, also in that of the parent process, becomes
 * that of the kernel's file. Other paths are not changed. Returns path, which may be NULL.
 */
char *redirect_result(char *path);

#endif
