/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_STREAM_H
#define TOOLS_STREAM_H

/*
 * The tests of rstream and riostream: sizes and repetitions of the transfers, and the output of the
 * results.
 */

#include <stdbool.h>
#include <stdint.h>

#define STREAM_SIZE_MAX_BYTES (6 << 20)

/* Each iteration has `transfers` transfers in one direction, then as many in the other. */
struct stream_test {
	char name[16];
	int size_bytes, transfers, iterations;
};

void stream_print_heading(void);
void stream_print_result(const struct stream_test *test, uint64_t elapsed_ns);

/*
 * Runs latency tests (single transfers) or throughput tests (consecutive transfers) with some sizes
 * or all. Ends with the first test that does not return 0.
 */
int stream_run_sizes(bool has_all, bool is_latency, int (*run)(const struct stream_test *test));

#endif /* TOOLS_STREAM_H */
