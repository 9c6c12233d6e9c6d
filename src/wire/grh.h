/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_GRH_H
#define USRDMA_WIRE_GRH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"

#define GRH_BYTES	   40
#define GRH_FLOW_LABEL_MAX 0xfffffu

/*
 * The 40 bytes in front of a received datagram: over IPv6 its IP header, which has a GRH's layout; over IPv4 20 bytes that
 * say nothing, then the IP header (IBA A17 (RoCEv2), IBA 1.x §8.3). Which of the two it is, is said by the IP version in
 * the first byte. A value without resources.
 */
struct grh {
	uint8_t src_gid[GID_BYTES];
	uint8_t dst_gid[GID_BYTES];
	uint32_t flow_label; /* IPv6 */
	uint16_t ip_id;	     /* IPv4 */
	bool dont_fragment;  /* IPv4 */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t udp_payload_bytes; /* BTH to ICRC */
};

/* Both GIDs are of one family. What does not fit a field's width is cut. */
void grh_build(const struct grh *grh, uint8_t out[GRH_BYTES]);

/* Answers 0, or -EPROTO for what is neither header; lengths and checksums are not judged. */
int grh_parse(struct grh *grh, const uint8_t bytes[GRH_BYTES]) __attribute__((warn_unused_result));

#endif
