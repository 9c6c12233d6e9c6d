/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_HELP_H
#define TOOLS_USRDMA_HELP_H

#include <stddef.h>
#include <stdio.h>

/* A command as the help and the completion of shells describe it. */
struct help_command {
	const char *name;
	const char *usage;    /* lines, each after "  usrdma " */
	const char *text;     /* lines, each after 6 blanks */
	const char *examples; /* command lines, in the help of this command only */
	const char *words;    /* options and actions, separated by blanks */
	const char *values;   /* options with a value, separated by blanks */
};

extern const struct help_command help_commands[];
extern const size_t help_command_count;

/* NULL: no such command. */
const struct help_command *help_find(const char *name);

/* Prints the help of one command, or with NULL of all. */
void help_print(FILE *out, const struct help_command *command);

#endif
