/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_VENDOR_ERR_H
#define USRDMA_CORE_OBJECT_VENDOR_ERR_H

#include <stdint.h>

struct ibv_wc;

/*
 * Vendor error of a completion (ibv_wc.vendor_err): the check that failed. Documented in
 * docs/completion-errors.md.
 */
enum vendor_err {
	VENDOR_ERR_NONE,
	VENDOR_ERR_FLUSHED,	   /* the QP was in ERR, or entered ERR while this WR was queued */
	VENDOR_ERR_LKEY,	   /* no MR has that lkey */
	VENDOR_ERR_LKEY_PD,	   /* the lkey belongs to another PD than the QP */
	VENDOR_ERR_LKEY_BOUNDS,	   /* the SGE exceeds the MR */
	VENDOR_ERR_LKEY_ACCESS,	   /* the MR does not permit IBV_ACCESS_LOCAL_WRITE */
	VENDOR_ERR_RECV_TOO_SHORT, /* the message is longer than the receive buffers */
	VENDOR_ERR_RKEY,	   /* remote: no MR has that rkey */
	VENDOR_ERR_RKEY_PD,	   /* remote: MR and QP belong to different PDs */
	VENDOR_ERR_RKEY_BOUNDS,	   /* remote: the range exceeds the MR */
	VENDOR_ERR_RKEY_ACCESS,	   /* remote: the MR does not permit the access */
	VENDOR_ERR_QP_ACCESS,	   /* remote: the QP does not permit the access (qp_access_flags) */
	VENDOR_ERR_ATOMIC_ALIGN,   /* remote address of an atomic is not a multiple of 8 */
	VENDOR_ERR_RNR,		   /* the peer had no receive posted after rnr_retry retries */
	VENDOR_ERR_NO_RESPONSE,	   /* no response after retry_cnt retries */
	VENDOR_ERR_PEER_DEAD,	   /* the process of the peer's QP exited */
	VENDOR_ERR_REMOTE_RECV,	   /* the peer's receive WR was invalid (length, lkey) */
	VENDOR_ERR_MSG_LENGTH,	   /* the message exceeds the port's max_msg_sz */
	VENDOR_ERR_MEMORY_GONE,	   /* the MR's pages cannot be accessed any more */
	/* LOCAL_INV or SEND_INV of a key that is not a bound type 2 MW */
	VENDOR_ERR_NOT_INVALIDATABLE,
	VENDOR_ERR_AH_PD,	    /* the address handle belongs to another PD than the QP */
	VENDOR_ERR_DATAGRAM_LENGTH, /* the datagram exceeds the port's MTU */
	VENDOR_ERR_WINDOW,   /* bind of an unknown window, or of a type 2 window that is bound */
	VENDOR_ERR_INJECTED, /* a fault point completed the WR (base/fault.h) */
	/* remote: more outstanding READs and atomics than max_dest_rd_atomic */
	VENDOR_ERR_READ_DEPTH,
	VENDOR_ERR_PATH_MTU, /* path_mtu of the two QPs differs */
	VENDOR_ERR_COUNT
};

/* Description of a vendor error; "unknown" for an undefined value. */
const char *vendor_err_text(uint32_t vendor_err);

/* Logs a completion with an error of its own; flushed completions are not logged. */
void vendor_err_log(const struct ibv_wc *wc);

#endif
