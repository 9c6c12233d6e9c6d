/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_OPCODE_H
#define USRDMA_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault_op.h"

/*
 * The three high bits of a BTH opcode (IBA 1.x §9.2.1, IBA A14, IBA A17). RD is not supported; its
 * opcodes are unknown.
 */
enum opcode_transport {
	OPCODE_TRANSPORT_RC = 0,
	OPCODE_TRANSPORT_UC = 1,
	OPCODE_TRANSPORT_RD = 2,
	OPCODE_TRANSPORT_UD = 3,
	OPCODE_TRANSPORT_CNP = 4,
	OPCODE_TRANSPORT_XRC = 5,
	/* Manufacturer-specific opcodes: only between hosts of this project (ADR 0040). */
	OPCODE_TRANSPORT_VENDOR = 6,
};

/*
 * The five low bits. IMM: with immediate data; INV: with invalidate. FLUSH and ATOMIC WRITE: IBA
 * A19, RC only.
 */
enum opcode_operation {
	OPCODE_SEND_FIRST = 0x00,
	OPCODE_SEND_MIDDLE = 0x01,
	OPCODE_SEND_LAST = 0x02,
	OPCODE_SEND_LAST_IMM = 0x03,
	OPCODE_SEND_ONLY = 0x04,
	OPCODE_SEND_ONLY_IMM = 0x05,
	OPCODE_WRITE_FIRST = 0x06,
	OPCODE_WRITE_MIDDLE = 0x07,
	OPCODE_WRITE_LAST = 0x08,
	OPCODE_WRITE_LAST_IMM = 0x09,
	OPCODE_WRITE_ONLY = 0x0a,
	OPCODE_WRITE_ONLY_IMM = 0x0b,
	OPCODE_READ_REQUEST = 0x0c,
	OPCODE_READ_RESPONSE_FIRST = 0x0d,
	OPCODE_READ_RESPONSE_MIDDLE = 0x0e,
	OPCODE_READ_RESPONSE_LAST = 0x0f,
	OPCODE_READ_RESPONSE_ONLY = 0x10,
	OPCODE_ACK = 0x11,
	OPCODE_ATOMIC_ACK = 0x12,
	OPCODE_COMPARE_SWAP = 0x13,
	OPCODE_FETCH_ADD = 0x14,
	OPCODE_SEND_LAST_INV = 0x16,
	OPCODE_SEND_ONLY_INV = 0x17,
	OPCODE_FLUSH = 0x1c,
	OPCODE_ATOMIC_WRITE = 0x1d,
	/* Only with OPCODE_TRANSPORT_CNP: a congestion notification packet. */
	OPCODE_NOTIFICATION = 0x01,
};

/* An opcode by name: OPCODE(RC, SEND_ONLY). */
#define OPCODE(transport, operation) (OPCODE_TRANSPORT_##transport << 5 | OPCODE_##operation)

static inline uint8_t opcode_make(enum opcode_transport transport, enum opcode_operation operation)
{
	return (uint8_t)((unsigned)transport << 5 | (unsigned)operation);
}

static inline enum opcode_operation opcode_operation_of(uint8_t opcode)
{
	return (enum opcode_operation)(opcode & 0x1f);
}

/*
 * The properties of an opcode: one row of the table in opcode.c. Constant. All code that sends,
 * receives, prints or counts packets uses this table and does not decode opcodes itself.
 */
struct opcode_info {
	const char *name; /* as in OPCODE(): "RC_SEND_ONLY" */
	enum opcode_transport transport;

	/* The position of the packet in its message: exactly one is set, none for a CNP. */
	bool is_first;
	bool is_middle;
	bool is_last;
	bool is_only;

	/*
	 * A requester sends requests, a responder sends responses. is_ack: a response without READ
	 * data.
	 */
	bool is_request;
	bool is_response;
	bool is_ack;

	/*
	 * The operation, also set in READ and atomic responses. None is set in ACK, which
	 * acknowledges any operation.
	 */
	bool is_send;
	bool is_write;
	bool is_read;
	bool is_atomic;
	bool is_atomic_write;
	bool is_flush;

	/*
	 * The packet consumes a receive WQE when it arrives; it completes a receive WQE when it was
	 * executed.
	 */
	bool consumes_recv;
	bool completes_recv;

	/* The headers after the BTH, in wire order. */
	bool has_deth;
	bool has_xrceth;
	bool has_feth;
	bool has_reth;
	bool has_atomic_eth;
	bool has_aeth;
	bool has_atomic_ack_eth;
	bool has_imm;
	bool has_ieth;
	bool has_notification; /* reserved bytes, zero */

	bool may_have_payload;

	enum fault_op fault_op; /* the operation for the condition `op` of fault rules */
};

/* NULL for an opcode that is not in the table. */
const struct opcode_info *opcode_info(uint8_t opcode);

/* Of a packet whose opcode may be unknown: `info` is NULL. */
static inline enum fault_op opcode_fault_op(const struct opcode_info *info)
{
	return info ? info->fault_op : FAULT_OP_NONE;
}

/*
 * Whether the request has a response of its own, as RDMA READ and atomics have. Such requests count
 * against the limit of outstanding RDMA READs and atomics. The response to FLUSH and ATOMIC WRITE
 * is an RDMA READ response without data (IBA A19).
 */
static inline bool opcode_has_own_response(const struct opcode_info *info)
{
	return info->is_request && !info->is_send && !info->is_write;
}

static inline bool opcode_starts_message(const struct opcode_info *info)
{
	return info->is_first || info->is_only;
}

static inline bool opcode_ends_message(const struct opcode_info *info)
{
	return info->is_last || info->is_only;
}

/* The extended header of the last packet of a message. */
enum opcode_extra {
	OPCODE_PLAIN,
	OPCODE_WITH_IMM,
	OPCODE_WITH_INV,
};

/*
 * The opcode of one packet of a message. `extra` is used for the last packet of the message only.
 * The caller must request an opcode that the transport service has: INV only with RC and XRC; with
 * UD only `starts && ends`.
 */
uint8_t opcode_of_send(enum opcode_transport transport, bool starts, bool ends,
		       enum opcode_extra extra);
uint8_t opcode_of_write(enum opcode_transport transport, bool starts, bool ends, bool with_imm);
uint8_t opcode_of_read_response(enum opcode_transport transport, bool starts, bool ends);

#endif
