/* SPDX-License-Identifier: BSD-2-Clause */
#include "read.h"

#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "frame.h"
#include "read_private.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/trace_packet.h"

#define PCAPNG_SECTION 0x0a0d0d0au
#define GZIP_MAGIC     0x1f8b
#define ZSTD_MAGIC     0x28b5

static int reader_grow(struct reader *reader, size_t bytes)
{
	size_t size = reader->block_size ? reader->block_size : 4096;
	uint8_t *block;

	if (bytes <= reader->block_size)
		return 0;
	while (size < bytes)
		size *= 2;
	block = realloc(reader->block, size);
	if (!block)
		return -ENOMEM;
	reader->block = block;
	reader->block_size = size;
	return 0;
}

int reader_fill(struct reader *reader, size_t offset, size_t bytes)
{
	int error = reader_grow(reader, offset + bytes);
	size_t got;

	if (error)
		return error;
	got = fread(reader->block + offset, 1, bytes, reader->file);
	if (got == bytes)
		return 1;
	if (ferror(reader->file)) {
		snprintf(reader->why, TRACE_WHY_BYTES, "cannot read the file: %s", strerror(errno));
		return -EIO;
	}
	if (got || offset)
		reader->counts->is_truncated = true;
	return 0;
}

static void count_icrc(struct reader *reader, const struct frame_datagram *datagram, size_t bytes)
{
	struct iovec covered = {(void *)(uintptr_t)datagram->payload, bytes - ICRC_BYTES};
	struct icrc_flow flow;

	icrc_flow_init(&flow, datagram->src_gid, datagram->dst_gid, datagram->src_port,
		       PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&flow, datagram->dont_fragment);
	if (icrc_compute(&flow, datagram->ip_id, &covered, 1) ==
	    icrc_load(datagram->payload + bytes - ICRC_BYTES))
		reader->counts->icrc_right++;
	else
		reader->counts->icrc_wrong++;
}

/* Passes the first `bytes` of the datagram as one packet. */
static int put_packet(struct reader *reader, const struct reader_frame *frame,
		      const struct frame_datagram *datagram, size_t bytes)
{
	size_t captured = bytes < datagram->captured_bytes ? bytes : datagram->captured_bytes;
	bool is_received = frame->direction == 1 || (!frame->direction && datagram->is_received);
	struct trace_record record = {
		.time_ns = frame->time_ns,
		.program = "",
		.device = frame->device,
		.event = {.version = TRACE_VERSION,
			  .type = is_received ? TRACE_PACKET_RECEIVED : TRACE_PACKET_SENT,
			  .bytes = TRACE_EVENT_BYTES,
			  .time_ns = frame->time_ns},
	};
	struct trace_packet *packet = &record.event.packet;

	memcpy(is_received ? packet->remote_gid : packet->local_gid, datagram->src_gid, GID_BYTES);
	memcpy(is_received ? packet->local_gid : packet->remote_gid, datagram->dst_gid, GID_BYTES);
	packet->src_port = datagram->src_port;
	packet->traffic_class = datagram->traffic_class;
	packet->hop_limit = datagram->hop_limit;
	trace_packet_append(packet, datagram->payload, captured);
	packet->wire_bytes = (uint16_t)bytes;
	trace_packet_fill_head(&record.event);
	reader->counts->roce++;
	return reader->out->put(reader->out->ctx, &record);
}

int reader_frame(struct reader *reader, const struct reader_frame *frame)
{
	struct frame_datagram datagram;

	reader->counts->packets++;
	switch (frame_parse(&datagram, frame->link_type, frame->bytes, frame->len)) {
	case FRAME_ROCE:
		break;
	case FRAME_FRAGMENT:
		reader->counts->fragments++;
		return 0;
	case FRAME_CUT:
		reader->counts->cut++;
		return 0;
	default:
		return 0;
	}
	/*
	 * The IP identification of the packets of a burst is unknown. The ICRC of RoCEv1 covers
	 * other headers.
	 */
	if (!datagram.is_v1 && frame_first_packet_bytes(&datagram) == datagram.wire_bytes &&
	    datagram.captured_bytes == datagram.wire_bytes && datagram.wire_bytes >= PACKET_MIN)
		count_icrc(reader, &datagram, datagram.wire_bytes);
	for (;;) {
		size_t bytes = frame_first_packet_bytes(&datagram);
		int error = put_packet(reader, frame, &datagram, bytes);

		if (error || bytes >= datagram.captured_bytes)
			return error;
		datagram.payload += bytes;
		datagram.captured_bytes -= bytes;
		datagram.wire_bytes -= bytes;
	}
}

static int read_any(struct reader *reader)
{
	uint32_t magic;
	int got = reader_fill(reader, 0, 4);

	if (got < 0)
		return got;
	if (!got) {
		snprintf(reader->why, TRACE_WHY_BYTES, "the file is empty");
		return -EPROTO;
	}
	memcpy(&magic, reader->block, sizeof(magic));
	if (be_load16(reader->block) == GZIP_MAGIC || be_load16(reader->block) == ZSTD_MAGIC) {
		snprintf(reader->why, TRACE_WHY_BYTES,
			 "the file is compressed; use: %s FILE | usrdma trace -r -",
			 be_load16(reader->block) == GZIP_MAGIC ? "zcat" : "zstdcat");
		return -EPROTO;
	}
	return magic == PCAPNG_SECTION ? read_pcapng(reader) : read_pcap(reader);
}

int trace_read_stream(FILE *file, const struct trace_out *out, struct trace_read_counts *counts,
		      char why[TRACE_WHY_BYTES])
{
	struct reader reader = {.file = file, .out = out, .counts = counts, .why = why};
	int error;

	*counts = (struct trace_read_counts){0};
	why[0] = '\0';
	error = read_any(&reader);
	free(reader.block);
	if (!error)
		error = out->end(out->ctx);
	if (error && !why[0])
		snprintf(why, TRACE_WHY_BYTES, "%s", strerror(-error));
	return error;
}

int trace_read_file(const char *path, const struct trace_out *out, struct trace_read_counts *counts,
		    char why[TRACE_WHY_BYTES])
{
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "re");
	int error;

	if (!file) {
		error = -errno;
		snprintf(why, TRACE_WHY_BYTES, "%s", strerror(errno));
		return error;
	}
	error = trace_read_stream(file, out, counts, why);
	if (!is_stdin)
		fclose(file);
	return error;
}
