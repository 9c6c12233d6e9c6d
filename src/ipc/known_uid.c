/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/known_uid.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/syscalls.h"

#define OVERFLOW_UID_DEFAULT 65534
/* All uids except (uid_t)-1, which is invalid. */
#define ALL_UIDS UINT32_MAX
/* A uid_map has at most 340 lines of three numbers. */
#define MAP_BYTES 16384
#define UID_BYTES 32

/* Reads at most room - 1 bytes of a file of /proc. false: the file is empty or cannot be read. */
static bool read_text(const char *path, char *text, size_t room)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t len = 0;

	if (fd < 0)
		return false;
	while (used < room - 1 && (len = sys_read(fd, text + used, room - 1 - used)) > 0)
		used += (size_t)len;
	sys_close(fd);
	text[used] = '\0';
	return len >= 0 && used > 0;
}

uid_t known_uid_overflow(void)
{
	char text[UID_BYTES];

	if (!read_text("/proc/sys/kernel/overflowuid", text, sizeof(text)))
		return OVERFLOW_UID_DEFAULT;
	return (uid_t)strtoul(text, NULL, 10);
}

bool known_uid_map_is_full(const char *map)
{
	uint32_t inside, outside, count;
	uint64_t mapped = 0;
	int used;

	/* The ranges of a uid_map do not overlap. */
	while (sscanf(map, "%" SCNu32 " %" SCNu32 " %" SCNu32 "%n", &inside, &outside, &count,
		      &used) == 3) {
		mapped += count;
		map += used;
	}
	return mapped >= ALL_UIDS;
}

bool known_uid(uid_t uid)
{
	char map[MAP_BYTES];

	if (uid != known_uid_overflow())
		return true;
	return read_text("/proc/self/uid_map", map, sizeof(map)) && known_uid_map_is_full(map);
}
