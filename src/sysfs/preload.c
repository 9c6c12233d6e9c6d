/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * This file defines functions with names of the C library. The feature macros must not redirect
 * them to other symbols.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sysfs/redirect.h"

/*
 * The library that `usrdma run` preloads. It replaces C library calls with a path parameter, for
 * programs that read the kernel's files of RDMA devices. A path of such a file is redirected to a
 * tree of files of this process; other paths are not changed. A relative path needs no redirection:
 * after chdir() to one of these directories, the current directory is in the tree.
 */

#define EXPORT __attribute__((visibility("default")))

/*
 * Returns the C library's function of that name. If two threads call it at the same time, both get
 * the same result. A constructor looks up each name, because some of these functions may be called
 * in a signal handler and dlsym() may call the allocator. The lookup here serves constructors that
 * run earlier.
 */
static void *sysfs_preload_next_of(void **next, const char *name)
{
	void *found = __atomic_load_n(next, __ATOMIC_RELAXED);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(next, found, __ATOMIC_RELAXED);
	}
	return found;
}

#define LOOK_UP(name)                                                                   \
	static void *next_##name;                                                       \
	__attribute__((constructor)) static void find_##name(void)                      \
	{                                                                               \
		/* dlerror() clears the error state if the C library lacks the name. */ \
		if (!sysfs_preload_next_of(&next_##name, #name))                        \
			dlerror();                                                      \
	}

/* Defines a wrapper that changes only the parameter `path`. */
#define WRAP(result, name, parameters, arguments)                                         \
	LOOK_UP(name)                                                                     \
	EXPORT result name parameters;                                                    \
	EXPORT result name parameters                                                     \
	{                                                                                 \
		result(*real) parameters =                                                \
			(result(*) parameters)sysfs_preload_next_of(&next_##name, #name); \
		char where[PATH_MAX];                                                     \
                                                                                          \
		path = redirect_path(path, where);                                        \
		return real arguments;                                                    \
	}

/* The same for functions that return a path, which is changed back. */
#define WRAP_RESULT(name, parameters, arguments)                                                   \
	LOOK_UP(name)                                                                              \
	EXPORT char *name parameters;                                                              \
	EXPORT char *name parameters                                                               \
	{                                                                                          \
		char *(*real)parameters = (char *(*)parameters)sysfs_preload_next_of(&next_##name, \
										     #name);       \
		char where[PATH_MAX];                                                              \
                                                                                                   \
		path = redirect_path(path, where);                                                 \
		return redirect_result(real arguments);                                            \
	}

/* The same for functions that return the current directory. */
#define WRAP_CURRENT(name, parameters, arguments)                                                  \
	LOOK_UP(name)                                                                              \
	EXPORT char *name parameters;                                                              \
	EXPORT char *name parameters                                                               \
	{                                                                                          \
		char *(*real)parameters = (char *(*)parameters)sysfs_preload_next_of(&next_##name, \
										     #name);       \
                                                                                                   \
		return redirect_result(real arguments);                                            \
	}

/*
 * The same for functions with a parameter `mode`, which the caller passes only if the call may
 * create a file.
 */
#define WRAP_OPEN(name, parameters, arguments, flags)                                          \
	LOOK_UP(name)                                                                          \
	EXPORT int name parameters;                                                            \
	EXPORT int name parameters                                                             \
	{                                                                                      \
		int(*real) parameters = (int(*) parameters)sysfs_preload_next_of(&next_##name, \
										 #name);       \
		char where[PATH_MAX];                                                          \
		mode_t mode = 0;                                                               \
                                                                                               \
		if ((flags) & (O_CREAT | __O_TMPFILE)) {                                       \
			va_list args;                                                          \
                                                                                               \
			va_start(args, flags);                                                 \
			mode = va_arg(args, mode_t);                                           \
			va_end(args);                                                          \
		}                                                                              \
		path = redirect_path(path, where);                                             \
		return real arguments;                                                         \
	}

/*
 * glob(3) calls the C library's own opendir(), stat() and lstat(), which cannot be replaced.
 * GLOB_ALTDIRFUNC makes it call this library's functions, so that the results contain the caller's
 * path and not that of the tree.
 */
static void *preload_glob_open(const char *path)
{
	return opendir(path);
}

static struct dirent *preload_glob_read(void *directory)
{
	return readdir(directory);
}

static struct dirent64 *preload_glob_read64(void *directory)
{
	return readdir64(directory);
}

static void preload_glob_close(void *directory)
{
	closedir(directory);
}

#define WRAP_GLOB(name, type, read, stat_call, lstat_call)                                         \
	LOOK_UP(name)                                                                              \
	EXPORT int name(const char *path, int flags, int (*on_error)(const char *, int),           \
			type *result);                                                             \
	EXPORT int name(const char *path, int flags, int (*on_error)(const char *, int),           \
			type *result)                                                              \
	{                                                                                          \
		int (*real)(const char *, int, int (*)(const char *, int),                         \
			    type *) = (int (*)(const char *, int, int (*)(const char *, int),      \
					       type *))sysfs_preload_next_of(&next_##name, #name); \
		char where[PATH_MAX];                                                              \
                                                                                                   \
		if (!(flags & GLOB_ALTDIRFUNC) && redirect_path(path, where) != path) {            \
			flags |= GLOB_ALTDIRFUNC;                                                  \
			result->gl_opendir = preload_glob_open;                                    \
			result->gl_readdir = read;                                                 \
			result->gl_closedir = preload_glob_close;                                  \
			result->gl_stat = stat_call;                                               \
			result->gl_lstat = lstat_call;                                             \
		}                                                                                  \
		return real(path, flags, on_error, result);                                        \
	}

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(openat, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, mode),
	  flags)
WRAP_OPEN(openat64, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, mode),
	  flags)
/* Called by programs that were compiled with _FORTIFY_SOURCE. */
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
/* Called by programs that were linked with glibc before 2.33. */
WRAP(int, __xstat, (int version, const char *path, struct stat *to), (version, path, to))
WRAP(int, __xstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
WRAP(int, __lxstat, (int version, const char *path, struct stat *to), (version, path, to))
WRAP(int, __lxstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
WRAP(int, __fxstatat, (int version, int dir_fd, const char *path, struct stat *to, int flags),
     (version, dir_fd, path, to, flags))
WRAP(int, __fxstatat64, (int version, int dir_fd, const char *path, struct stat64 *to, int flags),
     (version, dir_fd, path, to, flags))

WRAP(int, statfs, (const char *path, struct statfs *to), (path, to))
WRAP(int, statfs64, (const char *path, struct statfs64 *to), (path, to))
WRAP(int, statvfs, (const char *path, struct statvfs *to), (path, to))
WRAP(int, statvfs64, (const char *path, struct statvfs64 *to), (path, to))

/* `ls -l` reads the extended attributes of each file. */
WRAP(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t bytes),
     (path, name, value, bytes))
WRAP(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t bytes),
     (path, name, value, bytes))
WRAP(ssize_t, listxattr, (const char *path, char *list, size_t bytes), (path, list, bytes))
WRAP(ssize_t, llistxattr, (const char *path, char *list, size_t bytes), (path, list, bytes))

WRAP(int, chdir, (const char *path), (path))
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
WRAP_RESULT(realpath, (const char *path, char *to), (path, to))
WRAP_RESULT(__realpath_chk, (const char *path, char *to, size_t room), (path, to, room))
WRAP_RESULT(canonicalize_file_name, (const char *path), (path))
WRAP_CURRENT(getcwd, (char *to, size_t bytes), (to, bytes))
WRAP_CURRENT(__getcwd_chk, (char *to, size_t bytes, size_t room), (to, bytes, room))
WRAP_CURRENT(get_current_dir_name, (void), ())

/*
 * As for sysfs, the kernel reports no changes of directories: a program that waits for new devices
 * reads them again.
 */
WRAP(int, inotify_add_watch, (int inotify_fd, const char *path, uint32_t mask),
     (inotify_fd, path, mask))

WRAP_GLOB(glob, glob_t, preload_glob_read, stat, lstat)
WRAP_GLOB(glob64, glob64_t, preload_glob_read64, stat64, lstat64)
