/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcapng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "config.h"
#include "frame_make.h"
#include "pcapng_format.h"
#include "synth.h"
#include "text.h"

/* Blocks and options of pcapng (draft-ietf-opsawg-pcapng). */
#define BLOCK_SECTION	 0x0a0d0d0au
#define BLOCK_INTERFACE	 1u
#define BLOCK_STATISTICS 5u
#define BLOCK_PACKET	 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du

#define OPT_END		0
#define OPT_COMMENT	1
#define OPT_APPLICATION 4 /* of a section */
#define OPT_NAME	2 /* of an interface */
#define OPT_RESOLUTION	9 /* of an interface */
#define OPT_FLAGS	2 /* of a packet */

#define FLAG_INBOUND  1u
#define FLAG_OUTBOUND 2u

#define LINKTYPE_ETHERNET 1
#define NANOSECONDS	  9

#define INTERFACES_MAX 64
#define COMMENT_BYTES  1024
#define NAME_MAX_BYTES 64
#define BLOCK_MAX      8192

/* A block that is being built. */
struct block {
	uint8_t bytes[BLOCK_MAX];
	size_t len;
};

struct pcapng {
	FILE *file;
	struct synth *synth;
	struct icrc_solver solver;
	char interfaces[INTERFACES_MAX][NAME_MAX_BYTES];
	uint32_t interface_count;
	bool has_section;
	uint64_t total_records;
	uint64_t total_packets;
	/* During pcapng_put(). */
	const struct trace_record *record;
	uint32_t packets; /* of the record, so far */
	struct block block;
};

static void add(struct block *block, const void *bytes, size_t len)
{
	size_t padded = (len + 3) & ~(size_t)3;

	/* The sizes of all parts are bounded; BLOCK_MAX is larger than their sum. */
	if (padded > sizeof(block->bytes) - block->len)
		return;
	memcpy(block->bytes + block->len, bytes, len);
	memset(block->bytes + block->len + len, 0, padded - len);
	block->len += padded;
}

static void add_u32(struct block *block, uint32_t value)
{
	add(block, &value, sizeof(value));
}

static void add_option(struct block *block, uint16_t code, const void *bytes, size_t len)
{
	uint16_t head[2] = {code, (uint16_t)len};

	add(block, head, sizeof(head));
	add(block, bytes, len);
}

static void block_begin(struct block *block, uint32_t type)
{
	block->len = 0;
	add_u32(block, type);
	add_u32(block, 0);
}

static int block_end(struct pcapng *pcapng)
{
	struct block *block = &pcapng->block;
	uint32_t len;

	add_u32(block, OPT_END);
	len = (uint32_t)(block->len + sizeof(len));
	add_u32(block, len);
	memcpy(block->bytes + sizeof(uint32_t), &len, sizeof(len));
	return fwrite(block->bytes, 1, block->len, pcapng->file) == block->len ? 0 : -errno;
}

static int put_section(struct pcapng *pcapng)
{
	static const char application[] = "usrdma " USRDMA_VERSION;
	const uint16_t version[2] = {1, 0};
	struct block *block = &pcapng->block;

	pcapng->has_section = true;
	block_begin(block, BLOCK_SECTION);
	add_u32(block, BYTE_ORDER_MAGIC);
	add(block, version, sizeof(version));
	add_u32(block, UINT32_MAX); /* length of the section, 64 bits: not specified */
	add_u32(block, UINT32_MAX);
	add_option(block, OPT_APPLICATION, application, strlen(application));
	return block_end(pcapng);
}

/* The number of the device's interface, whose block is written when the device appears first. */
static int interface_of(struct pcapng *pcapng, const char *device, uint32_t *number)
{
	const uint16_t link[2] = {LINKTYPE_ETHERNET, 0};
	const uint8_t resolution = NANOSECONDS;
	struct block *block = &pcapng->block;
	char *name;

	if (!*device)
		device = "usrdma";
	for (*number = 0; *number < pcapng->interface_count; ++*number) {
		if (strcmp(pcapng->interfaces[*number], device) == 0)
			return 0;
	}
	if (*number == INTERFACES_MAX) {
		*number = 0;
		return 0;
	}
	name = pcapng->interfaces[pcapng->interface_count++];
	snprintf(name, NAME_MAX_BYTES, "%s", device);
	block_begin(block, BLOCK_INTERFACE);
	add(block, link, sizeof(link));
	add_u32(block, 0); /* snap length: none */
	add_option(block, OPT_NAME, name, strlen(name));
	add_option(block, OPT_RESOLUTION, &resolution, sizeof(resolution));
	return block_end(pcapng);
}

/* Bytes of the event without the zero bytes at the end. */
static size_t event_bytes(const struct trace_event *event)
{
	const uint8_t *bytes = (const uint8_t *)event;
	size_t len = sizeof(*event);

	while (len && !bytes[len - 1])
		len--;
	return len;
}

/* Appends the option that stores the record, or one without event. */
static void add_record(struct block *block, const struct trace_record *record, bool has_event)
{
	uint8_t bytes[sizeof(uint32_t) + sizeof(struct trace_option) + 2 * NAME_MAX_BYTES +
		      sizeof(struct trace_event)];
	const uint32_t pen = TRACE_OPTION_PEN;
	struct trace_option option = {
		.magic = TRACE_OPTION_MAGIC,
		.pid = record->pid,
		.time_ns = {(uint32_t)record->time_ns, (uint32_t)(record->time_ns >> 32)},
		.lost = {(uint32_t)record->lost, (uint32_t)(record->lost >> 32)},
		.event_bytes = has_event ? (uint16_t)event_bytes(&record->event) : 0,
		.program_bytes = (uint8_t)strnlen(record->program, NAME_MAX_BYTES),
		.device_bytes = (uint8_t)strnlen(record->device, NAME_MAX_BYTES),
	};
	uint8_t *at = bytes;

	memcpy(at, &pen, sizeof(pen));
	at += sizeof(pen);
	memcpy(at, &option, sizeof(option));
	at += sizeof(option);
	memcpy(at, record->program, option.program_bytes);
	at += option.program_bytes;
	memcpy(at, record->device, option.device_bytes);
	at += option.device_bytes;
	memcpy(at, &record->event, option.event_bytes);
	at += option.event_bytes;
	add_option(block, PCAPNG_OPT_CUSTOM, bytes, (size_t)(at - bytes));
}

/* The process that sent the packet, and the record or the reason that the packet shows. */
static void add_comment(struct pcapng *pcapng, const struct trace_record *packet, const char *note)
{
	char text[COMMENT_BYTES];

	if (note || pcapng->packets) {
		char program[NAME_MAX_BYTES + 1];

		snprintf(program, sizeof(program), "%s", *packet->program ? packet->program : "?");
		snprintf(text, sizeof(text), "%s[%u]%s%s", program, packet->pid, note ? ": " : "",
			 note ? note : "");
		add_option(&pcapng->block, OPT_COMMENT, text, strlen(text));
	}
	if (pcapng->packets)
		return;
	trace_text_describe(text, sizeof(text), pcapng->record);
	add_option(&pcapng->block, OPT_COMMENT, text, strlen(text));
}

/* The comment of a packet whose payload is not completely in the trace. */
static const char filled[] =
	"payload that is not in the trace is shown as zeros; the ICRC is that of the zeros";

static int put_packet(void *ctx, const struct trace_record *packet, const char *note)
{
	struct pcapng *pcapng = ctx;
	struct block *block = &pcapng->block;
	struct frame frame;
	uint32_t interface,
		flags = packet->event.type == TRACE_PACKET_SENT ? FLAG_OUTBOUND : FLAG_INBOUND;
	int ret = interface_of(pcapng, packet->device, &interface);
	bool is_filled;

	if (ret)
		return ret;
	is_filled = frame_make(&frame, &pcapng->solver, &packet->event);
	block_begin(block, BLOCK_PACKET);
	add_u32(block, interface);
	add_u32(block, (uint32_t)(packet->time_ns >> 32));
	add_u32(block, (uint32_t)packet->time_ns);
	add_u32(block, (uint32_t)frame.captured_bytes);
	add_u32(block, (uint32_t)frame.wire_bytes);
	add(block, frame.bytes, frame.captured_bytes);
	add_comment(pcapng, packet, note);
	if (is_filled)
		add_option(block, OPT_COMMENT, filled, strlen(filled));
	add_option(block, OPT_FLAGS, &flags, sizeof(flags));
	add_record(block, pcapng->record, !pcapng->packets);
	pcapng->packets++;
	return block_end(pcapng);
}

/* Stores a record that is no packet. */
static int put_event(struct pcapng *pcapng, const struct trace_record *record)
{
	struct block *block = &pcapng->block;
	uint32_t interface;
	int ret = interface_of(pcapng, record->device, &interface);

	if (ret)
		return ret;
	block_begin(block, BLOCK_STATISTICS);
	add_u32(block, interface);
	add_u32(block, (uint32_t)(record->time_ns >> 32));
	add_u32(block, (uint32_t)record->time_ns);
	add_record(block, record, true);
	return block_end(pcapng);
}

static int pcapng_put(void *ctx, const struct trace_record *record)
{
	struct pcapng *pcapng = ctx;
	int ret = pcapng->has_section ? 0 : put_section(pcapng);

	pcapng->record = record;
	pcapng->packets = 0;
	if (!ret)
		ret = synth_put(pcapng->synth, record, put_packet, pcapng);
	if (!ret && !pcapng->packets)
		ret = put_event(pcapng, record);
	pcapng->total_records += !ret;
	pcapng->total_packets += pcapng->packets;
	return ret;
}

static int pcapng_end(void *ctx)
{
	struct pcapng *pcapng = ctx;
	int ret = pcapng->has_section ? 0 : put_section(pcapng);

	if (!ret)
		ret = fflush(pcapng->file) ? -errno : 0;
	return ret;
}

struct pcapng *pcapng_open(FILE *file)
{
	struct pcapng *pcapng = calloc(1, sizeof(*pcapng));

	if (!pcapng)
		return NULL;
	pcapng->file = file;
	pcapng->synth = synth_open();
	if (!pcapng->synth) {
		free(pcapng);
		return NULL;
	}
	icrc_solver_init(&pcapng->solver);
	return pcapng;
}

void pcapng_close(struct pcapng *pcapng)
{
	if (!pcapng)
		return;
	synth_close(pcapng->synth);
	free(pcapng);
}

void pcapng_counts(const struct pcapng *pcapng, uint64_t *records, uint64_t *packets)
{
	*records = pcapng->total_records;
	*packets = pcapng->total_packets;
}

struct trace_out pcapng_out(struct pcapng *pcapng)
{
	return (struct trace_out){.put = pcapng_put, .end = pcapng_end, .ctx = pcapng};
}
