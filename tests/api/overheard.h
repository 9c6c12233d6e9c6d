/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_OVERHEARD_H
#define USRDMA_TESTS_API_OVERHEARD_H

#include <stdbool.h>
#include <stddef.h>

#define OVERHEARD_BYTES 8192

/* Captures the standard error of the process between begin and end. */
struct overheard {
	int saved;
	int read_fd;
	size_t len;
	char text[OVERHEARD_BYTES];
};

void overheard_begin(struct overheard *overheard);

/* Waits until this text was printed, for at most a minute. */
void overheard_wait(struct overheard *overheard, const char *words);

/* Whether this text was printed so far. */
bool overheard_has(struct overheard *overheard, const char *words);

void overheard_end(struct overheard *overheard);

#endif
