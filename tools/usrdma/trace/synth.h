/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_SYNTH_H
#define USRDMA_TOOL_TRACE_SYNTH_H

#include "record.h"

/*
 * The RoCEv2 packets of a trace. FIFO elements and one-sided operations of the shared-memory
 * transport become the packets that a NIC would send: the opcodes, the PSNs that follow from the
 * first PSN of the QP and the path MTU, the ACKs and NAKs of the responder. Payload that the event
 * does not contain is missing in the packet (captured_bytes < wire_bytes). Packets and MADs of the
 * trace appear once, even if both ends were traced.
 *
 * A packet is a record of type TRACE_PACKET_SENT with the process that sent the packet. Its QP has
 * the PSN 0 + n if the trace does not contain the path of the QP.
 */

/*
 * Packets of one message that are synthesised; `note` of the packet after omitted ones contains
 * their number.
 */
#define SYNTH_PACKETS_MAX 256u

/*
 * `note`: the reason of the packet, or NULL. Both pointers are valid during the call. 0 or -errno.
 */
typedef int synth_put_packet(void *ctx, const struct trace_record *packet, const char *note);

struct synth;

/* NULL: out of memory. */
struct synth *synth_open(void);
void synth_close(struct synth *synth);

/*
 * Calls `put` for each packet of the record, in the order of the wire; returns the first error of
 * `put`.
 */
int synth_put(struct synth *synth, const struct trace_record *record, synth_put_packet *put,
	      void *ctx);

/*
 * A consumer that passes records on, with the packets of the shared-memory transport in place of
 * their events. For consumers that process packets.
 */
struct synth_filter {
	struct synth *synth;
	struct trace_out next;
};

struct trace_out synth_filter_out(struct synth_filter *filter);

#endif
