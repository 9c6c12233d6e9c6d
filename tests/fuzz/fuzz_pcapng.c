/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sequence of events with arbitrary members, as processes of other users write them into their
 * trace rings. The synthesised packets and the capture file contain no more than the limits permit,
 * and the reader finds every event unchanged. Targets: synth.c, synth_local.c, flow.c,
 * synth_packet.c, frame_make.c, pcapng.c.
 *
 * Input: for each event its length and its first bytes; the rest is zero.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/usrdma/trace/pcapng.h"
#include "tools/usrdma/trace/read.h"

#define EVENTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct trace_event events[EVENTS_MAX];
static size_t event_count, read_count;

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void take_events(const uint8_t *data, size_t size)
{
	for (event_count = 0; size && event_count < EVENTS_MAX; event_count++) {
		struct trace_event *event = &events[event_count];
		size_t bytes = data[0] < size - 1 ? data[0] : size - 1;

		memset(event, 0, sizeof(*event));
		memcpy(event, data + 1, bytes);
		event->version = TRACE_VERSION;
		event->type %= TRACE_TYPE_COUNT; /* the reader skips other types */
		event->bytes = TRACE_EVENT_BYTES;
		data += 1 + bytes;
		size -= 1 + bytes;
	}
}

static int compare(void *ctx, const struct trace_record *record)
{
	(void)ctx;
	must(read_count < event_count);
	must(memcmp(&record->event, &events[read_count], sizeof(record->event)) == 0);
	must(record->time_ns == 1000 + read_count && record->pid == 7 && record->lost == 3);
	must(strcmp(record->program, "program") == 0 && strcmp(record->device, "lo") == 0);
	read_count++;
	return 0;
}

static int compare_end(void *ctx)
{
	(void)ctx;
	return 0;
}

static void write_file(FILE *file)
{
	struct pcapng *pcapng = pcapng_open(file);
	struct trace_out out;

	must(pcapng);
	out = pcapng_out(pcapng);
	for (size_t i = 0; i < event_count; i++) {
		const struct trace_record record = {
			.time_ns = 1000 + i,
			.pid = 7,
			.program = "program",
			.device = "lo",
			.lost = 3,
			.event = events[i],
		};

		must(!out.put(out.ctx, &record));
	}
	must(!out.end(out.ctx));
	pcapng_close(pcapng);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct trace_out out = {.put = compare, .end = compare_end};
	struct trace_read_counts counts = {0};
	char why[TRACE_WHY_BYTES], *bytes = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&bytes, &len);

	must(file);
	take_events(data, size);
	write_file(file);
	must(!fclose(file));
	read_count = 0;
	file = fmemopen(bytes, len, "r");
	must(file);
	must(!trace_read_stream(file, &out, &counts, why));
	must(read_count == event_count);
	must(!fclose(file));
	free(bytes);
	return 0;
}
