/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "ulp.h"
#include "xdr.h"

/* Returns the position of the next bytes and moves behind them, or returns NULL. */
static uint8_t *xdr_advance(struct xdr *xdr, size_t bytes)
{
	uint8_t *at = xdr->at;

	if (xdr->is_bad || xdr_left(xdr) < bytes) {
		xdr->is_bad = true;
		return NULL;
	}
	xdr->at += bytes;
	return at;
}

void xdr_put(struct xdr *xdr, uint32_t value)
{
	uint8_t *at = xdr_advance(xdr, 4);

	if (at)
		ulp_put_be(at, value, 4);
}

void xdr_put64(struct xdr *xdr, uint64_t value)
{
	uint8_t *at = xdr_advance(xdr, 8);

	if (at)
		ulp_put_be(at, value, 8);
}

void xdr_put_fixed(struct xdr *xdr, const void *data, size_t bytes)
{
	uint8_t *at = xdr_advance(xdr, xdr_padded(bytes));

	if (!at || !bytes)
		return;
	memset(xdr->at - 4, 0, 4);
	memcpy(at, data, bytes);
}

void xdr_put_opaque(struct xdr *xdr, const void *data, size_t bytes)
{
	xdr_put(xdr, (uint32_t)bytes);
	xdr_put_fixed(xdr, data, bytes);
}

uint32_t xdr_get(struct xdr *xdr)
{
	const uint8_t *at = xdr_advance(xdr, 4);

	return at ? (uint32_t)ulp_get_be(at, 4) : 0;
}

uint64_t xdr_get64(struct xdr *xdr)
{
	const uint8_t *at = xdr_advance(xdr, 8);

	return at ? ulp_get_be(at, 8) : 0;
}

bool xdr_get_bool(struct xdr *xdr)
{
	uint32_t value = xdr_get(xdr);

	if (value > 1)
		xdr->is_bad = true;
	return value == 1;
}

uint8_t *xdr_get_fixed(struct xdr *xdr, size_t bytes)
{
	return xdr_advance(xdr, xdr_padded(bytes));
}

uint8_t *xdr_get_opaque(struct xdr *xdr, size_t max, size_t *bytes)
{
	*bytes = xdr_get(xdr);
	if (*bytes > max)
		xdr->is_bad = true;
	if (xdr->is_bad)
		*bytes = 0;
	return xdr_get_fixed(xdr, *bytes);
}
