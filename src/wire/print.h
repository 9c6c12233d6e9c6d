/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PRINT_H
#define USRDMA_WIRE_PRINT_H

#include <stddef.h>

#define PRINT_MAD_MAX	 2048
#define PRINT_PACKET_MAX (PRINT_MAD_MAX + 256)

struct packet;

/*
 * Each writes one line, without a newline, for logs and traces. Trace output is an interface: its form changes only with
 * its golden files. `out` is always terminated and cut at out_bytes. Returns the line's length.
 */

/*
 * A CM MAD by its message and every field that is not 0 (private data by its length up to the last byte that is not 0),
 * any other MAD by its header.
 */
size_t print_mad(char *out, size_t out_bytes, const void *mad, size_t len);

/*
 * A packet, parsed or to be built, by its opcode (one of the table) and what its headers say. A MAD to QP 1 goes on as
 * print_mad() has it, if its bytes are at hand.
 */
size_t print_packet(char *out, size_t out_bytes, const struct packet *packet);

/* The same from the bytes of a datagram, or why they are no packet. */
size_t print_datagram(char *out, size_t out_bytes, const void *datagram, size_t len);

#endif
