/* SPDX-License-Identifier: BSD-2-Clause */
#include "shortage.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <cmocka.h>

/*
 * The errno of the simulated shortage of this thread, 0 if none; for the nth call from now, or for
 * every call.
 */
static __thread int lacking;
static __thread unsigned int until;
static __thread bool lasts, is_felt;

void shortage_of(int error, unsigned int nth)
{
	lacking = error;
	until = nth;
	lasts = false;
	is_felt = false;
}

void shortage_that_lasts(int error)
{
	shortage_of(error, 0);
	lasts = true;
}

bool shortage_was_felt(void)
{
	lacking = 0;
	return is_felt;
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void shortage_needed(void)
{
}

static bool lacks(int error)
{
	if (lacking != error || (!lasts && (!until || --until)))
		return false;
	is_felt = true;
	errno = error;
	return true;
}

/* Definitions in the program override those of the C library, for the libraries as well. */
#define PUBLIC __attribute__((visibility("default")))

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

PUBLIC void *malloc(size_t bytes)
{
	return lacks(ENOMEM) ? NULL : __libc_malloc(bytes);
}

PUBLIC void *calloc(size_t count, size_t bytes)
{
	return lacks(ENOMEM) ? NULL : __libc_calloc(count, bytes);
}

PUBLIC void *realloc(void *memory, size_t bytes)
{
	return lacks(ENOMEM) ? NULL : __libc_realloc(memory, bytes);
}

PUBLIC void *reallocarray(void *memory, size_t count, size_t bytes)
{
	return lacks(ENOMEM) ? NULL : __libc_realloc(memory, count * bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes)
{
	return lacks(ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
}

/* The next definition of the same function: that of the C library. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

PUBLIC void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return lacks(ENOMEM) ? MAP_FAILED : NEXT(mmap)(at, bytes, prot, flags, fd, offset);
}

static bool lacks_descriptors(void)
{
	return lacks(ENFILE) || lacks(EMFILE);
}

PUBLIC int socket(int domain, int type, int protocol)
{
	return lacks_descriptors() ? -1 : NEXT(socket)(domain, type, protocol);
}

PUBLIC int socketpair(int domain, int type, int protocol, int fds[2])
{
	return lacks_descriptors() ? -1 : NEXT(socketpair)(domain, type, protocol, fds);
}

PUBLIC int eventfd(unsigned int count, int flags)
{
	return lacks_descriptors() ? -1 : NEXT(eventfd)(count, flags);
}

PUBLIC int epoll_create1(int flags)
{
	return lacks_descriptors() ? -1 : NEXT(epoll_create1)(flags);
}

PUBLIC int timerfd_create(clockid_t clock, int flags)
{
	return lacks_descriptors() ? -1 : NEXT(timerfd_create)(clock, flags);
}

PUBLIC int memfd_create(const char *name, unsigned int flags)
{
	return lacks_descriptors() ? -1 : NEXT(memfd_create)(name, flags);
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	int error, wanted = lacking;

	if (lacks(EAGAIN))
		return EAGAIN;
	/* The C library reports its own failed allocations as EAGAIN, too. */
	lacking = 0;
	error = NEXT(pthread_create)(thread, attr, run, arg);
	lacking = wanted;
	return error;
}

#else

void shortage_needed(void)
{
	skip();
}

#endif
