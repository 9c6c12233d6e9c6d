/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_GSO_H
#define USRDMA_LINK_GSO_H

#include "link/link.h"

/*
 * GSO bursts: packets of one path and one length that one sendmsg() passes to the kernel, which segments them (UDP_SEGMENT).
 * No I/O.
 *
 * Over IPv4 the kernel gives packet i of a burst the identification i, which the ICRC covers. The CRC is linear, so the
 * difference that an identification makes depends only on the packet's length: one 32-bit constant for each bit.
 */
#define GSO_PACKETS_MAX	  60
#define GSO_BYTES_MAX	  64000u
#define GSO_IOVS_A_PACKET 6
#define GSO_ID_BITS	  6

/* The constants for the last length. Owned by the link. */
struct gso_deltas {
	size_t packet_bytes;
	uint32_t by_bit[GSO_ID_BITS];
};

static inline size_t gso_packet_bytes(const struct link_tx *tx)
{
	return (size_t)tx->hdr_bytes + tx->payload_bytes + tx->trailer_bytes;
}

/*
 * How many of the n packets, from the first on, form one burst: all as long as the first, except a shorter last packet.
 */
int gso_length(const struct link_tx *tx, int n);

/* Corrects the ICRC at the end of `trailer` from identification 0 to ip_id. */
void gso_patch(struct gso_deltas *deltas, const struct link_tx *tx, uint16_t ip_id,
	       uint8_t *trailer);

/* Fills iov with the packet's pieces, at most GSO_IOVS_A_PACKET. Returns how many. */
size_t gso_gather(const struct link_tx *tx, const uint8_t *trailer, struct iovec *iov);

#endif
