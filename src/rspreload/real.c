/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/util.h"

#define FUNCTION(field, name)                                \
	{                                                    \
		offsetof(struct real_functions, field), name \
	}

/*
 * A field whose name differs from the symbol uses the 64-bit variant, to which all other variants
 * are mapped.
 */
static const struct {
	size_t offset;
	const char *name;
} functions[] = {
	FUNCTION(socket, "socket"),
	FUNCTION(bind, "bind"),
	FUNCTION(listen, "listen"),
	FUNCTION(accept4, "accept4"),
	FUNCTION(connect, "connect"),
	FUNCTION(shutdown, "shutdown"),
	FUNCTION(getpeername, "getpeername"),
	FUNCTION(getsockname, "getsockname"),
	FUNCTION(setsockopt, "setsockopt"),
	FUNCTION(getsockopt, "getsockopt"),
	FUNCTION(read, "read"),
	FUNCTION(readv, "readv"),
	FUNCTION(recv, "recv"),
	FUNCTION(recvfrom, "recvfrom"),
	FUNCTION(recvmsg, "recvmsg"),
	FUNCTION(recvmmsg, "recvmmsg"),
	FUNCTION(write, "write"),
	FUNCTION(writev, "writev"),
	FUNCTION(send, "send"),
	FUNCTION(sendto, "sendto"),
	FUNCTION(sendmsg, "sendmsg"),
	FUNCTION(sendmmsg, "sendmmsg"),
	FUNCTION(sendfile, "sendfile64"),
	FUNCTION(poll, "poll"),
	FUNCTION(ppoll, "ppoll"),
	FUNCTION(select, "select"),
	FUNCTION(pselect, "pselect"),
	FUNCTION(epoll_ctl, "epoll_ctl"),
	FUNCTION(epoll_wait, "epoll_wait"),
	FUNCTION(epoll_pwait, "epoll_pwait"),
	FUNCTION(epoll_pwait2, "epoll_pwait2"),
	FUNCTION(open, "open64"),
	FUNCTION(openat, "openat64"),
	FUNCTION(pipe2, "pipe2"),
	FUNCTION(socketpair, "socketpair"),
	FUNCTION(eventfd, "eventfd"),
	FUNCTION(epoll_create1, "epoll_create1"),
	FUNCTION(timerfd_create, "timerfd_create"),
	FUNCTION(signalfd, "signalfd"),
	FUNCTION(inotify_init1, "inotify_init1"),
	FUNCTION(memfd_create, "memfd_create"),
	FUNCTION(close, "close"),
	FUNCTION(close_range, "close_range"),
	FUNCTION(dup3, "dup3"),
	FUNCTION(fcntl, "fcntl64"),
	FUNCTION(ioctl, "ioctl"),
	FUNCTION(fstat, "fstat"),
	FUNCTION(fstat64, "fstat64"),
	FUNCTION(lseek64, "lseek64"),
	FUNCTION(fdopen, "fdopen"),
	FUNCTION(fileno, "fileno"),
	FUNCTION(vdprintf, "vdprintf"),
};

static struct real_functions found;
static atomic_bool is_found;

const struct real_functions *real_calls(void)
{
	if (atomic_load_explicit(&is_found, memory_order_acquire))
		return &found;
	for (size_t i = 0; i < COUNT(functions); i++) {
		void **field = (void **)(void *)((char *)&found + functions[i].offset);

		__atomic_store_n(field, dlsym(RTLD_NEXT, functions[i].name), __ATOMIC_RELAXED);
	}
	atomic_store_explicit(&is_found, true, memory_order_release);
	return &found;
}

syscall_function *real_syscall(void)
{
	static syscall_function *_Atomic function;
	syscall_function *there = atomic_load_explicit(&function, memory_order_relaxed);

	if (there)
		return there;
	*(void **)&there = dlsym(RTLD_NEXT, "syscall");
	atomic_store_explicit(&function, there, memory_order_relaxed);
	return there;
}

static struct repoll_calls repoll;

static void repoll_look_up(void)
{
	*(void **)&repoll.create = dlsym(RTLD_DEFAULT, "repoll_create");
	*(void **)&repoll.ctl = dlsym(RTLD_DEFAULT, "repoll_ctl");
	*(void **)&repoll.wait = dlsym(RTLD_DEFAULT, "repoll_wait");
}

const struct repoll_calls *repoll_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, repoll_look_up);
	return repoll.create && repoll.ctl && repoll.wait ? &repoll : NULL;
}
