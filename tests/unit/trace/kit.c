/* SPDX-License-Identifier: BSD-2-Clause */
#include "kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tools/usrdma/trace/diagram.h"
#include "wire/trace_packet.h"

static FILE *kit_open_golden(const char *name)
{
	const char *root = getenv("USRDMA_SOURCE");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/golden/%s", root ? root : ".", name);
	return fopen(path, "rbe");
}

static int kit_put(void *ctx, const struct trace_record *record)
{
	return model_put(ctx, record);
}

static int kit_end(void *ctx)
{
	return model_end(ctx);
}

static int kit_read_file(struct model *model, struct trace_read_counts *counts, FILE *file)
{
	struct trace_out out = {kit_put, kit_end, model};
	char why[TRACE_WHY_BYTES];

	assert_int_equal(model_open(model), 0);
	return trace_read_stream(file, &out, counts, why);
}

int kit_read_bytes(struct model *model, struct trace_read_counts *counts, const void *bytes,
		   size_t len)
{
	FILE *file = fmemopen((void *)(uintptr_t)bytes, len, "rb");
	int error;

	assert_non_null(file);
	error = kit_read_file(model, counts, file);
	fclose(file);
	return error;
}

void kit_read_golden(struct model *model, struct trace_read_counts *counts, const char *name)
{
	FILE *file = kit_open_golden(name);

	assert_non_null(file);
	assert_int_equal(kit_read_file(model, counts, file), 0);
	fclose(file);
}

uint8_t *kit_load_golden(const char *name, size_t *len)
{
	FILE *file = kit_open_golden(name);
	uint8_t *bytes = malloc(1 << 20);

	assert_non_null(file);
	assert_non_null(bytes);
	*len = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

void kit_open(struct kit *kit, struct model *model)
{
	*kit = (struct kit){.model = model, .now_ns = 1000000000, .step_ns = 10000};
	assert_int_equal(model_open(model), 0);
}

void kit_send(struct kit *kit, bool from_b, struct packet packet)
{
	static const uint8_t a[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};
	static const uint8_t b[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2};
	static const uint8_t zeros[PACKET_PAYLOAD_MAX + PACKET_TRAILER_MAX];
	uint8_t headers[PACKET_HDR_MAX];
	struct trace_record record = {
		.time_ns = kit->now_ns,
		.program = "",
		.device = "",
		.event = {.version = TRACE_VERSION, .type = TRACE_PACKET_SENT},
	};

	packet.dest_qpn = from_b ? KIT_QPN_A : KIT_QPN_B;
	packet.pkey = PACKET_PKEY_DEFAULT;
	memcpy(record.event.packet.local_gid, from_b ? b : a, 16);
	memcpy(record.event.packet.remote_gid, from_b ? a : b, 16);
	trace_packet_append(&record.event.packet, headers, packet_build_headers(&packet, headers));
	trace_packet_append(&record.event.packet, zeros,
			    packet.payload_bytes + packet_pad_bytes(packet.payload_bytes) +
				    ICRC_BYTES);
	trace_packet_fill_head(&record.event);
	assert_int_equal(model_put(kit->model, &record), 0);
	kit->now_ns += kit->step_ns;
}

void kit_send_only(struct kit *kit, uint32_t psn, size_t bytes)
{
	kit_send(kit, false,
		 (struct packet){.opcode = OPCODE(RC, SEND_ONLY),
				 .psn = psn,
				 .wants_ack = true,
				 .payload_bytes = bytes});
}

void kit_ack(struct kit *kit, uint32_t psn, uint8_t syndrome)
{
	kit_send(kit, true,
		 (struct packet){.opcode = OPCODE(RC, ACK), .psn = psn, .syndrome = syndrome});
}

void kit_write_only(struct kit *kit, uint32_t psn, uint64_t va, uint32_t bytes, bool is_solicited)
{
	kit_send(kit, false,
		 (struct packet){.opcode = OPCODE(RC, WRITE_ONLY),
				 .psn = psn,
				 .va = va,
				 .rkey = 7,
				 .dma_length_bytes = bytes,
				 .is_solicited = is_solicited,
				 .payload_bytes = bytes});
}

void kit_read_request(struct kit *kit, uint32_t psn, uint64_t va, uint32_t bytes, bool is_solicited)
{
	kit_send(kit, false,
		 (struct packet){.opcode = OPCODE(RC, READ_REQUEST),
				 .psn = psn,
				 .va = va,
				 .rkey = 7,
				 .dma_length_bytes = bytes,
				 .is_solicited = is_solicited});
}

void kit_complete(struct kit *kit, uint64_t wr_id, uint32_t status)
{
	struct trace_record record = {
		.time_ns = kit->now_ns,
		.pid = 4711,
		.program = "pro<gram>",
		.device = "",
		.event = {.version = TRACE_VERSION, .type = TRACE_CQE, .qpn = KIT_QPN_A},
	};

	record.event.cqe.wr_id = wr_id;
	record.event.cqe.status = status;
	assert_int_equal(model_put(kit->model, &record), 0);
	kit->now_ns += kit->step_ns;
}

char *kit_diagram(const struct model *model, uint32_t conn_index)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	assert_non_null(file);
	assert_int_equal(diagram_svg(file, model, conn_index, "test.pcap", false), 0);
	fclose(file);
	return text;
}
