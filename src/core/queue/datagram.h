/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_DATAGRAM_H
#define USRDMA_CORE_QUEUE_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "wire/grh.h"

/*
 * Unreliable datagrams (IBA 1.x §9.8.3): sends posted to UD QPs, and received datagrams. A UD QP
 * has no peer and therefore no transport. The transport of the address handle carries each
 * datagram. All functions with a `struct qp` or a `struct engine` are called with engine.lock held:
 * UD QPs belong to shard 0.
 */

struct engine;
struct qp;

#define DATAGRAM_QPN_MULTICAST 0xffffffu

/* If the upper bit of a WR's Q_Key is set, the QP's own Q_Key is sent instead (IBA 1.x §10.2.5). */
#define DATAGRAM_QKEY_OF_QP 0x80000000u

/* The engine's state of datagrams. Guarded by engine.lock. */
struct datagrams {
	struct list_head waiting; /* qp.datagram_node: QPs with WQEs that were not sent yet */
	struct list_head sent;	  /* qp.sent_node: QPs whose WQEs [una, nxt) were sent */
	unsigned int qp_count;	  /* UD QPs: datagrams are received while it is not 0 */
	uint64_t qkey_violations; /* datagrams whose Q_Key differs from the QP's */
};

/* A datagram to send. Owned by the caller of send_datagram() for the duration of the call. */
struct datagram_tx {
	uint32_t dest_qpn;
	uint32_t qkey;
	uint32_t psn;
	bool has_imm;
	bool is_solicited;
	uint32_t imm_be;
	const struct iovec *iov; /* checked against the QP's MRs */
	int iov_count;
	uint32_t bytes; /* at most the port's MTU */
};

/* A received datagram with valid checksums. Owned by the transport that received it. */
struct datagram_rx {
	uint32_t dest_qpn; /* DATAGRAM_QPN_MULTICAST: all members of the group local_gid */
	uint32_t src_qpn;
	uint32_t qkey;
	bool has_imm;
	bool is_solicited;
	uint32_t imm_be;
	uint32_t ifindex;	/* multicast: the receiving interface */
	uint8_t local_gid[16];	/* destination address */
	uint8_t remote_gid[16]; /* multicast: source address */
	uint8_t grh[GRH_BYTES];
	const void *payload;
	uint32_t bytes;
};

/*
 * Result of a received datagram. A dropped datagram is not reported to the application; the
 * transport counts it by cause.
 */
enum datagram_result {
	DATAGRAM_DELIVERED,
	DATAGRAM_UNKNOWN_QPN, /* or a group without a member in this process */
	DATAGRAM_NOT_UD,
	DATAGRAM_QP_STATE,
	DATAGRAM_QKEY,
	DATAGRAM_NO_RECV,
	DATAGRAM_RECV_TOO_SHORT,
	/* invalid SGEs of the receive: its completion has an error status; the QP enters ERR */
	DATAGRAM_BAD_RECV,
	DATAGRAM_RESULT_COUNT
};

const char *datagram_result_name(enum datagram_result result);

void datagrams_init(struct datagrams *datagrams);

/* WRs were posted, or the QP entered RTS again: sends as many datagrams as possible. */
void datagram_kick(struct qp *qp);

/*
 * A transport may have room again, or has datagrams that wait for more (datagrams_end()): these are
 * sent, too. Returns how many datagrams were sent, and how many QPs have completions of earlier
 * ones.
 */
unsigned int datagram_resume(struct engine *engine);

/* Whether datagram_resume() may have work. */
bool datagram_has_pending(const struct engine *engine);

/* Whether a QP waits only for its next turn; then the engine thread must not sleep. */
bool datagram_is_due(const struct engine *engine);

/* The QP sends no more, because it entered ERR, SQE or RESET. The WQEs that were sent complete. */
void datagram_forget(struct qp *qp);

enum datagram_result datagram_deliver(struct engine *engine, const struct datagram_rx *rx);

/* The same, to the given QP instead of the datagram's destination QPN. */
enum datagram_result datagram_deliver_to(struct qp *qp, const struct datagram_rx *rx);

#endif
