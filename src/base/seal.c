/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/seal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/syscalls.h"

#define PATH_BYTES sizeof("/proc/self/fd/-2147483648")

/* Replaces the descriptor by one that is open for reading only. */
static int seal_reopen(int *fd)
{
	char path[PATH_BYTES];
	int read_only;

	if (fchmod(*fd, S_IRUSR))
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	read_only = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (read_only < 0)
		return -errno;
	sys_close(*fd);
	*fd = read_only;
	return 0;
}

int seal_future_writes(int *fd, int seals)
{
	int writable = *fd;

	if (!fcntl(writable, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE))
		return 0;
	if (errno != EINVAL || fcntl(writable, F_ADD_SEALS, seals))
		return -errno;
	return seal_reopen(fd);
}

bool seal_has_future_writes(int fd, int seals)
{
	int present = fcntl(fd, F_GET_SEALS);
	int flags = fcntl(fd, F_GETFL);

	if (present < 0 || flags < 0 || (present & seals) != seals)
		return false;
	return present & F_SEAL_FUTURE_WRITE || (flags & O_ACCMODE) == O_RDONLY;
}
