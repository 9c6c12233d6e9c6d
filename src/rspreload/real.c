/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#define FUNCTION(field, name)                                \
	{                                                    \
		offsetof(struct real_functions, field), name \
	}

/* Where the names differ, the fields are of the form that all others lead to. */
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
	FUNCTION(close, "close"),
	FUNCTION(close_range, "close_range"),
	FUNCTION(dup3, "dup3"),
	FUNCTION(fcntl, "fcntl64"),
	FUNCTION(ioctl, "ioctl"),
	FUNCTION(fstat, "fstat"),
	FUNCTION(fstat64, "fstat64"),
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
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void **field = (void **)(void *)((char *)&found + functions[i].offset);

		__atomic_store_n(field, dlsym(RTLD_NEXT, functions[i].name), __ATOMIC_RELAXED);
	}
	atomic_store_explicit(&is_found, true, memory_order_release);
	return &found;
}
