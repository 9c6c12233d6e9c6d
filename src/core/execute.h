/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_EXECUTE_H
#define USRDMA_CORE_EXECUTE_H

#include "core/objects.h"
#include "core/wq.h"

/*
 * What an inbound SEND, WRITE, READ, ATOMIC or FLUSH does to memory, the receive queue and the CQ, whatever carried it.
 * Answers one neutral result, which each transport maps to its own words in one table. All with engine.lock held.
 */
enum access_result {
	ACCESS_OK,
	ACCESS_RNR,    /* no receive WQE */
	ACCESS_LENGTH, /* longer than the receive buffers, or another length than announced */
	ACCESS_LOCAL,  /* our receive WQE is bad: the requester is not at fault */
	ACCESS_RKEY,   /* no such rkey */
	ACCESS_PD,     /* the MR is not of the QP's PD */
	ACCESS_BOUNDS, /* outside the MR */
	ACCESS_RIGHTS, /* the MR does not permit it */
	ACCESS_QP_RIGHTS, /* the QP does not (qp_access_flags): an invalid request, IBA 1.x §9.7.4.1.2 */
	ACCESS_INVALIDATE, /* the key to invalidate is no type 2 memory window of ours */
	ACCESS_ALIGN,	   /* an atomic that is not aligned */
	ACCESS_GONE,	   /* the MR's pages are not mapped any more */
	ACCESS_RESULT_COUNT
};

const char *access_result_name(enum access_result result);

/* Why a requester's completion says what it says, for a result that the responder answered. */
enum vendor_err access_vendor_err(enum access_result result);

/* The state of the message that a QP is receiving: a SEND into a receive WQE, or a WRITE. Owned by the transport's QP. */
struct inbound {
	bool has_recv;	/* `recv` was taken from the queue and awaits its completion */
	bool has_spare; /* … or the next message that needs one: its own was dropped */
	bool is_write;	/* bytes go to [addr, …), else to recv's SGEs */
	uint32_t rkey;
	uint64_t remote_addr;  /* iova */
	uint32_t length_bytes; /* of a WRITE, as announced */
	uint32_t done_bytes;
	uint32_t sge_index;
	uint32_t sge_offset;
	enum vendor_err local_err; /* ACCESS_LOCAL: what is wrong with recv */
	struct recv_taken recv;
};

/* What a message said besides its bytes; completes the receive. */
struct inbound_end {
	bool has_imm;
	bool has_invalidate;
	bool has_grh; /* a datagram: its first 40 bytes are the header */
	uint8_t sl;   /* of a datagram: see datagram.c */
	bool is_solicited;
	uint32_t imm_data_be;
	uint32_t invalidate_rkey;
	uint32_t src_qpn;
};

/* Takes a receive WQE for a SEND whose bytes come next. */
enum access_result inbound_begin_recv(struct qp *qp, struct inbound *in);
/* Takes the receive WQE that the immediate of a WRITE completes. A spare one comes first, here and there. */
enum access_result inbound_take_recv(struct qp *qp, struct inbound *in);
/* Checks a WRITE of length bytes to rkey; nothing is checked for a length of 0 (IBA 1.x §9.7.4.1.5). */
enum access_result inbound_begin_write(struct qp *qp, struct inbound *in, uint64_t remote_addr,
				       uint32_t rkey, uint32_t length_bytes);
/* A WRITE whose bytes the initiator has put in place itself. */
void inbound_begin_placed(struct inbound *in, uint32_t length_bytes);
/* Copies the next bytes in. */
enum access_result inbound_data(struct qp *qp, struct inbound *in, const void *data,
				uint32_t bytes);
/* The message is whole: completes the receive WQE, if one was taken. */
enum access_result inbound_end(struct qp *qp, struct inbound *in, const struct inbound_end *end);
/*
 * The message failed: completes a taken receive WQE with the status that fits; the caller then errs the QP. ACCESS_OK:
 * no more comes for this QP, and a spare one is flushed too.
 */
void inbound_fail(struct qp *qp, struct inbound *in, enum access_result result);
/* A UC message is dropped half-way: it leaves its receive WQE to the next that needs one (IBA 1.x §9.8.2.2). */
void inbound_drop(struct inbound *in);

/* Checks a READ of the QP's peer and answers where the bytes are. */
enum access_result execute_read(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
				uint32_t length_bytes, const uint8_t **from);

/* Puts 8 bytes in place, aligned and at once: whoever reads them sees all of them or none (IBA A19). */
enum access_result execute_atomic_write(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
					const void *data, uint32_t bytes);

/*
 * A FLUSH of the QP's peer (IBA A19): what its requests before this one wrote can be seen by all, in a range or
 * (IBV_FLUSH_MR) in the whole region. The rights are those of its types, enum ibv_placement_type; none of ours is
 * persistent.
 */
enum access_result execute_flush(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
				 uint32_t length_bytes, unsigned int types, unsigned int level);

/* Compare-and-swap or fetch-and-add on aligned memory with the CPU's own atomics; *original is what was there. */
enum access_result execute_atomic(struct qp *qp, bool is_cas, uint64_t remote_addr, uint32_t rkey,
				  uint64_t compare_add, uint64_t swap, uint64_t *original);

#endif
