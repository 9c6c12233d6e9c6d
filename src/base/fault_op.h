/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_OP_H
#define USRDMA_BASE_FAULT_OP_H

/*
 * The operations for the condition `op` of fault rules: the word in a rule is the end of the
 * enumerator's name. The table of wire/opcode.c assigns them to packets, core/report/fault_points.c
 * to WRs. The words of MADs are in the order of enum cm_msg_type.
 */
#define FAULT_OPS(OP)                                      \
	OP(SEND)                                           \
	OP(WRITE)                                          \
	OP(READ)                                           \
	OP(ATOMIC) /* compare and swap, fetch and add */   \
	OP(ATOMIC_WRITE)                                   \
	OP(FLUSH)                                          \
	OP(LOCAL) /* memory windows, local invalidation */ \
	OP(RECV)                                           \
	OP(ACK) /* also NAKs */                            \
	OP(READ_RESPONSE)                                  \
	OP(ATOMIC_RESPONSE)                                \
	OP(CNP)                                            \
	OP(REQ)                                            \
	OP(MRA)                                            \
	OP(REJ)                                            \
	OP(REP)                                            \
	OP(RTU)                                            \
	OP(DREQ)                                           \
	OP(DREP)                                           \
	OP(SIDR_REQ)                                       \
	OP(SIDR_REP)                                       \
	OP(LAP)                                            \
	OP(APR)

#define FAULT_OP_ENUMERATOR(word) FAULT_OP_##word,

enum fault_op {
	FAULT_OP_NONE, /* unknown */
	FAULT_OPS(FAULT_OP_ENUMERATOR) FAULT_OP_COUNT,
	FAULT_OP_CM = FAULT_OP_REQ /* the MAD with the lowest number */
};

#endif
