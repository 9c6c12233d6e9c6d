/* SPDX-License-Identifier: BSD-2-Clause */
/* The sentences of usrdma why. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <string.h>

#include "core/vendor_err.h"
#include "why.h"
#include "wire/aeth.h"

#define RNR_UNKNOWN	    255
#define ACK_TIMEOUT_UNIT_NS UINT64_C(4096)

/* "RDMA WRITE of 65,536 bytes at 0x7f… with rkey 0x100" */
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

/* The reason of a refused access, of the WR or of the peer's request. */
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

/* The failure with what the peer has reported about it. */
static struct ipc_failure with_peers_view(const struct why_list *list, size_t index)
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

/* Whether only the NAK of another host is known. */
static bool is_known_by_nak(const struct why_list *list, size_t index)
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

static void write_wr(FILE *out, const struct why_list *list, size_t index)
{
	const struct ipc_failure view = with_peers_view(list, index), *failure = &view;
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
	} else if (is_known_by_nak(list, index)) {
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

static void write_qp(FILE *out, const struct ipc_failure *failure)
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

static bool is_cm_call(const struct ipc_failure *failure)
{
	return strncmp(failure->call, "rdma_", 5) == 0;
}

static void write_call(FILE *out, const struct ipc_failure *failure)
{
	fprintf(out, "%s()", failure->call);
	if (is_cm_call(failure))
		why_write_call_address(out, failure);
	else if (failure->qpn)
		fprintf(out, " for QP 0x%06x", failure->qpn);
	fprintf(out, " failed with %s: ", why_errno_name(failure->error));
	if (is_cm_call(failure))
		why_write_cm_reason(out, failure);
	else
		why_write_verbs_reason(out, failure);
}

void why_write_cause(FILE *out, const struct why_list *list, size_t root)
{
	const struct ipc_failure *failure = &list->failures[root].is;

	switch (failure->kind) {
	case IPC_FAILURE_WR:
		write_wr(out, list, root);
		break;
	case IPC_FAILURE_QP:
		write_qp(out, failure);
		break;
	case IPC_FAILURE_WARNING:
		why_write_warning(out, list, root);
		break;
	case IPC_FAILURE_CM:
		why_write_connection(out, list, root);
		break;
	case IPC_FAILURE_DROP:
		why_write_drop(out, failure);
		break;
	case IPC_FAILURE_EVENT:
		why_write_event(out, failure);
		break;
	case IPC_FAILURE_CALL:
		write_call(out, failure);
		break;
	default:
		fputs("unknown kind of failure", out);
		break;
	}
}

static void write_counts(FILE *out, const struct ipc_failure *failure)
{
	if (!failure->flushed_sends && !failure->flushed_receives)
		return;
	fprintf(out, "; flushed with IBV_WC_WR_FLUSH_ERR: ");
	why_write_number(out, failure->flushed_sends);
	fputs(failure->flushed_sends == 1 ? " send, " : " sends, ", out);
	why_write_number(out, failure->flushed_receives);
	fputs(failure->flushed_receives == 1 ? " receive" : " receives", out);
}

void why_write_seen(FILE *out, const struct why_failure *why)
{
	const struct ipc_failure *failure = &why->is;

	switch (failure->kind) {
	case IPC_FAILURE_WR:
		fprintf(out, "completion of WR 0x%" PRIx64 " with %s, vendor_err %u",
			failure->wr_id, why_status_name(failure->status), failure->vendor_err);
		break;
	case IPC_FAILURE_QP:
		fprintf(out, "QP 0x%06x %s", failure->qpn,
			failure->reason == IPC_REASON_QP_POSTED_IN_ERR ? "was used in ERR" :
									 "entered ERR");
		if (failure->event != UINT32_MAX)
			fprintf(out, ", %s", why_event_name(failure->event));
		write_counts(out, failure);
		break;
	case IPC_FAILURE_CM:
		fprintf(out, "%s, status %d", why_cm_event_name(failure->event), failure->error);
		break;
	case IPC_FAILURE_CALL:
		fprintf(out, "%s() returned %s", failure->call, why_errno_name(failure->error));
		break;
	case IPC_FAILURE_WARNING:
		fputs(failure->reason == IPC_REASON_RNR_WAIT ? "RNR NAKs, before any completion" :
		      failure->reason == IPC_REASON_CQ_SMALL ||
				      failure->reason == IPC_REASON_PATH_MTU ?
							       "nothing so far" :
							       "no event so far",
		      out);
		break;
	case IPC_FAILURE_EVENT:
		fputs(failure->reason == IPC_REASON_DAEMON_ENDED ?
			      "IBV_EVENT_DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL, WRs flushed" :
			      why_event_name(failure->event),
		      out);
		break;
	case IPC_FAILURE_DROP:
		fputs("nothing: the application is not informed", out);
		break;
	default:
		fputs("?", out);
		break;
	}
}

/* The name of a process: from its own reports, else unknown. */
static const char *program_of(const struct why_list *list, int32_t pid)
{
	for (size_t i = list->count; pid && i-- > 0;) {
		if (list->failures[i].is.pid == pid)
			return list->failures[i].is.program;
	}
	return NULL;
}

static void write_gid(FILE *out, const uint8_t gid[16])
{
	static const uint8_t none[16];
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN];
	bool is_v4 = memcmp(gid, v4_prefix, sizeof(v4_prefix)) == 0;

	if (memcmp(gid, none, sizeof(none)) != 0 &&
	    inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? gid + sizeof(v4_prefix) : gid, text,
		      sizeof(text)))
		fprintf(out, " at %s", text);
}

void why_write_process(FILE *out, const struct why_list *list, const struct why_failure *why)
{
	const struct ipc_failure *failure = &why->is;
	const struct why_failure *opposite = &list->failures[why->opposite];
	int32_t peer_pid = failure->peer_pid || opposite == why ? failure->peer_pid :
								  opposite->is.pid;
	const char *peer = program_of(list, peer_pid);

	fprintf(out, "%s (pid %d)", failure->program, failure->pid);
	if (failure->qpn)
		fprintf(out, ", QP 0x%06x", failure->qpn);
	if (failure->device[0])
		fprintf(out, " of %s", failure->device);
	if (!failure->peer_qpn)
		return;
	fputs("; its peer: ", out);
	if (peer)
		fprintf(out, "%s (pid %d), ", peer, peer_pid);
	else if (peer_pid)
		fprintf(out, "pid %d, ", peer_pid);
	fprintf(out, "QP 0x%06x", failure->peer_qpn);
	write_gid(out, failure->peer_gid);
}

/* The rdma_cm permits READ and atomics if both values are not 0. */
static const char cm_depth_advice[] =
	"for READ and atomics set responder_resources of rdma_accept() or rdma_connect() at the peer, and initiator_depth of rdma_connect() or rdma_accept() here, to at least 1";

static const char *wr_advice(const struct ipc_failure *failure)
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

/*
 * UCX posts this request for a strong fence on devices other than mlx5, if it was built without
 * parameter checks.
 */
static bool is_ucx_fence(const struct ipc_failure *failure)
{
	return failure->vendor_err == VENDOR_ERR_RKEY && failure->opcode == IBV_WR_RDMA_READ &&
	       failure->length == 8 && !failure->remote_addr && failure->rkey == 0xff;
}

const char *why_advice(const struct why_list *list, size_t root)
{
	const struct ipc_failure view = with_peers_view(list, root), *failure = &view;

	if (is_ucx_fence(failure))
		return "if the program uses UCX, this is its strong fence: set UCX_FENCE_MODE=weak";
	if (failure->kind == IPC_FAILURE_WR && is_known_by_nak(list, root))
		return "run usrdma why on the peer's host, which has the cause and the region";
	if (failure->reason == IPC_REASON_QP_SIZE ||
	    list->failures[list->failures[root].opposite].is.reason == IPC_REASON_QP_SIZE)
		return "set the same path_mtu at both ends (ibv_modify_qp() to RTR)";
	if (failure->kind == IPC_FAILURE_WR || failure->reason == IPC_REASON_QP_REFUSED)
		return wr_advice(failure);
	if (failure->kind == IPC_FAILURE_QP && failure->reason == IPC_REASON_QP_CQ_OVERRUN)
		return "create the CQ with as many entries as all its queues have WRs, or poll it more often";
	if (failure->kind == IPC_FAILURE_DROP && failure->reason == IPC_REASON_DROP_ACCESS)
		return wr_advice(failure);
	if (failure->kind == IPC_FAILURE_WARNING || failure->kind == IPC_FAILURE_DROP)
		return why_warning_advice(failure);
	if (failure->kind == IPC_FAILURE_EVENT)
		return why_event_advice(failure);
	if (failure->kind == IPC_FAILURE_CM)
		return why_connection_advice(failure);
	if (failure->kind == IPC_FAILURE_CALL)
		return is_cm_call(failure) ? why_cm_call_advice(failure) :
					     why_verbs_call_advice(failure);
	return NULL;
}
