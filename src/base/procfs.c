/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/procfs.h"

#include <stdlib.h>
#include <unistd.h>

bool procfs_is_ours(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 &&
	       strtol(self, NULL, 10) == getpid();
}
