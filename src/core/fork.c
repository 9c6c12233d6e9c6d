/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/compat.h"

/*
 * Registered memory is not pinned, and no device writes to its pages by DMA. Copy-on-write after
 * fork() therefore does no harm, and no preparation is necessary.
 */

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
