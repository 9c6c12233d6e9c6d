/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_UNIT_PAGE_H
#define USRDMA_UNIT_PAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/*
 * A page of docs/ that a test generates from a table, and compares with the file: the functions of
 * one test program share the page.
 */

#define PAGE_MAX      65536
#define PAGE_PATH_MAX 4096

static char page_text[PAGE_MAX];
static size_t page_bytes;

/* Begins an empty page. */
static void page_begin(void)
{
	page_bytes = 0;
	page_text[0] = '\0';
}

__attribute__((format(printf, 1, 2))) static void page_add(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(page_text + page_bytes, sizeof(page_text) - page_bytes, format, args);
	va_end(args);
	assert_true(n >= 0 && page_bytes + (size_t)n < sizeof(page_text));
	page_bytes += (size_t)n;
}

static FILE *page_open(const char *name, const char *mode)
{
	static char path[PAGE_PATH_MAX];
	const char *root = getenv("USRDMA_SOURCE");

	snprintf(path, sizeof(path), "%s/docs/%s", root ? root : ".", name);
	return fopen(path, mode);
}

/* For --write: writes the page to docs/NAME; returns the exit status. */
static int page_write(const char *name)
{
	FILE *file = page_open(name, "w");

	if (!file)
		return EXIT_FAILURE;
	fwrite(page_text, 1, page_bytes, file);
	return fclose(file) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Asserts that docs/NAME is the page. */
static void page_assert_written(const char *name)
{
	static char written[PAGE_MAX];
	FILE *file = page_open(name, "r");
	size_t n;

	assert_non_null(file);
	n = fread(written, 1, sizeof(written) - 1, file);
	written[n] = '\0';
	fclose(file);
	assert_string_equal(written, page_text);
}

#endif
