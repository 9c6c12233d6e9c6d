/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_GSO_H
#define USRDMA_LINK_GSO_H

#include "link/link.h"

/*
 * GSO bursts: packets of one flow and one length that one sendmsg() passes to the kernel, which
 * segments them (UDP_SEGMENT). No I/O.
 *
 * Over IPv4 the kernel gives packet i of a burst the identification i, which the ICRC covers. The
 * CRC is linear, so the difference that an identification makes depends only on the packet's
 * length: one 32-bit constant for each bit.
 */
#define GSO_PACKETS_MAX	  60
#define GSO_BYTES_MAX	  64000u
#define GSO_IOVS_A_PACKET 6
#define GSO_ID_BITS	  6

/*
 * The constants of the lengths that were sent, in a direct-mapped cache: bursts of first packets,
 * middle packets, last packets and ACKs alternate. Owned by the link; all zeros at first.
 */
#define GSO_LENGTHS 64u

struct gso_deltas {
	struct gso_delta {
		size_t packet_bytes; /* 0: unused */
		uint32_t by_bit[GSO_ID_BITS];
	} of[GSO_LENGTHS];
};

static inline size_t gso_packet_bytes(const struct link_tx *tx)
{
	return (size_t)tx->hdr_bytes + tx->payload_bytes + tx->trailer_bytes;
}

/*
 * Whether sendmsg() sends packets of both paths in the same way. The source port identifies the
 * socket. All QPs whose peer is the same process have equal paths, and so have the copies of a
 * path.
 */
bool gso_is_same_flow(const struct link_path *a, const struct link_path *b);

/*
 * How many of the n packets, from the first on, form one burst: all as long as the first, except a
 * shorter last packet.
 */
int gso_length(const struct link_tx *tx, int n);

/* Corrects the ICRC at the end of `trailer` from identification 0 to ip_id. */
void gso_patch(struct gso_deltas *deltas, const struct link_tx *tx, uint16_t ip_id,
	       uint8_t *trailer);

/*
 * A piece of payload up to this size is copied, because each piece costs the kernel as much as
 * copying some cache lines.
 */
#define GSO_COPY_BYTES 128u

#define GSO_COPIES_A_PACKET \
	(PACKET_HDR_MAX + LINK_TRAILER_MAX + (GSO_IOVS_A_PACKET - 2) * GSO_COPY_BYTES)

/*
 * The pieces of a burst for sendmsg(). Headers, trailers and short pieces of payload are copied, so
 * that the trailer of a packet and the header of the next one are one piece. count and copied_bytes
 * are 0 at first.
 */
struct gso_gather {
	size_t count;
	size_t copied_bytes;
	struct iovec iov[GSO_PACKETS_MAX * (GSO_IOVS_A_PACKET - 1) + 1];
	uint8_t copies[GSO_PACKETS_MAX * GSO_COPIES_A_PACKET];
};

/*
 * Adds the next packet, the ip_id-th of its burst. deltas: NULL if the packets have no
 * identification (IPv6).
 */
void gso_gather_packet(struct gso_gather *gather, struct gso_deltas *deltas,
		       const struct link_tx *tx, uint16_t ip_id);

#endif
