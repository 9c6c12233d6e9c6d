/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PRINTABLE_H
#define USRDMA_BASE_PRINTABLE_H

#include <stddef.h>

/*
 * Text of another process for a log or a terminal. Names, rules and paths of another user may
 * contain escape sequences, which a terminal executes, and characters that change the order or the
 * visibility of other characters.
 *
 * Printable are ASCII from ' ' to '~' and, in valid UTF-8, the characters up to U+FFFF except
 * controls (U+0080 to U+009F), format characters such as U+202E (Unicode category Cf), line and
 * paragraph separators, private use and noncharacters.
 */

/*
 * The length of the printable character at the start of `len` bytes: 1 to 3. 0: the first byte is
 * not printable.
 */
size_t printable_bytes(const char *text, size_t len);

/* Replaces each byte that belongs to no printable character by '?'. */
void printable_replace(char *text, size_t len);

/* The same for a string. */
void printable_string(char *text);

#endif
