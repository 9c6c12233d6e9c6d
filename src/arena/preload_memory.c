/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * This file defines functions with names of the C library. The feature macros must not redirect
 * them to other symbols.
 */
#undef _FILE_OFFSET_BITS
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "arena/advice.h"
#include "arena/preload.h"

/*
 * The functions that change mappings. Their names are also needed for the program's other memory,
 * which they do not change.
 */

static struct {
	void *madvise;
	void *mprotect;
	void *pkey_mprotect;
	void *mmap;
	void *mmap64;
	void *munmap;
	void *mremap;
} next_memory;

PRELOAD_EXPORT int madvise(void *addr, size_t bytes, int advice)
{
	int (*found)(void *, size_t, int) =
		(int (*)(void *, size_t, int))preload_find(&next_memory.madvise, "madvise");

	if (!advice_concerns(addr, bytes))
		return found(addr, bytes, advice);
	return advice_apply(addr, bytes, advice, found);
}

PRELOAD_EXPORT int mprotect(void *addr, size_t bytes, int prot)
{
	int (*found)(void *, size_t, int) =
		(int (*)(void *, size_t, int))preload_find(&next_memory.mprotect, "mprotect");

	if (advice_concerns(addr, bytes))
		advice_will_change(addr, bytes);
	return found(addr, bytes, prot);
}

PRELOAD_EXPORT int pkey_mprotect(void *addr, size_t bytes, int prot, int key)
{
	int (*found)(void *, size_t, int, int) = (int (*)(void *, size_t, int, int))preload_find(
		&next_memory.pkey_mprotect, "pkey_mprotect");

	if (!found) {
		errno = ENOSYS;
		return -1;
	}
	if (advice_concerns(addr, bytes))
		advice_will_change(addr, bytes);
	return found(addr, bytes, prot, key);
}

PRELOAD_EXPORT void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *(*found)(void *, size_t, int, int, int, off_t) =
		(void *(*)(void *, size_t, int, int, int, off_t))preload_find(&next_memory.mmap,
									      "mmap");

	if ((flags & MAP_FIXED) && advice_concerns(addr, bytes))
		advice_will_replace(addr, bytes);
	return found(addr, bytes, prot, flags, fd, offset);
}

PRELOAD_EXPORT void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	void *(*found)(void *, size_t, int, int, int, off64_t) =
		(void *(*)(void *, size_t, int, int, int, off64_t))preload_find(&next_memory.mmap64,
										"mmap64");

	if ((flags & MAP_FIXED) && advice_concerns(addr, bytes))
		advice_will_replace(addr, bytes);
	return found(addr, bytes, prot, flags, fd, offset);
}

PRELOAD_EXPORT int munmap(void *addr, size_t bytes)
{
	int (*found)(void *, size_t) = (int (*)(void *, size_t))preload_find(&next_memory.munmap,
									     "munmap");

	if (advice_concerns(addr, bytes))
		advice_will_replace(addr, bytes);
	return found(addr, bytes);
}

PRELOAD_EXPORT void *mremap(void *addr, size_t bytes, size_t new_bytes, int flags, ...)
{
	void *(*found)(void *, size_t, size_t, int, ...) =
		(void *(*)(void *, size_t, size_t, int, ...))preload_find(&next_memory.mremap,
									  "mremap");
	void *to = NULL;
	va_list args;

	if (flags & MREMAP_FIXED) {
		va_start(args, flags);
		to = va_arg(args, void *);
		va_end(args);
		if (advice_concerns(to, new_bytes))
			advice_will_replace(to, new_bytes);
	}
	if (advice_concerns(addr, bytes ? bytes : 1))
		advice_will_move(addr, bytes);
	return found(addr, bytes, new_bytes, flags, to);
}

/*
 * These functions may be called in a signal handler or in the child of vfork(), where dlsym() must
 * not be called.
 */
__attribute__((constructor)) static void preload_memory_start(void)
{
	(void)preload_find(&next_memory.madvise, "madvise");
	(void)preload_find(&next_memory.mprotect, "mprotect");
	(void)preload_find(&next_memory.pkey_mprotect, "pkey_mprotect");
	(void)preload_find(&next_memory.mmap, "mmap");
	(void)preload_find(&next_memory.mmap64, "mmap64");
	(void)preload_find(&next_memory.munmap, "munmap");
	(void)preload_find(&next_memory.mremap, "mremap");
}
