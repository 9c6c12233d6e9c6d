/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PRINT_H
#define USRDMA_WIRE_PRINT_H

#include <stddef.h>

#define PRINT_MAD_MAX	 2048
#define PRINT_PACKET_MAX (PRINT_MAD_MAX + 256)

struct packet;

/*
 * Each function writes one line without a newline for logs and traces. Trace output is an
 * interface: a change of its format requires a change of its golden files. `out` is truncated to
 * out_bytes and NUL-terminated. Returns the length of the line.
 */

/*
 * For a CM MAD: the message name and every field that is not 0; for private data the length without
 * trailing bytes of 0. For any other MAD: the header.
 */
size_t print_mad(char *out, size_t out_bytes, const void *mad, size_t len);

/*
 * Prints the opcode, which must be known, and the header fields of a packet that was parsed or will
 * be built. If the packet is a MAD to QP1 and `packet->payload` is set, the output of print_mad()
 * follows.
 */
size_t print_packet(char *out, size_t out_bytes, const struct packet *packet);

/*
 * Parses a datagram and prints it as print_packet() does, or prints the reason why it is invalid.
 */
size_t print_datagram(char *out, size_t out_bytes, const void *datagram, size_t len);

#endif
