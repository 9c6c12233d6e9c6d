/* SPDX-License-Identifier: BSD-2-Clause */
/* The sentences of usrdma why: the cause of each kind of failure, the observation, the advice. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <string.h>

#include "core/object/vendor_err.h"
#include "why.h"

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
		why_write_wr(out, list, root);
		break;
	case IPC_FAILURE_QP:
		why_write_qp(out, failure);
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
	const struct ipc_failure view = why_with_peers_view(list, root), *failure = &view;

	if (is_ucx_fence(failure))
		return "if the program uses UCX, this is its strong fence: set UCX_FENCE_MODE=weak";
	if (failure->kind == IPC_FAILURE_WR && why_is_known_by_nak(list, root))
		return "run usrdma why on the peer's host, which has the cause and the region";
	if (failure->reason == IPC_REASON_QP_SIZE ||
	    list->failures[list->failures[root].opposite].is.reason == IPC_REASON_QP_SIZE)
		return "set the same path_mtu at both ends (ibv_modify_qp() to RTR)";
	if (failure->kind == IPC_FAILURE_WR || failure->reason == IPC_REASON_QP_REFUSED)
		return why_wr_advice(failure);
	if (failure->kind == IPC_FAILURE_QP && failure->reason == IPC_REASON_QP_CQ_OVERRUN)
		return "create the CQ with as many entries as all its queues have WRs, or poll it more often";
	if (failure->kind == IPC_FAILURE_DROP && failure->reason == IPC_REASON_DROP_ACCESS)
		return why_wr_advice(failure);
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
