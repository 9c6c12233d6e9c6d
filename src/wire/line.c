/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/line.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

void line_add(struct line *line, const char *format, ...)
{
	size_t left = line->room - line->len;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line->out + line->len, left, format, args);
	va_end(args);
	if (n > 0)
		line->len += (size_t)n < left ? (size_t)n : left - 1;
}

void line_add_words(struct line *line, const char *name)
{
	for (const char *c = name; *c; c++)
		line_add(line, "%c", *c == '_' ? ' ' : tolower((unsigned char)*c));
}

void line_add_gid(struct line *line, const uint8_t gid[GID_BYTES])
{
	char text[INET6_ADDRSTRLEN] = "";

	if (gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, gid, text, sizeof(text));
	line_add(line, "%s", text);
}
