/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/trace_points.h"
#include "points.h"

/* The description of a CM MAD with all its fields has up to 2 KiB. */
#define TEXT_LINE_BYTES 3072
#define TEXT_NAME_BYTES 32

static const char *name_of(char out[TEXT_NAME_BYTES + 1], const char *name)
{
	return *name ? trace_string(out, name, strnlen(name, TEXT_NAME_BYTES)) : "?";
}

void trace_text_describe(char *out, size_t out_bytes, const struct trace_record *record)
{
	const struct trace_point *point = trace_point_of(record->event.type);
	char program[TEXT_NAME_BYTES + 1];
	int len = snprintf(out, out_bytes,
			   "%s[%" PRIu32 "] %s: ", name_of(program, record->program), record->pid,
			   point->name);

	if (len >= 0 && (size_t)len < out_bytes)
		point->print(out + len, out_bytes - (size_t)len, &record->event);
}

void trace_text_format(char *out, size_t out_bytes, const struct trace_record *record)
{
	time_t seconds = (time_t)(record->time_ns / CLOCK_NS_PER_S);
	char when[16] = "";
	struct tm at;
	int len;

	if (localtime_r(&seconds, &at))
		strftime(when, sizeof(when), "%H:%M:%S", &at);
	len = snprintf(out, out_bytes, "%s.%09" PRIu64 " ", when,
		       (uint64_t)(record->time_ns % CLOCK_NS_PER_S));
	if (len >= 0 && (size_t)len < out_bytes)
		trace_text_describe(out + len, out_bytes - (size_t)len, record);
}

static bool is_detail(uint8_t type)
{
	return type == TRACE_IPC_REQUEST || type == TRACE_IPC_REPLY || type == TRACE_IPC_NOTICE ||
	       type == TRACE_WINDOW;
}

static int text_put(void *ctx, const struct trace_record *record)
{
	struct trace_text *text = ctx;
	char line[TEXT_LINE_BYTES], program[TEXT_NAME_BYTES + 1];

	if (record->lost)
		fprintf(text->file, "%" PRIu64 " records of %s[%" PRIu32 "] were lost\n",
			record->lost, name_of(program, record->program), record->pid);
	if (is_detail(record->event.type) && !text->wants_all)
		return ferror(text->file) ? -EIO : 0;
	trace_text_format(line, sizeof(line), record);
	fputs(line, text->file);
	putc('\n', text->file);
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
