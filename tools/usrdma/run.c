/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "config.h"

/* As the shell has it: found but not runnable, not found. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND	127

#define PATH_VARIABLE "LD_LIBRARY_PATH"

static bool has_libraries(const char *dir)
{
	static const char *const names[] = {"libibverbs.so.1", "librdmacm.so.1"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int len = snprintf(path, sizeof(path), "%s/%s", dir, names[i]);

		if (len < 0 || (size_t)len >= sizeof(path) || access(path, R_OK) != 0)
			return false;
	}
	return true;
}

/* Whether own/below holds the libraries; writes its real path into dir. */
static bool candidate(const char *own, const char *below, char *dir)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s", own, below);

	return len > 0 && (size_t)len < sizeof(path) && has_libraries(path) && realpath(path, dir);
}

/*
 * Beside this program in the build tree (build/usrdma, build/lib); under the prefix it is installed in, wherever that
 * was moved to (of PREFIX/lib/usrdma, whatever follows a slash is tried below bin/..); where it was configured to be.
 */
static bool libraries_find(char *dir)
{
	char own[PATH_MAX];
	char *slash;

	if (!realpath("/proc/self/exe", own) || !(slash = strrchr(own, '/')))
		return candidate("", USRDMA_INSTALLED_LIBDIR, dir);
	*slash = '\0';
	if (candidate(own, "lib", dir))
		return true;
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	for (const char *below = USRDMA_INSTALLED_LIBDIR; below; below = strchr(below, '/')) {
		below++;
		if (candidate(own, below, dir))
			return true;
	}
	return candidate(own, "lib/usrdma", dir) || candidate("", USRDMA_INSTALLED_LIBDIR, dir);
}

/* Puts dir in front of what the loader searches already. */
static int library_path_set(const char *dir)
{
	const char *before = getenv(PATH_VARIABLE);
	char *value;
	int error;

	if (!before || !*before)
		return setenv(PATH_VARIABLE, dir, 1);
	if (asprintf(&value, "%s:%s", dir, before) < 0)
		return -1;
	error = setenv(PATH_VARIABLE, value, 1);
	free(value);
	return error;
}

int command_run(int argc, char **argv)
{
	int first = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
	char dir[PATH_MAX];

	if (first >= argc) {
		fputs("usrdma: run what? Usage: usrdma run [--] PROGRAM [ARGUMENT]...\n", stderr);
		return EXIT_FAILURE;
	}
	if (first == 1 && argv[1][0] == '-') {
		fprintf(stderr, "usrdma: run has no option '%s'; put -- before the program\n",
			argv[1]);
		return EXIT_FAILURE;
	}
	if (!libraries_find(dir)) {
		fputs("usrdma: libibverbs.so.1 and librdmacm.so.1 are neither beside this program nor "
		      "in " USRDMA_INSTALLED_LIBDIR "; run 'make', or 'make install'\n",
		      stderr);
		return EXIT_FAILURE;
	}
	if (library_path_set(dir)) {
		perror("usrdma: " PATH_VARIABLE);
		return EXIT_FAILURE;
	}
	execvp(argv[first], &argv[first]);
	fprintf(stderr, "usrdma: cannot run '%s': %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
