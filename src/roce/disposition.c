/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/disposition.h"

#include <assert.h>

#include "base/util.h"
#include "core/queue/qp_error.h"

static const struct disposition_row rows[] = {
	[DISPOSITION_ACCEPTED] = {"accepted", REPLY_IF_ASKED, 0, false, QP_NO_EVENT},
	[DISPOSITION_DUPLICATE] = {"duplicate", REPLY_ACK, 0, false, QP_NO_EVENT},
	[DISPOSITION_REPLAY] = {"replayed", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[DISPOSITION_STALE] = {"stale duplicate", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[DISPOSITION_GAP] = {"psn gap", REPLY_NAK, AETH_NAK_PSN_SEQUENCE, false, QP_NO_EVENT},
	[DISPOSITION_AWAITED] = {"after a psn gap", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[DISPOSITION_AHEAD] = {"ahead of its turn", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[DISPOSITION_RNR] = {"receiver not ready", REPLY_RNR_NAK, 0, false, QP_NO_EVENT},
	[DISPOSITION_FORWARDED] = {"forwarded to another process", REPLY_NOTHING, 0, false,
				   QP_NO_EVENT},
	[DISPOSITION_DEFERRED] = {"deferred for another process", REPLY_NOTHING, 0, false,
				  QP_NO_EVENT},
	[DISPOSITION_SEQUENCE] = {"opcode out of sequence", REPLY_NAK, AETH_NAK_INVALID_REQUEST,
				  true, IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_SIZE] = {"payload does not fit the mtu", REPLY_NAK, AETH_NAK_INVALID_REQUEST,
			      true, IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_SRQ] = {"no such shared receive queue", REPLY_NAK, AETH_NAK_INVALID_REQUEST,
			     true, IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_EXECUTOR] = {"process of the shared receive queue is gone", REPLY_NAK,
				  AETH_NAK_REMOTE_OPERATION, true, IBV_EVENT_QP_FATAL},
	[DISPOSITION_DEPTH] = {"too many reads at once", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			       IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_RECV_LENGTH] = {"message longer than the receive", REPLY_NAK,
				     AETH_NAK_INVALID_REQUEST, true, QP_NO_EVENT},
	[DISPOSITION_RECV_LOCAL] = {"bad receive work request", REPLY_NAK,
				    AETH_NAK_REMOTE_OPERATION, true, QP_NO_EVENT},
	[DISPOSITION_RKEY] = {"unknown rkey", REPLY_NAK, AETH_NAK_REMOTE_ACCESS, true,
			      IBV_EVENT_QP_ACCESS_ERR},
	[DISPOSITION_PD] = {"memory region of another protection domain", REPLY_NAK,
			    AETH_NAK_REMOTE_ACCESS, true, IBV_EVENT_QP_ACCESS_ERR},
	[DISPOSITION_BOUNDS] = {"outside the memory region", REPLY_NAK, AETH_NAK_REMOTE_ACCESS,
				true, IBV_EVENT_QP_ACCESS_ERR},
	[DISPOSITION_RIGHTS] = {"memory region does not permit it", REPLY_NAK,
				AETH_NAK_REMOTE_ACCESS, true, IBV_EVENT_QP_ACCESS_ERR},
	[DISPOSITION_QP_RIGHTS] = {"queue pair does not permit it", REPLY_NAK,
				   AETH_NAK_INVALID_REQUEST, true, IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_INVALIDATE] = {"key cannot be invalidated", REPLY_NAK, AETH_NAK_REMOTE_ACCESS,
				    true, IBV_EVENT_QP_ACCESS_ERR},
	[DISPOSITION_ALIGN] = {"atomic not aligned", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			       IBV_EVENT_QP_REQ_ERR},
	[DISPOSITION_GONE] = {"registered memory cannot be accessed", REPLY_NAK,
			      AETH_NAK_REMOTE_OPERATION, true, IBV_EVENT_QP_FATAL},
};
static_assert(COUNT(rows) == DISPOSITION_COUNT, "every disposition has a row");

static const enum disposition dispositions_of_access[] = {
	[ACCESS_OK] = DISPOSITION_ACCEPTED,	    [ACCESS_RNR] = DISPOSITION_RNR,
	[ACCESS_LENGTH] = DISPOSITION_RECV_LENGTH,  [ACCESS_LOCAL] = DISPOSITION_RECV_LOCAL,
	[ACCESS_RKEY] = DISPOSITION_RKEY,	    [ACCESS_PD] = DISPOSITION_PD,
	[ACCESS_BOUNDS] = DISPOSITION_BOUNDS,	    [ACCESS_RIGHTS] = DISPOSITION_RIGHTS,
	[ACCESS_QP_RIGHTS] = DISPOSITION_QP_RIGHTS, [ACCESS_INVALIDATE] = DISPOSITION_INVALIDATE,
	[ACCESS_ALIGN] = DISPOSITION_ALIGN,	    [ACCESS_GONE] = DISPOSITION_GONE,
	[ACCESS_DEPTH] = DISPOSITION_DEPTH,	    [ACCESS_MTU] = DISPOSITION_SIZE,
};
static_assert(COUNT(dispositions_of_access) == ACCESS_RESULT_COUNT,
	      "every result has a disposition");

const struct disposition_row *disposition_row(enum disposition disposition)
{
	return &rows[disposition];
}

enum disposition disposition_of_access(enum access_result result)
{
	return dispositions_of_access[result];
}

uint8_t disposition_syndrome(enum disposition disposition, unsigned rnr_timer)
{
	const struct disposition_row *row = disposition_row(disposition);

	switch (row->reply) {
	case REPLY_RNR_NAK:
		return aeth_make(AETH_KIND_RNR_NAK, rnr_timer);
	case REPLY_NAK:
		return aeth_make(AETH_KIND_NAK, row->nak);
	default:
		return aeth_make(AETH_KIND_ACK, AETH_CREDITS_UNLIMITED);
	}
}

enum ibv_wc_status nak_status(unsigned nak)
{
	switch (nak) {
	case AETH_NAK_INVALID_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case AETH_NAK_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case AETH_NAK_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	case AETH_NAK_INVALID_RD_REQUEST:
		return IBV_WC_REM_INV_RD_REQ_ERR;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

enum vendor_err nak_vendor_err(unsigned nak, bool is_send)
{
	switch (nak) {
	case AETH_NAK_INVALID_REQUEST:
		/*
		 * The NAK code has several causes. For a valid SEND the only one is a receive that
		 * is too short.
		 */
		return is_send ? VENDOR_ERR_RECV_TOO_SHORT : VENDOR_ERR_QP_ACCESS;
	case AETH_NAK_REMOTE_ACCESS:
		return is_send ? VENDOR_ERR_NOT_INVALIDATABLE : VENDOR_ERR_RKEY;
	case AETH_NAK_REMOTE_OPERATION:
		return VENDOR_ERR_REMOTE_RECV;
	default:
		return VENDOR_ERR_NO_RESPONSE;
	}
}
