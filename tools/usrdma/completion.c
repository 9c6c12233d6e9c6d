/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usrdma completion: the words that can follow, for the completion scripts of shells
 * (share/completions).
 */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "help.h"
#include "places.h"
#include "profile/profile.h"

/* Whether a list of words that are separated by blanks contains the word. */
static bool list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; len && (at = strstr(at, word)); at += len) {
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	}
	return false;
}

static void print_list(const char *list)
{
	while (*list) {
		size_t len = strcspn(list, " ");

		printf("%.*s\n", (int)len, list);
		list += len + (list[len] == ' ');
	}
}

/* The names of the files of a directory, up to the last dot with `is_cut`. */
static void print_files(enum place_name place, const char *below, bool is_cut)
{
	char dir[PATH_MAX], path[PATH_MAX + 16];
	const struct dirent *entry;
	DIR *open_dir;

	if (!place_find(place, dir))
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, below);
	open_dir = opendir(path);
	while (open_dir && (entry = readdir(open_dir))) {
		const char *dot = is_cut ? strrchr(entry->d_name, '.') : NULL;

		if (entry->d_name[0] != '.' && (dot || !is_cut))
			printf("%.*s\n",
			       (int)(dot ? (size_t)(dot - entry->d_name) : strlen(entry->d_name)),
			       entry->d_name);
	}
	if (open_dir)
		closedir(open_dir);
}

static void print_pages(void)
{
	static const char *const sections[] = {"man1", "man3", "man7", "man8"};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		print_files(PLACE_MANUAL, sections[i], true);
}

static void print_commands(void)
{
	for (size_t i = 0; i < help_command_count; i++)
		puts(help_commands[i].name);
	puts("help");
	print_files(PLACE_TOOLS, ".", false);
}

/* The values of an option, if they are words of usrdma. */
static void print_values(const char *option)
{
	if (strcmp(option, "--format") == 0)
		print_list("shell dockerfile github");
	for (size_t i = 0; strcmp(option, "--profile") == 0 && profile_name(i); i++)
		puts(profile_name(i));
}

/* The words after `usrdma fault` and at least one more word. */
static void print_fault_words(const char *before, const char *words)
{
	if (strcmp(before, "scenario") == 0)
		print_files(PLACE_SCENARIOS, ".", true);
	/* The file of `set` and the rule of `add` are words of the user. */
	else if (strcmp(before, "set") != 0 && strcmp(before, "add") != 0)
		print_list(words);
}

/* Whether the words of the command of the user follow, which stand after "--". */
static bool is_after_options(int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			return true;
	}
	return false;
}

/* argv[1] and the following words are those before the one that is completed. */
int command_completion(int argc, char **argv)
{
	const struct help_command *command = argc > 1 ? help_find(argv[1]) : NULL;
	const char *before = argv[argc - 1];

	if (argc == 1 || (argc == 2 && strcmp(argv[1], "help") == 0)) {
		print_commands();
		return EXIT_SUCCESS;
	}
	if (!command || is_after_options(argc, argv))
		return EXIT_SUCCESS;
	if (argc > 2 && list_has(command->values, before)) {
		print_values(before);
		return EXIT_SUCCESS;
	}
	if (strcmp(command->name, "man") == 0 && argc <= 3)
		print_pages();
	if (strcmp(command->name, "fault") == 0 && argc > 2)
		print_fault_words(before, command->words);
	else
		print_list(command->words);
	return EXIT_SUCCESS;
}
