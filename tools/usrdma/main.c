/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "help.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"completion", command_completion},
	{"disable", command_disable},
	{"doctor", command_doctor},
	{"enable", command_enable},
	{"env", command_env},
	{"fault", command_fault},
	{"man", command_man},
	{"report", command_report},
	{"run", command_run},
	{"status", command_status},
	{"top", command_top},
	{"trace", command_trace},
	{"version", command_version},
	{"--version", command_version},
	{"-V", command_version},
	{"why", command_why},
};

static bool asks_for_help(const char *argument)
{
	return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* The exit status also reports that the output could not be written. */
static int flush_output(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	perror("usrdma: standard output");
	return status ? status : EXIT_FAILURE;
}

/* The help of one command, or with NULL of all. */
static int show_help(const char *name)
{
	const struct help_command *command = name ? help_find(name) : NULL;

	if (name && !command) {
		fprintf(stderr, "usrdma: unknown command '%s'; try 'usrdma --help'\n", name);
		return EXIT_USAGE;
	}
	help_print(stdout, command);
	return flush_output(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		help_print(stderr, NULL);
		return EXIT_USAGE;
	}
	if (asks_for_help(argv[1]) || strcmp(argv[1], "help") == 0)
		return show_help(argc > 2 ? argv[2] : NULL);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (argc > 2 && asks_for_help(argv[2]) && help_find(argv[1]))
			return show_help(argv[1]);
		return flush_output(commands[i].run(argc - 1, argv + 1));
	}
	return command_tool(argc - 1, argv + 1);
}
