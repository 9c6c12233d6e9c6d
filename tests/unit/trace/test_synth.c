/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RoCEv2 packets of events of the shared-memory transport: opcodes, PSNs, acknowledgments,
 * repeated events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "local/ring.h"
#include "tools/usrdma/trace/synth.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#define REQUESTER 0x11
#define RESPONDER 0x22
#define MTU	  1024
#define FIRST_PSN 0xfffffe /* the PSNs wrap */
#define KEPT_MAX  600

static struct synth *synth;
static struct trace_record kept[KEPT_MAX];
static struct packet packets[KEPT_MAX];
static unsigned int count;
static uint32_t requester_psn;

static int keep(void *ctx, const struct trace_record *packet, const char *note)
{
	(void)ctx;
	(void)note;
	assert_true(count < KEPT_MAX);
	assert_int_equal(packet->event.type, TRACE_PACKET_SENT);
	assert_true(packet->event.packet.captured_bytes <= packet->event.packet.wire_bytes);
	kept[count++] = *packet;
	return 0;
}

static void put(const struct trace_event *event, uint32_t pid)
{
	const struct trace_record record = {
		.time_ns = 1, .pid = pid, .program = "test", .device = "lo", .event = *event};

	count = 0;
	assert_int_equal(synth_put(synth, &record, keep, NULL), 0);
	/* Bytes that are not captured are zero, so that every packet can be parsed. */
	for (unsigned int i = 0; i < count; i++) {
		static uint8_t bytes[KEPT_MAX][PACKET_MAX];
		const struct trace_packet *packet = &kept[i].event.packet;

		memset(bytes[i], 0, sizeof(bytes[i]));
		memcpy(bytes[i], packet->bytes, packet->captured_bytes);
		assert_int_equal(packet_parse(&packets[i], bytes[i], packet->wire_bytes),
				 PACKET_OK);
		assert_true(packet_fits_mtu(&packets[i], MTU));
	}
}

static void put_path(uint32_t qpn, uint32_t remote_qpn, uint32_t sq_psn)
{
	struct trace_event event = {
		.type = TRACE_QP_PATH,
		.qpn = qpn,
		.qp_path = {.remote_qpn = remote_qpn,
			    .sq_psn = sq_psn,
			    .mtu_bytes = MTU,
			    .qp_type = IBV_QPT_RC},
	};

	event.qp_path.local_gid[15] = (uint8_t)qpn;
	event.qp_path.remote_gid[15] = (uint8_t)remote_qpn;
	put(&event, qpn);
}

static int open_synth(void **state)
{
	(void)state;
	synth = synth_open();
	requester_psn = FIRST_PSN;
	put_path(REQUESTER, RESPONDER, requester_psn);
	put_path(RESPONDER, REQUESTER, 500);
	return synth ? 0 : -1;
}

static int close_synth(void **state)
{
	(void)state;
	synth_close(synth);
	return 0;
}

/* `kind`: enum trace_element, or the type of a request with a response of its own. */
static struct trace_event element(enum trace_type type, unsigned int kind, uint32_t ssn,
				  uint32_t bytes)
{
	bool is_response = kind >= TRACE_ELEMENT_ACK && kind <= TRACE_ELEMENT_ATOMIC_RESULT;

	return (struct trace_event){
		.type = (uint8_t)type,
		.qpn = is_response ? REQUESTER : RESPONDER,
		.fifo = {.src_qpn = is_response ? RESPONDER : REQUESTER,
			 .message_seq = ring_first_ssn(requester_psn) + ssn,
			 .message_bytes = bytes,
			 .element_bytes = (uint16_t)bytes,
			 .element_type = (uint8_t)kind,
			 .flags = TRACE_ELEMENT_FIRST | TRACE_ELEMENT_LAST},
	};
}

static void put_sent(enum trace_element kind, uint32_t ssn, uint32_t bytes)
{
	struct trace_event event = element(TRACE_FIFO_SENT, kind, ssn, bytes);

	put(&event, kind >= TRACE_ELEMENT_ACK ? RESPONDER : REQUESTER);
}

static void assert_packet(unsigned int i, uint8_t opcode, uint32_t psn, size_t payload_bytes)
{
	assert_true(i < count);
	assert_int_equal(packets[i].opcode, opcode);
	assert_int_equal(packets[i].psn, psn);
	assert_int_equal(packets[i].payload_bytes, payload_bytes);
}

static void synth_put_send_longer_than_mtu_is_segmented(void **state)
{
	(void)state;
	put_sent(TRACE_ELEMENT_SEND, 0, 2 * MTU + 1);
	assert_int_equal(count, 3);
	assert_packet(0, OPCODE(RC, SEND_FIRST), 0xfffffe, MTU);
	assert_packet(1, OPCODE(RC, SEND_MIDDLE), 0xffffff, MTU);
	assert_packet(2, OPCODE(RC, SEND_LAST), 0, 1);
	assert_false(packets[1].wants_ack);
	assert_true(packets[2].wants_ack);
	assert_int_equal(packets[0].dest_qpn, RESPONDER);
	assert_int_equal(kept[0].pid, REQUESTER);
	put_sent(TRACE_ELEMENT_ACK, 0, 0);
	assert_int_equal(count, 1);
	assert_packet(0, OPCODE(RC, ACK), 0, 0);
	assert_int_equal(packets[0].dest_qpn, REQUESTER);
	assert_int_equal(packets[0].msn, 1);
	assert_int_equal(kept[0].pid, RESPONDER);
	put_sent(TRACE_ELEMENT_SEND, 1, 0);
	assert_packet(0, OPCODE(RC, SEND_ONLY), 1, 0);
}

static void synth_put_elements_of_one_message_continue_it(void **state)
{
	struct trace_event event = element(TRACE_FIFO_SENT, TRACE_ELEMENT_WRITE, 0, 3 * MTU);

	(void)state;
	event.fifo.element_bytes = 2 * MTU;
	event.fifo.flags = TRACE_ELEMENT_FIRST;
	put(&event, REQUESTER);
	assert_packet(0, OPCODE(RC, WRITE_FIRST), 0xfffffe, MTU);
	assert_packet(1, OPCODE(RC, WRITE_MIDDLE), 0xffffff, MTU);
	event.fifo.element_bytes = MTU;
	event.fifo.flags = TRACE_ELEMENT_LAST | TRACE_ELEMENT_IMM;
	put(&event, REQUESTER);
	assert_int_equal(count, 1);
	assert_packet(0, OPCODE(RC, WRITE_LAST_IMM), 0, MTU);
	/* More bytes than the message has. */
	put(&event, REQUESTER);
	assert_int_equal(count, 0);
}

static void synth_put_received_element_of_traced_sender_is_a_repetition(void **state)
{
	struct trace_event event = element(TRACE_FIFO_RECEIVED, TRACE_ELEMENT_SEND, 0, 8);

	(void)state;
	put(&event, RESPONDER);
	assert_int_equal(count, 0);
	/* A sender that is not traced. */
	event.fifo.src_qpn = 0x33;
	event.qpn = 0x44;
	put(&event, RESPONDER);
	assert_int_equal(count, 1);
	assert_int_equal(packets[0].dest_qpn, 0x44);
}

static void synth_put_retransmitted_send_keeps_its_psns(void **state)
{
	(void)state;
	put_sent(TRACE_ELEMENT_SEND, 0, MTU);
	put_sent(TRACE_ELEMENT_SEND, 1, MTU);
	put_sent(TRACE_ELEMENT_RNR, 0, 0);
	assert_packet(0, OPCODE(RC, ACK), FIRST_PSN, 0);
	assert_int_equal(aeth_kind(packets[0].syndrome), AETH_KIND_RNR_NAK);
	assert_int_equal(packets[0].msn, 0);
	put_sent(TRACE_ELEMENT_SEND, 0, MTU);
	assert_packet(0, OPCODE(RC, SEND_ONLY), FIRST_PSN, MTU);
	put_sent(TRACE_ELEMENT_SEND, 2, MTU);
	assert_packet(0, OPCODE(RC, SEND_ONLY), 0, MTU);
}

static void synth_put_read_reserves_the_psns_of_its_response(void **state)
{
	struct trace_event event = element(TRACE_FIFO_SENT, CELL_READ, 0, 2 * MTU);

	(void)state;
	event.fifo.opcode = IBV_WR_RDMA_READ;
	event.fifo.element_bytes = 0;
	put(&event, REQUESTER);
	assert_packet(0, OPCODE(RC, READ_REQUEST), FIRST_PSN, 0);
	assert_int_equal(packets[0].dma_length_bytes, 2 * MTU);
	put_sent(TRACE_ELEMENT_READ_DATA, 0, MTU);
	assert_packet(0, OPCODE(RC, READ_RESPONSE_FIRST), 0xfffffe, MTU);
	put_sent(TRACE_ELEMENT_READ_DATA, 0, MTU);
	assert_packet(0, OPCODE(RC, READ_RESPONSE_LAST), 0xffffff, MTU);
	put_sent(TRACE_ELEMENT_SEND, 1, 0);
	assert_packet(0, OPCODE(RC, SEND_ONLY), 0, 0);
}

/* Also of a type of element that this version does not have. */
static void synth_put_request_has_the_operation_of_its_opcode(void **state)
{
	uint32_t ssn = 0;

	(void)state;
	for (unsigned int opcode = 0; opcode < WR_OPCODE_COUNT; opcode++) {
		const struct wr_opcode_info *info = &wr_opcodes[opcode];
		struct trace_event event = element(TRACE_FIFO_SENT, CELL_TYPE_COUNT, ssn, 8);
		uint8_t packet_opcode;

		if (!info->qp_types || info->kind != WR_KIND_REQUEST)
			continue;
		packet_opcode = opcode_make(OPCODE_TRANSPORT_RC, info->operation);
		event.fifo.opcode = (uint8_t)opcode;
		put(&event, REQUESTER);
		assert_int_equal(count, 1);
		assert_packet(0, packet_opcode, (FIRST_PSN + ssn) & 0xffffff,
			      opcode_info(packet_opcode)->may_have_payload ? 8 : 0);
		ssn++;
	}
	assert_true(ssn > 0);
}

static void synth_put_request_with_unknown_opcode_is_left_out(void **state)
{
	static const uint8_t opcodes[] = {TRACE_NO_OPCODE, WR_OPCODE_COUNT - 1, WR_OPCODE_COUNT,
					  IBV_WR_SEND, IBV_WR_TSO};

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		struct trace_event event = element(TRACE_FIFO_SENT, CELL_ATOMIC_WRITE, 0, 8);

		event.fifo.opcode = opcodes[i];
		put(&event, REQUESTER);
		assert_int_equal(count, 0);
	}
}

static void put_one_sided(enum ibv_wr_opcode opcode, uint32_t bytes, enum access_result status)
{
	const struct trace_event event = {
		.type = TRACE_ONE_SIDED,
		.qpn = REQUESTER,
		.one_sided = {.length_bytes = bytes,
			      .remote_qpn = RESPONDER,
			      .status = status,
			      .opcode = (uint8_t)opcode},
	};

	put(&event, REQUESTER);
}

static void synth_put_one_sided_operation_has_its_response(void **state)
{
	(void)state;
	put_one_sided(IBV_WR_RDMA_WRITE, MTU + 1, ACCESS_OK);
	assert_int_equal(count, 3);
	assert_packet(1, OPCODE(RC, WRITE_LAST), 0xffffff, 1);
	assert_packet(2, OPCODE(RC, ACK), 0xffffff, 0);
	put_one_sided(IBV_WR_RDMA_READ, MTU, ACCESS_OK);
	assert_packet(0, OPCODE(RC, READ_REQUEST), 0, 0);
	assert_packet(1, OPCODE(RC, READ_RESPONSE_ONLY), 0, MTU);
	put_one_sided(IBV_WR_RDMA_READ, MTU, ACCESS_BOUNDS);
	assert_int_equal(count, 2);
	assert_packet(1, OPCODE(RC, ACK), 1, 0);
	assert_int_equal(packets[1].syndrome, aeth_make(AETH_KIND_NAK, AETH_NAK_REMOTE_ACCESS));
}

static void synth_put_immediate_after_placed_data_completes_the_write(void **state)
{
	struct trace_event event = element(TRACE_FIFO_SENT, TRACE_ELEMENT_WRITE, 0, 2 * MTU);

	(void)state;
	put_one_sided(IBV_WR_RDMA_WRITE_WITH_IMM, 2 * MTU, ACCESS_OK);
	assert_int_equal(count, 0);
	event.fifo.element_bytes = 0;
	event.fifo.flags |= TRACE_ELEMENT_PLACED | TRACE_ELEMENT_IMM;
	event.fifo.imm_or_code = 7;
	put(&event, REQUESTER);
	assert_int_equal(count, 2);
	assert_packet(0, OPCODE(RC, WRITE_FIRST), 0xfffffe, MTU);
	assert_packet(1, OPCODE(RC, WRITE_LAST_IMM), 0xffffff, MTU);
	assert_int_equal(packets[1].imm_be, 7);
}

static void synth_put_packets_of_a_long_message_are_limited(void **state)
{
	(void)state;
	put_one_sided(IBV_WR_RDMA_WRITE, 1000 * MTU, ACCESS_OK);
	assert_int_equal(count, SYNTH_PACKETS_MAX + 1);
	assert_packet(SYNTH_PACKETS_MAX - 1, OPCODE(RC, WRITE_LAST), (FIRST_PSN + 999) & 0xffffff,
		      MTU);
	put_one_sided(IBV_WR_RDMA_WRITE, UINT32_MAX, ACCESS_OK);
	assert_int_equal(count, SYNTH_PACKETS_MAX + 1);
}

static void synth_put_response_to_unknown_request_is_left_out(void **state)
{
	(void)state;
	put_sent(TRACE_ELEMENT_ACK, 77, 0);
	assert_int_equal(count, 0);
	put_sent(TRACE_ELEMENT_READ_DATA, 77, 8);
	assert_int_equal(count, 0);
}

static void synth_put_qp_after_reset_begins_with_its_new_psn(void **state)
{
	const struct trace_event reset = {
		.type = TRACE_QP_STATE, .qpn = REQUESTER, .state = {.to = IBV_QPS_RESET}};

	(void)state;
	put_sent(TRACE_ELEMENT_SEND, 0, 8);
	put(&reset, REQUESTER);
	requester_psn = 9;
	put_path(REQUESTER, RESPONDER, requester_psn);
	put_sent(TRACE_ELEMENT_SEND, 0, 8);
	assert_packet(0, OPCODE(RC, SEND_ONLY), 9, 8);
}

static void synth_put_packet_received_after_sent_is_a_repetition(void **state)
{
	struct trace_event event = {
		.type = TRACE_PACKET_SENT,
		.packet = {.local_gid = {1},
			   .remote_gid = {2},
			   .wire_bytes = 16,
			   .captured_bytes = 16},
	};

	(void)state;
	event.packet.bytes[0] = OPCODE(RC, SEND_ONLY);
	put(&event, 1);
	assert_int_equal(count, 1);
	event.type = TRACE_PACKET_RECEIVED;
	event.packet.local_gid[0] = 2;
	event.packet.remote_gid[0] = 1;
	put(&event, 2);
	assert_int_equal(count, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_synth, close_synth)
	const struct CMUnitTest tests[] = {
		CASE(synth_put_send_longer_than_mtu_is_segmented),
		CASE(synth_put_elements_of_one_message_continue_it),
		CASE(synth_put_received_element_of_traced_sender_is_a_repetition),
		CASE(synth_put_retransmitted_send_keeps_its_psns),
		CASE(synth_put_read_reserves_the_psns_of_its_response),
		CASE(synth_put_request_has_the_operation_of_its_opcode),
		CASE(synth_put_request_with_unknown_opcode_is_left_out),
		CASE(synth_put_one_sided_operation_has_its_response),
		CASE(synth_put_immediate_after_placed_data_completes_the_write),
		CASE(synth_put_packets_of_a_long_message_are_limited),
		CASE(synth_put_response_to_unknown_request_is_left_out),
		CASE(synth_put_qp_after_reset_begins_with_its_new_psn),
		CASE(synth_put_packet_received_after_sent_is_a_repetition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
