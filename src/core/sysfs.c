/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The two sysfs helpers that are part of the binary interface. Nothing of ours lives in sysfs, and
 * nothing here depends on it: these serve programs that look for themselves.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/compat.h"

#define SYSFS_PATH_BYTES 256

/* Written once under sysfs_path_once, read-only after; lives as long as the process. */
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

/* Up to *size* bytes of *fd* into *buf*; the count, or -errno. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t filled = 0;
	ssize_t got;

	while (filled < size) {
		got = read(fd, buf + filled, size - filled);
		if (got == 0)
			break;
		if (got > 0)
			filled += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)filled;
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
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read_all(fd, buf, size);
	close(fd);
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
