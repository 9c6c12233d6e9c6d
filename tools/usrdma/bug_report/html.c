/* SPDX-License-Identifier: BSD-2-Clause */
#include "html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "../trace/diagram.h"

void html_text(FILE *out, const char *text)
{
	xml_text(out, text);
}

static void html_write(FILE *out, const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0) {
		fputs("out of memory", out);
		return;
	}
	html_text(out, text);
	free(text);
}

void html_format(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	html_write(out, format, args);
	va_end(args);
}

void html_paragraph(FILE *out, const char *format, ...)
{
	va_list args;

	fputs("<p>", out);
	va_start(args, format);
	html_write(out, format, args);
	va_end(args);
	fputs("</p>\n", out);
}

void html_section(FILE *out, const char *id, const char *title)
{
	fprintf(out, "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">", id,
		id, id);
	html_text(out, title);
	fputs("</h2>\n", out);
}

void html_section_end(FILE *out)
{
	fputs("</section>\n", out);
}

void html_subtitle(FILE *out, const char *title)
{
	fputs("<h3>", out);
	html_text(out, title);
	fputs("</h3>\n", out);
}

void html_table(FILE *out, const char *caption, const char *const *heads)
{
	fputs("<div class=\"u-wide\" role=\"region\" tabindex=\"0\" aria-label=\"", out);
	html_text(out, caption);
	fputs("\">\n<table>\n<caption>", out);
	html_text(out, caption);
	fputs("</caption>\n<thead><tr>", out);
	for (; *heads; heads++) {
		fputs("<th scope=\"col\">", out);
		html_text(out, *heads);
		fputs("</th>", out);
	}
	fputs("</tr></thead>\n<tbody>\n", out);
}

void html_table_end(FILE *out)
{
	fputs("</tbody>\n</table>\n</div>\n", out);
}

void html_row(FILE *out, const char *head)
{
	fputs("<tr><th scope=\"row\">", out);
	html_text(out, head);
	fputs("</th>", out);
}

void html_row_end(FILE *out)
{
	fputs("</tr>\n", out);
}

void html_cell(FILE *out, const char *text)
{
	fputs("<td>", out);
	html_text(out, text);
	fputs("</td>", out);
}

void html_cell_format(FILE *out, const char *format, ...)
{
	va_list args;

	fputs("<td>", out);
	va_start(args, format);
	html_write(out, format, args);
	va_end(args);
	fputs("</td>", out);
}

void html_cell_number(FILE *out, uint64_t number)
{
	fprintf(out, "<td class=\"u-number\">%" PRIu64 "</td>", number);
}

void html_list(FILE *out)
{
	fputs("<dl>\n", out);
}

void html_entry(FILE *out, const char *name, const char *text)
{
	html_entry_format(out, name, "%s", text);
}

void html_entry_format(FILE *out, const char *name, const char *format, ...)
{
	va_list args;

	fputs("<dt>", out);
	html_text(out, name);
	fputs("</dt><dd>", out);
	va_start(args, format);
	html_write(out, format, args);
	va_end(args);
	fputs("</dd>\n", out);
}

void html_list_end(FILE *out)
{
	fputs("</dl>\n", out);
}
