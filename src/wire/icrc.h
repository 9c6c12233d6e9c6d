/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_ICRC_H
#define USRDMA_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/gid.h"

/*
 * The invariant CRC at the end of every packet (IBA A17, IBA 1.x §7.8.1): the CRC-32 of Ethernet,
 * sent least significant byte first. It covers 8 bytes of ones in place of InfiniBand's LRH, the IP
 * header, the UDP header and the packet including its pad. Fields that routers may change are
 * replaced by ones: IPv4 TOS, TTL and checksum; IPv6 traffic class, flow label and hop limit; the
 * UDP checksum; byte 4 of the BTH.
 *
 * A program that uses a UDP socket does not receive the IP header. It can derive all covered fields
 * except two of IPv4: the identification and the don't-fragment bit. On the sending side the values
 * that the kernel uses are known. The receiving side computes them from the ICRC (docs/adr/0009).
 */

/* The covered bytes before the packet: 8 bytes of ones, IPv6 header, UDP header. */
#define ICRC_HEAD_MAX (8 + 40 + 8)

/*
 * The addresses and ports of one direction of a path, in the layout that the ICRC covers. Constant
 * after initialisation. Owned by the sender or receiver of the path.
 */
struct icrc_flow {
	uint8_t head[ICRC_HEAD_MAX]; /* lengths and identification are set for each packet */
	uint8_t head_bytes;
	bool is_ipv4;
};

void icrc_flow_init(struct icrc_flow *flow, const uint8_t src_gid[GID_BYTES],
		    const uint8_t dst_gid[GID_BYTES], uint16_t src_port, uint16_t dst_port);

/* icrc_flow_init() sets the bit, as RoCE senders do. No effect with IPv6. */
void icrc_flow_set_dont_fragment(struct icrc_flow *flow, bool dont_fragment);

/*
 * The ICRC of a packet in `count` pieces, from the BTH to the pad; the first piece contains at
 * least the BTH. `ip_id` is the IPv4 identification with which the packet is sent; ignored with
 * IPv6.
 */
uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ip_id, const struct iovec *pieces,
		      size_t count);

/*
 * A CRC is linear: a bit of the IPv4 identification changes the ICRC by a term that depends only on
 * the packet's length, which includes the ICRC. by_bit: the terms of the bits 0 to count - 1, count
 * at most 8.
 */
void icrc_id_terms(size_t packet_bytes, uint32_t *by_bit, int count);

/* Stores an ICRC in the byte order of the wire. */
static inline void icrc_store(void *at, uint32_t icrc)
{
	uint8_t *bytes = at;

	bytes[0] = (uint8_t)icrc;
	bytes[1] = (uint8_t)(icrc >> 8);
	bytes[2] = (uint8_t)(icrc >> 16);
	bytes[3] = (uint8_t)(icrc >> 24);
}

static inline uint32_t icrc_load(const void *at)
{
	const uint8_t *bytes = at;

	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/*
 * Packets must be shorter than this number of 4-byte words; icrc_check() rejects longer IPv4
 * packets if ip_id is not 0.
 */
#define ICRC_SOLVER_WORDS 1056

/*
 * For each packet length, the inverse of the power of x by which the identification is multiplied
 * in the CRC (icrc.c). Constant after initialisation. Owned by the receiver; one per process is
 * sufficient.
 */
struct icrc_solver {
	uint32_t inverse[ICRC_SOLVER_WORDS];
};

void icrc_solver_init(struct icrc_solver *solver);

enum icrc_disposition {
	ICRC_WRONG,
	ICRC_RIGHT,
	/*
	 * Correct if the sender used the opposite don't-fragment bit to that in the flow. The
	 * packet must be dropped, as with ICRC_WRONG: one corrupted packet in 2^16 gives this
	 * result. If several packets in sequence give it, with no correct packet between them, the
	 * sender uses the other value; the caller should then change the flow.
	 */
	ICRC_OTHER_DONT_FRAGMENT,
};

/*
 * Checks the ICRC, the last 4 of the `len` bytes of a datagram. Over IPv4 the ICRC is correct if it
 * is correct for any identification, which is stored in `ip_id` (0 with IPv6). Therefore one
 * randomly corrupted IPv4 packet in 2^16 is accepted; a packet with a single wrong bit is always
 * detected.
 */
enum icrc_disposition icrc_check(const struct icrc_flow *flow, const struct icrc_solver *solver,
				 const void *datagram, size_t len, uint16_t *ip_id)
	__attribute__((warn_unused_result));

#endif
