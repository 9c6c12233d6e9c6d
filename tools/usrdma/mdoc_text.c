/* SPDX-License-Identifier: BSD-2-Clause */
#include "mdoc_text.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 1024
#define UTF8_BYTES 4

/* Named characters of roff(7) that the manual's pages use, after the backslash. */
static const struct {
	const char *name;
	const char *text;
} escapes[] = {
	{"e", "\\"},  {"&", ""},     {"-", "-"},   {" ", " "},	 {"c", ""},
	{"(sc", "§"}, {"(->", "->"}, {"(mc", "µ"}, {"(mu", "x"}, {"(aq", "'"},
};

/* Encodes a code point as UTF-8. Returns the number of bytes. */
static size_t encode(unsigned long code, char out[UTF8_BYTES])
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	out[0] = (char)(0xe0 | (code >> 12 & 0xf));
	out[1] = (char)(0x80 | (code >> 6 & 0x3f));
	out[2] = (char)(0x80 | (code & 0x3f));
	return 3;
}

/* Replaces the escape sequence at *from, after the backslash, and moves *from behind it. */
static size_t take_escape(const char **from, char *out)
{
	if (strncmp(*from, "[u", 2) == 0) {
		char *end;
		unsigned long code = strtoul(*from + 2, &end, 16);

		*from = end + (*end == ']');
		return encode(code, out);
	}
	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		size_t len = strlen(escapes[i].name);

		if (strncmp(*from, escapes[i].name, len) != 0)
			continue;
		*from += len;
		len = strlen(escapes[i].text);
		memcpy(out, escapes[i].text, len);
		return len;
	}
	return 0;
}

/* Returns whether the word ends with \c: the next one follows without a blank. */
static bool unescape(const char *from, char out[WORD_BYTES])
{
	size_t len = strlen(from);
	bool is_continued = len > 1 && strcmp(from + len - 2, "\\c") == 0;

	len = 0;
	while (*from && len < WORD_BYTES - UTF8_BYTES) {
		if (*from == '\\') {
			from++;
			len += take_escape(&from, out + len);
		} else {
			out[len++] = *from++;
		}
	}
	out[len] = '\0';
	return is_continued;
}

/* Number of characters: bytes that do not continue one. */
static int characters(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += (*text & 0xc0) != 0x80;
	return count;
}

static void begin_line(struct mdoc_text *text)
{
	if (text->needs_blank_line && text->has_output)
		fputc('\n', text->out);
	text->needs_blank_line = false;
	text->has_output = true;
	fprintf(text->out, "%*s", text->indent, "");
	text->column = text->indent;
}

static void append(struct mdoc_text *text, const char *word)
{
	fputs(word, text->out);
	text->column += characters(word);
}

void mdoc_text_word(struct mdoc_text *text, const char *word)
{
	char plain[WORD_BYTES];
	bool is_continued = unescape(word, plain);
	bool is_joined = text->is_joined;

	if (!*plain)
		return;
	text->is_joined = is_continued;
	if (text->column && !is_joined && text->column + 1 + characters(plain) > text->width)
		mdoc_text_break(text);
	if (!text->column)
		begin_line(text);
	else if (!is_joined && text->column > text->indent)
		append(text, " ");
	append(text, plain);
	text->is_joined = is_continued;
}

void mdoc_text_glue(struct mdoc_text *text, const char *word)
{
	text->is_joined = true;
	mdoc_text_word(text, word);
}

void mdoc_text_join(struct mdoc_text *text)
{
	text->is_joined = true;
}

void mdoc_text_words(struct mdoc_text *text, char *line)
{
	char *rest = NULL;

	for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		mdoc_text_word(text, word);
}

void mdoc_text_literal(struct mdoc_text *text, const char *line)
{
	char plain[WORD_BYTES];

	(void)unescape(line, plain);
	mdoc_text_break(text);
	if (*plain) {
		begin_line(text);
		append(text, plain);
	} else {
		text->needs_blank_line = true;
	}
	mdoc_text_break(text);
}

void mdoc_text_break(struct mdoc_text *text)
{
	if (text->column)
		fputc('\n', text->out);
	text->column = 0;
	text->is_joined = false;
}

void mdoc_text_paragraph(struct mdoc_text *text)
{
	mdoc_text_break(text);
	text->needs_blank_line = true;
}

void mdoc_text_indent(struct mdoc_text *text, int indent)
{
	text->indent = indent;
}
