/* SPDX-License-Identifier: BSD-2-Clause */
#include "run_variables.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "places.h"

#define PATH_VARIABLE	 "LD_LIBRARY_PATH"
#define PRELOAD_VARIABLE "LD_PRELOAD"

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
 * The libraries of LD_PRELOAD. The dynamic loader splits the value at spaces and colons (ld.so(8)).
 * It searches LD_LIBRARY_PATH for a name without a slash. A path is better: programs with the
 * set-user-ID bit ignore it, but report that they do not find a name.
 */
static char *preload_part(const char *dir)
{
	bool has_space = strchr(dir, ' ');
	const char *before = has_space ? "" : dir;
	const char *slash = has_space ? "" : "/";
	bool has_arena = share_is_on();
	char *part;

	if (asprintf(&part,
		     "%s%s" PRELOAD_SYSFS_NAME "%s%s%s%s:%s%s" VERBS_NAME ":%s%s" RDMACM_NAME,
		     before, slash, has_arena ? ":" : "", has_arena ? before : "",
		     has_arena ? slash : "", has_arena ? ARENA_NAME : "", before, slash, before,
		     slash) < 0)
		return NULL;
	return part;
}

int run_variables_get(struct run_variable variables[RUN_VARIABLES], const char *purpose)
{
	char dir[PATH_MAX];

	if (!place_find(PLACE_LIBRARIES, dir)) {
		fputs("usrdma: libibverbs.so.1 and librdmacm.so.1 are neither beside this program nor "
		      "in " USRDMA_INSTALLED_LIBDIR "; run 'make', or 'make install'\n",
		      stderr);
		return EXIT_FAILURE;
	}
	if (strpbrk(dir, ":;")) {
		fprintf(stderr,
			"usrdma: cannot %s: the path of the libraries, '%s', contains ':' or ';', "
			"which separate the directories of " PATH_VARIABLE
			"; move usrdma to another directory\n",
			purpose, dir);
		return EXIT_FAILURE;
	}
	/* The libraries of LD_PRELOAD are appended: a sanitizer's runtime must be first. */
	variables[0] = (struct run_variable){PATH_VARIABLE, strdup(dir), true};
	variables[1] = (struct run_variable){PRELOAD_VARIABLE, preload_part(dir), false};
	if (variables[0].part && variables[1].part)
		return 0;
	run_variables_free(variables);
	fputs("usrdma: no memory\n", stderr);
	return EXIT_FAILURE;
}

void run_variables_free(struct run_variable variables[RUN_VARIABLES])
{
	for (size_t i = 0; i < RUN_VARIABLES; i++)
		free(variables[i].part);
}

/* Whether the list, separated by colons, begins or ends with the part. */
static bool list_has_part(const char *list, const struct run_variable *variable)
{
	size_t len = strlen(list), part_len = strlen(variable->part);
	const char *end;

	if (len < part_len)
		return false;
	if (variable->is_before)
		return !strncmp(list, variable->part, part_len) && strchr(":", list[part_len]);
	end = list + len - part_len;
	return !strcmp(end, variable->part) && (end == list || end[-1] == ':');
}

char *run_variable_value(const struct run_variable *variable)
{
	const char *now = getenv(variable->name);
	char *value;

	if (!now || !*now)
		return strdup(variable->part);
	if (list_has_part(now, variable))
		return strdup(now);
	if (asprintf(&value, "%s:%s", variable->is_before ? variable->part : now,
		     variable->is_before ? now : variable->part) < 0)
		return NULL;
	return value;
}
