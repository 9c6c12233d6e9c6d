/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define DURATION_MAX_S 1e6
#define QPN_MAX	       0xffffffu

static int parse_number(const char *text, unsigned long max, uint32_t *number)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > max)
		return -EINVAL;
	*number = (uint32_t)value;
	return 0;
}

static int parse_duration(const char *text, double *duration_s)
{
	char *end;

	*duration_s = strtod(text, &end);
	return end == text || *end || !(*duration_s > 0 && *duration_s <= DURATION_MAX_S) ?
		       -EINVAL :
		       0;
}

/* An option without a value. */
static bool *flag_of(struct trace_options *options, const char *name)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{"--all", &options->wants_all},
		{"--text", &options->wants_text},
		{"--json", &options->wants_json},
		{"--analysis", &options->wants_analysis},
		{"--wireshark-profile", &options->wants_profile},
	};

	for (size_t i = 0; i < COUNT(flags); i++) {
		if (strcmp(name, flags[i].name) == 0)
			return flags[i].flag;
	}
	return NULL;
}

/* An option whose value is a string. */
static const char **string_of(struct trace_options *options, const char *name)
{
	const struct {
		const char *name;
		const char **value;
	} strings[] = {
		{"--device", &options->device},	   {"-w", &options->write_path},
		{"--write", &options->write_path}, {"-r", &options->read_path},
		{"--read", &options->read_path},   {"--diagram", &options->diagram_path},
	};

	for (size_t i = 0; i < COUNT(strings); i++) {
		if (strcmp(name, strings[i].name) == 0)
			return strings[i].value;
	}
	return NULL;
}

static int parse_value(struct trace_options *options, const char *name, const char *value,
		       char *why)
{
	const char **string = string_of(options, name);
	const char *range = NULL;

	if (string) {
		*string = value;
		return 0;
	}
	if (strcmp(name, "--pid") == 0)
		range = parse_number(value, INT32_MAX, &options->pid) ? "a process id" : NULL;
	else if (strcmp(name, "--qp") == 0)
		range = parse_number(value, QPN_MAX, &options->qpn) ? "a QPN, 1 to 0xffffff" : NULL;
	else
		range = parse_duration(value, &options->duration_s) ? "seconds, 0 to 1000000" :
								      NULL;
	if (range)
		snprintf(why, TRACE_OPTION_WHY_BYTES, "invalid value '%s' of %s: %s", value, name,
			 range);
	return range ? -EINVAL : 0;
}

static bool is_known(struct trace_options *options, const char *name)
{
	return string_of(options, name) || strcmp(name, "--pid") == 0 ||
	       strcmp(name, "--qp") == 0 || strcmp(name, "--duration") == 0;
}

/* Combinations that have no meaning. */
static const char *conflict_of(const struct trace_options *options)
{
	if (options->read_path && options->program)
		return "-r reads a file: no program can be started";
	if (options->read_path && options->duration_s != 0)
		return "-r reads a file to its end: --duration has no meaning";
	if (options->wants_json && !options->read_path && !options->wants_analysis)
		return "--json is the form of the analysis: use it with -r or --analysis";
	if (options->wants_analysis && options->write_path && strcmp(options->write_path, "-") == 0)
		return "-w - writes the capture to standard output: --analysis has no place";
	if (options->write_path && strcmp(options->write_path, "-") == 0 && options->wants_text)
		return "-w - writes the capture to standard output: --text has no place";
	return NULL;
}

int trace_options_parse(struct trace_options *options, char **argv,
			char why[TRACE_OPTION_WHY_BYTES])
{
	const char *conflict;

	*options = (struct trace_options){0};
	for (argv++; *argv && !options->program; argv++) {
		bool *flag = flag_of(options, *argv);

		if (flag) {
			*flag = true;
		} else if (strcmp(*argv, "--") == 0 && argv[1]) {
			options->program = argv + 1;
		} else if (!is_known(options, *argv)) {
			snprintf(why, TRACE_OPTION_WHY_BYTES, "unknown option '%s'", *argv);
			return -EINVAL;
		} else if (!argv[1] || !*argv[1]) {
			snprintf(why, TRACE_OPTION_WHY_BYTES, "%s needs a value", *argv);
			return -EINVAL;
		} else {
			if (parse_value(options, argv[0], argv[1], why))
				return -EINVAL;
			argv++;
		}
	}
	conflict = conflict_of(options);
	if (conflict)
		snprintf(why, TRACE_OPTION_WHY_BYTES, "%s", conflict);
	return conflict ? -EINVAL : 0;
}
