/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/event_fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/syscalls.h"

int event_fd_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	return fd < 0 ? -errno : fd;
}

void event_fd_post(int fd, uint32_t units)
{
	int saved = errno;

	/* Fails only when 2^64 - 2 events are queued. */
	(void)sys_eventfd_write(fd, units);
	errno = saved;
}

bool event_fd_is_readable(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};
	int cancel_state = cancel_disable();
	int count = poll(&pollfd, 1, 0);

	cancel_restore(cancel_state);
	return count == 1;
}

/*
 * Fallback for kernels before 5.7, which cannot read an eventfd with RWF_NOWAIT. Another reader may
 * take the unit between poll() and read(); then the read blocks.
 */
static int try_by_poll(int fd)
{
	uint64_t unit;

	if (!event_fd_is_readable(fd))
		return -EAGAIN;
	return sys_read(fd, &unit, sizeof(unit)) == (ssize_t)sizeof(unit) ? 0 : -EAGAIN;
}

int event_fd_try(int fd)
{
	uint64_t unit;

	if (sys_read_nowait(fd, &unit, sizeof(unit)) == (ssize_t)sizeof(unit))
		return 0;
	if (errno == EOPNOTSUPP || errno == ENOSYS || errno == ESPIPE)
		return try_by_poll(fd);
	return -EAGAIN;
}

int event_fd_wait(int fd)
{
	uint64_t unit;

	/* A cancellation point: the caller holds no lock and has no partial state. */
	return read(fd, &unit, sizeof(unit)) == (ssize_t)sizeof(unit) ? 0 : -errno;
}

uint32_t event_fd_drain(int fd, uint32_t count)
{
	while (count && !event_fd_try(fd))
		count--;
	return count;
}
