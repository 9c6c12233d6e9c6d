/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_READ_H
#define USRDMA_TOOL_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "record.h"

#define TRACE_WHY_BYTES 160

/* The contents of a capture file. */
struct trace_read_counts {
	uint64_t packets; /* of all protocols, without those that repeat an event of usrdma */
	uint64_t roce;	  /* RoCEv2 packets, each one of a burst */
	uint64_t events;  /* of usrdma */
	uint64_t events_skipped; /* of another version of usrdma or another byte order */
	uint64_t fragments;
	uint64_t cut;	     /* headers not captured */
	uint64_t icrc_right; /* only packets that were captured whole */
	uint64_t icrc_wrong;
	bool is_truncated; /* the file ends within a packet or block */
};

/*
 * Reads a capture file in the formats pcap and pcapng, both byte orders, and passes its records to
 * `out`: the events that `usrdma trace -w` stored, and a TRACE_PACKET_SENT event for each RoCEv2
 * packet of other captures (TRACE_PACKET_RECEIVED if the file states that the host of the capture
 * received the packet). Calls out->end() at the end of the file. Returns 0; -EPROTO: not a capture
 * file, or damaged; the error of `out`. On failure `why` is a sentence.
 */
int trace_read_stream(FILE *file, const struct trace_out *out, struct trace_read_counts *counts,
		      char why[TRACE_WHY_BYTES]) __attribute__((warn_unused_result));

/* The same for a file; "-" is standard input. */
int trace_read_file(const char *path, const struct trace_out *out, struct trace_read_counts *counts,
		    char why[TRACE_WHY_BYTES]) __attribute__((warn_unused_result));

#endif
