/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/vendor_err.h"

#include <assert.h>

#include "base/util.h"

static const char *const texts[] = {
	[VENDOR_ERR_NONE] = "no error",
	[VENDOR_ERR_FLUSHED] = "the queue pair was in ERR",
	[VENDOR_ERR_LKEY] = "no memory region has this lkey",
	[VENDOR_ERR_LKEY_PD] = "the lkey belongs to another protection domain",
	[VENDOR_ERR_LKEY_BOUNDS] = "the SGE exceeds the bounds of its memory region",
	[VENDOR_ERR_LKEY_ACCESS] = "the memory region of an SGE does not permit this access",
	[VENDOR_ERR_RECV_TOO_SHORT] = "the message is longer than the receive's buffers",
	[VENDOR_ERR_RKEY] = "the peer has no memory region with this rkey",
	[VENDOR_ERR_RKEY_PD] =
		"the rkey belongs to another protection domain than the peer's queue pair",
	[VENDOR_ERR_RKEY_BOUNDS] = "the remote range exceeds the bounds of its memory region",
	[VENDOR_ERR_RKEY_ACCESS] = "the remote memory region does not permit this access",
	[VENDOR_ERR_QP_ACCESS] =
		"the peer's queue pair does not permit this access (qp_access_flags)",
	[VENDOR_ERR_ATOMIC_ALIGN] = "the remote address of an atomic is not a multiple of 8",
	[VENDOR_ERR_RNR] = "the peer had no receive posted, after rnr_retry retries",
	[VENDOR_ERR_NO_RESPONSE] =
		"the peer's queue pair did not respond, or could not receive, after retry_cnt retries",
	[VENDOR_ERR_PEER_DEAD] = "the process that owned the peer's queue pair has exited",
	[VENDOR_ERR_REMOTE_RECV] = "the receive work request of the peer has an invalid SGE",
	[VENDOR_ERR_MSG_LENGTH] =
		("the message is longer than the port's max_msg_sz, the buffer of an atomic is shorter than 8 bytes, "
		 "or an atomic WRITE is not 8 bytes long"),
	[VENDOR_ERR_MEMORY_GONE] = "registered memory cannot be accessed",
	[VENDOR_ERR_NOT_INVALIDATABLE] =
		"the key to invalidate does not belong to a type 2 memory window",
	[VENDOR_ERR_AH_PD] = "the address handle belongs to another protection domain",
	[VENDOR_ERR_DATAGRAM_LENGTH] = "the datagram is longer than the port's MTU",
	[VENDOR_ERR_WINDOW] =
		"the memory window to bind was deallocated, or is of type 2 and already bound",
	[VENDOR_ERR_INJECTED] = "USRDMA_FAULT injected the failure",
	[VENDOR_ERR_READ_DEPTH] =
		"more READs and atomics were outstanding than max_dest_rd_atomic of the peer's queue pair",
	[VENDOR_ERR_PATH_MTU] = "the peer's queue pair has another path_mtu",
};
static_assert(COUNT(texts) == VENDOR_ERR_COUNT, "every vendor_err has a text");

const char *vendor_err_text(uint32_t vendor_err)
{
	return vendor_err < VENDOR_ERR_COUNT ? texts[vendor_err] : "unknown";
}
