/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The table of the opcodes of send WRs: consistency of its rows, and the functions that search it.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/object/opcode.h"
#include "core/report/fault_points.h"

static const enum ibv_qp_type qp_types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};

static void opcode_info_opcode_supports_qp_types_of_its_service(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *types; /* R, C, D, X: RC, UC, UD, XRC send */
	} rows[] = {
		{IBV_WR_SEND, "RCDX"},
		{IBV_WR_SEND_WITH_IMM, "RCDX"},
		{IBV_WR_RDMA_WRITE, "RCX"},
		{IBV_WR_RDMA_WRITE_WITH_IMM, "RCX"},
		{IBV_WR_BIND_MW, "RCX"},
		{IBV_WR_SEND_WITH_INV, "RX"},
		{IBV_WR_RDMA_READ, "RX"},
		{IBV_WR_ATOMIC_CMP_AND_SWP, "RX"},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, "RX"},
		{IBV_WR_LOCAL_INV, "RCX"},
		{IBV_WR_FLUSH, "R"},
		{IBV_WR_ATOMIC_WRITE, "R"},
		{IBV_WR_TSO, ""},
		{IBV_WR_DRIVER1, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t t = 0; t < sizeof(qp_types) / sizeof(qp_types[0]); t++) {
			const struct wr_opcode_info *info = wr_opcode_of_qp(qp_types[t],
									    rows[i].opcode);

			if (strchr(rows[i].types, "RCDX"[t]))
				assert_ptr_equal(info, &wr_opcodes[rows[i].opcode]);
			else
				assert_null(info);
		}
	}
}

static void opcode_info_unknown_opcodes_and_qp_types_are_refused(void **state)
{
	static const int opcodes[] = {-1, 12, 13, WR_OPCODE_COUNT, 1000};
	static const int types[] = {-1, 0, 1, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER};

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		assert_null(wr_opcode_of_qp(IBV_QPT_RC, (enum ibv_wr_opcode)opcodes[i]));
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_null(wr_opcode_of_qp((enum ibv_qp_type)types[i], IBV_WR_SEND));
		assert_int_equal(wr_send_ops((enum ibv_qp_type)types[i]), 0);
	}
}

static void send_ops_of_a_qp_type_are_those_of_its_opcodes(void **state)
{
	const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t connected = datagram | IBV_QP_EX_WITH_RDMA_WRITE |
				   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW |
				   IBV_QP_EX_WITH_LOCAL_INV;
	const uint64_t reliable = connected | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_SEND_WITH_INV;

	(void)state;
	assert_int_equal(wr_send_ops(IBV_QPT_UD), datagram);
	assert_int_equal(wr_send_ops(IBV_QPT_UC), connected);
	assert_int_equal(wr_send_ops(IBV_QPT_XRC_SEND), reliable);
	assert_int_equal(wr_send_ops(IBV_QPT_RC),
			 reliable | IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH);
}

/* The properties of a supported opcode do not contradict each other. */
static void opcode_info_rows_are_consistent(void **state)
{
	(void)state;
	for (size_t i = 0; i < WR_OPCODE_COUNT; i++) {
		const struct wr_opcode_info *info = &wr_opcodes[i];
		bool is_request = info->kind == WR_KIND_REQUEST;

		if (!info->qp_types)
			continue;
		assert_non_null(info->name);
		assert_non_null(info->title);
		assert_int_equal(is_request, info->response != WR_RESPONSE_ACK);
		/* Only a response with data is written to the SGEs. */
		assert_int_equal(info->data == WR_DATA_SCATTER,
				 info->response == WR_RESPONSE_READ ||
					 info->response == WR_RESPONSE_ATOMIC);
		if (info->response == WR_RESPONSE_ATOMIC)
			assert_int_equal(info->exact_bytes, sizeof(uint64_t));
		if (info->extra != OPCODE_PLAIN)
			assert_true(info->kind == WR_KIND_SEND || info->kind == WR_KIND_WRITE);
		if (info->is_onesided)
			assert_int_not_equal(info->remote_access, 0);
		if (info->needs_ex)
			assert_int_not_equal(info->send_ops_flag, 0);
	}
}

static void opcode_info_request_is_found_by_its_operation(void **state)
{
	(void)state;
	for (int i = 0; i < (int)WR_OPCODE_COUNT; i++) {
		const struct wr_opcode_info *info = &wr_opcodes[i];
		const struct opcode_info *packet;

		if (info->kind != WR_KIND_REQUEST)
			continue;
		assert_int_equal(wr_opcode_of_operation(info->operation), i);
		packet = opcode_info(opcode_make(OPCODE_TRANSPORT_RC, info->operation));
		assert_true(packet->is_request);
		assert_true(opcode_has_own_response(packet));
	}
	assert_int_equal(wr_opcode_of_operation(OPCODE_SEND_FIRST), -ENOENT);
	assert_int_equal(wr_opcode_of_operation(OPCODE_ACK), -ENOENT);
	assert_false(opcode_has_own_response(opcode_info(OPCODE(RC, WRITE_ONLY_IMM))));
	assert_false(opcode_has_own_response(opcode_info(OPCODE(RC, READ_RESPONSE_ONLY))));
}

static void opcode_info_completions_have_title_of_their_operation(void **state)
{
	(void)state;
	assert_string_equal(wr_title_of_wc(IBV_WC_SEND), "SEND");
	assert_string_equal(wr_title_of_wc(IBV_WC_RDMA_WRITE), "RDMA WRITE");
	assert_string_equal(wr_title_of_wc(IBV_WC_FLUSH), "FLUSH");
	assert_string_equal(wr_title_of_wc(IBV_WC_RECV), "receive");
	assert_string_equal(wr_title_of_wc(IBV_WC_TSO), "unknown");
	assert_string_equal(wr_title_of_wc((enum ibv_wc_opcode) - 1), "unknown");
}

static void wr_title_of_unknown_opcode_is_unknown(void **state)
{
	(void)state;
	assert_string_equal(wr_title(IBV_WR_ATOMIC_WRITE), "ATOMIC WRITE");
	assert_string_equal(wr_title(IBV_WR_BIND_MW), "bind of a memory window");
	assert_string_equal(wr_title(WR_OPCODE_COUNT - 1), "unknown");
	assert_string_equal(wr_title(WR_OPCODE_COUNT), "unknown");
	assert_string_equal(wr_title(UINT32_MAX), "unknown");
}

/*
 * Each supported opcode has an operation for fault rules, which is that of its packets and of its
 * completion.
 */
static void fault_op_of_wr_is_that_of_its_packets_and_completion(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < WR_OPCODE_COUNT; i++) {
		const struct wr_opcode_info *info = &wr_opcodes[i];
		enum fault_op op = fault_op_of_wr(i);

		if (!info->qp_types) {
			assert_int_equal(op, FAULT_OP_NONE);
			continue;
		}
		assert_int_not_equal(op, FAULT_OP_NONE);
		assert_int_equal(fault_op_of_wc(info->wc_opcode), op);
		if (info->kind == WR_KIND_SEND)
			assert_int_equal(op, opcode_fault_op(opcode_info(OPCODE(RC, SEND_ONLY))));
		if (info->kind == WR_KIND_WRITE)
			assert_int_equal(op, opcode_fault_op(opcode_info(OPCODE(RC, WRITE_ONLY))));
	}
	assert_int_equal(fault_op_of_wr(IBV_WR_ATOMIC_WRITE), FAULT_OP_ATOMIC_WRITE);
	assert_int_equal(fault_op_of_wr(IBV_WR_FLUSH), FAULT_OP_FLUSH);
	assert_int_equal(fault_op_of_wr(IBV_WR_LOCAL_INV), FAULT_OP_LOCAL);
	assert_int_equal(fault_op_of_wr(IBV_WR_ATOMIC_FETCH_AND_ADD), FAULT_OP_ATOMIC);
}

static void fault_op_of_unknown_opcode_is_none(void **state)
{
	(void)state;
	assert_int_equal(fault_op_of_wr(WR_OPCODE_COUNT - 1), FAULT_OP_NONE);
	assert_int_equal(fault_op_of_wr(WR_OPCODE_COUNT), FAULT_OP_NONE);
	assert_int_equal(fault_op_of_wc(IBV_WC_TSO), FAULT_OP_NONE);
	assert_int_equal(fault_op_of_wc(UINT32_MAX), FAULT_OP_NONE);
	assert_int_equal(fault_op_of_wc(IBV_WC_RECV), FAULT_OP_RECV);
}

static void wr_odp_caps_of_a_qp_type_are_those_of_its_opcodes(void **state)
{
	const uint32_t connected = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
	const uint32_t reliable = connected | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	(void)state;
	assert_int_equal(wr_odp_caps(IBV_QPT_UD), IBV_ODP_SUPPORT_SEND);
	assert_int_equal(wr_odp_caps(IBV_QPT_UC), connected);
	assert_int_equal(wr_odp_caps(IBV_QPT_XRC_SEND), reliable);
	assert_int_equal(wr_odp_caps(IBV_QPT_RC),
			 reliable | IBV_ODP_SUPPORT_FLUSH | IBV_ODP_SUPPORT_ATOMIC_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_info_opcode_supports_qp_types_of_its_service),
		cmocka_unit_test(opcode_info_unknown_opcodes_and_qp_types_are_refused),
		cmocka_unit_test(send_ops_of_a_qp_type_are_those_of_its_opcodes),
		cmocka_unit_test(opcode_info_rows_are_consistent),
		cmocka_unit_test(opcode_info_request_is_found_by_its_operation),
		cmocka_unit_test(opcode_info_completions_have_title_of_their_operation),
		cmocka_unit_test(wr_title_of_unknown_opcode_is_unknown),
		cmocka_unit_test(fault_op_of_wr_is_that_of_its_packets_and_completion),
		cmocka_unit_test(fault_op_of_unknown_opcode_is_none),
		cmocka_unit_test(wr_odp_caps_of_a_qp_type_are_those_of_its_opcodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
