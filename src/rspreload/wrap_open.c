/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would
 * rename some of them.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rspreload/epoll.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/sock.h"

/*
 * Calls that create descriptors. Each is passed to the kernel. If the returned number still belongs
 * to a sock, the program closed that number without close() of wrap_descriptor.c. The number is
 * then removed from the sock (sock_number_reused()).
 */

#define CALLER __builtin_return_address(0)

static int created(int number, const void *caller)
{
	sock_number_reused(number, caller);
	return number;
}

static int created_two(int ret, const int fds[2], const void *caller)
{
	if (!ret) {
		sock_number_reused(fds[0], caller);
		sock_number_reused(fds[1], caller);
	}
	return ret;
}

/*
 * `mode` is always read, also if the caller did not pass it. The kernel ignores it where it has no
 * meaning.
 */
#define OPENS(name)                                                   \
	EXPORT int name(const char *path, int flags, ...)             \
	{                                                             \
		va_list arguments;                                    \
		mode_t mode;                                          \
                                                                      \
		va_start(arguments, flags);                           \
		mode = va_arg(arguments, mode_t);                     \
		va_end(arguments);                                    \
		return created(real.open(path, flags, mode), CALLER); \
	}

#define OPENS_AT(name)                                                       \
	EXPORT int name(int dir, const char *path, int flags, ...)           \
	{                                                                    \
		va_list arguments;                                           \
		mode_t mode;                                                 \
                                                                             \
		va_start(arguments, flags);                                  \
		mode = va_arg(arguments, mode_t);                            \
		va_end(arguments);                                           \
		return created(real.openat(dir, path, flags, mode), CALLER); \
	}

/* On 64-bit machines open() and open64() are the same. */
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

/* Programs compiled with _FORTIFY_SOURCE call these functions instead. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
	return created(real.open(path, flags, 0), CALLER);
}

EXPORT int __open64_2(const char *path, int flags)
{
	return created(real.open(path, flags, 0), CALLER);
}

EXPORT int __openat_2(int dir, const char *path, int flags)
{
	return created(real.openat(dir, path, flags, 0), CALLER);
}

EXPORT int __openat64_2(int dir, const char *path, int flags)
{
	return created(real.openat(dir, path, flags, 0), CALLER);
}

EXPORT int creat(const char *path, mode_t mode)
{
	return created(real.open(path, O_CREAT | O_WRONLY | O_TRUNC, mode), CALLER);
}

EXPORT int creat64(const char *path, mode_t mode)
{
	return created(real.open(path, O_CREAT | O_WRONLY | O_TRUNC, mode), CALLER);
}

EXPORT int pipe(int fds[2])
{
	return created_two(real.pipe2(fds, 0), fds, CALLER);
}

EXPORT int pipe2(int fds[2], int flags)
{
	return created_two(real.pipe2(fds, flags), fds, CALLER);
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	return created_two(real.socketpair(domain, type, protocol, fds), fds, CALLER);
}

EXPORT int eventfd(unsigned count, int flags)
{
	return created(real.eventfd(count, flags), CALLER);
}

/* The libraries nest epoll descriptors of their own, which contain no rsockets of the program. */
static int epoll_created(int number, const void *caller)
{
	sock_number_reused(number, caller);
	if (!preload_is_ours(caller))
		epoll_mark(number);
	return number;
}

EXPORT int epoll_create(int size)
{
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return epoll_created(real.epoll_create1(0), CALLER);
}

EXPORT int epoll_create1(int flags)
{
	return epoll_created(real.epoll_create1(flags), CALLER);
}

EXPORT int timerfd_create(clockid_t clock, int flags)
{
	return created(real.timerfd_create(clock, flags), CALLER);
}

EXPORT int inotify_init(void)
{
	return created(real.inotify_init1(0), CALLER);
}

EXPORT int inotify_init1(int flags)
{
	return created(real.inotify_init1(flags), CALLER);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
	return created(real.memfd_create(name, flags), CALLER);
}

/* With fd >= 0 the call changes an existing descriptor and returns no new number. */
EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
	int number = real.signalfd(fd, mask, flags);

	return fd < 0 ? created(number, CALLER) : number;
}
