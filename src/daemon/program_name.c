/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/program_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/procfs.h"

void program_name_read(pid_t pid, char name[PROGRAM_NAME_BYTES])
{
	char path[32];
	ssize_t bytes = 0;
	int fd;

	if (!procfs_is_ours()) {
		snprintf(name, PROGRAM_NAME_BYTES, "process");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		bytes = read(fd, name, PROGRAM_NAME_BYTES - 1);
		close(fd);
	}
	name[bytes > 0 ? bytes : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}
