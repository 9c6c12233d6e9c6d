/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usrdma man: shows or searches the manual. Needs no other program: without man(1) it prints the
 * text of the page itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "commands.h"
#include "config.h"
#include "man_search.h"
#include "mdoc.h"
#include "places.h"

#define WIDTH_DEFAULT 80
#define WIDTH_MAX     100
#define WIDTH_MIN     40

/*
 * The pages have the names of those of rdma-core. Their directory is therefore not in the search
 * path of `man`.
 */
static void exec_man(const char *dir, const struct man_page *page)
{
	const char *const arguments[] = {"man", "-M", dir, page->section, page->name, NULL};

	execvp(arguments[0], (char *const *)arguments);
}

static int text_width(void)
{
	struct winsize size;
	int width = WIDTH_DEFAULT;

	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) &&
	    size.ws_col >= WIDTH_MIN)
		width = size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
	return width;
}

/* On a terminal the text is passed to the pager, if the shell finds it. */
static FILE *open_pager(void)
{
	const char *pager = getenv("PAGER");

	if (!isatty(STDOUT_FILENO))
		return NULL;
	if (!pager || !*pager)
		pager = "if command -v less >/dev/null; then less; elif command -v more >/dev/null; then more; else cat; fi";
	/* The user's own PAGER is a command of the shell, as for man(1). */
	return popen(pager, "we"); /* NOLINT(cert-env33-c) */
}

/* Opens the page, or the page that it names: ".so man3/NAME.3". */
static FILE *open_page(const char *dir, const struct man_page *page)
{
	FILE *file = fopen(page->path, "re");
	char line[NAME_MAX], path[PATH_MAX];

	if (!file || !fgets(line, sizeof(line), file) || strncmp(line, ".so ", 4) != 0) {
		if (file)
			rewind(file);
		return file;
	}
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", dir, line + 4) >= (int)sizeof(path))
		return NULL;
	return fopen(path, "re");
}

static int print_page(const char *dir, const struct man_page *page)
{
	FILE *file = open_page(dir, page);
	FILE *pager;

	if (!file) {
		fprintf(stderr, "usrdma: cannot read '%s': %s\n", page->path, strerror(errno));
		return EXIT_FAILURE;
	}
	/* The user ends the pager before the end of the text. */
	signal(SIGPIPE, SIG_IGN);
	pager = open_pager();
	mdoc_print(file, pager ? pager : stdout, text_width());
	if (pager)
		pclose(pager);
	fclose(file);
	return EXIT_SUCCESS;
}

static int show_page(const char *dir, const struct man_page *page)
{
	fflush(stdout);
	exec_man(dir, page);
	if (errno == ENOENT)
		return print_page(dir, page);
	fprintf(stderr, "usrdma: cannot run 'man': %s\n", strerror(errno));
	return EXIT_FAILURE;
}

static void list_pages(const struct man_pages *found)
{
	for (size_t i = 0; i < found->count; i++)
		printf("%s(%s)  %s\n", found->pages[i].name, found->pages[i].section,
		       found->pages[i].description);
}

/* Searches in these ways until pages are found. */
static bool search_first(struct man_pages *found, const char *dir, const char *section,
			 const char *word, const enum man_match *matches, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!man_search(found, dir, section, word, matches[i])) {
			fputs("usrdma: out of memory\n", stderr);
			return false;
		}
		if (found->count)
			return true;
		man_pages_free(found);
	}
	fprintf(stderr, "usrdma: no page of the manual has '%s'%s%s; try 'usrdma man -k WORD'\n",
		word, section ? " in section " : "", section ? section : "");
	return false;
}

/*
 * A page by its name. A constant, a type or a field is no page's name: the pages that document it.
 */
static int show(const char *dir, const char *section, const char *word)
{
	static const enum man_match matches[] = {MAN_NAME, MAN_ITEM, MAN_TEXT};
	struct man_pages found;
	size_t exact = 0;
	int status = EXIT_SUCCESS;

	if (!search_first(&found, dir, section, word, matches,
			  sizeof(matches) / sizeof(matches[0])))
		return EXIT_FAILURE;
	/* Without a section, the first one that has the page. */
	while (exact < found.count && strcmp(found.pages[exact].name, word) != 0)
		exact++;
	if (found.count == 1 || exact < found.count)
		status = show_page(dir, &found.pages[exact < found.count ? exact : 0]);
	else
		list_pages(&found);
	man_pages_free(&found);
	return status;
}

static int search(const char *dir, const char *word)
{
	static const enum man_match matches[] = {MAN_DESCRIPTION, MAN_ITEM, MAN_TEXT};
	struct man_pages found;

	if (!search_first(&found, dir, NULL, word, matches, sizeof(matches) / sizeof(matches[0])))
		return EXIT_FAILURE;
	list_pages(&found);
	man_pages_free(&found);
	return EXIT_SUCCESS;
}

int command_man(int argc, char **argv)
{
	bool is_search = argc == 3 && strcmp(argv[1], "-k") == 0;
	char dir[PATH_MAX];

	if (argc < 2 || argc > 3 || (argv[1][0] == '-' && !is_search)) {
		fputs("usrdma: usage: usrdma man [SECTION] PAGE | -k WORD\n", stderr);
		return EXIT_USAGE;
	}
	if (!place_find(PLACE_MANUAL, dir)) {
		fputs("usrdma: the manual is neither beside this program nor in " USRDMA_INSTALLED_MANDIR
		      "; run 'make', or 'make install'\n",
		      stderr);
		return EXIT_FAILURE;
	}
	if (is_search)
		return search(dir, argv[2]);
	return show(dir, argc == 3 ? argv[1] : NULL, argv[argc - 1]);
}
