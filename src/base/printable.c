/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"

/* Characters from U+0080 to U+FFFF that are not printable, in ascending order. */
static const struct {
	uint16_t first, last;
} unprintable[] = {
	{0x0080, 0x009f}, {0x00ad, 0x00ad}, {0x0600, 0x0605}, {0x061c, 0x061c}, {0x06dd, 0x06dd},
	{0x070f, 0x070f}, {0x0890, 0x0891}, {0x08e2, 0x08e2}, {0x180e, 0x180e}, {0x200b, 0x200f},
	{0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xf8ff}, {0xfdd0, 0xfdef}, {0xfeff, 0xfeff},
	{0xfff0, 0xfffb}, {0xfffe, 0xffff},
};

static bool is_printable(uint32_t character)
{
	for (size_t i = 0; i < COUNT(unprintable) && unprintable[i].first <= character; i++) {
		if (character <= unprintable[i].last)
			return false;
	}
	return true;
}

static bool is_continuation(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t printable_bytes(const char *text, size_t len)
{
	unsigned char first = len > 0 ? (unsigned char)text[0] : 0;
	uint32_t character;

	if (first < 0x80)
		return first >= ' ' && first <= '~';
	/* 0xc0 and 0xc1 begin an overlong form. */
	if (first >= 0xc2 && first < 0xe0 && len >= 2 && is_continuation(text[1])) {
		character = (first & 0x1fu) << 6 | ((uint8_t)text[1] & 0x3fu);
		return is_printable(character) ? 2 : 0;
	}
	if (first < 0xe0 || first >= 0xf0 || len < 3 || !is_continuation(text[1]) ||
	    !is_continuation(text[2]))
		return 0;
	character = (first & 0xfu) << 12 | ((uint8_t)text[1] & 0x3fu) << 6 |
		    ((uint8_t)text[2] & 0x3fu);
	/* Below U+0800 the form of three bytes is overlong. */
	return character >= 0x800 && is_printable(character) ? 3 : 0;
}

void printable_replace(char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t bytes = printable_bytes(text + i, len - i);

		if (bytes == 0)
			text[i++] = '?';
		else
			i += bytes;
	}
}

void printable_string(char *text)
{
	printable_replace(text, strlen(text));
}
