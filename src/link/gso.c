/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/gso.h"

#include <assert.h>
#include <string.h>

#include "base/user_copy.h"
#include "wire/icrc.h"

static_assert(GSO_PACKETS_MAX <= 1 << GSO_ID_BITS, "the identification has enough bits");

/* A packet with more pieces of payload than GSO_IOVS_A_PACKET is not part of a burst. */
static bool is_simple(const struct link_tx *tx)
{
	return tx->payload_count <= GSO_IOVS_A_PACKET - 2;
}

bool gso_is_same_flow(const struct link_path *a, const struct link_path *b)
{
	return a == b ||
	       (a->src_port == b->src_port && a->ifindex == b->ifindex &&
		a->flow_label == b->flow_label && a->traffic_class == b->traffic_class &&
		a->hop_limit == b->hop_limit && !memcmp(a->remote_gid, b->remote_gid, GID_BYTES) &&
		!memcmp(a->local_gid, b->local_gid, GID_BYTES));
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

		if (!gso_is_same_flow(tx[count].path, tx->path) || bytes > first_bytes ||
		    !is_simple(&tx[count]) || total_bytes + bytes > GSO_BYTES_MAX)
			break;
		count++;
		total_bytes += bytes;
		if (bytes < first_bytes)
			break;
	}
	return count;
}

static const struct gso_delta *gso_delta_of(struct gso_deltas *deltas, size_t packet_bytes)
{
	struct gso_delta *delta = &deltas->of[packet_bytes / 4 % GSO_LENGTHS];

	if (delta->packet_bytes != packet_bytes) {
		icrc_id_terms(packet_bytes, delta->by_bit, GSO_ID_BITS);
		delta->packet_bytes = packet_bytes;
	}
	return delta;
}

void gso_patch(struct gso_deltas *deltas, const struct link_tx *tx, uint16_t ip_id,
	       uint8_t *trailer)
{
	uint8_t *at = trailer + tx->trailer_bytes - ICRC_BYTES;
	uint32_t icrc = icrc_load(at);
	const struct gso_delta *delta = gso_delta_of(deltas, gso_packet_bytes(tx));

	for (int bit = 0; bit < GSO_ID_BITS; bit++) {
		if (ip_id & 1u << bit)
			icrc ^= delta->by_bit[bit];
	}
	icrc_store(at, icrc);
}

/* Space for a copy of `bytes` bytes that follows the preceding pieces. */
static uint8_t *gather_place(struct gso_gather *gather, size_t bytes)
{
	uint8_t *to = gather->copies + gather->copied_bytes;
	struct iovec *last = gather->count ? &gather->iov[gather->count - 1] : NULL;

	gather->copied_bytes += bytes;
	if (last && (uint8_t *)last->iov_base + last->iov_len == to)
		last->iov_len += bytes;
	else
		gather->iov[gather->count++] = (struct iovec){to, bytes};
	return to;
}

static void gather_copy(struct gso_gather *gather, const void *from, size_t bytes)
{
	memcpy(gather_place(gather, bytes), from, bytes);
}

/*
 * A short piece of the payload. If it cannot be read any more, the peer drops the packet because of
 * its ICRC.
 */
static void gather_payload(struct gso_gather *gather, const struct iovec *piece)
{
	user_gather_readable(gather_place(gather, piece->iov_len), piece, 1, piece->iov_len);
}

void gso_gather_packet(struct gso_gather *gather, struct gso_deltas *deltas,
		       const struct link_tx *tx, uint16_t ip_id)
{
	uint8_t trailer[LINK_TRAILER_MAX];

	gather_copy(gather, tx->hdr, tx->hdr_bytes);
	for (int i = 0; i < tx->payload_count; i++) {
		if (tx->payload[i].iov_len <= GSO_COPY_BYTES)
			gather_payload(gather, &tx->payload[i]);
		else
			gather->iov[gather->count++] = tx->payload[i];
	}
	memcpy(trailer, tx->trailer, tx->trailer_bytes);
	if (ip_id && deltas)
		gso_patch(deltas, tx, ip_id, trailer);
	gather_copy(gather, trailer, tx->trailer_bytes);
}
