/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DATAGRAM_H
#define USRDMA_CORE_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "wire/grh.h"

/*
 * Unreliable datagrams (IBA 1.x §9.8.3): what UD QPs do with the WRs that are posted to them, and with datagrams that
 * come in. A UD QP has no peer and so belongs to no transport; each datagram goes by the transport of its address
 * handle. All with engine.lock held.
 */

struct engine;
struct qp;

#define DATAGRAM_QPN_MULTICAST 0xffffffu

/* The high bit of a WR's Q_Key: the QP's own is sent instead (IBA 1.x §10.2.5). */
#define DATAGRAM_QKEY_OF_QP 0x80000000u

/* What an engine knows of datagrams. Guarded by engine.lock. */
struct datagrams {
	struct list_head
		waiting;       /* qp.datagram_node: have WQEs that their last turn did not get to */
	unsigned int qp_count; /* UD QPs: datagrams may come as long as there are any */
	uint64_t qkey_violations; /* datagrams under another Q_Key than their QP's */
};

/* One to send. Owned by the caller of send_datagram, for that call. */
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

/* One that came, its checksums found right. Owned by the transport that it came by. */
struct datagram_rx {
	uint32_t dest_qpn; /* DATAGRAM_QPN_MULTICAST: whoever is in the group local_gid */
	uint32_t src_qpn;
	uint32_t qkey;
	bool has_imm;
	bool is_solicited;
	uint32_t imm_be;
	uint32_t ifindex;	/* where it came in; of a group only */
	uint8_t local_gid[16];	/* where it was sent to */
	uint8_t remote_gid[16]; /* where it came from; of a group only */
	uint8_t grh[GRH_BYTES];
	const void *payload;
	uint32_t bytes;
};

/* What became of it. Nobody is told of a datagram that was dropped; the transport counts it by cause. */
enum datagram_result {
	DATAGRAM_DELIVERED,
	DATAGRAM_UNKNOWN_QPN, /* or a group that nobody here is in */
	DATAGRAM_NOT_UD,
	DATAGRAM_QP_STATE,
	DATAGRAM_QKEY,
	DATAGRAM_NO_RECV,
	DATAGRAM_RECV_TOO_SHORT,
	DATAGRAM_BAD_RECV, /* the receive's SGEs are wrong: it completed with that, and the QP is in ERR */
	DATAGRAM_RESULT_COUNT
};

const char *datagram_result_name(enum datagram_result result);

void datagrams_init(struct datagrams *datagrams);

/* WRs were posted, or the QP is in RTS again: sends what can be sent. */
void datagram_kick(struct qp *qp);

/* A transport has room again, or may have. Answers how many datagrams left. */
unsigned int datagram_resume(struct engine *engine);

/* Whether some QP waits for its turn and for nothing else, so that nobody may sleep. */
bool datagram_is_due(const struct engine *engine);

/* The QP has nothing left to send: it is in ERR, SQE or RESET. */
void datagram_forget(struct qp *qp);

enum datagram_result datagram_deliver(struct engine *engine, const struct datagram_rx *rx);

/* The same to one QP, whatever the datagram says of whom it is for. */
enum datagram_result datagram_deliver_to(struct qp *qp, const struct datagram_rx *rx);

#endif
