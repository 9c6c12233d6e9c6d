/* SPDX-License-Identifier: BSD-2-Clause */
/* The capture format of libpcap (draft-ietf-opsawg-pcap). */
#include <string.h>

#include "read_private.h"

#define PCAP_MICROSECONDS 0xa1b2c3d4u
#define PCAP_NANOSECONDS  0xa1b23c4du
#define PCAP_HEADER_BYTES 24
#define PCAP_PACKET_BYTES 16
#define NS_PER_S	  UINT64_C(1000000000)

/* Reads the file header. Returns the nanoseconds of a unit of the second time field, or -EPROTO. */
static int pcap_begin(struct reader *reader, uint32_t *link_type)
{
	uint32_t magic = reader_u32(reader, reader->block);

	if (magic == __builtin_bswap32(PCAP_MICROSECONDS) ||
	    magic == __builtin_bswap32(PCAP_NANOSECONDS)) {
		reader->is_swapped = true;
		magic = __builtin_bswap32(magic);
	}
	if (magic != PCAP_MICROSECONDS && magic != PCAP_NANOSECONDS) {
		snprintf(reader->why, TRACE_WHY_BYTES,
			 "not a capture file (neither pcap nor pcapng)");
		return -EPROTO;
	}
	if (reader_fill(reader, 4, PCAP_HEADER_BYTES - 4) != 1) {
		snprintf(reader->why, TRACE_WHY_BYTES, "the file ends in its header");
		return -EPROTO;
	}
	/* The upper bits contain the length of a frame check sequence. */
	*link_type = reader_u32(reader, reader->block + 20) & 0xffff;
	return magic == PCAP_NANOSECONDS ? 1 : 1000;
}

int read_pcap(struct reader *reader)
{
	uint32_t link_type = 0;
	int unit_ns = pcap_begin(reader, &link_type);
	int got;

	if (unit_ns < 0)
		return unit_ns;
	while ((got = reader_fill(reader, 0, PCAP_PACKET_BYTES)) == 1) {
		struct reader_frame frame = {.link_type = link_type, .device = ""};
		uint32_t captured = reader_u32(reader, reader->block + 8);
		int error;

		frame.time_ns = reader_u32(reader, reader->block) * NS_PER_S +
				(uint64_t)reader_u32(reader, reader->block + 4) * (uint64_t)unit_ns;
		if (captured > READ_BLOCK_MAX) {
			snprintf(reader->why, TRACE_WHY_BYTES, "a packet of %u bytes: damaged file",
				 captured);
			return -EPROTO;
		}
		got = reader_fill(reader, PCAP_PACKET_BYTES, captured);
		if (got != 1)
			return got;
		frame.bytes = reader->block + PCAP_PACKET_BYTES;
		frame.len = captured;
		error = reader_frame(reader, &frame);
		if (error)
			return error;
	}
	return got;
}
