/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of all 256 opcodes, compared with a second definition of each operation, with the
 * numbers in <infiniband/opcode.h>, and with rules for every row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <infiniband/opcode.h>

#include "wire/opcode.h"

/*
 * The 32 operations of a service. Position: f m l o (first, middle, last, only). Role: q request, r
 * response, k ack. Operation: s send, w write, d read, a atomic, t atomic write, u flush. T
 * consumes a receive, G creates a receive completion. Headers: R RETH, A AtomicETH, E AETH, K
 * AtomicAckETH, I ImmDt, V IETH, U FETH. p may have payload. Services: c all connected ones, C RC
 * only, else reliable ones.
 */
static const struct {
	const char *name;
	const char *traits;
} operations[32] = {
	[0x00] = {"SEND_FIRST", "fqsTpc"},
	[0x01] = {"SEND_MIDDLE", "mqspc"},
	[0x02] = {"SEND_LAST", "lqsGpc"},
	[0x03] = {"SEND_LAST_IMM", "lqsGIpc"},
	[0x04] = {"SEND_ONLY", "oqsTGpc"},
	[0x05] = {"SEND_ONLY_IMM", "oqsTGIpc"},
	[0x06] = {"WRITE_FIRST", "fqwRpc"},
	[0x07] = {"WRITE_MIDDLE", "mqwpc"},
	[0x08] = {"WRITE_LAST", "lqwpc"},
	[0x09] = {"WRITE_LAST_IMM", "lqwTGIpc"},
	[0x0a] = {"WRITE_ONLY", "oqwRpc"},
	[0x0b] = {"WRITE_ONLY_IMM", "oqwTGRIpc"},
	[0x0c] = {"READ_REQUEST", "oqdR"},
	[0x0d] = {"READ_RESPONSE_FIRST", "frdEp"},
	[0x0e] = {"READ_RESPONSE_MIDDLE", "mrdp"},
	[0x0f] = {"READ_RESPONSE_LAST", "lrdEp"},
	[0x10] = {"READ_RESPONSE_ONLY", "ordEp"},
	[0x11] = {"ACK", "orkE"},
	[0x12] = {"ATOMIC_ACK", "orkaEK"},
	[0x13] = {"COMPARE_SWAP", "oqaA"},
	[0x14] = {"FETCH_ADD", "oqaA"},
	[0x16] = {"SEND_LAST_INV", "lqsGVp"},
	[0x17] = {"SEND_ONLY_INV", "oqsTGVp"},
	[0x1c] = {"FLUSH", "oquURC"},
	[0x1d] = {"ATOMIC_WRITE", "oqtRpC"},
};

static bool is_there(unsigned transport, unsigned operation)
{
	const char *traits = operations[operation].traits;

	switch (transport) {
	case OPCODE_TRANSPORT_RC:
		return traits;
	case OPCODE_TRANSPORT_XRC:
		return traits && !strchr(traits, 'C');
	case OPCODE_TRANSPORT_UC:
		return traits && strchr(traits, 'c');
	case OPCODE_TRANSPORT_UD:
		return operation == OPCODE_SEND_ONLY || operation == OPCODE_SEND_ONLY_IMM;
	case OPCODE_TRANSPORT_CNP:
		return operation == OPCODE_NOTIFICATION;
	case OPCODE_TRANSPORT_VENDOR:
		return operation == OPCODE_ACK;
	default:
		return false;
	}
}

static void check_traits(const struct opcode_info *info, const char *traits)
{
#define HAS(letter) (strchr(traits, letter) != NULL)
	assert_int_equal(info->is_first, HAS('f'));
	assert_int_equal(info->is_middle, HAS('m'));
	assert_int_equal(info->is_last, HAS('l'));
	assert_int_equal(info->is_only, HAS('o'));
	assert_int_equal(info->is_request, HAS('q'));
	assert_int_equal(info->is_response, HAS('r'));
	assert_int_equal(info->is_ack, HAS('k'));
	assert_int_equal(info->is_send, HAS('s'));
	assert_int_equal(info->is_write, HAS('w'));
	assert_int_equal(info->is_read, HAS('d'));
	assert_int_equal(info->is_atomic, HAS('a'));
	assert_int_equal(info->is_atomic_write, HAS('t'));
	assert_int_equal(info->is_flush, HAS('u'));
	assert_int_equal(info->consumes_recv, HAS('T'));
	assert_int_equal(info->completes_recv, HAS('G'));
	assert_int_equal(info->has_feth, HAS('U'));
	assert_int_equal(info->has_reth, HAS('R'));
	assert_int_equal(info->has_atomic_eth, HAS('A'));
	assert_int_equal(info->has_aeth, HAS('E'));
	assert_int_equal(info->has_atomic_ack_eth, HAS('K'));
	assert_int_equal(info->has_imm, HAS('I'));
	assert_int_equal(info->has_ieth, HAS('V'));
	assert_int_equal(info->may_have_payload, HAS('p'));
#undef HAS
}

static void opcode_info_name_matches_properties(void **state)
{
	static const char *const services[8] = {"RC",  "UC",  "RD",	"UD",
						"CNP", "XRC", "VENDOR", "?"};
	int known = 0;

	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);
		unsigned transport = opcode / 32;
		char name[64];

		assert_int_equal(info != NULL, is_there(transport, opcode % 32));
		if (!info)
			continue;
		known++;
		assert_int_equal(info->transport, transport);
		assert_int_equal(info->has_deth, transport == OPCODE_TRANSPORT_UD ||
							 transport == OPCODE_TRANSPORT_VENDOR);
		assert_int_equal(info->has_notification, transport == OPCODE_TRANSPORT_CNP);
		assert_int_equal(info->has_xrceth,
				 transport == OPCODE_TRANSPORT_XRC && info->is_request);
		if (info->has_notification) {
			check_traits(info, "");
			assert_string_equal(info->name, "CNP_NOTIFICATION");
			continue;
		}
		check_traits(info, operations[opcode % 32].traits);
		snprintf(name, sizeof(name), "%s_%s", services[transport],
			 operations[opcode % 32].name);
		assert_string_equal(info->name, name);
	}
	assert_int_equal(known, 25 + 12 + 2 + 1 + 23 + 1);
}

static void opcode_info_every_row_is_consistent(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *i = opcode_info((uint8_t)opcode);

		if (!i || i->has_notification)
			continue;
		assert_int_equal(i->is_first + i->is_middle + i->is_last + i->is_only, 1);
		assert_int_equal(i->is_request + i->is_response, 1);
		assert_int_equal(i->is_send + i->is_write + i->is_read + i->is_atomic +
					 i->is_atomic_write + i->is_flush,
				 opcode % 32 == OPCODE_ACK ? 0 : 1);
		/* Headers that occur in one role only. */
		assert_false(i->has_aeth && i->is_request);
		assert_false(i->is_response && (i->has_reth || i->has_atomic_eth || i->has_imm));
		assert_false(i->is_ack && !i->is_response);
		assert_false(i->has_imm && i->has_ieth);
		/*
		 * Immediate data is in the last packet of a message and always consumes a receive.
		 */
		if (i->has_imm)
			assert_true(opcode_ends_message(i) && i->completes_recv);
		/* A SEND consumes its receive in the first packet and completes it in the last. */
		if (i->is_send) {
			assert_int_equal(i->consumes_recv, opcode_starts_message(i));
			assert_int_equal(i->completes_recv, opcode_ends_message(i));
		}
	}
}

static void opcode_info_numbers_match_public_header(void **state)
{
	(void)state;
#define SAME(ours, theirs) assert_int_equal(ours, IBV_OPCODE_##theirs)
#define SAME_CONNECTED(T)                                                    \
	SAME(OPCODE(T, SEND_FIRST), T##_SEND_FIRST);                         \
	SAME(OPCODE(T, SEND_MIDDLE), T##_SEND_MIDDLE);                       \
	SAME(OPCODE(T, SEND_LAST), T##_SEND_LAST);                           \
	SAME(OPCODE(T, SEND_LAST_IMM), T##_SEND_LAST_WITH_IMMEDIATE);        \
	SAME(OPCODE(T, SEND_ONLY), T##_SEND_ONLY);                           \
	SAME(OPCODE(T, SEND_ONLY_IMM), T##_SEND_ONLY_WITH_IMMEDIATE);        \
	SAME(OPCODE(T, WRITE_FIRST), T##_RDMA_WRITE_FIRST);                  \
	SAME(OPCODE(T, WRITE_MIDDLE), T##_RDMA_WRITE_MIDDLE);                \
	SAME(OPCODE(T, WRITE_LAST), T##_RDMA_WRITE_LAST);                    \
	SAME(OPCODE(T, WRITE_LAST_IMM), T##_RDMA_WRITE_LAST_WITH_IMMEDIATE); \
	SAME(OPCODE(T, WRITE_ONLY), T##_RDMA_WRITE_ONLY);                    \
	SAME(OPCODE(T, WRITE_ONLY_IMM), T##_RDMA_WRITE_ONLY_WITH_IMMEDIATE)
	SAME_CONNECTED(RC);
	SAME_CONNECTED(UC);
	SAME(OPCODE(RC, READ_REQUEST), RC_RDMA_READ_REQUEST);
	SAME(OPCODE(RC, READ_RESPONSE_FIRST), RC_RDMA_READ_RESPONSE_FIRST);
	SAME(OPCODE(RC, READ_RESPONSE_MIDDLE), RC_RDMA_READ_RESPONSE_MIDDLE);
	SAME(OPCODE(RC, READ_RESPONSE_LAST), RC_RDMA_READ_RESPONSE_LAST);
	SAME(OPCODE(RC, READ_RESPONSE_ONLY), RC_RDMA_READ_RESPONSE_ONLY);
	SAME(OPCODE(RC, ACK), RC_ACKNOWLEDGE);
	SAME(OPCODE(RC, ATOMIC_ACK), RC_ATOMIC_ACKNOWLEDGE);
	SAME(OPCODE(RC, COMPARE_SWAP), RC_COMPARE_SWAP);
	SAME(OPCODE(RC, FETCH_ADD), RC_FETCH_ADD);
	SAME(OPCODE(UD, SEND_ONLY), UD_SEND_ONLY);
	SAME(OPCODE(UD, SEND_ONLY_IMM), UD_SEND_ONLY_WITH_IMMEDIATE);
#undef SAME_CONNECTED
#undef SAME
	assert_int_equal(OPCODE(CNP, NOTIFICATION), 0x81);
	assert_int_equal(OPCODE(XRC, SEND_ONLY_INV), 0xb7);
	assert_int_equal(OPCODE(VENDOR, ACK), 0xd1);
}

/* A look-up with the properties of a row returns that row. */
static void opcode_of_send_returns_row_with_given_properties(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *i = opcode_info((uint8_t)opcode);
		enum opcode_extra extra;
		bool starts, ends;

		if (!i)
			continue;
		extra = i->has_imm ? OPCODE_WITH_IMM : i->has_ieth ? OPCODE_WITH_INV : OPCODE_PLAIN;
		starts = opcode_starts_message(i);
		ends = opcode_ends_message(i);
		if (i->is_send)
			assert_int_equal(opcode_of_send(i->transport, starts, ends, extra), opcode);
		if (i->is_write)
			assert_int_equal(opcode_of_write(i->transport, starts, ends, i->has_imm),
					 opcode);
		if (i->is_read && i->is_response)
			assert_int_equal(opcode_of_read_response(i->transport, starts, ends),
					 opcode);
	}
	/* Headers of the last packet are not in earlier ones. */
	assert_int_equal(opcode_of_send(OPCODE_TRANSPORT_RC, true, false, OPCODE_WITH_INV),
			 OPCODE(RC, SEND_FIRST));
	assert_int_equal(opcode_of_write(OPCODE_TRANSPORT_UC, false, false, true),
			 OPCODE(UC, WRITE_MIDDLE));
}

static void opcode_fault_op_is_the_operation_of_the_name(void **state)
{
	static const struct {
		const char *name; /* begin of the operation's name */
		enum fault_op op;
	} ops[] = {
		{"SEND_", FAULT_OP_SEND},
		{"WRITE_", FAULT_OP_WRITE},
		{"READ_REQUEST", FAULT_OP_READ},
		{"READ_RESPONSE_", FAULT_OP_READ_RESPONSE},
		{"COMPARE_SWAP", FAULT_OP_ATOMIC},
		{"FETCH_ADD", FAULT_OP_ATOMIC},
		{"ATOMIC_ACK", FAULT_OP_ATOMIC_RESPONSE},
		{"ATOMIC_WRITE", FAULT_OP_ATOMIC_WRITE},
		{"FLUSH", FAULT_OP_FLUSH},
		{"ACK", FAULT_OP_ACK},
		{"NOTIFICATION", FAULT_OP_CNP},
	};

	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);
		unsigned int matches = 0;

		for (size_t i = 0; info && i < sizeof(ops) / sizeof(ops[0]); i++) {
			const char *name = strchr(info->name, '_') + 1;

			if (strncmp(name, ops[i].name, strlen(ops[i].name)) != 0)
				continue;
			assert_int_equal(opcode_fault_op(info), ops[i].op);
			matches++;
		}
		assert_int_equal(matches, info != NULL);
	}
}

/* A row that has no operation for fault rules, as that of a new opcode may be. */
static void opcode_fault_op_of_unknown_request_is_none(void **state)
{
	static const struct opcode_info request = {
		.name = "RC_NEW", .is_request = true, .is_only = true, .has_reth = true};

	(void)state;
	assert_int_equal(opcode_fault_op(&request), FAULT_OP_NONE);
	assert_int_equal(opcode_fault_op(opcode_info(0xff)), FAULT_OP_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_info_name_matches_properties),
		cmocka_unit_test(opcode_info_every_row_is_consistent),
		cmocka_unit_test(opcode_info_numbers_match_public_header),
		cmocka_unit_test(opcode_of_send_returns_row_with_given_properties),
		cmocka_unit_test(opcode_fault_op_is_the_operation_of_the_name),
		cmocka_unit_test(opcode_fault_op_of_unknown_request_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
