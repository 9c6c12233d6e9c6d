/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/verdict.h"

#include <assert.h>

#include "core/qp.h"

static const struct verdict_row rows[] = {
	[VERDICT_ACCEPTED] = {"accepted", REPLY_IF_ASKED, 0, false, QP_NO_EVENT},
	[VERDICT_DUPLICATE] = {"duplicate", REPLY_ACK, 0, false, QP_NO_EVENT},
	[VERDICT_REPLAY] = {"replayed", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[VERDICT_STALE] = {"stale duplicate", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[VERDICT_GAP] = {"psn gap", REPLY_NAK, AETH_NAK_PSN_SEQUENCE, false, QP_NO_EVENT},
	[VERDICT_AWAITED] = {"behind what is awaited", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[VERDICT_RNR] = {"receiver not ready", REPLY_RNR_NAK, 0, false, QP_NO_EVENT},
	[VERDICT_RELAYED] = {"another process's", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[VERDICT_PARKED] = {"waits for another process", REPLY_NOTHING, 0, false, QP_NO_EVENT},
	[VERDICT_SEQUENCE] = {"opcode out of sequence", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			      IBV_EVENT_QP_REQ_ERR},
	[VERDICT_SIZE] = {"payload does not fit the mtu", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			  IBV_EVENT_QP_REQ_ERR},
	[VERDICT_SRQ] = {"no such shared receive queue", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			 IBV_EVENT_QP_REQ_ERR},
	[VERDICT_OWNER] = {"process of the shared receive queue is gone", REPLY_NAK,
			   AETH_NAK_REMOTE_OPERATION, true, IBV_EVENT_QP_FATAL},
	[VERDICT_DEPTH] = {"too many reads at once", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			   IBV_EVENT_QP_REQ_ERR},
	[VERDICT_RECV_LENGTH] = {"message longer than the receive", REPLY_NAK,
				 AETH_NAK_INVALID_REQUEST, true, QP_NO_EVENT},
	[VERDICT_RECV_LOCAL] = {"bad receive work request", REPLY_NAK, AETH_NAK_REMOTE_OPERATION,
				true, QP_NO_EVENT},
	[VERDICT_RKEY] = {"unknown rkey", REPLY_NAK, AETH_NAK_REMOTE_ACCESS, true,
			  IBV_EVENT_QP_ACCESS_ERR},
	[VERDICT_PD] = {"memory region of another protection domain", REPLY_NAK,
			AETH_NAK_REMOTE_ACCESS, true, IBV_EVENT_QP_ACCESS_ERR},
	[VERDICT_BOUNDS] = {"outside the memory region", REPLY_NAK, AETH_NAK_REMOTE_ACCESS, true,
			    IBV_EVENT_QP_ACCESS_ERR},
	[VERDICT_RIGHTS] = {"memory region does not permit it", REPLY_NAK, AETH_NAK_REMOTE_ACCESS,
			    true, IBV_EVENT_QP_ACCESS_ERR},
	[VERDICT_QP_RIGHTS] = {"queue pair does not permit it", REPLY_NAK, AETH_NAK_INVALID_REQUEST,
			       true, IBV_EVENT_QP_REQ_ERR},
	[VERDICT_INVALIDATE] = {"key cannot be invalidated", REPLY_NAK, AETH_NAK_REMOTE_ACCESS,
				true, IBV_EVENT_QP_ACCESS_ERR},
	[VERDICT_ALIGN] = {"atomic not aligned", REPLY_NAK, AETH_NAK_INVALID_REQUEST, true,
			   IBV_EVENT_QP_REQ_ERR},
	[VERDICT_GONE] = {"registered memory was unmapped", REPLY_NAK, AETH_NAK_REMOTE_OPERATION,
			  true, IBV_EVENT_QP_FATAL},
};
static_assert(sizeof(rows) / sizeof(rows[0]) == VERDICT_COUNT, "every verdict has its row");

static const enum verdict verdicts_of_access[] = {
	[ACCESS_OK] = VERDICT_ACCEPTED,		[ACCESS_RNR] = VERDICT_RNR,
	[ACCESS_LENGTH] = VERDICT_RECV_LENGTH,	[ACCESS_LOCAL] = VERDICT_RECV_LOCAL,
	[ACCESS_RKEY] = VERDICT_RKEY,		[ACCESS_PD] = VERDICT_PD,
	[ACCESS_BOUNDS] = VERDICT_BOUNDS,	[ACCESS_RIGHTS] = VERDICT_RIGHTS,
	[ACCESS_QP_RIGHTS] = VERDICT_QP_RIGHTS, [ACCESS_INVALIDATE] = VERDICT_INVALIDATE,
	[ACCESS_ALIGN] = VERDICT_ALIGN,		[ACCESS_GONE] = VERDICT_GONE,
};
static_assert(sizeof(verdicts_of_access) / sizeof(verdicts_of_access[0]) == ACCESS_RESULT_COUNT,
	      "every result has a verdict");

const struct verdict_row *verdict_row(enum verdict verdict)
{
	return &rows[verdict];
}

enum verdict verdict_of_access(enum access_result result)
{
	return verdicts_of_access[result];
}

uint8_t verdict_syndrome(enum verdict verdict, unsigned rnr_timer)
{
	const struct verdict_row *row = verdict_row(verdict);

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
		/* The wire does not tell these apart; a SEND has no other way to be invalid. */
		return is_send ? VENDOR_ERR_RECV_TOO_SHORT : VENDOR_ERR_QP_ACCESS;
	case AETH_NAK_REMOTE_ACCESS:
		return is_send ? VENDOR_ERR_NOT_INVALIDATABLE : VENDOR_ERR_RKEY;
	case AETH_NAK_REMOTE_OPERATION:
		return VENDOR_ERR_REMOTE_RECV;
	default:
		return VENDOR_ERR_NO_ANSWER;
	}
}
