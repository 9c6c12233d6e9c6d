/* SPDX-License-Identifier: BSD-2-Clause */
/* The sentences of usrdma why for work requests and queue pairs. */
#include <infiniband/verbs.h>
#include <inttypes.h>

#include "core/object/vendor_err.h"
#include "why.h"
#include "wire/aeth.h"

#define RNR_UNKNOWN	    255
#define ACK_TIMEOUT_UNIT_NS UINT64_C(4096)

void why_write_operation(FILE *out, const struct ipc_failure *failure)
{
	fputs(why_operation(failure), out);
	if (!(failure->flags & IPC_FAILURE_IS_RECV)) {
		fputs(failure->opcode == IBV_WR_BIND_MW ? " to " : " of ", out);
		why_write_number(out, failure->length);
		fputs(failure->length == 1 ? " byte" : " bytes", out);
	}
	if (failure->flags & IPC_FAILURE_HAS_REMOTE)
		fprintf(out, " at 0x%" PRIx64 " with rkey 0x%x", failure->remote_addr,
			failure->rkey);
}

/* "the region [0x…, 0x…) that pid 748 registered" */
static void write_region(FILE *out, const struct ipc_failure *failure)
{
	bool is_window = failure->flags & IPC_FAILURE_IS_WINDOW;

	fprintf(out, "the %s [0x%" PRIx64 ", 0x%" PRIx64 ")",
		is_window ? "memory window" : "region", failure->region_start,
		failure->region_start + failure->region_length);
	if (failure->region_pid)
		fprintf(out, " that pid %d %s", failure->region_pid,
			is_window ? "bound" : "registered");
}

/* Where a range lies outside its region. */
static void write_bounds(FILE *out, const struct ipc_failure *failure, uint64_t start,
			 uint64_t length, const char *unknown)
{
	uint64_t region_end = failure->region_start + failure->region_length;
	uint64_t end = start + length;

	if (!(failure->flags & IPC_FAILURE_HAS_REGION)) {
		fputs(unknown, out);
		return;
	}
	if (start >= region_end) {
		why_write_number(out, start - region_end);
		fputs(" bytes behind", out);
	} else if (start < failure->region_start) {
		why_write_number(out, failure->region_start - start);
		fputs(" bytes before the start of", out);
	} else {
		why_write_number(out, end - region_end);
		fputs(" bytes past the end of", out);
	}
	fputc(' ', out);
	write_region(out, failure);
}

static void write_rights(FILE *out, const struct ipc_failure *failure)
{
	if (!(failure->flags & IPC_FAILURE_HAS_REGION)) {
		fputs("the memory region of the peer does not permit it", out);
		return;
	}
	write_region(out, failure);
	fputs(" permits only ", out);
	why_write_access(out, failure->region_access);
}

static void write_local_range(FILE *out, const struct ipc_failure *failure)
{
	if (!(failure->flags & IPC_FAILURE_HAS_LOCAL))
		fputs("one of its SGEs ", out);
	else if (failure->opcode == IBV_WR_BIND_MW)
		fprintf(out, "its range at 0x%" PRIx64 " with lkey 0x%x ", failure->local_addr,
			failure->lkey);
	else
		fprintf(out, "its SGE of %u bytes at 0x%" PRIx64 " with lkey 0x%x ",
			failure->local_length, failure->local_addr, failure->lkey);
}

static void write_lkey(FILE *out, const struct ipc_failure *failure)
{
	bool is_bind = failure->opcode == IBV_WR_BIND_MW && !(failure->flags & IPC_FAILURE_IS_RECV);

	write_local_range(out, failure);
	switch (failure->vendor_err) {
	case VENDOR_ERR_LKEY:
		fputs("names no memory region: none has this lkey", out);
		break;
	case VENDOR_ERR_LKEY_PD:
		fputs("is in a region of another protection domain than the queue pair", out);
		break;
	case VENDOR_ERR_LKEY_BOUNDS:
		fputs("is ", out);
		write_bounds(out, failure, failure->local_addr,
			     is_bind ? failure->length : failure->local_length,
			     "outside its memory region");
		break;
	default:
		fputs(is_bind ? "needs IBV_ACCESS_MW_BIND, for remote writes and atomics also "
				"IBV_ACCESS_LOCAL_WRITE, and its region permits only " :
				"needs write access, and its region permits only ",
		      out);
		why_write_access(out, failure->region_access);
		break;
	}
}

static void write_rnr(FILE *out, const struct ipc_failure *failure)
{
	fprintf(out, "the peer had no receive posted: %u RNR NAKs (rnr_retry %u)",
		failure->rnr_retry + 1u, failure->rnr_retry);
	if (failure->min_rnr_timer == RNR_UNKNOWN)
		return;
	fputs(", and the peer's min_rnr_timer ", out);
	fprintf(out, "%u means a wait of ", failure->min_rnr_timer);
	why_write_duration(out, aeth_rnr_wait_ns(failure->min_rnr_timer));
	fputs(" after each", out);
}

static void write_no_response(FILE *out, const struct ipc_failure *failure)
{
	uint64_t timeout_ns = ACK_TIMEOUT_UNIT_NS << (failure->timeout & 31);

	fprintf(out, "QP 0x%06x of the peer ", failure->peer_qpn);
	if (failure->reason == IPC_REASON_PEER_STATE)
		fprintf(out, "is in %s and does not receive: no response",
			why_state_name(failure->numbers[0]));
	else if (failure->reason == IPC_REASON_PEER_UNKNOWN_QPN)
		fputs("does not exist: no response", out);
	else
		fputs(failure->flags & IPC_FAILURE_SAME_HOST ?
			      "did not respond or was not ready to receive" :
			      "did not respond",
		      out);
	fprintf(out, " after %u retries", failure->retry_cnt);
	if (!failure->timeout)
		return;
	fprintf(out, " (retry_cnt %u, timeout %u: an ACK timeout of ", failure->retry_cnt,
		failure->timeout);
	why_write_duration(out, timeout_ns);
	fputs(" each)", out);
}

void why_write_refusal(FILE *out, const struct ipc_failure *failure)
{
	switch (failure->vendor_err) {
	case VENDOR_ERR_LKEY:
	case VENDOR_ERR_LKEY_PD:
	case VENDOR_ERR_LKEY_BOUNDS:
	case VENDOR_ERR_LKEY_ACCESS:
		write_lkey(out, failure);
		break;
	case VENDOR_ERR_RKEY:
		fputs(failure->flags & IPC_FAILURE_IS_WINDOW ?
			      "the memory window is not bound with this rkey; it was invalidated or bound again" :
			      "no memory region of the peer has this rkey; it was deregistered, or the key is wrong",
		      out);
		break;
	case VENDOR_ERR_RKEY_PD:
		write_region(out, failure);
		if ((failure->flags & IPC_FAILURE_IS_WINDOW) && failure->numbers[0])
			fprintf(out, " can be used by QP 0x%06" PRIx64 " only",
				failure->numbers[0]);
		else
			fputs(" belongs to another protection domain than the peer's queue pair",
			      out);
		break;
	case VENDOR_ERR_RKEY_BOUNDS:
		write_bounds(out, failure, failure->remote_addr, failure->length,
			     "outside the memory region of the peer");
		break;
	case VENDOR_ERR_RKEY_ACCESS:
		write_rights(out, failure);
		break;
	case VENDOR_ERR_QP_ACCESS:
		fputs("the peer's queue pair does not permit it: qp_access_flags are ", out);
		why_write_access(out, failure->qp_access);
		break;
	case VENDOR_ERR_RNR:
		write_rnr(out, failure);
		break;
	case VENDOR_ERR_NO_RESPONSE:
		write_no_response(out, failure);
		break;
	case VENDOR_ERR_PEER_DEAD:
		fprintf(out, "the process of the peer's queue pair (pid %d) has ended",
			failure->peer_pid);
		break;
	default:
		fputs(vendor_err_text(failure->vendor_err), out);
		break;
	}
}

static void write_recv(FILE *out, const struct ipc_failure *failure)
{
	if (failure->vendor_err != VENDOR_ERR_RECV_TOO_SHORT) {
		why_write_refusal(out, failure);
		return;
	}
	fputs("the message of the peer is longer than its buffers of ", out);
	why_write_number(out, failure->numbers[0]);
	fputs(" bytes", out);
}

/* The receive of the peer that was too short or invalid, if the peer's report is stored. */
static const struct ipc_failure *recv_of_peer(const struct why_list *list, size_t index)
{
	const struct ipc_failure *opposite = &list->failures[list->failures[index].opposite].is;

	return opposite->flags & IPC_FAILURE_IS_RECV ? opposite : NULL;
}

/*
 * The report of the peer that refused the WR; NULL: not stored. A NAK has fewer codes than the peer
 * has causes.
 */
static const struct ipc_failure *refusal_of_peer(const struct why_list *list, size_t index)
{
	const struct ipc_failure *opposite = &list->failures[list->failures[index].opposite].is;

	return opposite->kind == IPC_FAILURE_QP && opposite->reason == IPC_REASON_QP_REFUSED ?
		       opposite :
		       NULL;
}

/*
 * Whether the process that has the QPN of the peer has dropped a packet because it has no such QP.
 */
static bool is_peer_unknown(const struct why_list *list, const struct ipc_failure *failure)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct ipc_failure *drop = &list->failures[i].is;

		if (drop->kind == IPC_FAILURE_DROP && drop->reason == IPC_REASON_DROP_UNKNOWN_QPN &&
		    drop->qpn == failure->peer_qpn && why_is_near(drop, failure))
			return true;
	}
	return false;
}

struct ipc_failure why_with_peers_view(const struct why_list *list, size_t index)
{
	struct ipc_failure failure = list->failures[index].is;
	const struct ipc_failure *peer = refusal_of_peer(list, index);

	if (failure.kind == IPC_FAILURE_WR && failure.vendor_err == VENDOR_ERR_NO_RESPONSE &&
	    is_peer_unknown(list, &failure))
		failure.reason = IPC_REASON_PEER_UNKNOWN_QPN;
	if (!peer || failure.kind != IPC_FAILURE_WR)
		return failure;
	failure.vendor_err = peer->vendor_err;
	failure.qp_access = peer->qp_access;
	failure.flags |= peer->flags & (IPC_FAILURE_HAS_REGION | IPC_FAILURE_IS_WINDOW);
	failure.numbers[0] = peer->numbers[0];
	failure.region_start = peer->region_start;
	failure.region_length = peer->region_length;
	failure.region_access = peer->region_access;
	failure.region_pid = peer->region_pid;
	return failure;
}

bool why_is_known_by_nak(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	return failure->vendor_err == VENDOR_ERR_RKEY &&
	       !(failure->flags & IPC_FAILURE_SAME_HOST) && !refusal_of_peer(list, index);
}

/* "the payload of a packet is 1,024 bytes …" */
static void write_size(FILE *out, const struct ipc_failure *failure)
{
	fputs("the payload of a packet is ", out);
	why_write_number(out, failure->numbers[0]);
	fputs(" bytes, which does not agree with the path_mtu of ", out);
	why_write_number(out, failure->numbers[1]);
	fputs(" bytes of the receiver", out);
}

void why_write_wr(FILE *out, const struct why_list *list, size_t index)
{
	const struct ipc_failure view = why_with_peers_view(list, index), *failure = &view;
	const struct ipc_failure *recv = recv_of_peer(list, index);
	const struct ipc_failure *peer = &list->failures[list->failures[index].opposite].is;

	why_write_operation(out, failure);
	fputs(" failed: ", out);
	if (peer->kind == IPC_FAILURE_QP && peer->reason == IPC_REASON_QP_SIZE) {
		write_size(out, peer);
	} else if (failure->flags & IPC_FAILURE_IS_RECV) {
		write_recv(out, failure);
	} else if (failure->vendor_err == VENDOR_ERR_RECV_TOO_SHORT && recv) {
		fprintf(out, "the receive that %s (pid %d) posted has only ", recv->program,
			recv->pid);
		why_write_number(out, recv->numbers[0]);
		fputs(" bytes", out);
	} else if (why_is_known_by_nak(list, index)) {
		fputs("the peer refused it (NAK remote access error): its rkey, its range or the access rights are wrong",
		      out);
	} else {
		why_write_refusal(out, failure);
	}
}

/* " of 16 entries" */
static void write_entries(FILE *out, uint64_t entries)
{
	if (!entries)
		return;
	fputs(" of ", out);
	why_write_number(out, entries);
	fputs(entries == 1 ? " entry" : " entries", out);
}

void why_write_qp(FILE *out, const struct ipc_failure *failure)
{
	fprintf(out, "QP 0x%06x entered ERR: ", failure->qpn);
	switch (failure->reason) {
	case IPC_REASON_QP_REFUSED:
		fputs("the peer's ", out);
		why_write_operation(out, failure);
		fputs(" was refused: ", out);
		why_write_refusal(out, failure);
		break;
	case IPC_REASON_QP_MODIFIED:
		fputs("the process ended the connection with ibv_modify_qp() or rdma_disconnect(), or "
		      "closed its device",
		      out);
		break;
	case IPC_REASON_QP_CQ_OVERRUN:
		fputs("its completion queue", out);
		write_entries(out, failure->numbers[0]);
		fputs(" was full, and a completion was lost", out);
		break;
	case IPC_REASON_QP_SIZE:
		write_size(out, failure);
		break;
	case IPC_REASON_QP_POSTED_IN_ERR:
		fputs("work requests were posted while it was in ERR", out);
		break;
	default:
		fputs(failure->event == UINT32_MAX ? "a work request failed" :
						     why_event_name(failure->event),
		      out);
		break;
	}
}

/* The rdma_cm permits READ and atomics if both values are not 0. */
static const char cm_depth_advice[] =
	"for READ and atomics set responder_resources of rdma_accept() or rdma_connect() at the peer, and initiator_depth of rdma_connect() or rdma_accept() here, to at least 1";

const char *why_wr_advice(const struct ipc_failure *failure)
{
	switch (failure->vendor_err) {
	case VENDOR_ERR_LKEY:
	case VENDOR_ERR_LKEY_PD:
	case VENDOR_ERR_LKEY_BOUNDS:
		return "check addr, length and lkey of the SGE, and that its region is registered until the completion";
	case VENDOR_ERR_LKEY_ACCESS:
		return "register the memory of receives, READs and atomics with IBV_ACCESS_LOCAL_WRITE";
	case VENDOR_ERR_RECV_TOO_SHORT:
		return "post receives that are at least as long as the longest message of the peer";
	case VENDOR_ERR_RKEY:
		return "check that the peer sent its current rkey, and deregisters the region after the last access only";
	case VENDOR_ERR_RKEY_PD:
		return "register the memory and create the queue pair with the same ibv_pd";
	case VENDOR_ERR_RKEY_BOUNDS:
		return "compare remote_addr and the sum of the SGE lengths with the range that the peer registered";
	case VENDOR_ERR_RKEY_ACCESS:
		return "register the memory with the access flag of the operation (IBV_ACCESS_REMOTE_*)";
	case VENDOR_ERR_QP_ACCESS:
		if (failure->flags & IPC_FAILURE_IS_OF_CM)
			return cm_depth_advice;
		return "set the flag of the operation in qp_access_flags of the peer (ibv_modify_qp() to INIT), and check max_dest_rd_atomic";
	case VENDOR_ERR_READ_DEPTH:
		if (failure->flags & IPC_FAILURE_IS_OF_CM)
			return cm_depth_advice;
		return "set max_rd_atomic to at most max_dest_rd_atomic of the peer (ibv_modify_qp() to RTS and RTR)";
	case VENDOR_ERR_PATH_MTU:
		return "set the same path_mtu at both ends (ibv_modify_qp() to RTR)";
	case VENDOR_ERR_ATOMIC_ALIGN:
		return "align the remote address of atomics to 8 bytes";
	case VENDOR_ERR_RNR:
		return "post receives before the peer sends, keep more of them posted, or set rnr_retry to 7 (unlimited)";
	case VENDOR_ERR_NO_RESPONSE:
		return "check that the peer's queue pair is in RTR or RTS and has this one as its destination";
	case VENDOR_ERR_PEER_DEAD:
		return "find out why the peer's process ended";
	case VENDOR_ERR_MEMORY_GONE:
		return "unmap memory after ibv_dereg_mr() only";
	default:
		return NULL;
	}
}
