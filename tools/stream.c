/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream.h"

#include <stdio.h>

#include "tool.h"

void stream_print_heading(void)
{
	printf("name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n");
	fflush(stdout);
}

void stream_print_result(const struct stream_test *test, uint64_t elapsed_ns)
{
	double transfers = (double)test->iterations * test->transfers * 2;
	double seconds = (double)elapsed_ns / 1e9;
	char size[TOOL_AMOUNT_BYTES], count[TOOL_AMOUNT_BYTES], iterations[TOOL_AMOUNT_BYTES];
	char total[TOOL_AMOUNT_BYTES];

	tool_amount(size, (uint64_t)test->size_bytes, 1024);
	tool_amount(count, (uint64_t)test->transfers, 1000);
	tool_amount(iterations, (uint64_t)test->iterations, 1000);
	tool_amount(total, (uint64_t)test->size_bytes * (uint64_t)transfers, 1024);
	printf("%-10s%-8s%-8s%-8s%-8s%8.2fs%10.2f%11.2f\n", test->name, size, count, iterations,
	       total, seconds, transfers * test->size_bytes * 8 / seconds / 1e9,
	       seconds * 1e6 / transfers);
	fflush(stdout);
}

/* The number of transfers for a size: fewer for large sizes, to limit the duration. */
static int count_for(int size)
{
	if (size < 1 << 10)
		return 100000;
	if (size < 1 << 16)
		return 10000;
	return size < 1 << 20 ? 1000 : 100;
}

static int run_size(int size, bool is_latency, int (*run)(const struct stream_test *test))
{
	struct stream_test test = {.size_bytes = size,
				   .transfers = is_latency ? 1 : count_for(size),
				   .iterations = is_latency ? count_for(size) : 1};
	char amount[TOOL_AMOUNT_BYTES];

	tool_amount(amount, (uint64_t)size, 1024);
	snprintf(test.name, sizeof(test.name), "%.9s_%s", amount, is_latency ? "lat" : "bw");
	return run(&test);
}

int stream_run_sizes(bool has_all, bool is_latency, int (*run)(const struct stream_test *test))
{
	static const int some[] = {64, 4 << 10, 64 << 10, 1 << 20};
	int error = 0;

	if (!has_all) {
		for (size_t i = 0; i < sizeof(some) / sizeof(some[0]) && !error; i++)
			error = run_size(some[i], is_latency, run);
		return error;
	}
	error = run_size(64, is_latency, run);
	for (int size = 128; size < STREAM_SIZE_MAX_BYTES && !error; size *= 2) {
		error = run_size(size, is_latency, run);
		if (!error)
			error = run_size(size + size / 2, is_latency, run);
	}
	return error;
}
