/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PACKET_H
#define USRDMA_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

/* A RoCEv2 packet is the payload of a UDP datagram to this port: headers, payload, pad, ICRC (IBA A17). */
#define PACKET_UDP_PORT 4791

/* Sizes of the headers (IBA 1.x §9.2, §9.3; XRCETH: IBA A14; notification: IBA A17; FETH: IBA A19). */
#define BTH_BYTES	     12
#define DETH_BYTES	     8
#define XRCETH_BYTES	     4
#define FETH_BYTES	     4
#define RETH_BYTES	     16
#define ATOMIC_ETH_BYTES     28
#define AETH_BYTES	     4
#define ATOMIC_ACK_ETH_BYTES 8
#define IMM_BYTES	     4
#define IETH_BYTES	     4
#define NOTIFICATION_BYTES   16
#define ICRC_BYTES	     4

/* The most headers an opcode can have: BTH, XRCETH, AtomicETH. */
#define PACKET_HDR_MAX	   (BTH_BYTES + XRCETH_BYTES + ATOMIC_ETH_BYTES)
#define PACKET_PAYLOAD_MAX 4096
#define PACKET_PAD_MAX	   3
#define PACKET_TRAILER_MAX (PACKET_PAD_MAX + ICRC_BYTES)
#define PACKET_MIN	   (BTH_BYTES + ICRC_BYTES)
/* Headers and payload of the largest end on a multiple of 4, so there is no pad. */
#define PACKET_MAX (PACKET_HDR_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES)

/* Of P_Key 0xffff, the default partition, and its membership bit. */
#define PACKET_PKEY_DEFAULT 0xffff

/*
 * One packet in host order. Owned by whoever parses or builds, on its stack; a value without resources. Members of
 * extended headers mean something only where the opcode has the header (`info->has_...`); parsing zeroes the others.
 */
struct packet {
	const struct opcode_info *info; /* of `opcode`; set by parsing, ignored by building */

	/* BTH */
	uint8_t opcode;
	bool is_solicited;
	bool is_migrated; /* MigReq: send it set, ignore it inbound */
	bool is_fecn;
	bool is_becn;
	bool wants_ack;
	uint16_t pkey;
	uint32_t dest_qpn;
	uint32_t psn;

	/* DETH */
	uint32_t qkey;
	uint32_t src_qpn;

	/* XRCETH */
	uint32_t xrc_srqn;

	/* FETH */
	uint8_t flush_types; /* enum ibv_placement_type */
	uint8_t flush_level; /* enum ibv_selectivity_level */

	/* RETH, AtomicETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_length_bytes; /* RETH alone */
	uint64_t swap_or_add;
	uint64_t compare;

	/* AETH (aeth.h), AtomicAckETH */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t atomic_original;

	/* ImmDt, as the verbs pass it on: opaque, big-endian. */
	uint32_t imm_be;

	/* IETH */
	uint32_t inv_rkey;

	/* Parsed: in the buffer that was parsed. Built: only the length counts; the bytes go out from where they lie. */
	const uint8_t *payload;
	size_t payload_bytes;
};

/*
 * Why a datagram is not taken: what parsing answers, and what else can be found wrong before a QP is looked at.
 * Counted by reason.
 */
enum packet_reason {
	PACKET_OK,
	PACKET_SHORT,	  /* no room for BTH and ICRC */
	PACKET_VERSION,	  /* another transport header version */
	PACKET_OPCODE,	  /* not in the table */
	PACKET_TRUNCATED, /* ends before its extended headers and ICRC do */
	PACKET_PAD,	  /* not a multiple of 4 bytes, or more pad than payload */
	PACKET_PAYLOAD,	  /* payload with an opcode that has none */
	PACKET_LONG,	  /* more payload than the largest MTU */
	PACKET_ICRC,	  /* icrc_check() says no */
	PACKET_REASON_COUNT
};

/* "truncated headers"; never NULL. */
const char *packet_reason_name(enum packet_reason reason);

/*
 * Reads the payload of one UDP datagram, ICRC included but not checked (icrc.h). Reads nothing outside it; any other
 * answer than PACKET_OK leaves `packet` undefined. Reserved bits are ignored, values of fields not judged.
 */
enum packet_reason packet_parse(struct packet *packet, const void *datagram, size_t len)
	__attribute__((warn_unused_result));

/* BTH and extended headers of an opcode. */
size_t packet_hdr_bytes(const struct opcode_info *info);

/* Payload and pad together are a multiple of 4 bytes. */
static inline size_t packet_pad_bytes(size_t payload_bytes)
{
	return -payload_bytes & PACKET_PAD_MAX;
}

/* What UDP carries when this is built: headers, payload, pad, ICRC. */
size_t packet_bytes(const struct packet *packet);

/*
 * Writes the headers, at most PACKET_HDR_MAX bytes, and answers how many. `packet->opcode` is in the table, and there is
 * payload only where it may have some. What does not fit a field's width is cut.
 */
size_t packet_build_headers(const struct packet *packet, void *out);

/* Writes pad and ICRC, at most PACKET_TRAILER_MAX bytes, and answers how many; the ICRC covers the pad (icrc.h). */
size_t packet_build_trailer(size_t payload_bytes, uint32_t icrc, void *out);

/*
 * Whether the payload has a length that its place in the message allows: first and middle packets are full, a last one
 * is not empty, none is longer than the path MTU (IBA 1.x §9.7.4.1).
 */
bool packet_fits_mtu(const struct packet *packet, size_t mtu_bytes)
	__attribute__((warn_unused_result));

#endif
