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
#include "places.h"
#include "run_devices.h"

/* Exit statuses of the shell: command not executable, command not found. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND	127

#define PATH_VARIABLE	 "LD_LIBRARY_PATH"
#define PRELOAD_VARIABLE "LD_PRELOAD"

/* The library that emulates sysfs for programs that search it for RDMA devices (src/sysfs). */
#define PRELOAD_NAME "libusrdma-sysfs.so"

/* The library that allocates memory which other processes can map (src/arena). */
#define ARENA_NAME     "libusrdma-arena.so"
#define SHARE_VARIABLE "USRDMA_SHARE"

/*
 * The libraries themselves. They are preloaded for programs that are linked with a renamed copy,
 * such as libibverbs-1a2b3c4d.so.1 of a Python wheel, which LD_LIBRARY_PATH does not replace (ADR
 * 0074).
 */
#define VERBS_NAME  "libibverbs.so.1"
#define RDMACM_NAME "librdmacm.so.1"

/* Prepends dir to the search path of the dynamic loader. */
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

/*
 * Appends the library to LD_PRELOAD: a sanitizer's runtime must be first. The dynamic loader splits
 * the value at spaces and colons (ld.so(8)). It searches LD_LIBRARY_PATH for a name without a
 * slash. A path is better: programs with the set-user-ID bit ignore it, but report that they do not
 * find a name.
 */
static int preload_add(const char *dir, const char *name)
{
	const char *before = getenv(PRELOAD_VARIABLE);
	bool has_space = strchr(dir, ' ');
	char *value;
	int error;

	if (asprintf(&value, "%s%s%s%s%s", before ? before : "", before && *before ? ":" : "",
		     has_space ? "" : dir, has_space ? "" : "/", name) < 0)
		return -1;
	error = setenv(PRELOAD_VARIABLE, value, 1);
	free(value);
	return error;
}

/* Whether memory that the program allocates is to be made shareable. */
static bool share_is_on(void)
{
	const char *value = getenv(SHARE_VARIABLE);

	if (!value || !*value || !strcmp(value, "on"))
		return true;
	if (!strcmp(value, "off"))
		return false;
	fprintf(stderr, "usrdma: invalid " SHARE_VARIABLE " '%s' (on or off); using the default\n",
		value);
	return true;
}

/*
 * Executes the tool with this name. Returns only if no such tool exists or it cannot be executed.
 */
static void tool_exec(char **argv)
{
	char dir[PATH_MAX];
	char *path;

	if (strchr(argv[0], '/') || !place_find(PLACE_TOOLS, dir))
		return;
	if (asprintf(&path, "%s/%s", dir, argv[0]) < 0)
		return;
	execv(path, argv);
	free(path);
}

int command_tool(int argc, char **argv)
{
	(void)argc;
	tool_exec(argv);
	fprintf(stderr, "usrdma: unknown command '%s'; try 'usrdma --help'\n", argv[0]);
	return EXIT_USAGE;
}

static int libraries_preload(const char *dir)
{
	if (preload_add(dir, PRELOAD_NAME) || (share_is_on() && preload_add(dir, ARENA_NAME)))
		return -1;
	return preload_add(dir, VERBS_NAME) || preload_add(dir, RDMACM_NAME) ? -1 : 0;
}

int command_run(int argc, char **argv)
{
	int first = run_devices_options(argc, argv);
	char dir[PATH_MAX];

	if (first <= 0)
		return -first;
	if (first >= argc) {
		fputs("usrdma: run what? Usage: usrdma run [OPTION]... [--] PROGRAM [ARGUMENT]...\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (!place_find(PLACE_LIBRARIES, dir)) {
		fputs("usrdma: libibverbs.so.1 and librdmacm.so.1 are neither beside this program nor "
		      "in " USRDMA_INSTALLED_LIBDIR "; run 'make', or 'make install'\n",
		      stderr);
		return EXIT_FAILURE;
	}
	if (strpbrk(dir, ":;")) {
		fprintf(stderr,
			"usrdma: cannot run '%s': the path of the libraries, '%s', contains ':' or ';', "
			"which separate the directories of " PATH_VARIABLE
			"; move usrdma to another directory\n",
			argv[first], dir);
		return EXIT_FAILURE;
	}
	if (library_path_set(dir)) {
		perror("usrdma: " PATH_VARIABLE);
		return EXIT_FAILURE;
	}
	if (libraries_preload(dir)) {
		perror("usrdma: " PRELOAD_VARIABLE);
		return EXIT_FAILURE;
	}
	execvp(argv[first], &argv[first]);
	if (errno == ENOENT) {
		tool_exec(&argv[first]);
		errno = ENOENT;
	}
	fprintf(stderr, "usrdma: cannot run '%s': %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
