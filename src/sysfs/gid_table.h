/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_GID_TABLE_H
#define USRDMA_SYSFS_GID_TABLE_H

#include <limits.h>

#include "ipc/msg.h"
#include "profile/view.h"

/*
 * The files of a GID table: gids/, gid_attrs/types/ and gid_attrs/ndevs/ of a port. The tree has
 * those of the entries with a GID. The others are added to a directory when a program reads the
 * directory, because there are hundreds: a device has three for each index.
 */

/*
 * Adds the entries with a GID, and gid_tables/<device>, which contains the length of the table. 0
 * or -errno.
 */
int gid_table_add(int root_fd, int port_fd, const struct ipc_device_reply *info,
		  const struct view_device *seen) __attribute__((warn_unused_result));

/*
 * If `path` names one of these directories in a tree, adds the files of empty entries. If it names
 * such a file, replaces `path` by that of a file with the same content: a zero GID, or nothing that
 * can be read (EINVAL), as on Linux. The first root_bytes of the path are the root of the tree.
 */
void gid_table_redirect(char path[PATH_MAX], size_t root_bytes);

#endif
