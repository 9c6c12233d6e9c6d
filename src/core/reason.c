/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/reason.h"

#include <assert.h>

#include "base/log.h"
#include "core/objects.h"

static const char *const words[] = {
	[VENDOR_ERR_NONE] = "nothing",
	[VENDOR_ERR_FLUSHED] = "the queue pair was in ERR",
	[VENDOR_ERR_LKEY] = "no memory region has this lkey",
	[VENDOR_ERR_LKEY_PD] = "the lkey belongs to another protection domain",
	[VENDOR_ERR_LKEY_BOUNDS] = "the SGE is not all inside its memory region",
	[VENDOR_ERR_LKEY_ACCESS] = "the region of an SGE does not permit this",
	[VENDOR_ERR_RECV_TOO_SHORT] = "the message is longer than the receive's buffers",
	[VENDOR_ERR_RKEY] = "the peer has no memory region with this rkey",
	[VENDOR_ERR_RKEY_PD] =
		"the rkey belongs to another protection domain than the peer's queue pair",
	[VENDOR_ERR_RKEY_BOUNDS] = "the remote range is not all inside its memory region",
	[VENDOR_ERR_RKEY_ACCESS] = "the remote memory region does not permit this",
	[VENDOR_ERR_QP_ACCESS] = "the peer's queue pair does not permit this (qp_access_flags)",
	[VENDOR_ERR_ATOMIC_ALIGN] = "the remote address of an atomic is not a multiple of 8",
	[VENDOR_ERR_RNR] = "the peer had no receive posted, rnr_retry times",
	[VENDOR_ERR_NO_ANSWER] =
		"the peer's queue pair did not answer, or could not receive, retry_cnt times",
	[VENDOR_ERR_PEER_DEAD] = "the process that owned the peer's queue pair is gone",
	[VENDOR_ERR_REMOTE_RECV] = "the receive that the peer had posted is bad",
	[VENDOR_ERR_MSG_LENGTH] =
		"longer than the port's max_msg_sz, or an atomic of another length than 8",
	[VENDOR_ERR_MEMORY_GONE] = "registered memory was unmapped",
	[VENDOR_ERR_NOT_INVALIDATABLE] = "the key to invalidate is of no type 2 memory window",
	[VENDOR_ERR_AH_PD] = "the address handle is of another protection domain",
	[VENDOR_ERR_DATAGRAM_LENGTH] = "the datagram is longer than the port's MTU",
	[VENDOR_ERR_WINDOW] = "the window to bind is gone, or of type 2 and bound already",
};
static_assert(sizeof(words) / sizeof(words[0]) == VENDOR_ERR_COUNT, "every reason has words");

const char *reason_words(uint32_t vendor_err)
{
	return vendor_err < VENDOR_ERR_COUNT ? words[vendor_err] : "unknown";
}

void reason_log(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	log_warn("qp 0x%06x: work request 0x%llx failed: %s: %s (vendor_err %u)", wc->qp_num,
		 (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		 reason_words(wc->vendor_err), wc->vendor_err);
}
