/* SPDX-License-Identifier: BSD-2-Clause */
#include "mdoc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mdoc_text.h"

#define INDENT_TEXT  5
#define INDENT_LIST  6
#define INDENT_CODE  6
#define INDENT_TITLE 2
#define ARGS_MAX     64
#define LISTS_MAX    8
#define NAME_BYTES   64
#define CLOSERS_MAX  8

enum list_kind { LIST_TAG, LIST_BULLET, LIST_ENUM };

struct list {
	enum list_kind kind;
	bool is_compact;
	int number;
	int indent; /* of its items */
};

struct mdoc {
	struct mdoc_text text;
	char name[NAME_BYTES]; /* of .Nm without an argument */
	struct list lists[LISTS_MAX];
	int depth;
	bool is_literal;
	bool is_synopsis;
	bool is_in_function; /* between Fo and Fc */
	bool has_parameter;
};

/*
 * Splits a macro line in place. An argument in quotes may contain blanks. Returns the number of
 * arguments.
 */
static int split(char *line, char **args, bool *quoted)
{
	int count = 0;

	while (count < ARGS_MAX) {
		line += strspn(line, " \t");
		if (!*line)
			break;
		quoted[count] = *line == '"';
		line += quoted[count];
		args[count] = line;
		line += strcspn(line, quoted[count] ? "\"" : " \t");
		count++;
		if (*line)
			*line++ = '\0';
	}
	return count;
}

static bool is_closing(const char *arg)
{
	return strlen(arg) == 1 && strchr(".,:;)]?!", *arg);
}

static bool is_opening(const char *arg)
{
	return strcmp(arg, "(") == 0 || strcmp(arg, "[") == 0;
}

/* What a macro puts around its arguments. */
static const struct mark {
	const char *name;
	const char *before; /* of each argument */
	const char *after;
	const char *open; /* once, before what follows on the line */
	const char *close;
} marks[] = {
	{"Ar", "", "", NULL, NULL}, {"Cm", "", "", NULL, NULL},	 {"Dv", "", "", NULL, NULL},
	{"Em", "", "", NULL, NULL}, {"Er", "", "", NULL, NULL},	 {"Ev", "", "", NULL, NULL},
	{"Fa", "", "", NULL, NULL}, {"Ft", "", "", NULL, NULL},	 {"Ic", "", "", NULL, NULL},
	{"Li", "", "", NULL, NULL}, {"No", "", "", NULL, NULL},	 {"Pa", "", "", NULL, NULL},
	{"Sx", "", "", NULL, NULL}, {"Sy", "", "", NULL, NULL},	 {"Va", "", "", NULL, NULL},
	{"Vt", "", "", NULL, NULL}, {"Fl", "-", "", NULL, NULL}, {"Fn", "", "", NULL, NULL},
	{"Xr", "", "", NULL, NULL}, {"Nm", "", "", NULL, NULL},	 {"Ns", "", "", NULL, NULL},
	{"Op", "", "", "[", "]"},   {"Oo", "", "", "[", NULL},	 {"Oc", "", "", NULL, NULL},
	{"Pq", "", "", "(", ")"},   {"Po", "", "", "(", NULL},	 {"Pc", "", "", NULL, NULL},
	{"Bq", "", "", "[", "]"},   {"Dq", "", "", "\"", "\""},	 {"Ql", "", "", "'", "'"},
	{"Sq", "", "", "'", "'"},
};

static const struct mark *find_mark(const char *name)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (strcmp(marks[i].name, name) == 0)
			return &marks[i];
	}
	return NULL;
}

/* Appends the arguments of Fn or Xr; returns the number of the ones that were used. */
static int put_reference(struct mdoc *mdoc, const struct mark *mark, char **args, int count)
{
	bool is_function = strcmp(mark->name, "Fn") == 0;
	int used = 1;

	mdoc_text_word(&mdoc->text, args[0]);
	mdoc_text_glue(&mdoc->text, "(");
	if (!is_function && count > 1) {
		mdoc_text_glue(&mdoc->text, args[1]);
		used = 2;
	}
	for (; is_function && used < count && !is_closing(args[used]) && !find_mark(args[used]);
	     used++) {
		if (used > 1)
			mdoc_text_glue(&mdoc->text, ", ");
		mdoc_text_glue(&mdoc->text, args[used]);
	}
	mdoc_text_glue(&mdoc->text, ")");
	return used;
}

/*
 * The macros whose effect is not that of a mark with text around it. Returns the number of used
 * arguments, or -1.
 */
static int put_special(struct mdoc *mdoc, const struct mark *mark, char **args, int count)
{
	const char *name = mark->name;
	bool has_word = count > 0 && !is_closing(args[0]) && !find_mark(args[0]);

	if (strcmp(name, "Ns") == 0) {
		mdoc_text_join(&mdoc->text);
		return 0;
	}
	if (strcmp(name, "Oc") == 0 || strcmp(name, "Pc") == 0) {
		mdoc_text_glue(&mdoc->text, *name == 'O' ? "]" : ")");
		return 0;
	}
	if (strcmp(name, "Nm") == 0 && !has_word) {
		mdoc_text_word(&mdoc->text, mdoc->name);
		return 0;
	}
	if (strcmp(name, "Fl") == 0 && !has_word) {
		mdoc_text_word(&mdoc->text, "-");
		mdoc_text_join(&mdoc->text);
		return 0;
	}
	if ((strcmp(name, "Fn") == 0 || strcmp(name, "Xr") == 0) && has_word)
		return put_reference(mdoc, mark, args, count);
	return -1;
}

/* Appends the arguments of a line, some of which are macros. */
static void put_args(struct mdoc *mdoc, char **args, const bool *quoted, int count)
{
	const char *closers[CLOSERS_MAX];
	const struct mark *mark = NULL;
	int open = 0;

	for (int i = 0; i < count; i++) {
		const struct mark *next = quoted[i] ? NULL : find_mark(args[i]);
		int used;

		if (next) {
			mark = next;
			if (mark->open) {
				mdoc_text_word(&mdoc->text, mark->open);
				mdoc_text_join(&mdoc->text);
			}
			if (mark->close && open < CLOSERS_MAX)
				closers[open++] = mark->close;
			used = put_special(mdoc, mark, args + i + 1, count - i - 1);
			i += used > 0 ? used : 0;
			if (used >= 0)
				mark = NULL;
		} else if (is_closing(args[i])) {
			/* Punctuation at the end of a line follows what encloses the line. */
			while (open && i == count - 1)
				mdoc_text_glue(&mdoc->text, closers[--open]);
			mdoc_text_glue(&mdoc->text, args[i]);
		} else if (is_opening(args[i])) {
			mdoc_text_word(&mdoc->text, args[i]);
			mdoc_text_join(&mdoc->text);
		} else if (strcmp(args[i], "|") == 0) {
			mdoc_text_word(&mdoc->text, args[i]);
		} else {
			mdoc_text_word(&mdoc->text, mark ? mark->before : "");
			if (mark && *mark->before)
				mdoc_text_join(&mdoc->text);
			mdoc_text_word(&mdoc->text, args[i]);
		}
	}
	while (open)
		mdoc_text_glue(&mdoc->text, closers[--open]);
}

static int indent_of(const struct mdoc *mdoc)
{
	return mdoc->depth ? mdoc->lists[mdoc->depth - 1].indent + INDENT_LIST : INDENT_TEXT;
}

static void begin_item(struct mdoc *mdoc, char **args, const bool *quoted, int count)
{
	struct list *list = mdoc->depth ? &mdoc->lists[mdoc->depth - 1] : NULL;
	char number[16];

	if (!list)
		return;
	if (list->is_compact)
		mdoc_text_break(&mdoc->text);
	else
		mdoc_text_paragraph(&mdoc->text);
	mdoc_text_indent(&mdoc->text, list->indent);
	if (list->kind == LIST_TAG) {
		put_args(mdoc, args, quoted, count);
		mdoc_text_break(&mdoc->text);
		mdoc_text_indent(&mdoc->text, indent_of(mdoc));
		return;
	}
	snprintf(number, sizeof(number), "%d.", ++list->number);
	mdoc_text_word(&mdoc->text, list->kind == LIST_ENUM ? number : "*");
	mdoc_text_indent(&mdoc->text, list->indent + (list->kind == LIST_ENUM ? 3 : 2));
}

static void begin_list(struct mdoc *mdoc, char **args, int count)
{
	struct list list = {.kind = LIST_TAG, .indent = indent_of(mdoc)};

	for (int i = 0; i < count; i++) {
		if (strcmp(args[i], "-bullet") == 0)
			list.kind = LIST_BULLET;
		else if (strcmp(args[i], "-enum") == 0)
			list.kind = LIST_ENUM;
		else if (strcmp(args[i], "-compact") == 0)
			list.is_compact = true;
	}
	if (mdoc->depth < LISTS_MAX)
		mdoc->lists[mdoc->depth++] = list;
}

static void end_list(struct mdoc *mdoc)
{
	mdoc->depth -= mdoc->depth > 0;
	mdoc_text_break(&mdoc->text);
	mdoc_text_indent(&mdoc->text, indent_of(mdoc));
}

static void put_title(struct mdoc *mdoc, int indent, char **args, const bool *quoted, int count)
{
	mdoc->depth = 0;
	mdoc->is_synopsis = count && indent == 0 && strcmp(args[0], "SYNOPSIS") == 0;
	mdoc_text_paragraph(&mdoc->text);
	mdoc_text_indent(&mdoc->text, indent);
	put_args(mdoc, args, quoted, count);
	mdoc_text_break(&mdoc->text);
	mdoc_text_indent(&mdoc->text, INDENT_TEXT);
}

/* Macros of the prototypes. */
static bool put_prototype(struct mdoc *mdoc, const char *name, char **args, int count)
{
	if (strcmp(name, "Fo") == 0 && count) {
		mdoc_text_break(&mdoc->text);
		mdoc_text_word(&mdoc->text, args[0]);
		mdoc_text_glue(&mdoc->text, "(");
		mdoc_text_join(&mdoc->text);
		mdoc->is_in_function = true;
		mdoc->has_parameter = false;
	} else if (strcmp(name, "Fc") == 0) {
		mdoc_text_glue(&mdoc->text, ");");
		mdoc_text_break(&mdoc->text);
		mdoc->is_in_function = false;
	} else if (strcmp(name, "Fa") == 0 && mdoc->is_in_function && count) {
		if (mdoc->has_parameter)
			mdoc_text_glue(&mdoc->text, ",");
		mdoc->has_parameter = true;
		mdoc_text_word(&mdoc->text, args[0]);
	} else if (strcmp(name, "In") == 0 && count) {
		mdoc_text_break(&mdoc->text);
		mdoc_text_word(&mdoc->text, "#include <");
		mdoc_text_glue(&mdoc->text, args[0]);
		mdoc_text_glue(&mdoc->text, ">");
		mdoc_text_break(&mdoc->text);
	} else {
		return false;
	}
	return true;
}

/* Macros of the page's structure. */
static bool put_structure(struct mdoc *mdoc, const char *name, char **args, const bool *quoted,
			  int count)
{
	if (strcmp(name, "Dd") == 0 || strcmp(name, "Os") == 0 || strcmp(name, "ds") == 0)
		return true;
	if (strcmp(name, "Dt") == 0 && count > 1) {
		mdoc_text_word(&mdoc->text, args[0]);
		mdoc_text_glue(&mdoc->text, "(");
		mdoc_text_glue(&mdoc->text, args[1]);
		mdoc_text_glue(&mdoc->text, ")");
	} else if (strcmp(name, "Sh") == 0) {
		put_title(mdoc, 0, args, quoted, count);
	} else if (strcmp(name, "Ss") == 0) {
		put_title(mdoc, INDENT_TITLE, args, quoted, count);
	} else if (strcmp(name, "Pp") == 0) {
		mdoc_text_paragraph(&mdoc->text);
	} else if (strcmp(name, "Bl") == 0) {
		begin_list(mdoc, args, count);
	} else if (strcmp(name, "El") == 0) {
		end_list(mdoc);
	} else if (strcmp(name, "It") == 0) {
		begin_item(mdoc, args, quoted, count);
	} else if (strcmp(name, "Bd") == 0) {
		mdoc_text_paragraph(&mdoc->text);
		mdoc_text_indent(&mdoc->text, indent_of(mdoc) + INDENT_CODE);
		mdoc->is_literal = true;
	} else if (strcmp(name, "Ed") == 0) {
		mdoc->is_literal = false;
		mdoc_text_indent(&mdoc->text, indent_of(mdoc));
		mdoc_text_paragraph(&mdoc->text);
	} else {
		return false;
	}
	return true;
}

static void put_macro(struct mdoc *mdoc, char *line)
{
	bool quoted[ARGS_MAX];
	char *args[ARGS_MAX];
	int count = split(line, args, quoted);
	const char *name = count ? args[0] : "";

	if (!count || strncmp(name, "\\\"", 2) == 0 ||
	    put_structure(mdoc, name, args + 1, quoted + 1, count - 1) ||
	    put_prototype(mdoc, name, args + 1, count - 1))
		return;
	if (strcmp(name, "Nm") == 0 && count > 1 && !*mdoc->name)
		snprintf(mdoc->name, sizeof(mdoc->name), "%s", args[1]);
	if (strcmp(name, "Nd") == 0)
		mdoc_text_word(&mdoc->text, "-");
	/* Each command and each type of the synopsis begins a line. */
	if (mdoc->is_synopsis && (strcmp(name, "Nm") == 0 || strcmp(name, "Ft") == 0))
		mdoc_text_break(&mdoc->text);
	if (strcmp(name, "Dl") == 0) {
		mdoc_text_break(&mdoc->text);
		mdoc_text_indent(&mdoc->text, indent_of(mdoc) + INDENT_CODE);
		put_args(mdoc, args + 1, quoted + 1, count - 1);
		mdoc_text_break(&mdoc->text);
		mdoc_text_indent(&mdoc->text, indent_of(mdoc));
	} else {
		bool is_known = find_mark(name);

		put_args(mdoc, args + !is_known, quoted + !is_known, count - !is_known);
	}
}

void mdoc_print(FILE *page, FILE *out, int width)
{
	struct mdoc mdoc = {.text = {.out = out, .width = width}};
	size_t bytes = 0;
	char *line = NULL;

	while (getline(&line, &bytes, page) >= 0) {
		line[strcspn(line, "\n")] = '\0';
		if (*line == '.')
			put_macro(&mdoc, line + 1);
		else if (mdoc.is_literal)
			mdoc_text_literal(&mdoc.text, line);
		else
			mdoc_text_words(&mdoc.text, line);
	}
	mdoc_text_break(&mdoc.text);
	free(line);
}
