/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_XDR_H
#define USRDMA_TESTS_XDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A position in a buffer that is read or written as XDR (RFC 4506). An access beyond `end`, and a
 * value that is not allowed, set is_bad. From then on, values that are read are 0, and values that
 * are written are dropped: the user checks is_bad once, at the end.
 */
struct xdr {
	uint8_t *at;
	uint8_t *end;
	bool is_bad;
};

static inline size_t xdr_padded(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

static inline size_t xdr_left(const struct xdr *xdr)
{
	return (size_t)(xdr->end - xdr->at);
}

void xdr_put(struct xdr *xdr, uint32_t value);
void xdr_put64(struct xdr *xdr, uint64_t value);
/* Bytes of a fixed length, with padding. */
void xdr_put_fixed(struct xdr *xdr, const void *data, size_t bytes);
/* Length, bytes and padding. */
void xdr_put_opaque(struct xdr *xdr, const void *data, size_t bytes);

uint32_t xdr_get(struct xdr *xdr);
uint64_t xdr_get64(struct xdr *xdr);
/* Sets is_bad if the value is neither 0 nor 1. */
bool xdr_get_bool(struct xdr *xdr);
/* Skips the bytes and the padding, and returns the bytes in the buffer, or NULL. */
uint8_t *xdr_get_fixed(struct xdr *xdr, size_t bytes);
/* The same with the length first, which may be at most `max`. */
uint8_t *xdr_get_opaque(struct xdr *xdr, size_t max, size_t *bytes);

#endif
