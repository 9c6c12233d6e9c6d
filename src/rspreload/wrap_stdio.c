/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would
 * rename some of them.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

/*
 * stdio streams over an rsocket. The C library reads and writes descriptors of streams with
 * internal calls that this module cannot replace. Streams over rsockets are therefore created by
 * fopencookie().
 */

/* One stream. On `files`, for fileno(), until cookie_close() frees it. */
struct cookie {
	struct list_head node;
	FILE *file;
	int number;
	bool is_flushed; /* by stdio_flush() */
};

static struct list_head files = LIST_HEAD_INIT(files);
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

void stdio_before_fork(void)
{
	pthread_mutex_lock(&files_lock);
}

void stdio_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&files_lock);
}

void stdio_after_fork_in_child(void)
{
	pthread_mutex_init(&files_lock, NULL);
}

static ssize_t cookie_read(void *arg, char *buf, size_t size)
{
	return read(((struct cookie *)arg)->number, buf, size);
}

/* The write function of a cookie returns 0 on error (fopencookie(3)). */
static ssize_t cookie_write(void *arg, const char *buf, size_t size)
{
	ssize_t ret = write(((struct cookie *)arg)->number, buf, size);

	return ret < 0 ? 0 : ret;
}

/*
 * Fails as lseek(2) of a socket does. For fflush(3) of a stream with unread input, the C library
 * ignores a failure only with this errno.
 */
static int cookie_seek(void *arg, off64_t *offset, int whence)
{
	(void)arg;
	(void)offset;
	(void)whence;
	errno = ESPIPE;
	return -1;
}

static int cookie_close(void *arg)
{
	struct cookie *cookie = arg;
	int number = cookie->number;

	pthread_mutex_lock(&files_lock);
	list_del(&cookie->node);
	pthread_mutex_unlock(&files_lock);
	free(cookie);
	return close(number);
}

static FILE *open_cookie(int number, const char *mode)
{
	const cookie_io_functions_t functions = {.read = cookie_read,
						 .write = cookie_write,
						 .seek = cookie_seek,
						 .close = cookie_close};
	struct cookie *cookie = calloc(1, sizeof(*cookie));

	if (!cookie)
		return NULL;
	cookie->number = number;
	cookie->file = fopencookie(cookie, mode, functions);
	if (!cookie->file) {
		free(cookie);
		return NULL;
	}
	pthread_mutex_lock(&files_lock);
	list_add(&cookie->node, &files);
	pthread_mutex_unlock(&files_lock);
	return cookie->file;
}

/*
 * Locks a stream that stdio_flush() has not visited. Skips streams that other threads have locked.
 * NULL: no such stream.
 */
static FILE *stdio_lock_next(void)
{
	FILE *file = NULL;
	struct cookie *cookie;

	pthread_mutex_lock(&files_lock);
	list_for_each_entry(cookie, &files, node) {
		if (cookie->is_flushed)
			continue;
		cookie->is_flushed = true;
		if (ftrylockfile(cookie->file))
			continue;
		file = cookie->file;
		break;
	}
	pthread_mutex_unlock(&files_lock);
	return file;
}

/*
 * fclose() needs the lock of the stream, so that the stream is not freed while this function writes
 * without files_lock.
 */
void stdio_flush(void)
{
	FILE *file;

	while ((file = stdio_lock_next())) {
		fflush_unlocked(file);
		funlockfile(file);
	}
}

EXPORT FILE *fdopen(int fd, const char *mode)
{
	struct sock *sock = sock_find(fd);
	bool is_ours = sock && sock_kind_of(sock) != SOCK_EPOLL;

	if (sock)
		sock_put(sock);
	return is_ours ? open_cookie(fd, mode) : real.fdopen(fd, mode);
}

EXPORT int fileno(FILE *file)
{
	struct cookie *cookie;
	int number = -1;

	pthread_mutex_lock(&files_lock);
	list_for_each_entry(cookie, &files, node)
		if (cookie->file == file)
			number = cookie->number;
	pthread_mutex_unlock(&files_lock);
	return number >= 0 ? number : real.fileno(file);
}

EXPORT int fileno_unlocked(FILE *file)
{
	return fileno(file);
}

static int wrap_stdio_write_all(int fd, const char *text, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t ret = write(fd, text + done, bytes - done);

		if (ret < 0)
			return -1;
		done += (size_t)ret;
	}
	return (int)bytes;
}

EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
	struct wrap_rsocket rsocket;
	char *text;
	int ret;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.vdprintf(fd, format, arguments);
	ret = vasprintf(&text, format, arguments);
	if (ret < 0)
		return ret;
	pthread_cleanup_push(free, text);
	ret = wrap_stdio_write_all(fd, text, (size_t)ret);
	pthread_cleanup_pop(1);
	return ret;
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list arguments;
	int ret;

	va_start(arguments, format);
	ret = vdprintf(fd, format, arguments);
	va_end(arguments);
	return ret;
}

int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments);

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
	(void)flag;
	return vdprintf(fd, format, arguments);
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list arguments;
	int ret;

	(void)flag;
	va_start(arguments, format);
	ret = vdprintf(fd, format, arguments);
	va_end(arguments);
	return ret;
}
