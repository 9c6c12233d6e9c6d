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
 * The 40 bytes before a received UD message (IBA A17 (RoCEv2), IBA 1.x §8.3). Over IPv6 they are
 * the IP header, which has the layout of a GRH. Over IPv4 they are 20 bytes of 0 and the IP header.
 * The IP version in the first byte distinguishes the two. The struct owns no resources.
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

/* Both GIDs must be of one address family. Values are truncated to the width of their field. */
void grh_build(const struct grh *grh, uint8_t out[GRH_BYTES]);

/* Returns 0, or -EPROTO if the bytes are neither header. Lengths and checksums are not checked. */
int grh_parse(struct grh *grh, const uint8_t bytes[GRH_BYTES]) __attribute__((warn_unused_result));

#endif
