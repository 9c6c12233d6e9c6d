/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_MAN_SEARCH_H
#define TOOLS_USRDMA_MAN_SEARCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The pages of the manual in a directory with man1 to man8. */

enum man_match {
	MAN_NAME,	 /* the name of the page, or one of the names in its section NAME */
	MAN_DESCRIPTION, /* part of a name or of the line in NAME, in upper or lower case */
	MAN_ITEM,	 /* a word of the heading of an item in a list: what the page documents */
	MAN_TEXT,	 /* a word of the text */
	MAN_MATCH_COUNT
};

struct man_page {
	char path[PATH_MAX];
	char name[64];
	char section[8];
	char description[256];
};

struct man_pages {
	struct man_page *pages;
	size_t count;
};

/*
 * The pages that match `word` in this way, sorted by name; section NULL: of all sections. False:
 * out of memory.
 */
bool man_search(struct man_pages *found, const char *dir, const char *section, const char *word,
		enum man_match match);
void man_pages_free(struct man_pages *found);

#endif
