/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usrdma env: the environment variables that `usrdma run` sets, for a shell, a Dockerfile or the
 * file GITHUB_ENV of a GitHub Actions workflow.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "profile/view.h"
#include "run_devices.h"
#include "run_variables.h"

/* In quotes, where only the quote itself ends the text. */
static void shell_print(const char *name, const char *value)
{
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
}

/* A value of several lines stands between two lines with a word that the value does not contain. */
static void github_print(const char *name, const char *value)
{
	char end[32] = "END_OF_VALUE";

	if (!strchr(value, '\n')) {
		printf("%s=%s\n", name, value);
		return;
	}
	for (unsigned int i = 0; strstr(value, end); i++)
		snprintf(end, sizeof(end), "END_OF_VALUE_%u", i);
	printf("%s<<%s\n%s\n%s\n", name, end, value, end);
}

static void docker_print_text(const char *text)
{
	for (; *text; text++) {
		if (strchr("\\\"$", *text))
			putchar('\\');
		putchar(*text);
	}
}

/*
 * The image has an environment of its own: the builder inserts the present value of the variable,
 * which LD_LIBRARY_PATH of a base image may have.
 */
static void docker_print_part(const struct run_variable *variable)
{
	const char *name = variable->name;

	printf("ENV %s=\"", name);
	if (!variable->is_before)
		printf("${%s:+$%s:}", name, name);
	docker_print_text(variable->part);
	if (variable->is_before)
		printf("${%s:+:$%s}", name, name);
	puts("\"");
}

static void docker_print(const char *name, const char *value)
{
	printf("ENV %s=\"", name);
	docker_print_text(value);
	puts("\"");
}

struct env_format {
	const char *name;
	void (*print)(const char *name, const char *value);
	/* NULL: print() gets the value for the environment of this process */
	void (*print_part)(const struct run_variable *variable);
	bool has_lines; /* whether a value may have several lines */
};

static const struct env_format formats[] = {
	{"shell", shell_print, NULL, true},
	{"dockerfile", docker_print, docker_print_part, false},
	{"github", github_print, NULL, true},
};

static const struct env_format *format_find(const char *name)
{
	if (!name)
		return &formats[0];
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	}
	fprintf(stderr, "usrdma: unknown format '%s' (shell, dockerfile or github)\n", name);
	return NULL;
}

static int env_print_part(const struct env_format *format, const struct run_variable *variable)
{
	char *value;

	if (!format->has_lines && strchr(variable->part, '\n')) {
		fprintf(stderr,
			"usrdma: the path of the libraries has several lines, which the format '%s' does not permit\n",
			format->name);
		return EXIT_FAILURE;
	}
	if (format->print_part) {
		format->print_part(variable);
		return EXIT_SUCCESS;
	}
	value = run_variable_value(variable);
	if (!value) {
		fputs("usrdma: no memory\n", stderr);
		return EXIT_FAILURE;
	}
	format->print(variable->name, value);
	free(value);
	return EXIT_SUCCESS;
}

/* The variables of names and profiles, which the options and run.conf set. */
static void env_print_devices(const struct env_format *format)
{
	static const char *const names[] = {VIEW_DEVICES_ENV, VIEW_PROFILE_ENV};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			format->print(names[i], value);
	}
}

int command_env(int argc, char **argv)
{
	struct run_variable variables[RUN_VARIABLES];
	struct run_options options;
	int first = run_devices_options(argc, argv, &options);
	const struct env_format *format;
	int status = EXIT_SUCCESS;

	if (first <= 0)
		return -first;
	if (first < argc) {
		fprintf(stderr,
			"usrdma: env: unexpected argument '%s'. Usage: usrdma env [--format FORMAT] [OPTION]...\n",
			argv[first]);
		return EXIT_USAGE;
	}
	format = format_find(options.format);
	if (!format)
		return EXIT_USAGE;
	if (run_variables_get(variables, "print the environment"))
		return EXIT_FAILURE;
	for (size_t i = 0; i < RUN_VARIABLES && !status; i++)
		status = env_print_part(format, &variables[i]);
	run_variables_free(variables);
	if (!status)
		env_print_devices(format);
	return status;
}
