/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECTORY_MODE 0755
#define FILE_MODE      0644

/* The list of the processors of a large machine is the longest text. */
#define TEXT_BYTES 4096

int write_directory(int at, const char *name)
{
	if (mkdirat(at, name, DIRECTORY_MODE) && errno != EEXIST)
		return -errno;
	return 0;
}

int write_directories(int at, const char *path)
{
	size_t len = strlen(path);
	char part[PATH_MAX];
	int ret = 0;

	if (len >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, len + 1);
	for (char *end = strchr(part, '/'); end && !ret; end = strchr(end + 1, '/')) {
		*end = '\0';
		ret = write_directory(at, part);
		*end = '/';
	}
	return ret ? ret : write_directory(at, part);
}

int write_open_directory(int at, const char *path)
{
	int ret = write_directories(at, path);

	if (ret)
		return ret;
	ret = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return ret < 0 ? -errno : ret;
}

int write_link(const char *target, int at, const char *name)
{
	return symlinkat(target, at, name) && errno != EEXIST ? -errno : 0;
}

int write_name(int from, const char *file, int at, const char *name)
{
	return linkat(from, file, at, name, 0) && errno != EEXIST ? -errno : 0;
}

static int write_file(int at, const char *name, const char *text)
{
	size_t len = strlen(text);
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

void write_attribute(int *ret, int at, const char *name, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;
	int len;

	if (*ret)
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(text) - 1) {
		*ret = -ENAMETOOLONG;
		return;
	}
	memcpy(text + len, "\n", 2);
	*ret = write_file(at, name, text);
}
