/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_TRAIN_H
#define USRDMA_LINK_TRAIN_H

#include "link/link.h"

/*
 * Trains: packets of one path and one length that the kernel takes as one datagram and splits (UDP_SEGMENT). Pure.
 *
 * Over IPv4 the packet at place i of a train gets the identification i, which the ICRC covers. The CRC is linear, so
 * what an identification changes in it depends on the packet's length alone: one 32-bit number for each bit of it.
 */
#define TRAIN_PACKETS_MAX   60
#define TRAIN_BYTES_MAX	    64000u
#define TRAIN_IOVS_A_PACKET 6
#define TRAIN_ID_BITS	    6

/* The numbers for the length that was asked for last. Owned by the link. */
struct train_deltas {
	size_t packet_bytes;
	uint32_t by_bit[TRAIN_ID_BITS];
};

static inline size_t train_packet_bytes(const struct link_tx *tx)
{
	return (size_t)tx->hdr_bytes + tx->payload_bytes + tx->trailer_bytes;
}

/*
 * How many of the n packets, from the first on, can leave as one train: all as long as the first, but for a shorter
 * last.
 */
int train_length(const struct link_tx *tx, int n);

/* Makes the ICRC at the end of `trailer`, which is of identification 0, that of ip_id. */
void train_patch(struct train_deltas *deltas, const struct link_tx *tx, uint16_t ip_id,
		 uint8_t *trailer);

/* The packet's pieces; how many of iov's TRAIN_IOVS_A_PACKET were used. */
size_t train_gather(const struct link_tx *tx, const uint8_t *trailer, struct iovec *iov);

#endif
