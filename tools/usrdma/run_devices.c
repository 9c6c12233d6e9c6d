/* SPDX-License-Identifier: BSD-2-Clause */
#include "run_devices.h"

#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "profile/view.h"

#define CONFIG_NAME "usrdma/run.conf"
#define BLANKS	    " \t\r\n"

/*
 * Values of the two variables (profile/view.h), as lists that are separated by commas. NULL: not
 * set.
 */
struct run_lists {
	char *devices;
	char *profile;
};

enum {
	OPTION_DEVICE = 256,
	OPTION_PROFILE,
	OPTION_ONLY,
	OPTION_CONFIG,
	OPTION_MOUNT,
	OPTION_FORMAT
};

#define DEVICE_OPTIONS                                                \
	{"device", required_argument, NULL, OPTION_DEVICE},           \
		{"profile", required_argument, NULL, OPTION_PROFILE}, \
		{"only-devices", no_argument, NULL, OPTION_ONLY},     \
	{                                                             \
		"config", required_argument, NULL, OPTION_CONFIG      \
	}

static const struct option run_options[] = {
	DEVICE_OPTIONS,
	{"mount", no_argument, NULL, OPTION_MOUNT},
	{NULL, 0, NULL, 0},
};

static const struct option env_options[] = {
	DEVICE_OPTIONS,
	{"format", required_argument, NULL, OPTION_FORMAT},
	{NULL, 0, NULL, 0},
};

static void run_no_memory(void)
{
	fputs("usrdma: no memory\n", stderr);
	exit(EXIT_FAILURE);
}

/* Appends a part to a list. */
static void list_add(char **list, const char *part)
{
	char *longer;

	if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", part) < 0)
		run_no_memory();
	free(*list);
	*list = longer;
}

static void lists_free(struct run_lists *lists)
{
	free(lists->devices);
	free(lists->profile);
}

/*
 * One line of a configuration file, without comment and blanks: "device NAME=INTERFACE[:PROFILE]",
 * "only-devices", "profile PROFILE" or "set ATTRIBUTE=VALUE".
 */
static bool config_line(struct run_lists *lists, char *line)
{
	char *value = line + strcspn(line, BLANKS);

	if (*value)
		*value++ = '\0';
	value += strspn(value, BLANKS);
	if (!strcmp(line, "only-devices") && !*value) {
		list_add(&lists->devices, "only");
		return true;
	}
	if (!*value || strpbrk(value, BLANKS ","))
		return false;
	if (!strcmp(line, "device"))
		list_add(&lists->devices, value);
	else if (!strcmp(line, "profile") && !lists->profile)
		list_add(&lists->profile, value);
	else if (!strcmp(line, "set"))
		list_add(&lists->profile, value);
	else
		return false;
	return true;
}

static char *trim(char *line)
{
	char *end;

	line[strcspn(line, "#")] = '\0';
	line += strspn(line, BLANKS);
	end = line + strlen(line);
	while (end > line && strchr(BLANKS, end[-1]))
		*--end = '\0';
	return line;
}

/*
 * Reads the file. A missing file is an error only if the user has named it. 0, or -1 after an error
 * message.
 */
static int config_read(struct run_lists *lists, const char *path, bool is_named)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	char *line = NULL, *text;
	size_t room = 0;
	int ret = 0;

	if (!file && !is_named && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (!file) {
		fprintf(stderr, "usrdma: cannot read %s: %s\n", path, strerror(errno));
		return -1;
	}
	while (!ret && getline(&line, &room, file) >= 0) {
		number++;
		text = trim(line);
		if (!*text || config_line(lists, text))
			continue;
		fprintf(stderr,
			"usrdma: %s:%u: not 'device NAME=INTERFACE[:PROFILE]', 'only-devices', 'profile "
			"NAME' (before 'set'), or 'set ATTRIBUTE=VALUE'\n",
			path, number);
		ret = -1;
	}
	if (!ret && !feof(file)) {
		fprintf(stderr, "usrdma: %s: %s\n", path, strerror(errno));
		ret = -1;
	}
	free(line);
	fclose(file);
	return ret;
}

/* Reads the user's own file, if the user has neither options nor environment variables. */
static int config_read_default(struct run_lists *lists)
{
	const char *dir = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	char *path;
	int ret;

	if (dir && *dir)
		ret = asprintf(&path, "%s/" CONFIG_NAME, dir);
	else if (home && *home)
		ret = asprintf(&path, "%s/.config/" CONFIG_NAME, home);
	else
		return 0;
	if (ret < 0)
		run_no_memory();
	ret = config_read(lists, path, false);
	free(path);
	return ret;
}

static int show_profiles(void)
{
	for (size_t i = 0; profile_name(i); i++)
		puts(profile_name(i));
	puts("\nAttributes for --profile NAME,ATTRIBUTE=VALUE:");
	for (int i = 0; i < PROFILE_VALUES; i++)
		printf("  %s\n", profile_value_name((enum profile_value)i));
	return 0;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

/* Reports devices of interfaces that do not exist: a misspelt name would only hide the device. */
static bool interfaces_exist(const struct view *view)
{
	for (unsigned int i = 0; i < view->count; i++) {
		if (if_nametoindex(view->entries[i].interface))
			continue;
		fprintf(stderr, "usrdma: device '%s': no network interface '%s'; see 'ip link'\n",
			view->entries[i].name, view->entries[i].interface);
		return false;
	}
	return true;
}

/*
 * Checks the result of all sources and writes it to the environment. A list that no source has set
 * is not changed.
 */
static int lists_export(const struct run_lists *lists)
{
	const char *devices = lists->devices ? lists->devices : getenv(VIEW_DEVICES_ENV);
	const char *profile = lists->profile ? lists->profile : getenv(VIEW_PROFILE_ENV);
	struct view *view = calloc(1, sizeof(*view));
	int ret = -1;

	if (!view)
		run_no_memory();
	if (view_parse(view, devices, profile))
		fprintf(stderr, "usrdma: %s\n", view->why);
	/*
	 * Variables may come from a program on another machine: their interfaces may be missing
	 * here.
	 */
	else if (!lists->devices || interfaces_exist(view))
		ret = 0;
	free(view);
	if (ret)
		return ret;
	if ((lists->devices && setenv(VIEW_DEVICES_ENV, lists->devices, 1)) ||
	    (lists->profile && setenv(VIEW_PROFILE_ENV, lists->profile, 1)))
		run_no_memory();
	return 0;
}

/*
 * Options are stronger than the file of --config, which is stronger than the environment, then the
 * user's own file.
 */
static int lists_complete(struct run_lists *lists, const char *config)
{
	struct run_lists file = {0};
	int ret = 0;

	if (config)
		ret = config_read(&file, config, true);
	else if (!lists->devices && !lists->profile && !is_set(VIEW_DEVICES_ENV) &&
		 !is_set(VIEW_PROFILE_ENV))
		ret = config_read_default(&file);
	if (!lists->devices) {
		lists->devices = file.devices;
		file.devices = NULL;
	}
	if (!lists->profile) {
		lists->profile = file.profile;
		file.profile = NULL;
	}
	lists_free(&file);
	return ret ? ret : lists_export(lists);
}

int run_devices_options(int argc, char **argv, struct run_options *found)
{
	bool is_env = !strcmp(argv[0], "env");
	struct run_lists lists = {0};
	const char *config = NULL;
	int option, ret;

	*found = (struct run_options){0};
	optind = 0;
	opterr = 0;
	/* '+': the options of the program are not those of this command. */
	while ((option = getopt_long(argc, argv, "+", is_env ? env_options : run_options, NULL)) !=
	       -1) {
		switch (option) {
		case OPTION_DEVICE:
			list_add(&lists.devices, optarg);
			break;
		case OPTION_PROFILE:
			if (!strcmp(optarg, "help"))
				return show_profiles();
			list_add(&lists.profile, optarg);
			break;
		case OPTION_ONLY:
			list_add(&lists.devices, "only");
			break;
		case OPTION_CONFIG:
			config = optarg;
			break;
		case OPTION_MOUNT:
			found->is_mount = true;
			break;
		case OPTION_FORMAT:
			found->format = optarg;
			break;
		default:
			fprintf(stderr,
				"usrdma: %s: unknown option, or an option without a value: '%s'%s\n",
				argv[0], argv[optind - 1],
				is_env ? "" : "; put -- before the program");
			lists_free(&lists);
			return -EXIT_USAGE;
		}
	}
	ret = lists_complete(&lists, config);
	lists_free(&lists);
	return ret ? -EXIT_FAILURE : optind;
}
