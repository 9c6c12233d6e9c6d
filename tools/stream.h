/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_STREAM_H
#define TOOLS_STREAM_H

/* The tests of rstream and riostream: what is moved how often, and how that is told. */

#include <stdbool.h>
#include <stdint.h>

#define STREAM_SIZE_MAX_BYTES (6 << 20)

/* In each iteration so many transfers go one way, then as many the other. */
struct stream_test {
	char name[16];
	int size_bytes, transfers, iterations;
};

void stream_print_heading(void);
void stream_print_result(const struct stream_test *test, uint64_t elapsed_ns);

/*
 * Runs tests of some sizes, or of all: of single transfers, to see how long they take, or of many in a row. Ends with
 * the first one that does not answer 0.
 */
int stream_run_sizes(bool has_all, bool is_latency, int (*run)(const struct stream_test *test));

#endif /* TOOLS_STREAM_H */
