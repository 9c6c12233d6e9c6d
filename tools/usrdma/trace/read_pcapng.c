/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture format pcapng (draft-ietf-opsawg-pcapng) with the events of `usrdma trace -w`
 * (pcapng_format.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "pcapng_format.h"
#include "read_private.h"

#define BLOCK_SECTION	 0x0a0d0d0au
#define BLOCK_INTERFACE	 1u
#define BLOCK_OLD_PACKET 2u
#define BLOCK_SIMPLE	 3u
#define BLOCK_STATISTICS 5u
#define BLOCK_PACKET	 6u
#define SECTION_MAGIC	 0x1a2b3c4du
#define OPTION_END	 0u
#define OPTION_IF_NAME	 2u
#define OPTION_IF_TSRES	 9u
#define OPTION_IF_OFFSET 14u
#define OPTION_FLAGS	 2u
#define INTERFACES_MAX	 1024
#define HEAD_BYTES	 8 /* type and length before the content of a block */
#define NS_PER_S	 UINT64_C(1000000000)

struct pcapng_interface {
	uint32_t link_type;
	uint32_t snap_bytes;
	uint64_t ticks_per_s;
	int64_t offset_s;
	char device[READ_DEVICE_SIZE];
};

/* The current section. */
struct pcapng {
	struct reader *reader;
	uint32_t interface_count;
	struct pcapng_interface interfaces[INTERFACES_MAX];
};

/* A block or its unread part, without the length at its end. */
struct pcapng_part {
	const uint8_t *at;
	size_t len;
};

struct pcapng_option {
	uint16_t code;
	uint16_t bytes;
	const uint8_t *value;
};

static bool option_next(const struct reader *reader, struct pcapng_part *part,
			struct pcapng_option *option)
{
	size_t padded;

	if (part->len < 4)
		return false;
	option->code = reader_u16(reader, part->at);
	option->bytes = reader_u16(reader, part->at + 2);
	option->value = part->at + 4;
	padded = ((size_t)option->bytes + 3) & ~(size_t)3;
	if (option->code == OPTION_END || part->len - 4 < option->bytes)
		return false;
	if (padded > part->len - 4)
		padded = part->len - 4;
	part->at += 4 + padded;
	part->len -= 4 + padded;
	return true;
}

static uint64_t ticks_of_resolution(uint8_t resolution)
{
	uint64_t ticks = 1;

	if (resolution & 0x80)
		return UINT64_C(1) << (resolution & 63);
	for (int i = 0; i < resolution && i < 19; i++)
		ticks *= 10;
	return ticks;
}

static void read_interface(struct pcapng *file, struct pcapng_part part)
{
	struct reader *reader = file->reader;
	struct pcapng_interface *interface;
	struct pcapng_option option;

	if (part.len < 8 || file->interface_count == INTERFACES_MAX)
		return;
	interface = &file->interfaces[file->interface_count++];
	*interface = (struct pcapng_interface){
		.link_type = reader_u16(reader, part.at),
		.snap_bytes = reader_u32(reader, part.at + 4),
		.ticks_per_s = 1000000,
	};
	part.at += 8;
	part.len -= 8;
	while (option_next(reader, &part, &option)) {
		if (option.code == OPTION_IF_NAME)
			snprintf(interface->device, sizeof(interface->device), "%.*s",
				 (int)option.bytes, (const char *)option.value);
		else if (option.code == OPTION_IF_TSRES && option.bytes >= 1)
			interface->ticks_per_s = ticks_of_resolution(option.value[0]);
		else if (option.code == OPTION_IF_OFFSET && option.bytes >= 8)
			interface->offset_s =
				(int64_t)((uint64_t)reader_u32(reader,
							       option.value +
								       (reader->is_swapped ? 0 : 4))
						  << 32 |
					  reader_u32(reader,
						     option.value + (reader->is_swapped ? 4 : 0)));
	}
}

static uint64_t pcapng_time_ns(const struct pcapng_interface *interface, uint32_t high,
			       uint32_t low)
{
	uint64_t ticks = (uint64_t)high << 32 | low;
	uint64_t seconds = ticks / interface->ticks_per_s;
	__extension__ unsigned __int128 rest_ns = ticks % interface->ticks_per_s;

	rest_ns = rest_ns * NS_PER_S / interface->ticks_per_s;
	return (seconds + (uint64_t)interface->offset_s) * NS_PER_S + (uint64_t)rest_ns;
}

static int put_event(struct reader *reader, const struct trace_option *head, const uint8_t *rest)
{
	char program[UINT8_MAX + 1], device[UINT8_MAX + 1];
	struct trace_record record = {
		.time_ns = (uint64_t)head->time_ns[1] << 32 | head->time_ns[0],
		.pid = head->pid,
		.program = program,
		.device = device,
		.lost = (uint64_t)head->lost[1] << 32 | head->lost[0],
	};

	memcpy(program, rest, head->program_bytes);
	program[head->program_bytes] = '\0';
	rest += head->program_bytes;
	memcpy(device, rest, head->device_bytes);
	device[head->device_bytes] = '\0';
	rest += head->device_bytes;
	memcpy(&record.event, rest, head->event_bytes);
	if (record.event.version != TRACE_VERSION || record.event.type >= TRACE_TYPE_COUNT) {
		reader->counts->events_skipped++;
		return 0;
	}
	reader->counts->events++;
	return reader->out->put(reader->out->ctx, &record);
}

/*
 * Passes the event of a custom option to the consumer. Sets `is_ours` if the option has the format
 * of usrdma. An event has the byte order of the host that wrote it.
 */
static int read_custom(struct reader *reader, const struct pcapng_option *option, bool *is_ours)
{
	const uint8_t *rest = option->value + 4 + sizeof(struct trace_option);
	struct trace_option head;

	if (option->bytes < 4 + sizeof(head) ||
	    reader_u32(reader, option->value) != TRACE_OPTION_PEN)
		return 0;
	memcpy(&head, option->value + 4, sizeof(head));
	if (reader_u32(reader, &head.magic) != TRACE_OPTION_MAGIC)
		return 0;
	if (reader->is_swapped) {
		/* The packet of the block is used in place of the event. */
		reader->counts->events_skipped++;
		return 0;
	}
	*is_ours = true;
	if (!head.event_bytes)
		return 0;
	if (head.event_bytes > TRACE_EVENT_BYTES ||
	    option->bytes <
		    4 + sizeof(head) + head.program_bytes + head.device_bytes + head.event_bytes) {
		reader->counts->events_skipped++;
		return 0;
	}
	return put_event(reader, &head, rest);
}

/* Reads the options of a packet or statistics block. */
static int read_options(struct reader *reader, struct pcapng_part part, bool *is_ours,
			int *direction)
{
	struct pcapng_option option;

	while (option_next(reader, &part, &option)) {
		int error = 0;

		if (option.code == PCAPNG_OPT_CUSTOM)
			error = read_custom(reader, &option, is_ours);
		else if (option.code == OPTION_FLAGS && option.bytes >= 4 && direction)
			*direction = (int)(reader_u32(reader, option.value) & 3) % 3;
		if (error)
			return error;
	}
	return 0;
}

/* An Enhanced Packet Block, or the obsolete Packet Block, which has a 16-bit interface ID. */
static int read_packet(struct pcapng *file, struct pcapng_part part, bool is_old)
{
	struct reader *reader = file->reader;
	struct reader_frame frame = {0};
	const struct pcapng_interface *interface;
	uint32_t index, captured;
	size_t padded;
	bool is_ours = false;
	int error;

	if (part.len < 20)
		return 0;
	index = is_old ? reader_u16(reader, part.at) : reader_u32(reader, part.at);
	captured = reader_u32(reader, part.at + 12);
	if (index >= file->interface_count || captured > part.len - 20)
		return 0;
	interface = &file->interfaces[index];
	frame.time_ns = pcapng_time_ns(interface, reader_u32(reader, part.at + 4),
				       reader_u32(reader, part.at + 8));
	frame.link_type = interface->link_type;
	frame.device = interface->device;
	frame.bytes = part.at + 20;
	frame.len = captured;
	padded = ((size_t)captured + 3) & ~(size_t)3;
	if (padded > part.len - 20)
		padded = part.len - 20;
	part.at += 20 + padded;
	part.len -= 20 + padded;
	error = read_options(reader, part, &is_ours, &frame.direction);
	return error || is_ours ? error : reader_frame(reader, &frame);
}

/* A Simple Packet Block has no time. */
static int read_simple(struct pcapng *file, struct pcapng_part part)
{
	const struct pcapng_interface *interface = &file->interfaces[0];
	struct reader_frame frame = {0};
	size_t len;

	if (part.len < 4 || !file->interface_count)
		return 0;
	len = reader_u32(file->reader, part.at);
	if (interface->snap_bytes && len > interface->snap_bytes)
		len = interface->snap_bytes;
	if (len > part.len - 4)
		len = part.len - 4;
	frame.link_type = interface->link_type;
	frame.device = interface->device;
	frame.bytes = part.at + 4;
	frame.len = len;
	return reader_frame(file->reader, &frame);
}

static int read_statistics(struct pcapng *file, struct pcapng_part part)
{
	bool is_ours = false;

	if (part.len < 12)
		return 0;
	part.at += 12;
	part.len -= 12;
	return read_options(file->reader, part, &is_ours, NULL);
}

static int read_content(struct pcapng *file, uint32_t type, struct pcapng_part part)
{
	switch (type) {
	case BLOCK_INTERFACE:
		read_interface(file, part);
		return 0;
	case BLOCK_PACKET:
		return read_packet(file, part, false);
	case BLOCK_OLD_PACKET:
		return read_packet(file, part, true);
	case BLOCK_SIMPLE:
		return read_simple(file, part);
	case BLOCK_STATISTICS:
		return read_statistics(file, part);
	default:
		return 0;
	}
}

/* The magic number at the start of a section defines the byte order of its length, too. */
static int pcapng_begin_section(struct pcapng *file)
{
	struct reader *reader = file->reader;
	uint32_t magic;
	int got = reader_fill(reader, HEAD_BYTES, 4);

	if (got != 1)
		return got;
	memcpy(&magic, reader->block + HEAD_BYTES, sizeof(magic));
	reader->is_swapped = magic == __builtin_bswap32(SECTION_MAGIC);
	file->interface_count = 0;
	if (magic == SECTION_MAGIC || reader->is_swapped)
		return 1;
	snprintf(reader->why, TRACE_WHY_BYTES, "unknown byte order of a pcapng section");
	return -EPROTO;
}

/* Reads the block whose type and length are in reader->block. 1; 0: end of the file; or -errno. */
static int pcapng_block(struct pcapng *file)
{
	struct reader *reader = file->reader;
	uint32_t type = reader_u32(reader, reader->block);
	size_t have = HEAD_BYTES, bytes;
	struct pcapng_part part;
	int got, error;

	if (type == BLOCK_SECTION) {
		got = pcapng_begin_section(file);
		if (got != 1)
			return got;
		have += 4;
	}
	bytes = reader_u32(reader, reader->block + 4);
	if (bytes < have + 4 || bytes > READ_BLOCK_MAX || bytes % 4) {
		snprintf(reader->why, TRACE_WHY_BYTES, "a block of %zu bytes: damaged file", bytes);
		return -EPROTO;
	}
	got = reader_fill(reader, have, bytes - have);
	if (got != 1)
		return got;
	part = (struct pcapng_part){reader->block + HEAD_BYTES, bytes - HEAD_BYTES - 4};
	error = read_content(file, type, part);
	return error ? error : 1;
}

int read_pcapng(struct reader *reader)
{
	struct pcapng *file = calloc(1, sizeof(*file));
	int got;

	if (!file)
		return -ENOMEM;
	file->reader = reader;
	got = reader_fill(reader, 4, HEAD_BYTES - 4);
	while (got == 1) {
		got = pcapng_block(file);
		if (got == 1)
			got = reader_fill(reader, 0, HEAD_BYTES);
	}
	free(file);
	return got;
}
