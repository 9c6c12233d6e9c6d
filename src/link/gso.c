/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/gso.h"

#include <assert.h>
#include <string.h>

#include "wire/icrc.h"

static_assert(GSO_PACKETS_MAX <= 1 << GSO_ID_BITS, "the identification has enough bits");

/* A packet with more pieces of payload than GSO_IOVS_A_PACKET is not part of a burst. */
static bool is_simple(const struct link_tx *tx)
{
	return tx->payload_count <= GSO_IOVS_A_PACKET - 2;
}

int gso_length(const struct link_tx *tx, int n)
{
	size_t first_bytes = gso_packet_bytes(tx);
	size_t total_bytes = first_bytes;
	int count = 1;

	if (!is_simple(tx))
		return 1;
	while (count < n && count < GSO_PACKETS_MAX) {
		size_t bytes = gso_packet_bytes(&tx[count]);

		if (tx[count].path != tx->path || bytes > first_bytes || !is_simple(&tx[count]) ||
		    total_bytes + bytes > GSO_BYTES_MAX)
			break;
		count++;
		total_bytes += bytes;
		if (bytes < first_bytes)
			break;
	}
	return count;
}

/* The ICRCs of two packets that differ in one bit of the identification differ by a constant for each packet length. */
static void learn_length(struct gso_deltas *deltas, size_t packet_bytes)
{
	static const uint8_t zeros[PACKET_MAX];
	static const uint8_t gid[GID_BYTES] = {[10] = 0xff, [11] = 0xff};
	struct iovec piece = {.iov_base = (void *)(uintptr_t)zeros,
			      .iov_len = packet_bytes - ICRC_BYTES};
	struct icrc_flow flow;
	uint32_t none;

	icrc_flow_init(&flow, gid, gid, 0, 0);
	none = icrc_compute(&flow, 0, &piece, 1);
	for (int bit = 0; bit < GSO_ID_BITS; bit++)
		deltas->by_bit[bit] = icrc_compute(&flow, (uint16_t)(1u << bit), &piece, 1) ^ none;
	deltas->packet_bytes = packet_bytes;
}

void gso_patch(struct gso_deltas *deltas, const struct link_tx *tx, uint16_t ip_id,
	       uint8_t *trailer)
{
	uint8_t *at = trailer + tx->trailer_bytes - ICRC_BYTES;
	uint32_t icrc = icrc_load(at);

	if (deltas->packet_bytes != gso_packet_bytes(tx))
		learn_length(deltas, gso_packet_bytes(tx));
	for (int bit = 0; bit < GSO_ID_BITS; bit++) {
		if (ip_id & 1u << bit)
			icrc ^= deltas->by_bit[bit];
	}
	icrc_store(at, icrc);
}

size_t gso_gather(const struct link_tx *tx, const uint8_t *trailer, struct iovec *iov)
{
	size_t n = 0;

	iov[n++] = (struct iovec){(void *)(uintptr_t)tx->hdr, tx->hdr_bytes};
	for (int i = 0; i < tx->payload_count; i++)
		iov[n++] = tx->payload[i];
	iov[n++] = (struct iovec){(void *)(uintptr_t)trailer, tx->trailer_bytes};
	return n;
}
