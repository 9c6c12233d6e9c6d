/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_ICRC_H
#define USRDMA_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/gid.h"

/*
 * The invariant CRC at the end of every packet (IBA A17, IBA 1.x §7.8.1): the CRC-32 of Ethernet, sent least significant
 * byte first, over eight bytes of ones where InfiniBand has its local header, then the IP header, the UDP header and the
 * packet through its pad. What routers may change counts as ones: IPv4 TOS, TTL and checksum; IPv6 traffic class, flow
 * label and hop limit; the UDP checksum; byte 4 of the BTH.
 *
 * Whoever sits above a UDP socket does not see the IP header. All of it is known all the same, except for two fields of
 * IPv4: the identification and the don't-fragment bit. A sender knows what its kernel puts there. A receiver solves for
 * them (docs/adr/0009).
 */

/* The first bytes of what is covered: ones, IPv6 header, UDP header. */
#define ICRC_HEAD_MAX (8 + 40 + 8)

/*
 * The addresses and ports of one direction of a path, laid out as the ICRC covers them. Filled once, constant after that,
 * owned by whoever sends or receives on the path.
 */
struct icrc_flow {
	uint8_t head[ICRC_HEAD_MAX]; /* lengths and identification are filled in per packet */
	uint8_t head_bytes;
	bool is_ipv4;
};

void icrc_flow_init(struct icrc_flow *flow, const uint8_t src_gid[GID_BYTES],
		    const uint8_t dst_gid[GID_BYTES], uint16_t src_port, uint16_t dst_port);

/* Set after icrc_flow_init(), as RoCE senders have it; of no meaning in IPv6. */
void icrc_flow_set_dont_fragment(struct icrc_flow *flow, bool dont_fragment);

/*
 * The ICRC of a packet that lies in `count` pieces, headers to pad, in order; the first holds at least the BTH. `ip_id` is
 * the IPv4 identification it will travel under; of no meaning in IPv6.
 */
uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ip_id, const struct iovec *pieces,
		      size_t count);

/* How an ICRC lies behind the pad. */
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

/* The longest packet that can be solved for, in words of 4 bytes; any larger is refused. */
#define ICRC_SOLVER_WORDS 1056

/*
 * Undoes the distance from the IP identification to the end of a packet: one factor for each length. Constant once filled;
 * owned by whoever receives, one is enough for a process.
 */
struct icrc_solver {
	uint32_t inverse[ICRC_SOLVER_WORDS];
};

void icrc_solver_init(struct icrc_solver *solver);

enum icrc_verdict {
	ICRC_WRONG,
	ICRC_RIGHT,
	/*
	 * Right, if only the sender had the don't-fragment bit other than the flow says: to be dropped like a wrong
	 * one. One damaged packet in 2^16 looks like this; several in a row, with no right one between them, mean that
	 * this sender does have it so, and its flow should say so.
	 */
	ICRC_OTHER_DONT_FRAGMENT,
};

/*
 * Judges the last 4 of a datagram's `len` bytes. Over IPv4 an ICRC is right that is right under some identification, which
 * `ip_id` then names (0 in IPv6): a packet damaged at random passes once in 2^16 times, one with a single wrong bit never.
 */
enum icrc_verdict icrc_check(const struct icrc_flow *flow, const struct icrc_solver *solver,
			     const void *datagram, size_t len, uint16_t *ip_id)
	__attribute__((warn_unused_result));

#endif
