/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs of QPs and their sequence numbers in captures of Linux's rxe and in made packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "tools/usrdma/trace/analysis.h"
#include "wire/aeth.h"

#define ACK_SYNDROME 0x1f

static void model_pair_with_cm_messages_uses_their_qpns(void **state)
{
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	kit_read_golden(&model, &counts, "ucmatose.pcap");
	assert_int_equal(model.conn_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct conn *conn = &model.conns[i];

		assert_int_equal(conn->side[0].qpn, 0x14 + i);
		assert_int_equal(conn->side[1].qpn, 0x14 + i);
		assert_int_equal(conn->dir[0].messages, 3);
		assert_int_equal(conn->dir[1].messages, 3);
		assert_int_equal(conn->dir[0].bytes, 9000);
		assert_true(conn->cm.rtu_ns > conn->cm.rep_ns && conn->cm.rep_ns > conn->cm.req_ns);
		assert_false(conn_has_trouble(conn));
	}
	model_close(&model);
}

static void model_pair_without_cm_messages_uses_psns(void **state)
{
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	kit_read_golden(&model, &counts, "read_bw.pcap");
	assert_int_equal(model.conn_count, 1);
	assert_int_equal(model.conns[0].side[0].qpn, 0x25);
	assert_int_equal(model.conns[0].side[1].qpn, 0x25);
	assert_int_equal(model.conns[0].dir[0].reads, 5);
	assert_int_equal(model.conns[0].dir[0].bytes, 45000);
	model_close(&model);
}

static void model_pair_joins_datagrams_with_their_resolution(void **state)
{
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	kit_read_golden(&model, &counts, "udaddy.pcap");
	assert_int_equal(model.conn_count, 1);
	assert_true(model.conns[0].cm.is_sidr);
	assert_int_equal(model.conns[0].dir[0].messages, 3);
	assert_int_equal(model.conns[0].dir[1].messages, 3);
	model_close(&model);
}

static void model_follow_of_rejection_stores_the_reason(void **state)
{
	struct trace_read_counts counts;
	struct model model;

	(void)state;
	kit_read_golden(&model, &counts, "reject.pcap");
	assert_int_equal(model.conn_count, 1);
	assert_int_equal(model.conns[0].cm.reject_reason, 8);
	assert_int_equal(model.conns[0].cm.rejecter, 1);
	assert_true(conn_has_trouble(&model.conns[0]));
	model_close(&model);
}

static void model_follow_of_ack_measures_response_time(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].dir[0].rtt_count, 1);
	assert_int_equal(model.conns[0].dir[0].rtt_max_ns, kit.step_ns);
	model_close(&model);
}

static void model_follow_of_rnr_naks_counts_sequence(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	for (int i = 0; i < 10; i++) {
		kit_send_only(&kit, 5, 64);
		kit_ack(&kit, 5, aeth_make(AETH_KIND_RNR_NAK, 12));
	}
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conn_count, 1);
	assert_int_equal(model.conns[0].dir[0].messages, 1);
	assert_int_equal(model.conns[0].dir[0].rnr_naks, 10);
	assert_int_equal(model.conns[0].dir[0].rnr_in_sequence_max, 10);
	assert_int_equal(model.conns[0].dir[0].rnr_wait_ns, 10 * aeth_rnr_wait_ns(12));
	assert_int_equal(model.conns[0].dir[0].retransmitted_packets, 10);
	assert_int_equal(model.conns[0].dir[0].retransmissions[RETRANSMISSION_RNR], 10);
	/* A response to a retransmitted packet gives no response time. */
	assert_int_equal(model.conns[0].dir[0].rtt_count, 0);
	model_close(&model);
}

/*
 * ADR 0056: all packets of a split WRITE but the last have the SE bit, and their addresses follow
 * each other.
 */
static void model_follow_of_split_write_counts_one_message(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_write_only(&kit, 5, 0x1000, KIT_MTU, true);
	kit_write_only(&kit, 6, 0x1000 + KIT_MTU, KIT_MTU, true);
	kit_write_only(&kit, 7, 0x1000 + 2 * KIT_MTU, 100, false);
	/* A WRITE of its own at the next address. */
	kit_write_only(&kit, 8, 0x1000 + 2 * KIT_MTU + 100, 100, false);
	/* A peer that sets SE in each WRITE, at another address. */
	kit_write_only(&kit, 9, 0x9000, 100, true);
	kit_write_only(&kit, 10, 0x1000, 100, true);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].dir[0].packets, 6);
	assert_int_equal(model.conns[0].dir[0].writes, 4);
	assert_int_equal(model.conns[0].dir[0].messages, 4);
	model_close(&model);
}

static void model_follow_after_gap_counts_nak_and_retransmission(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 0xfffffe, 64);
	kit_send_only(&kit, 0, 64); /* 0xffffff is missing */
	kit_ack(&kit, 0xffffff, aeth_make(AETH_KIND_NAK, AETH_NAK_PSN_SEQUENCE));
	kit_send_only(&kit, 0xffffff, 64);
	kit_send_only(&kit, 0, 64);
	kit_ack(&kit, 0, ACK_SYNDROME);
	kit_ack(&kit, 0, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].dir[0].gaps, 1);
	assert_int_equal(model.conns[0].dir[0].missing_packets, 1);
	assert_int_equal(model.conns[0].dir[0].naks[AETH_NAK_PSN_SEQUENCE], 1);
	assert_int_equal(model.conns[0].dir[0].retransmitted_packets, 2);
	assert_int_equal(model.conns[0].dir[0].retransmissions[RETRANSMISSION_NAK], 1);
	assert_int_equal(model.conns[0].dir[0].duplicate_acks, 1);
	assert_true(model.conns[0].dir[0].first_nak_ns > 0);
	model_close(&model);
}

/* Packets of a batch are sent in the order of their lengths (docs/adr/0062). */
static void model_follow_of_packets_sent_ahead_finds_no_gap(void **state)
{
	static const struct {
		uint32_t psn;
		bool is_ahead;
	} sent[] = {{5, false}, {7, true}, {9, true}, {6, false}, {8, false}, {12, true}};
	const struct conn_dir *dir;
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
		kit_send(&kit, false,
			 (struct packet){.opcode = OPCODE(RC, SEND_ONLY),
					 .psn = sent[i].psn,
					 .is_ahead = sent[i].is_ahead,
					 .payload_bytes = 64});
	assert_int_equal(model_end(&model), 0);
	dir = &model.conns[0].dir[0];
	assert_int_equal(dir->messages, 6);
	assert_int_equal(dir->retransmitted_packets, 0);
	assert_int_equal(dir->out_of_order_packets, 0);
	/* 10 and 11 never followed. */
	assert_int_equal(dir->gaps, 1);
	assert_int_equal(dir->missing_packets, 2);
	model_close(&model);
}

/* At the receiver: 1 is lost, and the NAK for it arrives before all packets have been overtaken. */
static void model_follow_of_loss_among_packets_sent_ahead_counts_it(void **state)
{
	static const struct {
		uint32_t psn;
		bool is_ahead;
	} sent[] = {{0, false}, {2, true},  {4, true}, {6, true},
		    {3, false}, {5, false}, {1, false}};
	const struct conn_dir *dir;
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		kit_send(&kit, false,
			 (struct packet){.opcode = OPCODE(RC, SEND_ONLY),
					 .psn = sent[i].psn,
					 .is_ahead = sent[i].is_ahead,
					 .payload_bytes = 64});
		if (sent[i].psn == 3)
			kit_ack(&kit, 1, aeth_make(AETH_KIND_NAK, AETH_NAK_PSN_SEQUENCE));
	}
	assert_int_equal(model_end(&model), 0);
	dir = &model.conns[0].dir[0];
	assert_int_equal(dir->retransmitted_packets, 1);
	assert_int_equal(dir->retransmissions[RETRANSMISSION_NAK], 1);
	assert_int_equal(dir->missing_packets, 1);
	assert_int_equal(dir->gaps, 1);
	model_close(&model);
}

static void model_follow_of_responses_sent_ahead_finds_no_gap(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t psn;
		bool is_ahead;
	} sent[] = {
		{OPCODE(RC, READ_RESPONSE_FIRST), 10, false},
		{OPCODE(RC, READ_RESPONSE_LAST), 12, true},
		{OPCODE(RC, READ_RESPONSE_FIRST), 13, true},
		{OPCODE(RC, READ_RESPONSE_LAST), 15, true},
		{OPCODE(RC, READ_RESPONSE_MIDDLE), 11, false},
		{OPCODE(RC, READ_RESPONSE_MIDDLE), 14, false},
	};
	const struct conn_dir *dir;
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	for (uint32_t psn = 10; psn < 16; psn += 3)
		kit_send(&kit, false,
			 (struct packet){.opcode = OPCODE(RC, READ_REQUEST),
					 .psn = psn,
					 .dma_length_bytes = 3 * KIT_MTU});
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
		kit_send(&kit, true,
			 (struct packet){.opcode = sent[i].opcode,
					 .psn = sent[i].psn,
					 .syndrome = ACK_SYNDROME,
					 .is_ahead = sent[i].is_ahead,
					 .payload_bytes = KIT_MTU});
	assert_int_equal(model_end(&model), 0);
	dir = &model.conns[0].dir[0];
	assert_int_equal(dir->retransmitted_responses, 0);
	assert_int_equal(dir->gaps, 0);
	assert_int_equal(dir->bytes, 6 * KIT_MTU);
	model_close(&model);
}

static void model_follow_after_timeout_counts_wait(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 5, 64);
	kit.now_ns += 67000000;
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].dir[0].retransmissions[RETRANSMISSION_TIMEOUT], 1);
	assert_int_equal(model.conns[0].dir[0].retransmission_wait_ns[RETRANSMISSION_TIMEOUT],
			 67000000 + kit.step_ns);
	model_close(&model);
}

static void model_follow_of_read_skips_psns_of_response(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_send(&kit, false,
		 (struct packet){.opcode = OPCODE(RC, READ_REQUEST),
				 .psn = 10,
				 .dma_length_bytes = 2 * KIT_MTU + 1});
	kit_send(&kit, true,
		 (struct packet){.opcode = OPCODE(RC, READ_RESPONSE_FIRST),
				 .psn = 10,
				 .syndrome = ACK_SYNDROME,
				 .payload_bytes = KIT_MTU});
	kit_send(&kit, true,
		 (struct packet){.opcode = OPCODE(RC, READ_RESPONSE_MIDDLE),
				 .psn = 11,
				 .payload_bytes = KIT_MTU});
	kit_send(&kit, true,
		 (struct packet){.opcode = OPCODE(RC, READ_RESPONSE_LAST),
				 .psn = 12,
				 .syndrome = ACK_SYNDROME,
				 .payload_bytes = 1});
	kit_send_only(&kit, 13, 64);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].mtu_bytes, KIT_MTU);
	assert_int_equal(model.conns[0].dir[0].gaps, 0);
	assert_int_equal(model.conns[0].dir[0].retransmitted_packets, 0);
	assert_int_equal(model.conns[0].dir[0].bytes, 2 * KIT_MTU + 1 + 64);
	model_close(&model);
}

static void model_assign_notes_selects_side_by_qpn(void **state)
{
	struct model model;
	struct kit kit;

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, aeth_make(AETH_KIND_NAK, AETH_NAK_REMOTE_ACCESS));
	kit_complete(&kit, 77, 10);
	kit_complete(&kit, 78, 5);
	assert_int_equal(model_end(&model), 0);
	assert_int_equal(model.conns[0].first_status, 10);
	assert_int_equal(model.conns[0].first_status_side, 0);
	assert_int_equal(model.conns[0].failed_completions, 2);
	assert_int_equal(model.conns[0].flushed_completions, 1);
	assert_int_equal(model.processes[model.conns[0].side[0].process].pid, 4711);
	model_close(&model);
}

static void analysis_print_json_contains_the_counts(void **state)
{
	struct trace_read_counts counts;
	struct analysis analysis;
	struct model model;
	char *text = NULL;
	json_object *object, *conns;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	kit_read_golden(&model, &counts, "reject.pcap");
	analysis = (struct analysis){&model, &counts, "reject.pcap", 0};
	assert_int_equal(analysis_print_json(file, &analysis), 0);
	fclose(file);
	object = json_tokener_parse(text);
	assert_non_null(object);
	assert_int_equal(json_object_get_int(json_object_object_get(object, "roce_packets")), 2);
	conns = json_object_object_get(object, "connections");
	assert_int_equal(json_object_array_length(conns), 1);
	assert_non_null(strstr(text, "rejected the connection: reason 8"));
	assert_non_null(strstr(text, "\"retransmitted_messages\":0"));
	json_object_put(object);
	free(text);
	model_close(&model);
}

static int member_of(json_object *object, const char *key)
{
	json_object *member = NULL;

	assert_true(json_object_object_get_ex(object, key, &member));
	return json_object_get_int(member);
}

/* The keys are Wireshark's terms; docs/man/usrdma.1 lists them. */
static void analysis_print_json_names_retransmissions_and_duplicate_acks(void **state)
{
	static const char *const private_keys[] = {"packets_sent_again", "responses_sent_again",
						   "repeated_acks"};
	struct analysis analysis;
	struct model model;
	struct kit kit;
	char *text = NULL;
	size_t bytes;
	json_object *object, *dir;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	kit_open(&kit, &model);
	kit_send_only(&kit, 5, 64);
	kit_ack(&kit, 5, ACK_SYNDROME);
	kit_ack(&kit, 5, ACK_SYNDROME);
	kit_send_only(&kit, 6, 64);
	kit_send_only(&kit, 6, 64);
	kit_ack(&kit, 6, ACK_SYNDROME);
	assert_int_equal(model_end(&model), 0);
	analysis = (struct analysis){.model = &model, .source = "test"};
	assert_int_equal(analysis_print_json(file, &analysis), 0);
	fclose(file);
	object = json_tokener_parse(text);
	assert_non_null(object);
	dir = json_object_array_get_idx(
		json_object_object_get(
			json_object_array_get_idx(json_object_object_get(object, "connections"), 0),
			"requests_of_side"),
		0);
	assert_int_equal(member_of(dir, "packets"), 2);
	assert_int_equal(member_of(dir, "retransmitted_packets"), 1);
	assert_int_equal(member_of(dir, "retransmitted_responses"), 0);
	assert_int_equal(member_of(dir, "retransmissions_after_timeout"), 1);
	assert_int_equal(member_of(dir, "acks"), 3);
	assert_int_equal(member_of(dir, "duplicate_acks"), 1);
	assert_int_equal(member_of(dir, "out_of_order"), 0);
	for (size_t i = 0; i < sizeof(private_keys) / sizeof(private_keys[0]); i++)
		assert_null(strstr(text, private_keys[i]));
	json_object_put(object);
	free(text);
	model_close(&model);
}

static void analysis_print_names_rnr_storm(void **state)
{
	struct analysis analysis;
	struct model model;
	struct kit kit;
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	kit_open(&kit, &model);
	for (int i = 0; i < 10; i++) {
		kit_send_only(&kit, 5, 64);
		kit_ack(&kit, 5, aeth_make(AETH_KIND_RNR_NAK, 0));
	}
	assert_int_equal(model_end(&model), 0);
	analysis = (struct analysis){.model = &model, .source = "test"};
	analysis_print(file, &analysis);
	fclose(file);
	assert_non_null(strstr(text, "RNR storm: 10 RNR NAKs from 10.0.0.2 QP 0x22"));
	assert_non_null(strstr(text, "655.36 ms"));
	free(text);
	model_close(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_pair_with_cm_messages_uses_their_qpns),
		cmocka_unit_test(model_pair_without_cm_messages_uses_psns),
		cmocka_unit_test(model_follow_of_split_write_counts_one_message),
		cmocka_unit_test(model_pair_joins_datagrams_with_their_resolution),
		cmocka_unit_test(model_follow_of_rejection_stores_the_reason),
		cmocka_unit_test(model_follow_of_ack_measures_response_time),
		cmocka_unit_test(model_follow_of_rnr_naks_counts_sequence),
		cmocka_unit_test(model_follow_after_gap_counts_nak_and_retransmission),
		cmocka_unit_test(model_follow_of_packets_sent_ahead_finds_no_gap),
		cmocka_unit_test(model_follow_of_loss_among_packets_sent_ahead_counts_it),
		cmocka_unit_test(model_follow_of_responses_sent_ahead_finds_no_gap),
		cmocka_unit_test(model_follow_after_timeout_counts_wait),
		cmocka_unit_test(model_follow_of_read_skips_psns_of_response),
		cmocka_unit_test(model_assign_notes_selects_side_by_qpn),
		cmocka_unit_test(analysis_print_json_contains_the_counts),
		cmocka_unit_test(analysis_print_json_names_retransmissions_and_duplicate_acks),
		cmocka_unit_test(analysis_print_names_rnr_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
