/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/printable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, const char *want)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text);
	printable_string(copy);
	assert_string_equal(copy, want);
}

static void printable_string_keeps_printable_text(void **state)
{
	(void)state;
	expect("", "");
	expect("plain text ~!\"'\\", "plain text ~!\"'\\");
	/* Latin, Cyrillic, Hiragana, the euro sign and the replacement character. */
	expect("J\xc3\xbcrgen \xd0\x96 \xe3\x81\x82 \xe2\x82\xac \xef\xbf\xbd",
	       "J\xc3\xbcrgen \xd0\x96 \xe3\x81\x82 \xe2\x82\xac \xef\xbf\xbd");
}

static void printable_string_replaces_controls(void **state)
{
	(void)state;
	expect("a\x1b[2J\rb\n\t\x7f", "a?[2J?b???");
	/* U+009B begins an escape sequence as ESC [ does. */
	expect("\xc2\x9b\x32J", "??2J");
	expect("\x9b\x32J", "?2J");
}

static void printable_string_replaces_format_characters(void **state)
{
	static const char *const characters[] = {
		"\xc2\xad",	/* U+00AD soft hyphen */
		"\xd8\x9c",	/* U+061C Arabic letter mark */
		"\xe2\x80\x8b", /* U+200B zero width space */
		"\xe2\x80\x8f", /* U+200F right-to-left mark */
		"\xe2\x80\xa8", /* U+2028 line separator */
		"\xe2\x80\xae", /* U+202E right-to-left override */
		"\xe2\x81\xa6", /* U+2066 left-to-right isolate */
		"\xee\x80\x80", /* U+E000 private use */
		"\xef\xbb\xbf", /* U+FEFF byte order mark */
		"\xef\xbf\xbe", /* U+FFFE noncharacter */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++) {
		assert_int_equal(printable_bytes(characters[i], strlen(characters[i])), 0);
		expect(characters[i], strlen(characters[i]) == 2 ? "??" : "???");
	}
}

static void printable_string_replaces_invalid_utf8(void **state)
{
	(void)state;
	expect("\xc0\x9b", "??");	    /* overlong ESC */
	expect("\xe0\x80\x9b", "???");	    /* overlong ESC */
	expect("\xed\xa0\x80", "???");	    /* surrogate */
	expect("\xf0\x9f\x98\x80", "????"); /* above U+FFFF */
	expect("\xff\xfe", "??");
	expect("a\xe2\x82", "a??"); /* cut */
	expect("\xc3", "?");
	expect("\xc3(", "?(");
}

/* The bytes behind the end do not belong to the text. */
static void printable_bytes_respects_length(void **state)
{
	(void)state;
	assert_int_equal(printable_bytes("\xc3\xbc", 1), 0);
	assert_int_equal(printable_bytes("\xe2\x82\xac", 2), 0);
	assert_int_equal(printable_bytes("\xe2\x82\xac", 3), 3);
	assert_int_equal(printable_bytes("a", 0), 0);
}

/* Every text becomes printable, and stays so. */
static void printable_replace_of_any_bytes_is_printable(void **state)
{
	char text[3];

	(void)state;
	for (uint32_t i = 0; i < 1u << 24; i++) {
		size_t done = 0;

		text[0] = (char)(i >> 16);
		text[1] = (char)(i >> 8);
		text[2] = (char)i;
		printable_replace(text, sizeof(text));
		while (done < sizeof(text)) {
			size_t bytes = printable_bytes(text + done, sizeof(text) - done);

			assert_true(bytes > 0);
			done += bytes;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(printable_string_keeps_printable_text),
		cmocka_unit_test(printable_string_replaces_controls),
		cmocka_unit_test(printable_string_replaces_format_characters),
		cmocka_unit_test(printable_string_replaces_invalid_utf8),
		cmocka_unit_test(printable_bytes_respects_length),
		cmocka_unit_test(printable_replace_of_any_bytes_is_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
