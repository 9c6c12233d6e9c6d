/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes calls that a signal handler may make (signal-safety(7)), and ends with status 1 if one of
 * them calls the allocator: the handler may have interrupted the allocator while it held its lock.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The second names of glibc's allocator functions. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

/*
 * volatile: the compiler may assume that a function of the C library calls no function of this
 * file.
 */
static volatile bool is_forbidden;
static const char *volatile caller;

#define EXPORT __attribute__((visibility("default")))

static void check_permitted(void)
{
	static const char text[] = " calls the allocator\n";

	if (!is_forbidden)
		return;
	is_forbidden = false;
	if (write(STDERR_FILENO, caller, strlen(caller)) > 0)
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

EXPORT void *malloc(size_t bytes)
{
	check_permitted();
	return __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	check_permitted();
	return __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *memory, size_t bytes)
{
	check_permitted();
	return __libc_realloc(memory, bytes);
}

EXPORT void free(void *memory)
{
	check_permitted();
	__libc_free(memory);
}

#define CHECK(name, ...)                                  \
	do {                                              \
		/* The text of the error is allocated. */ \
		dlsym(RTLD_DEFAULT, "absent");            \
		caller = #name;                           \
		is_forbidden = true;                      \
		(void)!name(__VA_ARGS__);                 \
		is_forbidden = false;                     \
	} while (0)

int main(void)
{
	struct stat info;
	char target[64];

	CHECK(open, "/dev/null", O_RDONLY);
	CHECK(openat, AT_FDCWD, "/dev/null", O_RDONLY);
	CHECK(access, "/dev/null", R_OK);
	CHECK(faccessat, AT_FDCWD, "/dev/null", R_OK, 0);
	CHECK(stat, "/dev/null", &info);
	CHECK(lstat, "/dev/null", &info);
	CHECK(fstatat, AT_FDCWD, "/dev/null", &info, 0);
	CHECK(readlink, "/proc/self/exe", target, sizeof(target));
	CHECK(readlinkat, AT_FDCWD, "/proc/self/exe", target, sizeof(target));
	return 0;
}
