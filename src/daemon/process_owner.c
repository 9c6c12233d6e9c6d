/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/process_owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/procfs.h"

#define ID_COUNT 4

/* The beginning of the file; the line "Uid:" is among the first ten. 0: it cannot be read. */
static ssize_t status_read(pid_t pid, char *text, size_t bytes)
{
	char path[64];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	len = read(fd, text, bytes - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len;
}

bool process_owner_is(pid_t pid, uid_t uid)
{
	char text[1024], *at;

	if (!procfs_is_ours() || status_read(pid, text, sizeof(text)) <= 0)
		return false;
	at = strstr(text, "\nUid:");
	if (!at)
		return false;
	at += strlen("\nUid:");
	for (int i = 0; i < ID_COUNT; i++) {
		char *end;

		if (strtoul(at, &end, 10) != uid || end == at)
			return false;
		at = end;
	}
	return true;
}
