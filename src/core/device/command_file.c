/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/command_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syscalls.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define COMMAND_FILE_MAGIC   0x75636d64u
#define COMMAND_FILE_VERSION 1u
#define COMMAND_FILE_SEALS   (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static_assert(sizeof(struct command_file) % 8 == 0, "no padding behind it");

/* 0 on kernels before 5.14. */
static uint64_t netns_cookie(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes))
		cookie = 0;
	sys_close(fd);
	return cookie;
}

static int write_and_seal(int fd, const struct command_file *file)
{
	int cancel_state = cancel_disable();
	ssize_t written = pwrite(fd, file, sizeof(*file), 0);

	cancel_restore(cancel_state);
	if (written < 0)
		return -errno;
	if (written != (ssize_t)sizeof(*file))
		return -EIO;
	return fcntl(fd, F_ADD_SEALS, COMMAND_FILE_SEALS) ? -errno : 0;
}

int command_file_make(const struct ipc_device_reply *device, unsigned int rail,
		      struct command_file *file)
{
	int fd, ret;

	memset(file, 0, sizeof(*file));
	file->magic = COMMAND_FILE_MAGIC;
	file->version = COMMAND_FILE_VERSION;
	file->netns_cookie = netns_cookie();
	file->node_guid = device->node_guid;
	file->dev_id = device->dev_id;
	file->rail = rail;
	snprintf(file->name, sizeof(file->name), "%s", device->name);
	if (sys_getrandom(file->token, sizeof(file->token)) != (ssize_t)sizeof(file->token))
		return -EAGAIN;
	fd = memfd_create("usrdma-command", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	ret = write_and_seal(fd, file);
	if (!ret)
		return fd;
	sys_close(fd);
	return ret;
}

int command_file_read(int fd, struct command_file *file)
{
	int cancel_state, seals;
	uint64_t here;
	ssize_t got;

	if (fcntl(fd, F_GETFD) < 0)
		return -EBADF;
	/*
	 * Check the seals first: pread() of other kinds of files, such as pipes, may block or fail.
	 */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & COMMAND_FILE_SEALS) != COMMAND_FILE_SEALS)
		return -EINVAL;
	cancel_state = cancel_disable();
	got = pread(fd, file, sizeof(*file), 0);
	cancel_restore(cancel_state);
	if (got != (ssize_t)sizeof(*file))
		return -EINVAL;
	if (file->magic != COMMAND_FILE_MAGIC || file->version != COMMAND_FILE_VERSION ||
	    !memchr(file->name, '\0', sizeof(file->name)))
		return -EINVAL;
	here = netns_cookie();
	return file->netns_cookie && here && file->netns_cookie != here ? -ENODEV : 0;
}
