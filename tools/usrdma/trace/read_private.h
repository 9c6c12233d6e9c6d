/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_READ_PRIVATE_H
#define USRDMA_TOOL_TRACE_READ_PRIVATE_H

#include <errno.h>

#include "read.h"

/* Files with a longer block or packet are rejected. */
#define READ_BLOCK_MAX	 (16u << 20)
#define READ_DEVICE_SIZE 64

/* A capture file while it is read; on the stack of trace_read_stream(), which frees `block`. */
struct reader {
	FILE *file;
	const struct trace_out *out;
	struct trace_read_counts *counts;
	char *why;
	bool is_swapped; /* the file has the other byte order */
	uint8_t *block;	 /* the current packet or block */
	size_t block_size;
};

/* A captured frame. */
struct reader_frame {
	uint64_t time_ns;
	uint32_t link_type;
	const uint8_t *bytes;
	size_t len;
	const char *device;
	int direction; /* 0: unknown, 1: received, 2: sent */
};

static inline uint16_t reader_u16(const struct reader *reader, const void *at)
{
	uint16_t value;

	__builtin_memcpy(&value, at, sizeof(value));
	return reader->is_swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t reader_u32(const struct reader *reader, const void *at)
{
	uint32_t value;

	__builtin_memcpy(&value, at, sizeof(value));
	return reader->is_swapped ? __builtin_bswap32(value) : value;
}

/*
 * Reads `bytes` into reader->block at `offset`, which grows as needed. 1; 0: the file ends, in
 * counts->is_truncated if not at once; or -errno.
 */
int reader_fill(struct reader *reader, size_t offset, size_t bytes)
	__attribute__((warn_unused_result));

/* Passes the RoCEv2 packets of a frame to reader->out. */
int reader_frame(struct reader *reader, const struct reader_frame *frame)
	__attribute__((warn_unused_result));

/* The rest of a file whose first 4 bytes are in reader->block. */
int read_pcap(struct reader *reader) __attribute__((warn_unused_result));
int read_pcapng(struct reader *reader) __attribute__((warn_unused_result));

#endif
