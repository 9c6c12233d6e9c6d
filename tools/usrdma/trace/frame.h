/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_FRAME_H
#define USRDMA_TOOL_TRACE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"

/*
 * The payload of a UDP datagram to the RoCEv2 port, or of a RoCEv1 frame, in a captured frame. The
 * payload points into the frame.
 */
struct frame_datagram {
	uint8_t src_gid[GID_BYTES];
	uint8_t dst_gid[GID_BYTES];
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t ip_id;	    /* IPv4 */
	bool dont_fragment; /* IPv4 */
	bool is_v1;	    /* RoCEv1: no IP and UDP headers, src_port is 0 */
	bool is_received;   /* the link header names the host of the capture as the destination */
	const uint8_t *payload;
	/* of the payload; less than wire_bytes if the capture had a snap length */
	size_t captured_bytes;
	size_t wire_bytes;
};

enum frame_result {
	FRAME_ROCE,
	FRAME_OTHER,	/* another protocol, or an unknown link type */
	FRAME_FRAGMENT, /* a fragment of an IP datagram */
	FRAME_CUT,	/* the snap length cut the headers off */
	FRAME_RESULT_COUNT
};

/*
 * Finds the RoCE packet in a frame. `link_type` is a LINKTYPE_ value of the pcap format: Ethernet
 * with VLAN tags, raw IP, BSD loopback, Linux SLL and SLL2. Reads only the `len` captured bytes;
 * `datagram` is undefined unless FRAME_ROCE is returned.
 */
enum frame_result frame_parse(struct frame_datagram *datagram, uint32_t link_type,
			      const uint8_t *bytes, size_t len) __attribute__((warn_unused_result));

/*
 * The length of the first RoCEv2 packet in the payload. With UDP segmentation offload a capture on
 * the sending host contains one datagram for a burst of packets. The packets of a burst have one
 * length, except the last, and consecutive PSNs. Returns wire_bytes if the payload is one packet or
 * the burst cannot be divided.
 */
size_t frame_first_packet_bytes(const struct frame_datagram *datagram);

#endif
