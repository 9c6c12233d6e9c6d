/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_OVERHEARD_H
#define USRDMA_TESTS_API_OVERHEARD_H

#include <stdbool.h>
#include <stddef.h>

#define OVERHEARD_BYTES 8192

/* What the standard error of the process says, from begin to end in place of the terminal. */
struct overheard {
	int saved;
	int read_fd;
	size_t len;
	char text[OVERHEARD_BYTES];
};

void overheard_begin(struct overheard *overheard);

/* Until these words were said; within a minute. */
void overheard_wait(struct overheard *overheard, const char *words);

/* Whether these words were said so far. */
bool overheard_has(struct overheard *overheard, const char *words);

void overheard_end(struct overheard *overheard);

#endif
