/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PACKET_H
#define USRDMA_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

/*
 * A RoCEv2 packet is the payload of a UDP datagram to this port: headers, payload, pad, ICRC (IBA
 * A17).
 */
#define PACKET_UDP_PORT 4791

/*
 * Sizes of the headers (IBA 1.x §9.2, §9.3; XRCETH: IBA A14; notification: IBA A17; FETH: IBA A19).
 */
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

/* The longest combination of headers: BTH, XRCETH, AtomicETH. */
#define PACKET_HDR_MAX	   (BTH_BYTES + XRCETH_BYTES + ATOMIC_ETH_BYTES)
#define PACKET_PAYLOAD_MAX 4096
#define PACKET_PAD_MAX	   3
#define PACKET_TRAILER_MAX (PACKET_PAD_MAX + ICRC_BYTES)
#define PACKET_MIN	   (BTH_BYTES + ICRC_BYTES)
/* The largest headers and payload are multiples of 4 bytes, so the packet has no pad. */
#define PACKET_MAX (PACKET_HDR_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES)

/* The default partition, with the membership bit set (full member). */
#define PACKET_PKEY_DEFAULT 0xffff

/*
 * One packet in host byte order. On the stack of the parsing or building function; owns no
 * resources. Members of an extended header are valid only if the opcode has the header
 * (`info->has_...`); packet_parse() sets the others to 0.
 */
struct packet {
	const struct opcode_info
		*info; /* of `opcode`; set by packet_parse(), ignored when building */

	/* BTH */
	uint8_t opcode;
	bool is_solicited;
	bool is_migrated; /* MigReq: set in sent packets, ignored in received packets */
	bool is_fecn;
	bool is_becn;
	bool wants_ack;
	/*
	 * Bits that IBA reserves, and that receivers therefore ignore (docs/adr/0062). is_ahead: a
	 * request or READ response that was sent before some with lower PSNs, which follow.
	 * takes_ahead: a response of a responder that buffers such requests, or a READ request of a
	 * requester that accepts such responses.
	 */
	bool is_ahead;
	bool takes_ahead;
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
	uint32_t dma_length_bytes; /* RETH only */
	uint64_t swap_or_add;
	uint64_t compare;

	/* AETH (aeth.h), AtomicAckETH */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t atomic_original;

	/* ImmDt: opaque, big-endian, as in the verbs API. */
	uint32_t imm_be;

	/* IETH */
	uint32_t inv_rkey;

	/*
	 * When parsing, points into the parsed buffer. When building, only payload_bytes is used;
	 * the payload is not copied.
	 */
	const uint8_t *payload;
	size_t payload_bytes;
};

/*
 * The reason why a received datagram is dropped before its QP is looked up: results of
 * packet_parse() and PACKET_ICRC. Each reason has a counter.
 */
enum packet_reason {
	PACKET_OK,
	PACKET_SHORT,	  /* shorter than BTH and ICRC */
	PACKET_VERSION,	  /* unsupported transport header version */
	PACKET_OPCODE,	  /* unknown opcode */
	PACKET_TRUNCATED, /* shorter than its headers and ICRC */
	PACKET_PAD,	  /* not a multiple of 4 bytes, or more pad than payload */
	PACKET_PAYLOAD,	  /* payload, but the opcode permits none */
	PACKET_LONG,	  /* more payload than the largest MTU */
	PACKET_ICRC,	  /* icrc_check() did not return ICRC_RIGHT */
	PACKET_REASON_COUNT
};

/* Returns for example "truncated headers"; never NULL. */
const char *packet_reason_name(enum packet_reason reason);

/*
 * Parses the payload of one UDP datagram, including the ICRC, which is not checked (icrc.h). Does
 * not read beyond len bytes. `packet` is undefined unless PACKET_OK is returned. Reserved bits are
 * ignored; values of fields are not checked.
 */
enum packet_reason packet_parse(struct packet *packet, const void *datagram, size_t len)
	__attribute__((warn_unused_result));

/* Length of the BTH and the extended headers of an opcode. */
size_t packet_hdr_bytes(const struct opcode_info *info);

/* Payload and pad together are a multiple of 4 bytes. */
static inline size_t packet_pad_bytes(size_t payload_bytes)
{
	return -payload_bytes & PACKET_PAD_MAX;
}

/* Length of the UDP payload: headers, payload, pad, ICRC. */
size_t packet_bytes(const struct packet *packet);

/*
 * Writes the headers, at most PACKET_HDR_MAX bytes, and returns their length. `packet->opcode` must
 * be a known opcode, with a payload only if the opcode permits it. Values are truncated to the
 * width of their field.
 */
size_t packet_build_headers(const struct packet *packet, void *out);

/*
 * Writes pad and ICRC, at most PACKET_TRAILER_MAX bytes; returns their length. The ICRC covers the
 * pad (icrc.h).
 */
size_t packet_build_trailer(size_t payload_bytes, uint32_t icrc, void *out);

/*
 * Whether the payload length is valid for the packet's position in its message (IBA 1.x §9.7.4.1).
 * First and middle packets have a payload of one path MTU, a last packet is not empty, and no
 * payload exceeds the path MTU.
 */
bool packet_fits_mtu(const struct packet *packet, size_t mtu_bytes)
	__attribute__((warn_unused_result));

#endif
