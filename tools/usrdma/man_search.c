/* SPDX-License-Identifier: BSD-2-Clause */
#include "man_search.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char sections[] = "1378";

/* Whether the line has the word, between characters that a name does not contain. */
static bool has_word(const char *line, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = line; (at = strstr(at, word)); at++) {
		bool begins = at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');

		if (begins && !isalnum((unsigned char)at[len]) && at[len] != '_')
			return true;
	}
	return false;
}

static bool has_part(const char *line, const char *word)
{
	return strcasestr(line, word);
}

static bool starts_macro(const char *line, const char *name)
{
	return *line == '.' && strncmp(line + 1, name, 2) == 0 &&
	       (line[3] == ' ' || line[3] == '\0');
}

/* Whether one line of the page matches. `is_in_name`: it is in the section NAME. */
static bool line_matches(const char *line, bool is_in_name, const char *word, enum man_match match)
{
	bool is_name = is_in_name && starts_macro(line, "Nm");

	switch (match) {
	case MAN_NAME:
		return is_name && has_word(line + 3, word);
	case MAN_DESCRIPTION:
		return (is_name || starts_macro(line, "Nd")) && has_part(line + 3, word);
	case MAN_ITEM:
		return (starts_macro(line, "It") || starts_macro(line, "Ss")) &&
		       has_word(line + 3, word);
	default:
		return has_word(line, word);
	}
}

/* Reads the description, and whether a line matches. */
static bool page_matches(struct man_page *page, const char *word, enum man_match match)
{
	FILE *file = fopen(page->path, "re");
	bool is_in_name = false, matches = match == MAN_NAME && strcmp(page->name, word) == 0;
	size_t bytes = 0;
	char *line = NULL;

	page->description[0] = '\0';
	while (file && getline(&line, &bytes, file) >= 0) {
		line[strcspn(line, "\n")] = '\0';
		if (starts_macro(line, "Sh"))
			is_in_name = strcmp(line + 3, " NAME") == 0;
		if (starts_macro(line, "Nd") && line[3])
			snprintf(page->description, sizeof(page->description), "%s", line + 4);
		matches |= line_matches(line, is_in_name, word, match);
	}
	free(line);
	if (file)
		fclose(file);
	return matches;
}

static bool pages_add(struct man_pages *found, const struct man_page *page)
{
	struct man_page *more = realloc(found->pages, (found->count + 1) * sizeof(*more));

	if (!more)
		return false;
	found->pages = more;
	more[found->count++] = *page;
	return true;
}

static bool search_section(struct man_pages *found, const char *dir, char section, const char *word,
			   enum man_match match)
{
	struct man_page page = {.section = {section}};
	const struct dirent *entry;
	char path[PATH_MAX];
	bool has_memory = true;
	DIR *open_dir;

	if (snprintf(path, sizeof(path), "%s/man%c", dir, section) >= (int)sizeof(path))
		return true;
	open_dir = opendir(path);
	while (open_dir && has_memory && (entry = readdir(open_dir))) {
		const char *dot = strrchr(entry->d_name, '.');

		if (!dot || dot == entry->d_name || dot[1] != section ||
		    (size_t)(dot - entry->d_name) >= sizeof(page.name) ||
		    snprintf(page.path, sizeof(page.path), "%s/%s", path, entry->d_name) >=
			    (int)sizeof(page.path))
			continue;
		snprintf(page.name, sizeof(page.name), "%.*s", (int)(dot - entry->d_name),
			 entry->d_name);
		if (page_matches(&page, word, match))
			has_memory = pages_add(found, &page);
	}
	if (open_dir)
		closedir(open_dir);
	return has_memory;
}

static int compare_pages(const void *a, const void *b)
{
	const struct man_page *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->section, y->section);
}

bool man_search(struct man_pages *found, const char *dir, const char *section, const char *word,
		enum man_match match)
{
	bool has_memory = true;

	*found = (struct man_pages){0};
	for (const char *each = sections; *each && has_memory; each++) {
		if (!section || (section[0] == *each && !section[1]))
			has_memory = search_section(found, dir, *each, word, match);
	}
	if (found->count)
		qsort(found->pages, found->count, sizeof(found->pages[0]), compare_pages);
	return has_memory;
}

void man_pages_free(struct man_pages *found)
{
	free(found->pages);
	*found = (struct man_pages){0};
}
