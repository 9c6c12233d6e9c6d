/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_REDIRECT_H
#define USRDMA_SYSFS_REDIRECT_H

#include <limits.h>

/*
 * Where a path of the kernel's RDMA devices is to be found instead: below this process's own tree (sysfs/tree.h), which is
 * made when the first such path comes, kept as the daemon knows the devices, and removed when the process ends. Any other
 * path, and any path while there is no daemon to ask, is answered as it came. Keeps errno. May be called by any thread,
 * not by a signal handler. Writes to `where` what it answers, if that is not `path`; path may be NULL.
 */
const char *redirect_path(const char *path, char where[PATH_MAX]);

#endif
