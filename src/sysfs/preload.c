/* SPDX-License-Identifier: BSD-2-Clause */

/* The names below are those of the C library's own symbols: none may be renamed by what asks for large files. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs/redirect.h"

/*
 * What `usrdma run` preloads: calls that name a file, for programs that look at the kernel's RDMA devices by themselves. A
 * path below /sys/class/infiniband, /sys/class/infiniband_verbs or /dev/infiniband is answered from this process's own
 * tree; nothing else is touched. Absolute paths only: who changes into these directories finds the kernel's.
 */

#define EXPORT __attribute__((visibility("default")))

/* The C library's own function of that name. Two threads that look at once find the same. */
static void *next_of(void **next, const char *name)
{
	void *found = __atomic_load_n(next, __ATOMIC_RELAXED);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(next, found, __ATOMIC_RELAXED);
	}
	return found;
}

/* A function with a parameter `path`, which is all that changes. */
#define WRAP(result, name, parameters, arguments)                                       \
	EXPORT result name parameters;                                                  \
	EXPORT result name parameters                                                   \
	{                                                                               \
		static void *next;                                                      \
		result(*real) parameters = (result(*) parameters)next_of(&next, #name); \
		char where[PATH_MAX];                                                   \
                                                                                        \
		path = redirect_path(path, where);                                      \
		return real arguments;                                                  \
	}

/* The same with a mode that is there only if a file may be made. */
#define WRAP_OPEN(name, parameters, arguments, flags)                             \
	EXPORT int name parameters;                                               \
	EXPORT int name parameters                                                \
	{                                                                         \
		static void *next;                                                \
		int(*real) parameters = (int(*) parameters)next_of(&next, #name); \
		char where[PATH_MAX];                                             \
		mode_t mode = 0;                                                  \
                                                                                  \
		if ((flags) & (O_CREAT | __O_TMPFILE)) {                          \
			va_list args;                                             \
                                                                                  \
			va_start(args, flags);                                    \
			mode = va_arg(args, mode_t);                              \
			va_end(args);                                             \
		}                                                                 \
		path = redirect_path(path, where);                                \
		return real arguments;                                            \
	}

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(openat, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, mode),
	  flags)
WRAP_OPEN(openat64, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, mode),
	  flags)
/* What a fortified program calls instead. */
WRAP(int, __open_2, (const char *path, int flags), (path, flags))
WRAP(int, __open64_2, (const char *path, int flags), (path, flags))
WRAP(int, __openat_2, (int dir_fd, const char *path, int flags), (dir_fd, path, flags))
WRAP(int, __openat64_2, (int dir_fd, const char *path, int flags), (dir_fd, path, flags))

WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode))

WRAP(int, access, (const char *path, int mode), (path, mode))
WRAP(int, eaccess, (const char *path, int mode), (path, mode))
WRAP(int, euidaccess, (const char *path, int mode), (path, mode))
WRAP(int, faccessat, (int dir_fd, const char *path, int mode, int flags),
     (dir_fd, path, mode, flags))

WRAP(int, stat, (const char *path, struct stat *to), (path, to))
WRAP(int, stat64, (const char *path, struct stat64 *to), (path, to))
WRAP(int, lstat, (const char *path, struct stat *to), (path, to))
WRAP(int, lstat64, (const char *path, struct stat64 *to), (path, to))
WRAP(int, fstatat, (int dir_fd, const char *path, struct stat *to, int flags),
     (dir_fd, path, to, flags))
WRAP(int, fstatat64, (int dir_fd, const char *path, struct stat64 *to, int flags),
     (dir_fd, path, to, flags))
WRAP(int, statx, (int dir_fd, const char *path, int flags, unsigned int mask, struct statx *to),
     (dir_fd, path, flags, mask, to))
/* What programs that were built before glibc 2.33 call. */
WRAP(int, __xstat, (int version, const char *path, struct stat *to), (version, path, to))
WRAP(int, __xstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
WRAP(int, __lxstat, (int version, const char *path, struct stat *to), (version, path, to))
WRAP(int, __lxstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
WRAP(int, __fxstatat, (int version, int dir_fd, const char *path, struct stat *to, int flags),
     (version, dir_fd, path, to, flags))
WRAP(int, __fxstatat64, (int version, int dir_fd, const char *path, struct stat64 *to, int flags),
     (version, dir_fd, path, to, flags))

WRAP(DIR *, opendir, (const char *path), (path))
WRAP(int, scandir,
     (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
      int (*compare)(const struct dirent **, const struct dirent **)),
     (path, list, filter, compare))
WRAP(int, scandir64,
     (const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
      int (*compare)(const struct dirent64 **, const struct dirent64 **)),
     (path, list, filter, compare))

WRAP(ssize_t, readlink, (const char *path, char *to, size_t bytes), (path, to, bytes))
WRAP(ssize_t, readlinkat, (int dir_fd, const char *path, char *to, size_t bytes),
     (dir_fd, path, to, bytes))
WRAP(ssize_t, __readlink_chk, (const char *path, char *to, size_t bytes, size_t room),
     (path, to, bytes, room))
WRAP(char *, realpath, (const char *path, char *to), (path, to))
WRAP(char *, __realpath_chk, (const char *path, char *to, size_t room), (path, to, room))
WRAP(char *, canonicalize_file_name, (const char *path), (path))
