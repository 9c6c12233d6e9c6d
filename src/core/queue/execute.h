/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_EXECUTE_H
#define USRDMA_CORE_QUEUE_EXECUTE_H

#include "core/object/access_result.h"
#include "core/object/objects.h"
#include "core/object/vendor_err.h"
#include "core/queue/wq.h"

/*
 * Execution of received SEND, WRITE, READ, ATOMIC and FLUSH requests: access to memory, the receive
 * queue and the CQ, independent of the transport. Returns an enum access_result, which each
 * transport maps to its own status in one table. All functions with a `struct qp` are called with
 * the lock of the QP held.
 */

/*
 * State of the message that a QP is receiving: a SEND into a receive WQE, or a WRITE. Owned by the
 * transport's QP.
 */
struct inbound {
	bool has_recv;	/* `recv` was dequeued; its completion is pending */
	bool has_spare; /* `recv` is left from a dropped message, for the next one that needs it */
	bool is_write;	/* data is written to [addr, …), else to recv's SGEs */
	/*
	 * WRITE: the peer's WR continues with another one. Set by the caller of
	 * inbound_begin_write()
	 */
	bool is_part;
	uint32_t rkey;
	uint64_t remote_addr;  /* iova */
	uint32_t length_bytes; /* WRITE: the length in the RETH */
	uint32_t done_bytes;
	uint32_t sge_index;
	uint32_t sge_offset;
	enum vendor_err local_err; /* ACCESS_LOCAL: the error of recv */
	struct recv_taken recv;
};

/* Header fields of a message, for the completion of the receive. */
struct inbound_end {
	bool has_imm;
	bool has_invalidate;
	bool has_grh; /* datagram: the first 40 bytes are the GRH */
	uint8_t sl;   /* datagram: see datagram.c */
	bool is_solicited;
	uint32_t imm_data_be;
	uint32_t invalidate_rkey;
	uint32_t src_qpn;
};

/* Dequeues a receive WQE for a SEND; inbound_data() follows. */
enum access_result inbound_begin_recv(struct qp *qp, struct inbound *in);
/*
 * Dequeues the receive WQE that a WRITE with immediate completes. Both functions use a spare WQE
 * first.
 */
enum access_result inbound_take_recv(struct qp *qp, struct inbound *in);
/* Checks a WRITE of length bytes to rkey. A length of 0 is not checked (IBA 1.x §9.7.4.1.5). */
enum access_result inbound_begin_write(struct qp *qp, struct inbound *in, uint64_t remote_addr,
				       uint32_t rkey, uint32_t length_bytes);
/* A WRITE whose data the requester has already written (one-sided path). */
void inbound_begin_placed(struct inbound *in, uint32_t length_bytes);
/* Writes the next bytes of the message to memory. */
enum access_result inbound_data(struct qp *qp, struct inbound *in, const void *data,
				uint32_t bytes);
/* The message is complete: completes the receive WQE, if one was dequeued. */
enum access_result inbound_end(struct qp *qp, struct inbound *in, const struct inbound_end *end);
/*
 * The message failed: completes the dequeued receive WQE with the matching status; the caller then
 * moves the QP to ERR. ACCESS_OK: the QP receives no more, and a spare WQE is flushed, too.
 */
void inbound_fail(struct qp *qp, struct inbound *in, enum access_result result);
/*
 * A UC message is dropped: its receive WQE is used by the next message that needs one (IBA 1.x
 * §9.8.2.2).
 */
void inbound_drop(struct inbound *in);

/*
 * Checks a READ of the QP's peer, or a part of one, and returns the address of the data. The caller
 * copies them as the functions of base/user_copy.h do.
 */
enum access_result execute_read(struct qp *qp, uint64_t remote_addr, uint32_t rkey, uint32_t bytes,
				const uint8_t **from);

/* Stores 8 aligned bytes atomically: a concurrent reader sees all of them or none (IBA A19). */
enum access_result execute_atomic_write(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
					const void *data, uint32_t bytes);

/*
 * A FLUSH of the QP's peer (IBA A19): makes the writes of its preceding requests visible to all
 * threads and processes, in a range or (IBV_FLUSH_MR) in the whole region. The QP and the region
 * must each permit all of its types, enum ibv_placement_type. No region permits
 * IBV_FLUSH_PERSISTENT.
 */
enum access_result execute_flush(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
				 uint32_t length_bytes, unsigned int types, unsigned int level);

/*
 * Compare-and-swap or fetch-and-add on aligned memory with the CPU's atomics; *original is the
 * previous value.
 */
enum access_result execute_atomic(struct qp *qp, bool is_cas, uint64_t remote_addr, uint32_t rkey,
				  uint64_t compare_add, uint64_t swap, uint64_t *original);

/*
 * A request of the QP's peer that has a response of its own (WR_KIND_REQUEST), as its transport
 * decoded it.
 */
struct remote_request {
	enum ibv_wr_opcode opcode;
	uint32_t rkey;
	uint64_t remote_addr;
	uint32_t length_bytes; /* READ, ATOMIC WRITE, FLUSH of a range */
	unsigned int flush_types;
	unsigned int flush_level;
	uint64_t compare_add;
	uint64_t swap;
	const void *data; /* ATOMIC WRITE: length_bytes bytes */
};

/*
 * Executes the request by its opcode, except that the data of a READ are only checked: the
 * transport copies them into its response. *original is set by an atomic only.
 */
enum access_result execute_request(struct qp *qp, const struct remote_request *request,
				   uint64_t *original);

#endif
