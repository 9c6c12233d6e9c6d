/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_FRAME_MAKE_H
#define USRDMA_TOOL_TRACE_FRAME_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/trace.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define FRAME_HDR_MAX (14 + 40 + 8)
#define FRAME_MAX     (FRAME_HDR_MAX + PACKET_MAX)

/* An Ethernet frame as it would be on the network. */
struct frame {
	uint8_t bytes[FRAME_MAX];
	size_t captured_bytes;
	size_t wire_bytes;
};

/*
 * Makes the frame of an event of type TRACE_PACKET_SENT or TRACE_PACKET_RECEIVED, whose GIDs must
 * be of one address family. Ethernet, IP and UDP headers are not part of the event: the MAC
 * addresses are derived from the GIDs, and the identification of an IPv4 header is computed from
 * the ICRC.
 *
 * Wireshark reports a RoCEv2 packet as malformed if a part of its payload is missing. Bytes that
 * the event does not contain are therefore zero, and the ICRC is that of the packet with these
 * zeros; only a datagram that is longer than any valid packet is truncated. Returns whether bytes
 * were replaced.
 */
bool frame_make(struct frame *frame, const struct icrc_solver *solver,
		const struct trace_event *event);

#endif
