/* SPDX-License-Identifier: BSD-2-Clause */
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../places.h"
#include "base/probe_page.h"

#define SUFFIX ".rules"

char *scenario_read_file(const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char *text = malloc(PROBE_RULES_MAX);
	size_t bytes = 0;
	int error = 0;

	if (file && text) {
		bytes = fread(text, 1, PROBE_RULES_MAX, file);
		error = ferror(file) ? EIO : bytes == PROBE_RULES_MAX ? EFBIG : 0;
	} else {
		error = errno;
	}
	if (file && file != stdin)
		fclose(file);
	if (!error) {
		text[bytes] = '\0';
		return text;
	}
	free(text);
	errno = error;
	return NULL;
}

char *scenario_read(const char *name)
{
	char dir[PATH_MAX], path[PATH_MAX + NAME_MAX];

	if (strchr(name, '/') || strlen(name) > NAME_MAX - sizeof(SUFFIX) ||
	    !place_find(PLACE_SCENARIOS, dir))
		return NULL;
	snprintf(path, sizeof(path), "%s/%s" SUFFIX, dir, name);
	return scenario_read_file(path);
}

static int has_suffix(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name), suffix_len = strlen(SUFFIX);

	return len > suffix_len && strcmp(entry->d_name + len - suffix_len, SUFFIX) == 0;
}

/* The first line of a file is a comment, "# " and the description. */
static void print_scenario(char *name)
{
	char *text;

	name[strlen(name) - strlen(SUFFIX)] = '\0';
	text = scenario_read(name);
	if (text && strlen(text) > 2)
		printf("%-24s %.*s\n", name, (int)strcspn(text + 2, "\n"), text + 2);
	free(text);
}

bool scenario_list(void)
{
	char dir[PATH_MAX];
	struct dirent **entries;
	int count = place_find(PLACE_SCENARIOS, dir) ?
			    scandir(dir, &entries, has_suffix, alphasort) :
			    -1;

	if (count < 0) {
		fputs("usrdma: the scenarios are neither beside this program nor installed\n",
		      stderr);
		return false;
	}
	for (int i = 0; i < count; i++) {
		print_scenario(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return true;
}
