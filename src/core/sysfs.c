/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The two sysfs helpers of the ABI, for applications that read sysfs themselves. This
 * implementation has no files in sysfs and does not use these functions.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "core/compat.h"

#define SYSFS_PATH_BYTES 256

/* Written once (sysfs_path_once), then constant. */
static char sysfs_path[SYSFS_PATH_BYTES] = "/sys";
static pthread_once_t sysfs_path_once = PTHREAD_ONCE_INIT;

static void sysfs_path_decide(void)
{
	const char *wanted = secure_getenv("SYSFS_PATH");
	size_t length;

	if (!wanted)
		return;
	length = strlen(wanted);
	while (length > 0 && wanted[length - 1] == '/')
		length--;
	if (length == 0 || length >= sizeof(sysfs_path))
		return;
	memcpy(sysfs_path, wanted, length);
	sysfs_path[length] = '\0';
}

const char *ibv_get_sysfs_path(void)
{
	pthread_once(&sysfs_path_once, sysfs_path_decide);
	return sysfs_path;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int fd;

	if (size == 0 || size > INT_MAX) {
		errno = EINVAL;
		return -1;
	}
	length = snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (length < 0 || (size_t)length >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = sys_read_all(fd, buf, size);
	sys_close(fd);
	if (length < 0) {
		errno = (int)-length;
		return -1;
	}
	if (length > 0 && buf[length - 1] == '\n')
		length--;
	if ((size_t)length == size) {
		errno = EOVERFLOW;
		return -1;
	}
	buf[length] = '\0';
	return (int)length;
}
