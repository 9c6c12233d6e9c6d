/* SPDX-License-Identifier: BSD-2-Clause */
/* Sequence diagrams: steps, folds, and the SVG text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "tools/usrdma/trace/diagram.h"
#include "tools/usrdma/trace/steps.h"
#include "wire/aeth.h"

#define ACK_SYNDROME 0x1f
#define DEPTH_MAX    32

/* The end of a tag's name. */
static const char *name_end(const char *at)
{
	while (isalnum((unsigned char)*at))
		at++;
	return at;
}

/* Checks that tags are nested and closed, and that text contains no unescaped '&'. */
static void assert_well_formed(const char *xml)
{
	struct {
		const char *name;
		size_t len;
	} open[DEPTH_MAX];
	int depth = 0;

	for (const char *at = xml; *at; at++) {
		const char *end, *name = at + 1;

		if (*at == '&')
			assert_non_null(memchr(at, ';', 6));
		if (*at != '<')
			continue;
		end = strchr(at, '>');
		assert_non_null(end);
		if (*name == '?') {
			at = end;
			continue;
		}
		if (*name == '/') {
			size_t len = (size_t)(name_end(name + 1) - name - 1);

			assert_true(depth > 0);
			depth--;
			assert_int_equal(len, open[depth].len);
			assert_memory_equal(name + 1, open[depth].name, len);
		} else if (end[-1] != '/') {
			assert_true(depth < DEPTH_MAX);
			open[depth].name = name;
			open[depth++].len = (size_t)(name_end(name) - name);
		}
		at = end;
	}
	assert_int_equal(depth, 0);
}

static void diagram_svg_of_golden_captures_is_well_formed(void **state)
{
	static const char *const names[] = {"atomic_fa.pcap", "cmtime.pcap",	  "made.pcap",
					    "mckey.pcap",     "rc_pingpong.pcap", "rping6.pcap",
					    "rping_big.pcap", "uc_pingpong.pcap", "udaddy.pcap",
					    "write_R.pcap"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct trace_read_counts counts;
		struct model model;

		kit_read_golden(&model, &counts, names[i]);
		for (uint32_t conn = 0; conn < model.conn_count; conn++) {
			char *svg = kit_diagram(&model, conn);

			assert_well_formed(svg);
			free(svg);
		}
		model_close(&model);
	}
}

static void diagram_svg_of_rping_shows_connection_and_operations(void **state)
{
	static const char *const labels[] = {"CM REQ",
					     "port 7174",
					     "CM REP",
					     "CM RTU",
					     "connected after 29.7 ms",
					     "SEND 16 bytes",
					     "RDMA READ 64 bytes",
					     "READ response 64 bytes",
					     "RDMA WRITE 64 bytes",
					     "ACK",
					     "disconnecting",
					     "CM DREQ",
					     "CM DREP",
					     "10.77.0.3",
					     "QP 0x11",
					     "prefers-color-scheme:dark",
					     "test.pcap",
					     "no retransmission, NAK or error"};
	struct trace_read_counts counts;
	struct model model;
	char *svg;

	(void)state;
	kit_read_golden(&model, &counts, "rping4.pcap");
	svg = kit_diagram(&model, diagram_choose(&model, 0));
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		assert_non_null(strstr(svg, labels[i]));
	free(svg);
	model_close(&model);
}

static void diagram_svg_joins_packets_of_a_message(void **state)
{
	struct trace_read_counts counts;
	struct model model;
	char *svg;

	(void)state;
	kit_read_golden(&model, &counts, "rping_big.pcap");
	svg = kit_diagram(&model, 0);
	assert_non_null(strstr(svg, "RDMA WRITE 20,000 bytes"));
	assert_non_null(strstr(svg, "READ response 20,000 bytes"));
	assert_non_null(strstr(svg, "20 packets"));
	free(svg);
	model_close(&model);
}

/* How often a text is in the diagram. */
static int count_of(const char *svg, const char *text)
{
	int count = 0;

	for (const char *at = strstr(svg, text); at; at = strstr(at + 1, text))
		count++;
	return count;
}

/* ADR 0056: the WRITE Only packets of a work request are one message. */
static void diagram_svg_of_split_write_shows_one_arrow(void **state)
{
	struct model model;
	struct kit kit;
	char *svg;

	(void)state;
	kit_open(&kit, &model);
	kit_write_only(&kit, 5, 0x1000, KIT_MTU, true);
	kit_write_only(&kit, 6, 0x1000 + KIT_MTU, KIT_MTU, true);
	kit_ack(&kit, 6, ACK_SYNDROME);
	kit_write_only(&kit, 7, 0x1000 + 2 * KIT_MTU, 100, false);
	/* A WRITE of its own at the next address. */
	kit_write_only(&kit, 8, 0x1000 + 2 * KIT_MTU + 100, 200, false);
	/* A peer that sets SE in each WRITE. */
	kit_write_only(&kit, 9, 0x9000, 300, true);
	kit_write_only(&kit, 10, 0x1000, 400, true);
	assert_int_equal(model_end(&model), 0);
	svg = kit_diagram(&model, 0);
	assert_well_formed(svg);
	assert_non_null(strstr(svg, "7 packets, 4 messages, 3,048 bytes"));
	assert_int_equal(count_of(svg, "class=\"l msg\">RDMA WRITE "), 4);
	assert_int_equal(count_of(svg, "class=\"l msg\">RDMA WRITE 2,148 bytes<"), 1);
	assert_non_null(strstr(svg, "PSN 5 to 7 \302\267 3 packets"));
	assert_non_null(strstr(svg, ">RDMA WRITE 200 bytes<"));
	assert_non_null(strstr(svg, ">RDMA WRITE 300 bytes<"));
	assert_non_null(strstr(svg, ">RDMA WRITE 400 bytes<"));
	free(svg);
	model_close(&model);
}

/* The READ requests of a work request are one message, too. */
static void diagram_svg_of_split_read_shows_one_request(void **state)
{
	struct model model;
	struct kit kit;
	char *svg;

	(void)state;
	kit_open(&kit, &model);
	kit_read_request(&kit, 5, 0x1000, 3 * KIT_MTU, true);
	kit_read_request(&kit, 8, 0x1000 + 3 * KIT_MTU, KIT_MTU, false);
	kit_read_request(&kit, 9, 0x1000 + 4 * KIT_MTU, 100, false);
	assert_int_equal(model_end(&model), 0);
	svg = kit_diagram(&model, 0);
	assert_well_formed(svg);
	assert_non_null(strstr(svg, "3 packets, 2 messages"));
	assert_int_equal(count_of(svg, "class=\"l rd\">RDMA READ "), 2);
	assert_non_null(strstr(svg, ">RDMA READ 4,096 bytes<"));
	assert_non_null(strstr(svg, "PSN 5 to 8 \302\267 2 packets"));
	assert_non_null(strstr(svg, ">RDMA READ 100 bytes<"));
	free(svg);
	model_close(&model);
}

/*
 * The retransmitted part of the message is one arrow, as that of other messages of several packets.
 */
static void diagram_svg_of_split_write_shows_retransmitted_packets(void **state)
{
	struct model model;
	struct kit kit;
	char *svg;

	(void)state;
	kit_open(&kit, &model);
	for (uint32_t i = 0; i < 4; i++)
		kit_write_only(&kit, 5 + i, 0x1000 + i * KIT_MTU, KIT_MTU, i < 3);
	kit_ack(&kit, 6, aeth_make(AETH_KIND_NAK, AETH_NAK_PSN_SEQUENCE));
	for (uint32_t i = 1; i < 4; i++)
		kit_write_only(&kit, 5 + i, 0x1000 + i * KIT_MTU, KIT_MTU, i < 3);
	kit_ack(&kit, 8, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].dir[0].messages, 1);
	assert_int_equal(model.conns[0].dir[0].retransmitted_packets, 3);
	svg = kit_diagram(&model, 0);
	assert_well_formed(svg);
	assert_int_equal(count_of(svg, "class=\"l msg\">RDMA WRITE 4,096 bytes<"), 1);
	assert_int_equal(count_of(svg, "class=\"l again\">"), 1);
	assert_non_null(strstr(svg, "RDMA WRITE 3,072 bytes again<"));
	assert_non_null(strstr(svg, "PSN 6 to 8 \302\267 3 packets"));
	free(svg);
	model_close(&model);
}

/*
 * A lost packet has its own arrow; the labels of the packets around it state that they are parts of
 * a message.
 */
static void steps_open_of_split_write_shows_lost_packet(void **state)
{
	static const char *const labels[] = {
		"RDMA WRITE 2,048 bytes (first part)",
		"RDMA WRITE 1,024 bytes (continued)",
		"RDMA WRITE 1,124 bytes (continued)",
	};
	char label[STEP_TEXT_BYTES];
	struct model model;
	struct steps steps;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	for (uint32_t i = 0; i < 5; i++)
		kit_write_only(&kit, 5 + i, 0x1000 + i * KIT_MTU, i < 4 ? KIT_MTU : 100, i < 4);
	assert_int_equal(model_end(&model), 0);
	model.items[2].flags |= ITEM_LOST;
	assert_int_equal(steps_open(&steps, &model, 0, 100), 0);
	assert_int_equal(steps.count, 3);
	for (uint32_t i = 0; i < steps.count; i++) {
		assert_int_equal(steps.list[i].is_lost, i == 1);
		step_label(&steps, &steps.list[i], label);
		assert_string_equal(label, labels[i]);
	}
	steps_close(&steps);
	model_close(&model);
}

static void diagram_svg_folds_repetitions(void **state)
{
	struct model model;
	struct kit kit;
	char *svg;

	(void)state;
	kit_open(&kit, &model);
	for (uint32_t i = 0; i < 1000; i++) {
		kit_send_only(&kit, i, 64);
		kit_ack(&kit, i, ACK_SYNDROME);
	}
	assert_int_equal(model_end(&model), 0);
	svg = kit_diagram(&model, 0);
	assert_well_formed(svg);
	assert_non_null(strstr(svg, "998 more times"));
	assert_true(strlen(svg) < 20000);
	free(svg);
	model_close(&model);
}

static void diagram_svg_marks_errors_and_escapes_names(void **state)
{
	struct model model;
	struct kit kit;
	char *svg;

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, aeth_make(AETH_KIND_RNR_NAK, 12));
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, aeth_make(AETH_KIND_NAK, AETH_NAK_REMOTE_ACCESS));
	kit_complete(&kit, 77, 10);
	assert_int_equal(model_end(&model), 0);
	svg = kit_diagram(&model, diagram_choose(&model, 0));
	assert_well_formed(svg);
	assert_non_null(strstr(svg, "RNR NAK: wait 640"));
	assert_non_null(strstr(svg, "NAK: remote access error"));
	assert_non_null(strstr(svg, " again"));
	assert_non_null(strstr(svg, "WR 77"));
	assert_non_null(strstr(svg, "pro&lt;gram&gt; (pid 4711)"));
	assert_null(strstr(svg, "pro<gram>"));
	free(svg);
	model_close(&model);
}

static void steps_open_keeps_rows_near_errors(void **state)
{
	struct model model;
	struct steps steps;
	struct kit kit;
	bool has_nak = false;

	(void)state;
	kit_open(&kit, &model);
	/* Lengths without repetition. */
	for (uint32_t i = 0; i < 3000; i++)
		kit_send_only(&kit, i, i % 997 + 1);
	kit_ack(&kit, 2990, aeth_make(AETH_KIND_NAK, AETH_NAK_REMOTE_OPERATION));
	for (uint32_t i = 3000; i < 6000; i++)
		kit_send_only(&kit, i, i % 991 + 1);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(steps_open(&steps, &model, 0, 100), 0);
	assert_true(steps.count < 150);
	for (uint32_t i = 0; i < steps.count; i++)
		has_nak |= steps.list[i].style == STYLE_ERROR;
	assert_true(has_nak);
	steps_close(&steps);
	model_close(&model);
}

static void diagram_choose_prefers_connection_with_errors(void **state)
{
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	kit_read_golden(&model, &counts, "ucmatose.pcap");
	assert_int_equal(diagram_choose(&model, 0), 0);
	assert_int_equal(diagram_choose(&model, 0x15), 1);
	assert_int_equal(diagram_choose(&model, 0x999), MODEL_NONE);
	model.conns[1].dir[0].rnr_naks = 1;
	assert_int_equal(diagram_choose(&model, 0), 1);
	model_close(&model);
}

static void xml_text_replaces_invalid_bytes(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	xml_text(file, "a<b>&\"\x01\xff\xc3\xa9\xe2\x80\xa6\xed\xa0\x80z");
	fclose(file);
	assert_string_equal(text, "a&lt;b&gt;&amp;&quot;??\xc3\xa9\xe2\x80\xa6???z");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(diagram_svg_of_golden_captures_is_well_formed),
		cmocka_unit_test(diagram_svg_of_rping_shows_connection_and_operations),
		cmocka_unit_test(diagram_svg_joins_packets_of_a_message),
		cmocka_unit_test(diagram_svg_of_split_write_shows_one_arrow),
		cmocka_unit_test(diagram_svg_of_split_read_shows_one_request),
		cmocka_unit_test(diagram_svg_of_split_write_shows_retransmitted_packets),
		cmocka_unit_test(steps_open_of_split_write_shows_lost_packet),
		cmocka_unit_test(diagram_svg_folds_repetitions),
		cmocka_unit_test(diagram_svg_marks_errors_and_escapes_names),
		cmocka_unit_test(steps_open_keeps_rows_near_errors),
		cmocka_unit_test(diagram_choose_prefers_connection_with_errors),
		cmocka_unit_test(xml_text_replaces_invalid_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
