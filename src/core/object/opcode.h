/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_OPCODE_H
#define USRDMA_CORE_OBJECT_OPCODE_H

#include <stdbool.h>

#include "core/object/wqe.h"
#include "wire/opcode.h"

/*
 * The properties of each opcode of a send WR. Posting, both transports, the responders and the
 * completions read this table and contain no list of opcodes. The opcodes of packets are in
 * wire/opcode.h.
 */

/* How a WQE is executed. */
enum wr_kind {
	WR_KIND_SEND,	 /* a message that consumes a receive WQE of the peer; segmented */
	WR_KIND_WRITE,	 /* a message to an rkey of the peer; segmented */
	WR_KIND_REQUEST, /* one request with a response of its own; occupies a responder resource */
	WR_KIND_LOCAL,	 /* executed by the requester without a message to the peer */
};

/* The use of the WQE's SGEs. */
enum wr_data {
	WR_DATA_NONE,	/* SGEs are ignored */
	WR_DATA_GATHER, /* sent to the peer; inline data are allowed */
	/* written with data of the peer: needs IBV_ACCESS_LOCAL_WRITE, no inline data */
	WR_DATA_SCATTER,
	WR_DATA_OPERAND, /* as GATHER; a parameter of ibv_wr_*(), which permits no data setter */
};

/* The response of the peer to a reliable message or request. */
enum wr_response {
	WR_RESPONSE_ACK,    /* one response acknowledges all preceding messages, too */
	WR_RESPONSE_READ,   /* data */
	WR_RESPONSE_ATOMIC, /* the original value */
	WR_RESPONSE_EMPTY,  /* an RDMA READ response without data (IBA A19) */
};

/* One row of the table in opcode.c. Constant. An opcode without QP types is not supported. */
struct wr_opcode_info {
	enum wr_kind kind : 8;
	enum wr_data data : 8;
	enum wr_response response : 8;
	enum opcode_operation operation : 8; /* WR_KIND_REQUEST: in the BTH */
	enum opcode_extra extra : 8;	     /* messages: header of the last packet */
	/*
	 * The only permitted message length; 0: up to MAX_MSG_BYTES. With WR_DATA_SCATTER the SGEs
	 * may be longer.
	 */
	uint8_t exact_bytes;
	uint16_t qp_types; /* bits (1 << enum ibv_qp_type) that support it */
	enum ibv_wc_opcode wc_opcode;
	/*
	 * Access right that QP and MR of the peer must permit. 0: none, or it depends on the WR
	 * (FLUSH).
	 */
	unsigned int remote_access;
	unsigned int comp_cntr_op; /* enum ibv_qp_attach_comp_cntr_op; 0: not counted */
	bool is_onesided;	   /* the requester can execute it in the peer's memory */
	bool has_compare;	   /* an atomic with a compare operand */
	bool needs_ex;		   /* can be posted with ibv_wr_*() only */
	uint64_t send_ops_flag;	   /* enum ibv_qp_create_send_ops_flags; 0: ibv_post_send() only */
	uint64_t device_cap_ex;	   /* bits of ibv_device_attr_ex.device_cap_flags_ex */
	uint32_t odp_cap;	   /* enum ibv_odp_transport_cap_bits */
	const char *name;	   /* returned by ibv_wr_opcode_str() */
	/* the operation in trace events and in the output of the command usrdma */
	const char *title;
};

/*
 * Rows of the table; more than the opcodes of verbs.h, so that a new opcode does not change this
 * header.
 */
#define WR_OPCODE_COUNT 32u

extern const struct wr_opcode_info wr_opcodes[WR_OPCODE_COUNT];

/* Of an opcode of an application. NULL: not supported by this type of QP. */
const struct wr_opcode_info *wr_opcode_of_qp(enum ibv_qp_type type, enum ibv_wr_opcode opcode);

/*
 * The opcode (enum ibv_wr_opcode) of a WR_KIND_REQUEST with this operation in its BTH; -ENOENT: no
 * such request.
 */
int wr_opcode_of_operation(enum opcode_operation operation) __attribute__((warn_unused_result));

/*
 * The first opcode that completes with this one, without immediate data; -ENOENT: a receive, or
 * unknown.
 */
int wr_opcode_of_wc(enum ibv_wc_opcode wc_opcode) __attribute__((warn_unused_result));

/*
 * The title of an opcode, which may come from another process; "unknown" for a value that is not in
 * the table.
 */
const char *wr_title(unsigned int opcode);

/*
 * The operation that completes with this opcode, also of a receive, as a title; "unknown" for
 * another value.
 */
const char *wr_title_of_wc(enum ibv_wc_opcode wc_opcode);

/*
 * All flags that ibv_create_qp_ex() may enable for this type of QP (enum
 * ibv_qp_create_send_ops_flags).
 */
uint64_t wr_send_ops(enum ibv_qp_type type);

/* The bits of device_cap_flags_ex of all opcodes. */
uint64_t wr_device_caps_ex(void);

/*
 * The operations that this type of QP can execute on memory that is not pinned (enum
 * ibv_odp_transport_cap_bits).
 */
uint32_t wr_odp_caps(enum ibv_qp_type type);

/* Of a WQE in a queue, whose opcode was checked when the WQE was posted. */
static inline const struct wr_opcode_info *wqe_info(const struct send_wqe *wqe)
{
	return &wr_opcodes[wqe->opcode];
}

/*
 * Whether the WQE has a response of its own. Such WQEs occupy responder resources of the peer and
 * count against max_rd_atomic (initiator depth).
 */
static inline bool wqe_is_request(const struct send_wqe *wqe)
{
	return wqe_info(wqe)->kind == WR_KIND_REQUEST;
}

/* COMPARE SWAP or FETCH ADD: the response is the original value. */
static inline bool wqe_is_atomic(const struct send_wqe *wqe)
{
	return wqe_info(wqe)->response == WR_RESPONSE_ATOMIC;
}

static inline bool wqe_has_imm(const struct send_wqe *wqe)
{
	return wqe_info(wqe)->extra == OPCODE_WITH_IMM;
}

/* Whether data of the peer are written to the SGEs. */
static inline bool wqe_scatters(const struct send_wqe *wqe)
{
	return wqe_info(wqe)->data == WR_DATA_SCATTER;
}

#endif
