/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_PCAPNG_H
#define USRDMA_TOOL_TRACE_PCAPNG_H

#include <stdio.h>

#include "record.h"

/*
 * Writes a pcapng file that Wireshark reads without a plugin: RoCEv2 packets, those of the
 * shared-memory transport synthesised (synth.h), each with a comment that names the process, the WR
 * and the reason. Every record is also stored unchanged (pcapng_format.h). The file is written in
 * pieces of whole blocks, so that a pipe to a reader works.
 */
struct pcapng;

/* NULL: out of memory. The caller closes the file after pcapng_close(). */
struct pcapng *pcapng_open(FILE *file);
void pcapng_close(struct pcapng *pcapng);

/* What was written: records, and the packets that show some of them. */
void pcapng_counts(const struct pcapng *pcapng, uint64_t *records, uint64_t *packets);

/* put() returns -EPIPE or another -errno of the file. */
struct trace_out pcapng_out(struct pcapng *pcapng);

#endif
