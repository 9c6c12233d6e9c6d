/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_COUNTERS_H
#define USRDMA_LOCAL_COUNTERS_H

/* The counters of this transport, shown by `usrdma status`. */
enum local_counter {
	LOCAL_MESSAGES_SENT, /* requests and datagrams sent through a FIFO */
	LOCAL_MESSAGES_RECEIVED,
	/* READs, WRITEs and atomics that this process executed in a peer's memory */
	LOCAL_ONESIDED,
	LOCAL_MAPPED,	     /* of these, in memory that this process has mapped */
	LOCAL_MAPPED_FAULTS, /* accesses to mapped memory that ended with SIGBUS */
	LOCAL_RNR_NAKS_SENT,
	LOCAL_RNR_NAKS_RECEIVED,
	LOCAL_RETRIES,
	LOCAL_QP_ERRORS,
	LOCAL_BAD_CELLS, /* dropped: malformed, or refused without space for the refusal */
	/* lost: no process has the QPN, or the peer does not empty its FIFO */
	LOCAL_DATAGRAMS_LOST,
	LOCAL_DATAGRAMS_SOURCE,	     /* dropped: the source address does not belong to this host */
	LOCAL_DATAGRAMS_UNKNOWN_QPN, /* this and the following: dropped by the receiver, by cause */
	LOCAL_DATAGRAMS_NOT_UD,
	LOCAL_DATAGRAMS_QP_STATE,
	LOCAL_DATAGRAMS_QKEY,
	LOCAL_DATAGRAMS_NO_RECV,
	LOCAL_DATAGRAMS_RECV_TOO_SHORT,
	LOCAL_DATAGRAMS_BAD_RECV,
	LOCAL_COUNTER_COUNT
};

#endif
