/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/trace_line.h"
#include "base/trace_points.h"
#include "points.h"
#include "wire/trace_packet.h"

/* The description of a CM MAD with all its fields has up to 2 KiB. */
#define TEXT_LINE_BYTES 3072
#define TEXT_NAME_BYTES 32

static const char *name_of(char out[TEXT_NAME_BYTES + 1], const char *name)
{
	return *name ? trace_string(out, name, strnlen(name, TEXT_NAME_BYTES)) : "?";
}

static void describe(struct trace_line *line, const struct trace_record *record)
{
	const struct trace_point *point = trace_point_of(record->event.type);
	char program[TEXT_NAME_BYTES + 1];

	trace_line_text(line, name_of(program, record->program));
	trace_line_text_decimal(line, "[", record->pid);
	trace_line_text(line, "] ");
	trace_line_text(line, point->name);
	trace_line_text(line, ": ");
	if (line->at < line->end)
		point->print(line->at, (size_t)(line->end - line->at) + 1, &record->event);
}

void trace_text_describe(char *out, size_t out_bytes, const struct trace_record *record)
{
	struct trace_line line = trace_line_begin(out, out_bytes);

	describe(&line, record);
}

/*
 * The time of day in seconds. The last one is stored: localtime_r() takes longer than the rest of a
 * line.
 */
static const char *time_of_day(time_t seconds)
{
	static time_t last = -1;
	static char text[16];
	struct tm at;

	if (seconds != last) {
		text[0] = '\0';
		if (localtime_r(&seconds, &at))
			strftime(text, sizeof(text), "%H:%M:%S", &at);
		last = seconds;
	}
	return text;
}

void trace_text_format(char *out, size_t out_bytes, const struct trace_record *record)
{
	struct trace_line line = trace_line_begin(out, out_bytes);

	trace_line_text(&line, time_of_day((time_t)(record->time_ns / CLOCK_NS_PER_S)));
	trace_line_text(&line, ".");
	trace_line_decimal(&line, record->time_ns % CLOCK_NS_PER_S, 9);
	trace_line_text(&line, " ");
	describe(&line, record);
}

/* Whether an element of a FIFO reports an error. */
static bool is_refusal(const struct trace_fifo *fifo)
{
	return fifo->element_type == TRACE_ELEMENT_FAULT ||
	       fifo->element_type == TRACE_ELEMENT_NAK || fifo->element_type == TRACE_ELEMENT_RNR ||
	       fifo->element_type == TRACE_ELEMENT_NOT_READY;
}

static bool wants_event(const struct trace_text *text, const struct trace_event *event)
{
	switch (event->type) {
	case TRACE_IPC_REQUEST:
	case TRACE_IPC_REPLY:
	case TRACE_IPC_NOTICE:
	case TRACE_WINDOW:
		return text->wants_all;
	case TRACE_PACKET_SENT:
	case TRACE_PACKET_RECEIVED:
		return text->wants_packets ||
		       trace_packet_is_nak(event->packet.bytes, event->packet.captured_bytes);
	case TRACE_FIFO_SENT:
	case TRACE_FIFO_RECEIVED:
		return text->wants_packets || is_refusal(&event->fifo);
	case TRACE_ONE_SIDED:
		return text->wants_packets || event->one_sided.status;
	default:
		return true;
	}
}

static int text_put(void *ctx, const struct trace_record *record)
{
	struct trace_text *text = ctx;
	char line[TEXT_LINE_BYTES], program[TEXT_NAME_BYTES + 1];

	if (record->lost)
		fprintf(text->file, "%" PRIu64 " records of %s[%" PRIu32 "] were lost\n",
			record->lost, name_of(program, record->program), record->pid);
	if (!wants_event(text, &record->event))
		return ferror(text->file) ? -EIO : 0;
	trace_text_format(line, sizeof(line), record);
	fputs_unlocked(line, text->file);
	putc_unlocked('\n', text->file);
	return ferror(text->file) ? -EIO : 0;
}

static int text_end(void *ctx)
{
	struct trace_text *text = ctx;

	return fflush(text->file) ? -errno : 0;
}

struct trace_out trace_text_out(struct trace_text *text)
{
	return (struct trace_out){.put = text_put, .end = text_end, .ctx = text};
}
