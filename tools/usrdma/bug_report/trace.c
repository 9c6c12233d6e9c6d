/* SPDX-License-Identifier: BSD-2-Clause */
/* The diagram of a capture file, and with --payload the file itself. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../trace/readback.h"
#include "html.h"
#include "sections.h"

static void print_base64(FILE *out, const uint8_t *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t word = (uint32_t)bytes[i] << 16;

		word |= i + 1 < len ? (uint32_t)bytes[i + 1] << 8 : 0;
		word |= i + 2 < len ? bytes[i + 2] : 0;
		fputc(digits[word >> 18], out);
		fputc(digits[word >> 12 & 63], out);
		fputc(i + 1 < len ? digits[word >> 6 & 63] : '=', out);
		fputc(i + 2 < len ? digits[word & 63] : '=', out);
	}
}

/* Reads the file into `bytes`, which has REPORT_CAPTURE_MAX + 1. 0 or -errno. */
static int read_capture(const char *path, uint8_t *bytes, size_t *len)
{
	FILE *file = fopen(path, "re");
	int error = 0;

	if (!file)
		return -errno;
	*len = fread(bytes, 1, REPORT_CAPTURE_MAX + 1, file);
	if (ferror(file))
		error = -EIO;
	else if (*len > REPORT_CAPTURE_MAX)
		error = -EFBIG;
	fclose(file);
	return error;
}

/* A link with which a browser stores the file. 0, or -errno after a message. */
static int print_capture(FILE *out, const char *path)
{
	uint8_t *bytes = malloc(REPORT_CAPTURE_MAX + 1);
	size_t len = 0;
	int error = bytes ? read_capture(path, bytes, &len) : -ENOMEM;

	if (error == -EFBIG) {
		fprintf(stderr,
			"usrdma: the trace '%s' is too large for --payload (at most %u MiB); attach it as a file\n",
			path, REPORT_CAPTURE_MAX >> 20);
	} else if (error) {
		fprintf(stderr, "usrdma: cannot read '%s': %s\n", path, strerror(-error));
	} else {
		fputs("<p><a download=\"trace.pcapng\" href=\"data:application/octet-stream;base64,",
		      out);
		print_base64(out, bytes, len);
		fprintf(out,
			"\">The capture file, %zu bytes</a>, for Wireshark and usrdma trace -r. "
			"It contains payload of messages.</p>\n",
			len);
	}
	free(bytes);
	return error;
}

static int print_trace(FILE *out, const struct bug_report *report)
{
	char why[TRACE_WHY_BYTES];
	char *part = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&part, &bytes);
	int error;

	if (!memory) {
		perror("usrdma");
		return -ENOMEM;
	}
	error = trace_print_part(memory, report->trace_path, why);
	if (fclose(memory) && !error) {
		error = -ENOMEM;
		snprintf(why, sizeof(why), "%s", strerror(ENOMEM));
	}
	if (error) {
		fprintf(stderr, "usrdma: no diagram of '%s': %s\n", report->trace_path, why);
	} else {
		fputs("<div class=\"u-wide u-diagram\" role=\"region\" tabindex=\"0\" aria-label=\"Sequence diagram\">\n",
		      out);
		fwrite(part, 1, bytes, out);
		fputs("</div>\n", out);
	}
	free(part);
	return error;
}

int section_trace(FILE *out, const struct bug_report *report)
{
	int error = 0;

	html_section(out, "trace", "Trace");
	if (report->trace_path) {
		error = print_trace(out, report);
		if (!error && report->has_payload)
			error = print_capture(out, report->trace_path);
	} else {
		html_paragraph(
			out,
			"No trace. usrdma stores none on its own; these commands record one and add its diagram to a report:");
		fputs("<pre>usrdma trace -w trace.pcapng -- PROGRAM\n"
		      "usrdma report --trace trace.pcapng</pre>\n",
		      out);
	}
	html_section_end(out);
	return error;
}
