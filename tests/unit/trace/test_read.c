/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture files: the formats, byte orders and link types that trace_read_stream() accepts, and
 * damaged files.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "tools/usrdma/trace/frame.h"

/* The packets of tests/golden, all protocols and RoCEv2, as another packet analyser counts them. */
static const struct {
	const char *name;
	uint64_t packets, roce;
} goldens[] = {
	{"atomic_fa.pcap", 51, 10},   {"cmtime.pcap", 28, 25},	    {"made.pcap", 86, 86},
	{"mckey.pcap", 11, 3},	      {"rc_pingpong.pcap", 49, 36}, {"rdma_client.pcap", 11, 11},
	{"read_bw.pcap", 91, 50},     {"reject.pcap", 4, 2},	    {"rping4.pcap", 45, 41},
	{"rping6.pcap", 35, 29},      {"rping_big.pcap", 109, 105}, {"send_bw.pcap", 81, 50},
	{"uc_pingpong.pcap", 31, 18}, {"ucmatose.pcap", 59, 58},    {"ud_pingpong.pcap", 18, 6},
	{"udaddy.pcap", 10, 8},	      {"unreach.pcap", 4, 2},	    {"write_R.pcap", 27, 27},
	{"write_bw.pcap", 90, 50},
};

#define PCAP_HEADER 24
#define PCAP_PACKET 16
#define ETHERNET    14

/* A file that a test builds. */
struct made_file {
	uint8_t bytes[1 << 20];
	size_t len;
	bool is_swapped;
};

static void add_u16(struct made_file *file, uint16_t value)
{
	if (file->is_swapped)
		value = __builtin_bswap16(value);
	memcpy(file->bytes + file->len, &value, sizeof(value));
	file->len += sizeof(value);
}

static void add_u32(struct made_file *file, uint32_t value)
{
	if (file->is_swapped)
		value = __builtin_bswap32(value);
	memcpy(file->bytes + file->len, &value, sizeof(value));
	file->len += sizeof(value);
}

static void add_bytes(struct made_file *file, const void *bytes, size_t len)
{
	memcpy(file->bytes + file->len, bytes, len);
	file->len += len;
}

static void add_pad(struct made_file *file)
{
	while (file->len % 4)
		file->bytes[file->len++] = 0;
}

/* Begins a block of pcapng; returns the position of its length. */
static size_t block_begin(struct made_file *file, uint32_t type)
{
	size_t at = file->len + 4;

	add_u32(file, type);
	add_u32(file, 0);
	return at;
}

static void block_end(struct made_file *file, size_t at)
{
	uint32_t bytes = (uint32_t)(file->len + 4 - (at - 4));

	add_u32(file, bytes);
	memcpy(file->bytes + at, file->bytes + file->len - 4, 4);
}

static void add_pcapng_start(struct made_file *file, uint16_t link_type)
{
	static const uint8_t nanoseconds[4] = {9};
	size_t at = block_begin(file, 0x0a0d0d0a);

	add_u32(file, 0x1a2b3c4d);
	add_u16(file, 1);
	add_u16(file, 0);
	add_u32(file, 0xffffffff);
	add_u32(file, 0xffffffff);
	block_end(file, at);
	at = block_begin(file, 1);
	add_u16(file, link_type);
	add_u16(file, 0);
	add_u32(file, 0);
	add_u16(file, 9); /* if_tsresol: 10^-9 s */
	add_u16(file, 1);
	add_bytes(file, nanoseconds, sizeof(nanoseconds));
	add_u32(file, 0);
	block_end(file, at);
}

static void add_pcapng_packet(struct made_file *file, uint64_t time_ns, const uint8_t *frame,
			      uint32_t len, int direction)
{
	size_t at = block_begin(file, 6);

	add_u32(file, 0);
	add_u32(file, (uint32_t)(time_ns >> 32));
	add_u32(file, (uint32_t)time_ns);
	add_u32(file, len);
	add_u32(file, len);
	add_bytes(file, frame, len);
	add_pad(file);
	if (direction) {
		add_u16(file, 2);
		add_u16(file, 4);
		add_u32(file, (uint32_t)direction);
	}
	block_end(file, at);
}

typedef void put_frame(struct made_file *file, uint64_t time_ns, const uint8_t *frame,
		       uint32_t len);

static void put_pcapng(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	add_pcapng_packet(file, time_ns, frame, len, 0);
}

/* Calls `put` for each frame of a golden capture. */
static void convert_golden(struct made_file *file, const char *name, put_frame *put)
{
	size_t len, at = PCAP_HEADER;
	uint8_t *bytes = kit_load_golden(name, &len);

	while (at + PCAP_PACKET <= len) {
		uint32_t head[4];

		memcpy(head, bytes + at, sizeof(head));
		for (int i = 0; i < 4; i++)
			head[i] = le32toh(head[i]);
		put(file, head[0] * UINT64_C(1000000000) + head[1] * UINT64_C(1000),
		    bytes + at + PCAP_PACKET, head[2]);
		at += PCAP_PACKET + head[2];
	}
	free(bytes);
}

static void read_counts_packets_of_golden_captures(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		struct trace_read_counts counts;
		struct model model;

		kit_read_golden(&model, &counts, goldens[i].name);
		assert_int_equal(counts.packets, goldens[i].packets);
		assert_int_equal(counts.roce, goldens[i].roce);
		assert_int_equal(counts.icrc_right, goldens[i].roce);
		assert_int_equal(counts.icrc_wrong, 0);
		assert_false(counts.is_truncated);
		model_close(&model);
	}
}

/* The file contains the packets of rping4.pcap. */
static void assert_is_rping(const struct made_file *file)
{
	struct trace_read_counts counts, want_counts;
	struct model model, want;

	kit_read_golden(&want, &want_counts, "rping4.pcap");
	assert_int_equal(kit_read_bytes(&model, &counts, file->bytes, file->len), 0);
	assert_int_equal(counts.roce, want_counts.roce);
	assert_int_equal(counts.icrc_right, want_counts.icrc_right);
	assert_int_equal(model.item_count, want.item_count);
	for (uint32_t i = 0; i < want.item_count; i++)
		assert_memory_equal(&model.items[i], &want.items[i], sizeof(want.items[i]));
	assert_int_equal(model.conn_count, 1);
	model_close(&model);
	model_close(&want);
}

static void read_pcapng_gives_the_packets_of_pcap(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));

	(void)state;
	add_pcapng_start(file, 1);
	convert_golden(file, "rping4.pcap", put_pcapng);
	assert_is_rping(file);
	free(file);
}

static void read_pcapng_accepts_other_byte_order(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));

	(void)state;
	file->is_swapped = true;
	add_pcapng_start(file, 1);
	convert_golden(file, "rping4.pcap", put_pcapng);
	assert_is_rping(file);
	free(file);
}

static void put_swapped_pcap(struct made_file *file, uint64_t time_ns, const uint8_t *frame,
			     uint32_t len)
{
	add_u32(file, (uint32_t)(time_ns / 1000000000));
	add_u32(file, (uint32_t)(time_ns % 1000000000));
	add_u32(file, len);
	add_u32(file, len);
	add_bytes(file, frame, len);
}

static void add_pcap_start(struct made_file *file, uint32_t magic, uint32_t link_type)
{
	add_u32(file, magic);
	add_u16(file, 2);
	add_u16(file, 4);
	add_u32(file, 0);
	add_u32(file, 0);
	add_u32(file, 65535);
	add_u32(file, link_type);
}

static void read_pcap_accepts_other_byte_order_and_nanoseconds(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));

	(void)state;
	file->is_swapped = true;
	add_pcap_start(file, 0xa1b23c4d, 1);
	convert_golden(file, "rping4.pcap", put_swapped_pcap);
	assert_is_rping(file);
	free(file);
}

static void put_raw_ip(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	put_swapped_pcap(file, time_ns, frame + ETHERNET, len - ETHERNET);
}

static void put_vlan(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	uint8_t tagged[2048];

	memcpy(tagged, frame, 12);
	memcpy(tagged + 12, "\x88\xa8\0\1\x81\0\0\7", 8);
	memcpy(tagged + 20, frame + 12, len - 12);
	put_swapped_pcap(file, time_ns, tagged, len + 8);
}

static void put_sll(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	uint8_t cooked[2048] = {0, 4};

	memcpy(cooked + 14, frame + 12, len - 12);
	put_swapped_pcap(file, time_ns, cooked, len + 2);
}

static void put_sll2(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	uint8_t cooked[2048] = {[10] = 4};

	memcpy(cooked, frame + 12, 2);
	memcpy(cooked + 20, frame + 14, len - 14);
	put_swapped_pcap(file, time_ns, cooked, len + 6);
}

static void read_pcap_accepts_link_types(void **state)
{
	static const struct {
		uint32_t link_type;
		put_frame *put;
	} types[] = {{101, put_raw_ip},
		     {228, put_raw_ip},
		     {1, put_vlan},
		     {113, put_sll},
		     {276, put_sll2}};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct made_file *file = calloc(1, sizeof(*file));

		add_pcap_start(file, 0xa1b23c4d, types[i].link_type);
		convert_golden(file, "rping4.pcap", types[i].put);
		assert_is_rping(file);
		free(file);
	}
}

#define IPV6_BYTES 40
#define UDP_BYTES  8

/* As a RoCEv1 frame: the GRH has the addresses of the IPv6 header, and no UDP header follows it. */
static void put_v1(struct made_file *file, uint64_t time_ns, const uint8_t *frame, uint32_t len)
{
	const uint8_t *ip = frame + ETHERNET;
	uint8_t grh[2048];
	uint16_t payload_bytes;

	if (len < ETHERNET + IPV6_BYTES + UDP_BYTES || frame[12] != 0x86 || ip[6] != 17 ||
	    ip[IPV6_BYTES + 2] != 0x12 || ip[IPV6_BYTES + 3] != 0xb7) {
		put_swapped_pcap(file, time_ns, frame, len);
		return;
	}
	payload_bytes = (uint16_t)((ip[4] << 8 | ip[5]) - UDP_BYTES);
	memcpy(grh, frame, ETHERNET + IPV6_BYTES);
	memcpy(grh + 12, "\x89\x15", 2);
	grh[ETHERNET + 4] = (uint8_t)(payload_bytes >> 8);
	grh[ETHERNET + 5] = (uint8_t)payload_bytes;
	grh[ETHERNET + 6] = 0x1b;
	memcpy(grh + ETHERNET + IPV6_BYTES, ip + IPV6_BYTES + UDP_BYTES,
	       len - ETHERNET - IPV6_BYTES - UDP_BYTES);
	put_swapped_pcap(file, time_ns, grh, len - UDP_BYTES);
}

static void read_pcap_accepts_roce_v1_frames(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	add_pcap_start(file, 0xa1b23c4d, 1);
	convert_golden(file, "rping6.pcap", put_v1);
	assert_int_equal(kit_read_bytes(&model, &counts, file->bytes, file->len), 0);
	assert_int_equal(counts.roce, 29);
	assert_int_equal(counts.icrc_right, 0);
	assert_int_equal(counts.icrc_wrong, 0);
	model_close(&model);
	free(file);
}

static void read_of_compressed_file_names_the_command(void **state)
{
	static const uint8_t gzip[] = "\x1f\x8b\x08\x00rest of the file";
	FILE *file = fmemopen((void *)(uintptr_t)gzip, sizeof(gzip), "r");
	const struct trace_out out = {0};
	struct trace_read_counts counts;
	char why[TRACE_WHY_BYTES];

	(void)state;
	assert_non_null(file);
	assert_int_equal(trace_read_stream(file, &out, &counts, why), -EPROTO);
	assert_non_null(strstr(why, "zcat FILE | usrdma trace -r -"));
	fclose(file);
}

static void put_both_directions(struct made_file *file, uint64_t time_ns, const uint8_t *frame,
				uint32_t len)
{
	add_pcapng_packet(file, time_ns, frame, len, 2);
	add_pcapng_packet(file, time_ns + 5000, frame, len, 1);
}

static void model_put_joins_records_of_sender_and_receiver(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	add_pcapng_start(file, 1);
	convert_golden(file, "rping4.pcap", put_both_directions);
	assert_int_equal(kit_read_bytes(&model, &counts, file->bytes, file->len), 0);
	assert_int_equal(counts.roce, 2 * 41);
	assert_int_equal(model.item_count, 41);
	for (uint32_t i = 0; i < model.item_count; i++)
		assert_int_equal(model.items[i].arrival_ns, model.items[i].time_ns + 5000);
	assert_int_equal(model.conns[0].dir[0].lost_packets, 0);
	model_close(&model);
	free(file);
}

/* The frame is sent twice before it arrives twice. */
static void put_late_twice(struct made_file *file, uint64_t time_ns, const uint8_t *frame,
			   uint32_t len)
{
	add_pcapng_packet(file, time_ns, frame, len, 2);
	add_pcapng_packet(file, time_ns + 10, frame, len, 2);
	add_pcapng_packet(file, time_ns + 20, frame, len, 1);
	add_pcapng_packet(file, time_ns + 30, frame, len, 1);
}

static void model_put_joins_records_of_retransmissions(void **state)
{
	struct made_file *file = calloc(1, sizeof(*file));
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	add_pcapng_start(file, 1);
	convert_golden(file, "rping4.pcap", put_late_twice);
	assert_int_equal(kit_read_bytes(&model, &counts, file->bytes, file->len), 0);
	assert_int_equal(model.item_count, 2 * 41);
	assert_int_equal(model.conns[0].dir[0].lost_packets, 0);
	assert_int_equal(model.conns[0].dir[1].lost_packets, 0);
	model_close(&model);
	free(file);
}

static void read_rejects_files_of_other_formats(void **state)
{
	static const char *const files[] = {"x", "#!/bin/sh\n echo this is no capture\n",
					    "\x1f\x8b\x08 compressed", "\xd4\xc3\xb2\xa1 short"};
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		assert_int_equal(kit_read_bytes(&model, &counts, files[i], strlen(files[i])),
				 -EPROTO);
		model_close(&model);
	}
}

static void read_of_truncated_file_keeps_the_packets_before(void **state)
{
	struct trace_read_counts counts;
	struct model model;
	size_t len;
	uint8_t *bytes = kit_load_golden("rping4.pcap", &len);

	(void)state;
	assert_int_equal(kit_read_bytes(&model, &counts, bytes, len - 10), 0);
	assert_true(counts.is_truncated);
	assert_int_equal(counts.roce, 40);
	model_close(&model);
	free(bytes);
}

static void read_counts_wrong_icrc(void **state)
{
	struct trace_read_counts counts;
	struct model model;
	size_t len;
	uint8_t *bytes = kit_load_golden("reject.pcap", &len);

	(void)state;
	bytes[len - 1] ^= 1;
	assert_int_equal(kit_read_bytes(&model, &counts, bytes, len), 0);
	assert_int_equal(counts.icrc_wrong, 1);
	assert_int_equal(counts.icrc_right, 1);
	model_close(&model);
	free(bytes);
}

/* Two packets of one burst in one UDP datagram, as with UDP segmentation offload. */
static void frame_first_packet_bytes_divides_a_burst(void **state)
{
	uint8_t bytes[2 * 80] = {0};
	struct frame_datagram datagram = {
		.payload = bytes, .captured_bytes = 160, .wire_bytes = 160};

	(void)state;
	for (uint8_t i = 0; i < 2; i++) {
		bytes[i * 80] = 4; /* SEND ONLY */
		bytes[i * 80 + 7] = 0x22;
		bytes[i * 80 + 11] = (uint8_t)(i + 5);
	}
	assert_int_equal(frame_first_packet_bytes(&datagram), 80);
	bytes[80 + 11] = 9;
	assert_int_equal(frame_first_packet_bytes(&datagram), 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_counts_packets_of_golden_captures),
		cmocka_unit_test(read_pcapng_gives_the_packets_of_pcap),
		cmocka_unit_test(read_pcapng_accepts_other_byte_order),
		cmocka_unit_test(read_pcap_accepts_other_byte_order_and_nanoseconds),
		cmocka_unit_test(read_pcap_accepts_link_types),
		cmocka_unit_test(read_pcap_accepts_roce_v1_frames),
		cmocka_unit_test(read_of_compressed_file_names_the_command),
		cmocka_unit_test(model_put_joins_records_of_sender_and_receiver),
		cmocka_unit_test(model_put_joins_records_of_retransmissions),
		cmocka_unit_test(read_rejects_files_of_other_formats),
		cmocka_unit_test(read_of_truncated_file_keeps_the_packets_before),
		cmocka_unit_test(read_counts_wrong_icrc),
		cmocka_unit_test(frame_first_packet_bytes_divides_a_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
