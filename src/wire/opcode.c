/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode.h"

#include <stddef.h>

#define ROW(transport_, operation, ...)                                                \
	[OPCODE(transport_, operation)] = {.name = #transport_ "_" #operation,         \
					   .transport = OPCODE_TRANSPORT_##transport_, \
					   __VA_ARGS__}

#define FIRST	  .is_first = true
#define MIDDLE	  .is_middle = true
#define LAST	  .is_last = true
#define ONLY	  .is_only = true
#define FAULT(op) .fault_op = FAULT_OP_##op
#define SEND	  .is_request = true, .is_send = true, .may_have_payload = true, FAULT(SEND)
#define WRITE	  .is_request = true, .is_write = true, .may_have_payload = true, FAULT(WRITE)
#define READ	  .is_request = true, .is_read = true, .has_reth = true, FAULT(READ)
#define ATOMIC	  .is_request = true, .is_atomic = true, .has_atomic_eth = true, FAULT(ATOMIC)
#define DATA	  .is_response = true, .is_read = true, .may_have_payload = true, FAULT(READ_RESPONSE)
#define RESPONSE  .is_response = true, .is_ack = true, .has_aeth = true
#define TAKES	  .consumes_recv = true
#define GIVES	  .completes_recv = true
#define RETH	  .has_reth = true
#define AETH	  .has_aeth = true
#define IMM	  .has_imm = true
#define IETH	  .has_ieth = true
#define DETH	  .has_deth = true
#define PLAIN	  .has_xrceth = false
#define EXTENDED  .has_xrceth = true

/* One opcode on each line. */
/* clang-format off */

/*
 * Opcodes of every connected service (RC, UC, XRC). `eth`: EXTENDED if its requests have an XRCETH,
 * else PLAIN.
 */
#define CONNECTED(T, eth) \
	ROW(T, SEND_FIRST, FIRST, SEND, TAKES, eth), \
	ROW(T, SEND_MIDDLE, MIDDLE, SEND, eth), \
	ROW(T, SEND_LAST, LAST, SEND, GIVES, eth), \
	ROW(T, SEND_LAST_IMM, LAST, SEND, GIVES, IMM, eth), \
	ROW(T, SEND_ONLY, ONLY, SEND, TAKES, GIVES, eth), \
	ROW(T, SEND_ONLY_IMM, ONLY, SEND, TAKES, GIVES, IMM, eth), \
	ROW(T, WRITE_FIRST, FIRST, WRITE, RETH, eth), \
	ROW(T, WRITE_MIDDLE, MIDDLE, WRITE, eth), \
	ROW(T, WRITE_LAST, LAST, WRITE, eth), \
	ROW(T, WRITE_LAST_IMM, LAST, WRITE, TAKES, GIVES, IMM, eth), \
	ROW(T, WRITE_ONLY, ONLY, WRITE, RETH, eth), \
	ROW(T, WRITE_ONLY_IMM, ONLY, WRITE, TAKES, GIVES, RETH, IMM, eth)

/* Additional opcodes of the reliable services (RC, XRC). */
#define RELIABLE(T, eth) \
	ROW(T, READ_REQUEST, ONLY, READ, eth), \
	ROW(T, READ_RESPONSE_FIRST, FIRST, DATA, AETH), \
	ROW(T, READ_RESPONSE_MIDDLE, MIDDLE, DATA), \
	ROW(T, READ_RESPONSE_LAST, LAST, DATA, AETH), \
	ROW(T, READ_RESPONSE_ONLY, ONLY, DATA, AETH), \
	ROW(T, ACK, ONLY, RESPONSE, FAULT(ACK)), \
	ROW(T, ATOMIC_ACK, ONLY, RESPONSE, .is_atomic = true, .has_atomic_ack_eth = true, FAULT(ATOMIC_RESPONSE)), \
	ROW(T, COMPARE_SWAP, ONLY, ATOMIC, eth), \
	ROW(T, FETCH_ADD, ONLY, ATOMIC, eth), \
	ROW(T, SEND_LAST_INV, LAST, SEND, GIVES, IETH, eth), \
	ROW(T, SEND_ONLY_INV, ONLY, SEND, TAKES, GIVES, IETH, eth)

/* clang-format on */

static const struct opcode_info opcodes[256] = {
	CONNECTED(RC, PLAIN),
	RELIABLE(RC, PLAIN),
	ROW(RC, FLUSH, ONLY, .is_request = true, .is_flush = true, .has_feth = true, RETH,
	    FAULT(FLUSH)),
	ROW(RC, ATOMIC_WRITE, ONLY, .is_request = true, .is_atomic_write = true, RETH,
	    .may_have_payload = true, FAULT(ATOMIC_WRITE)),
	CONNECTED(UC, PLAIN),
	ROW(UD, SEND_ONLY, ONLY, SEND, TAKES, GIVES, DETH),
	ROW(UD, SEND_ONLY_IMM, ONLY, SEND, TAKES, GIVES, DETH, IMM),
	ROW(CNP, NOTIFICATION, .has_notification = true, FAULT(CNP)),
	CONNECTED(XRC, EXTENDED),
	RELIABLE(XRC, EXTENDED),
	ROW(VENDOR, ACK, ONLY, RESPONSE, DETH, FAULT(ACK)),
};

const struct opcode_info *opcode_info(uint8_t opcode)
{
	return opcodes[opcode].name ? &opcodes[opcode] : NULL;
}

uint8_t opcode_of_send(enum opcode_transport transport, bool starts, bool ends,
		       enum opcode_extra extra)
{
	static const uint8_t last[] = {OPCODE_SEND_LAST, OPCODE_SEND_LAST_IMM,
				       OPCODE_SEND_LAST_INV};
	static const uint8_t only[] = {OPCODE_SEND_ONLY, OPCODE_SEND_ONLY_IMM,
				       OPCODE_SEND_ONLY_INV};

	if (!ends)
		return opcode_make(transport, starts ? OPCODE_SEND_FIRST : OPCODE_SEND_MIDDLE);
	return opcode_make(transport, starts ? only[extra] : last[extra]);
}

uint8_t opcode_of_write(enum opcode_transport transport, bool starts, bool ends, bool with_imm)
{
	if (!ends)
		return opcode_make(transport, starts ? OPCODE_WRITE_FIRST : OPCODE_WRITE_MIDDLE);
	if (starts)
		return opcode_make(transport, with_imm ? OPCODE_WRITE_ONLY_IMM : OPCODE_WRITE_ONLY);
	return opcode_make(transport, with_imm ? OPCODE_WRITE_LAST_IMM : OPCODE_WRITE_LAST);
}

uint8_t opcode_of_read_response(enum opcode_transport transport, bool starts, bool ends)
{
	if (!ends)
		return opcode_make(transport, starts ? OPCODE_READ_RESPONSE_FIRST :
						       OPCODE_READ_RESPONSE_MIDDLE);
	return opcode_make(transport,
			   starts ? OPCODE_READ_RESPONSE_ONLY : OPCODE_READ_RESPONSE_LAST);
}
