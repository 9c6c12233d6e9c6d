/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PRINT_H
#define USRDMA_WIRE_PRINT_H

#include <stddef.h>

#define PRINT_MAD_MAX 2048

/*
 * One line, without a newline, for logs and traces: a CM MAD by its message and every field that is not 0 (private data
 * by its length up to the last byte that is not 0), any other MAD by its header. Trace output is an interface: its form
 * changes only with its golden files. `out` is always terminated and cut at out_bytes. Returns the line's length.
 */
size_t print_mad(char *out, size_t out_bytes, const void *mad, size_t len);

#endif
