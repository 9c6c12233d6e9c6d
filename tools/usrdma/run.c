/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "places.h"
#include "run_devices.h"
#include "run_mount.h"
#include "run_variables.h"

/* Exit statuses of the shell: command not executable, command not found. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND	127

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

/*
 * Reports a tool of this project that is not installed: packages have the tools in one of their
 * own. false: another name.
 */
static bool tool_is_missing(const char *name)
{
	static const char *const tools[] = {
		"cmtime",	"mckey",	"rcopy",     "rdma_client", "rdma_server",
		"rdma_xclient", "rdma_xserver", "riostream", "rping",	    "rstream",
		"ucmatose",	"udaddy",	"udpong",
	};

	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		if (strcmp(name, tools[i]) != 0)
			continue;
		fprintf(stderr,
			"usrdma: the tool '%s' is not installed: install the package usrdma-tools\n",
			name);
		return true;
	}
	return false;
}

int command_tool(int argc, char **argv)
{
	(void)argc;
	tool_exec(argv);
	if (tool_is_missing(argv[0]))
		return EXIT_NOT_FOUND;
	fprintf(stderr, "usrdma: unknown command '%s'; try 'usrdma --help'\n", argv[0]);
	return EXIT_USAGE;
}

/* Sets the variables of the libraries. 0, or the exit status after an error message. */
static int variables_export(const char *program)
{
	struct run_variable variables[RUN_VARIABLES];
	char purpose[PATH_MAX];
	int ret;

	snprintf(purpose, sizeof(purpose), "run '%s'", program);
	ret = run_variables_get(variables, purpose);
	if (ret)
		return ret;
	for (size_t i = 0; i < RUN_VARIABLES && !ret; i++) {
		char *value = run_variable_value(&variables[i]);

		if (!value || setenv(variables[i].name, value, 1)) {
			fprintf(stderr, "usrdma: %s: %m\n", variables[i].name);
			ret = EXIT_FAILURE;
		}
		free(value);
	}
	run_variables_free(variables);
	return ret;
}

int command_run(int argc, char **argv)
{
	struct run_options options;
	int first = run_devices_options(argc, argv, &options);
	int status;

	if (first <= 0)
		return -first;
	if (first >= argc) {
		fputs("usrdma: run what? Usage: usrdma run [OPTION]... [--] PROGRAM [ARGUMENT]...\n",
		      stderr);
		return EXIT_USAGE;
	}
	status = options.is_mount ? run_mount_enter() : 0;
	if (!status)
		status = variables_export(argv[first]);
	if (status)
		return status;
	execvp(argv[first], &argv[first]);
	if (errno == ENOENT) {
		tool_exec(&argv[first]);
		if (tool_is_missing(argv[first]))
			return EXIT_NOT_FOUND;
		errno = ENOENT;
	}
	fprintf(stderr, "usrdma: cannot run '%s': %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
