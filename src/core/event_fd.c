/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/event_fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

int event_fd_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	return fd < 0 ? -errno : fd;
}

void event_fd_post(int fd)
{
	int saved = errno;

	/* Fails only when 2^64 - 2 events are queued. */
	(void)eventfd_write(fd, 1);
	errno = saved;
}

/* Where the kernel cannot read an eventfd without blocking on demand: look first. Another reader may come in between,
 * so this is only as good as a wait; kernels since 5.7 never come here. */
static int try_by_poll(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};
	uint64_t unit;

	if (poll(&pollfd, 1, 0) != 1)
		return -EAGAIN;
	return read(fd, &unit, sizeof(unit)) == (ssize_t)sizeof(unit) ? 0 : -EAGAIN;
}

int event_fd_try(int fd)
{
	uint64_t unit;
	struct iovec iov = {.iov_base = &unit, .iov_len = sizeof(unit)};

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof(unit))
		return 0;
	if (errno == EOPNOTSUPP || errno == ENOSYS || errno == ESPIPE)
		return try_by_poll(fd);
	return -EAGAIN;
}

int event_fd_wait(int fd)
{
	uint64_t unit;

	return read(fd, &unit, sizeof(unit)) == (ssize_t)sizeof(unit) ? 0 : -errno;
}

uint32_t event_fd_drain(int fd, uint32_t count)
{
	while (count && !event_fd_try(fd))
		count--;
	return count;
}
