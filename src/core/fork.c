/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/compat.h"

/*
 * Registered memory is not pinned and no device writes to its pages behind the process's back, so that copy-on-write
 * after fork() harms nobody: there is nothing to prepare for.
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
