/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/print.h"

#include <inttypes.h>

#include "wire/cm_msg.h"
#include "wire/line.h"

/* The length without trailing bytes of 0. */
static size_t used_bytes(const uint8_t *bytes, size_t len)
{
	while (len > 0 && bytes[len - 1] == 0)
		len--;
	return len;
}

static void add_field(struct line *line, const struct cm_field *field, const void *members)
{
	const uint8_t *at = (const uint8_t *)members + field->offset;

	if (used_bytes(at, field->size_bytes) == 0)
		return;
	line_add(line, " %s ", field->name);
	switch ((enum cm_format)field->format) {
	case CM_FORMAT_HEX:
		line_add(line, "0x%" PRIx64, cm_field_get(field, members));
		return;
	case CM_FORMAT_DEC:
		line_add(line, "%" PRIu64, cm_field_get(field, members));
		return;
	case CM_FORMAT_GID:
		line_add_gid(line, at);
		return;
	case CM_FORMAT_BYTES:
		line_add(line, "%zu bytes", used_bytes(at, field->size_bytes));
		return;
	}
}

static void add_cm(struct line *line, const struct cm_msg *msg)
{
	const struct cm_field *fields;
	size_t count;

	line_add(line, "cm ");
	line_add_words(line, cm_msg_name(msg->type));
	line_add(line, " tid 0x%" PRIx64, msg->tid);
	if (msg->mad_status)
		line_add(line, " mad_status 0x%x", msg->mad_status);
	fields = cm_msg_fields(msg->type, &count);
	for (size_t i = 0; i < count; i++)
		add_field(line, &fields[i], &msg->req);
	if (msg->type == CM_MSG_REJ && cm_rej_reason_name(msg->rej.reason))
		line_add(line, " (%s)", cm_rej_reason_name(msg->rej.reason));
}

size_t print_mad(char *out, size_t out_bytes, const void *mad, size_t len)
{
	struct line line = {.out = out, .room = out_bytes};
	struct mad_hdr hdr;
	struct cm_msg msg;

	if (out_bytes == 0)
		return 0;
	out[0] = '\0';
	if (cm_msg_parse(&msg, mad, len) == 0)
		add_cm(&line, &msg);
	else if (mad_parse(&hdr, mad, len) == 0)
		line_add(&line,
			 "mad class 0x%x version %u method 0x%x attribute 0x%x tid 0x%" PRIx64,
			 hdr.mgmt_class, hdr.class_version, hdr.method, hdr.attr_id, hdr.tid);
	else
		line_add(&line, "no mad, %zu bytes", len);
	return line.len;
}
