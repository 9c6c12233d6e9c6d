/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/gid_layout.h"

#include <infiniband/verbs.h>
#include <string.h>

#define PAIR 2u

static uint32_t entries_per_gid(enum gid_layout layout)
{
	return layout == GID_LAYOUT_PAIRS ? PAIR : 1;
}

/*
 * Whether an entry with a smaller index has the same GID: the daemon's table has the first IPv4
 * address twice.
 */
static bool is_repeated(const struct ipc_device_reply *info, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (info->gids[i].is_valid &&
		    !memcmp(info->gids[i].raw, info->gids[index].raw, sizeof(info->gids[i].raw)))
			return true;
	}
	return false;
}

int gid_layout_source(enum gid_layout layout, const struct ipc_device_reply *info, uint32_t index)
{
	uint32_t source = index / entries_per_gid(layout);

	if (index >= IPC_GIDS_MAX || source >= info->gid_count || source >= IPC_GIDS_MAX ||
	    !info->gids[source].is_valid)
		return -1;
	if (layout != GID_LAYOUT_USRDMA && is_repeated(info, source))
		return -1;
	return (int)source;
}

uint32_t gid_layout_index(enum gid_layout layout, uint32_t source)
{
	return layout == GID_LAYOUT_PAIRS ? PAIR * source + 1 : source;
}

uint8_t gid_layout_type(enum gid_layout layout, uint32_t index, uint8_t own)
{
	return layout == GID_LAYOUT_PAIRS && index % PAIR == 0 ? IBV_GID_TYPE_ROCE_V1 : own;
}

uint32_t gid_layout_count(enum gid_layout layout, const struct ipc_device_reply *info)
{
	uint32_t count = info->gid_count < IPC_GIDS_MAX ? info->gid_count : IPC_GIDS_MAX;

	count *= entries_per_gid(layout);
	return count < IPC_GIDS_MAX ? count : IPC_GIDS_MAX;
}
