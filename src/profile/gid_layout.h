/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_PROFILE_GID_LAYOUT_H
#define USRDMA_PROFILE_GID_LAYOUT_H

#include "ipc/msg.h"
#include "profile/profile.h"

/*
 * Maps the indices of a process's GID table to those of the daemon's table. The daemon keeps the
 * index of a GID while the address exists, so the mapped index is constant also. An entry of type
 * RoCE v1 has the GID of the RoCE v2 entry that follows it; packets from either entry are RoCE v2
 * packets (ADR 0038).
 */

/* The index in info->gids of the entry at `index`, or -1: the entry is empty. */
int gid_layout_source(enum gid_layout layout, const struct ipc_device_reply *info, uint32_t index);

/* The index of the RoCE v2 entry for the daemon's entry `source`. */
uint32_t gid_layout_index(enum gid_layout layout, uint32_t source);

/*
 * The type of the entry at `index` (enum ibv_gid_type). `own` is the type that the daemon reports.
 */
uint8_t gid_layout_type(enum gid_layout layout, uint32_t index, uint8_t own);

/* The number of entries: all entries from this index on are empty. At most IPC_GIDS_MAX. */
uint32_t gid_layout_count(enum gid_layout layout, const struct ipc_device_reply *info);

#endif
