/* SPDX-License-Identifier: BSD-2-Clause */
/* Sentences of usrdma why about warnings, dropped packets and asynchronous events. */
#include <infiniband/verbs.h>
#include <inttypes.h>

#include "why.h"
#include "wire/aeth.h"

void why_write_warning(FILE *out, const struct why_list *list, size_t root)
{
	const struct ipc_failure *failure = &list->failures[root].is;

	switch (failure->reason) {
	case IPC_REASON_RNR_WAIT:
		fprintf(out,
			"QP 0x%06x waits because its peer has no receive posted: ", failure->qpn);
		why_write_number(out, failure->numbers[0]);
		fputs(failure->numbers[0] == 1 ? " RNR NAK, " : " RNR NAKs, ", out);
		why_write_duration(out, failure->numbers[1]);
		fprintf(out, " in total; the peer's min_rnr_timer %u means ",
			failure->min_rnr_timer);
		why_write_duration(out, aeth_rnr_wait_ns(failure->min_rnr_timer));
		fputs(" after each", out);
		break;
	case IPC_REASON_UNACKED:
		fprintf(out, "%s waits: the application has not acknowledged an event %s",
			failure->call, why_cm_event_name(failure->event));
		break;
	case IPC_REASON_UNACKED_ASYNC:
		fprintf(out, "%s() waits: the application has not acknowledged ", failure->call);
		why_write_number(out, failure->numbers[0]);
		fputs(failure->numbers[0] == 1 ? " event" : " events", out);
		break;
	case IPC_REASON_CQ_SMALL:
		fputs("a completion queue of ", out);
		why_write_number(out, failure->numbers[1]);
		fputs(failure->numbers[1] == 1 ? " entry has " : " entries has ", out);
		why_write_number(out, failure->numbers[0]);
		fputs(" completions that were not polled, and the queues that use it can generate ",
		      out);
		why_write_number(out, failure->numbers[2]);
		break;
	case IPC_REASON_PATH_MTU:
		fprintf(out,
			"path_mtu of QP 0x%06x is %" PRIu64 " bytes, that of its peer %" PRIu64
			" bytes: between two hosts the peer would refuse its messages",
			failure->qpn, failure->numbers[0], failure->numbers[1]);
		break;
	default:
		why_write_connection(out, list, root);
		break;
	}
}

/* "RDMA WRITE of 100 bytes" or "packet" or "datagram of 100 bytes", and the two queue pairs. */
static void write_dropped(FILE *out, const struct ipc_failure *failure)
{
	bool is_own = (failure->flags & IPC_FAILURE_IS_OWN) ||
		      failure->reason == IPC_REASON_DROP_NO_PEER;

	if (failure->flags & IPC_FAILURE_HAS_REMOTE) {
		why_write_operation(out, failure);
	} else if (failure->qp_type == IBV_QPT_UD) {
		fputs("datagram of ", out);
		why_write_number(out, failure->length);
		fputs(failure->length == 1 ? " byte" : " bytes", out);
	} else {
		fputs(failure->reason == IPC_REASON_DROP_NO_RECV ||
				      failure->reason == IPC_REASON_DROP_NO_PEER ?
			      "message" :
			      "packet",
		      out);
	}
	if (failure->reason == IPC_REASON_DROP_UNKNOWN_QPN)
		fprintf(out, " to QP 0x%06x", failure->qpn);
	else
		fprintf(out, " from QP 0x%06x to QP 0x%06x",
			is_own ? failure->qpn : failure->peer_qpn,
			is_own ? failure->peer_qpn : failure->qpn);
}

static void write_sequence(FILE *out, const struct ipc_failure *failure)
{
	uint64_t lost = (failure->numbers[0] - failure->numbers[1]) & 0xffffff;

	fprintf(out, "its PSN is %" PRIu64 ", the expected one %" PRIu64 ": ", failure->numbers[0],
		failure->numbers[1]);
	if (lost < 0x800000) {
		why_write_number(out, lost);
		fputs(lost == 1 ? " packet was lost" : " packets were lost", out);
	} else {
		fputs("the sender has restarted", out);
	}
}

static void write_drop_reason(FILE *out, const struct ipc_failure *failure)
{
	switch (failure->reason) {
	case IPC_REASON_DROP_QKEY:
		fprintf(out, "its Q_Key is 0x%" PRIx64 ", that of the queue pair 0x%" PRIx64,
			failure->numbers[0], failure->numbers[1]);
		break;
	case IPC_REASON_DROP_NO_RECV:
		fputs("no receive was posted", out);
		break;
	case IPC_REASON_DROP_TOO_LONG:
		fputs("the posted receive is too short for it and the 40 bytes of the GRH", out);
		break;
	case IPC_REASON_DROP_SEQUENCE:
		write_sequence(out, failure);
		break;
	case IPC_REASON_DROP_SIZE:
		fprintf(out,
			"its %" PRIu64
			" bytes do not agree with its opcode and the path MTU of %" PRIu64 " bytes",
			failure->numbers[0], failure->numbers[1]);
		break;
	case IPC_REASON_DROP_ACCESS:
		why_write_refusal(out, failure);
		break;
	case IPC_REASON_DROP_PKEY:
		fprintf(out, "its P_Key is 0x%" PRIx64 ", that of the port 0xffff",
			failure->numbers[0] & UINT16_MAX);
		break;
	case IPC_REASON_DROP_ICRC:
		fputs("its ICRC is wrong: it was changed on the way", out);
		break;
	case IPC_REASON_DROP_ADDRESS:
		fputs("its addresses are not those of the connection", out);
		break;
	case IPC_REASON_DROP_NO_PEER:
		fputs("no process of this host has the destination queue pair", out);
		break;
	case IPC_REASON_DROP_UNKNOWN_QPN:
		fputs("the process has no such queue pair: it was destroyed, or the QPN is wrong",
		      out);
		break;
	default:
		fputs("the queue pair was not in RTR or RTS", out);
		break;
	}
}

void why_write_drop(FILE *out, const struct ipc_failure *failure)
{
	write_dropped(out, failure);
	fputs(" dropped: ", out);
	write_drop_reason(out, failure);
}

const char *why_warning_advice(const struct ipc_failure *failure)
{
	switch (failure->reason) {
	case IPC_REASON_RNR_WAIT:
		return failure->min_rnr_timer ?
			       "post receives earlier, and more of them" :
			       "set min_rnr_timer of the peer to 12 (0.64 ms): 0 is the longest time; and post receives earlier";
	case IPC_REASON_UNACKED_ASYNC:
		return "call ibv_ack_async_event() and ibv_ack_cq_events() for each event before the object is destroyed";
	case IPC_REASON_CQ_SMALL:
		return "create the CQ with as many entries as all its queues have WRs, or poll it more often";
	case IPC_REASON_PATH_MTU:
		return "set the same path_mtu at both ends (ibv_modify_qp() to RTR)";
	case IPC_REASON_UNACKED:
		return "call rdma_ack_cm_event() for each event before rdma_destroy_id(), also in the thread that calls it";
	case IPC_REASON_DROP_QKEY:
		return "use the Q_Key of the receiver (ibv_modify_qp()) in wr.ud.remote_qkey";
	case IPC_REASON_DROP_SEQUENCE:
		return "UC does not repeat lost packets: use RC, or let the application detect the loss";
	case IPC_REASON_DROP_SIZE:
		return "set the same path_mtu at both ends (ibv_modify_qp() to RTR)";
	case IPC_REASON_DROP_ADDRESS:
		return "check ah_attr.grh.dgid of the receiver and sgid_index of the sender";
	case IPC_REASON_DROP_NO_RECV:
		if (failure->qp_type != IBV_QPT_UD)
			return "post receives before the peer sends: UC does not repeat messages";
		return "post enough receives, each with 40 bytes more than the longest datagram";
	case IPC_REASON_DROP_TOO_LONG:
		return "post enough receives, each with 40 bytes more than the longest datagram";
	default:
		return why_connection_advice(failure);
	}
}

static void write_daemon_end(FILE *out, const struct ipc_failure *failure)
{
	fputs("the RDMA daemon ", out);
	if (failure->numbers[0])
		fprintf(out, "(pid %" PRIu64 ") ", failure->numbers[0]);
	fputs("ended, and with it all queue pairs and connections of this process: the daemon ran in another PID namespace, "
	      "that of the container whose program started it",
	      out);
}

void why_write_event(FILE *out, const struct ipc_failure *failure)
{
	if (failure->reason == IPC_REASON_DAEMON_ENDED) {
		write_daemon_end(out, failure);
		return;
	}
	switch (failure->event) {
	case IBV_EVENT_CQ_ERR:
		fputs("a completion queue of ", out);
		why_write_number(out, failure->numbers[0]);
		fputs(" entries was full, and a completion was lost", out);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		why_write_number(out, failure->numbers[0]);
		fputs(failure->numbers[0] == 1 ? " receive is" : " receives are", out);
		fputs(" left in an SRQ for ", out);
		why_write_number(out, failure->numbers[1]);
		fputs(", fewer than its limit", out);
		break;
	case IBV_EVENT_PORT_ERR:
		fprintf(out, "port 1 of %s went down", failure->device);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		fprintf(out, "port 1 of %s became active", failure->device);
		break;
	case IBV_EVENT_GID_CHANGE:
		fprintf(out, "the GIDs of %s changed: its interface has other addresses",
			failure->device);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		fprintf(out, "the device %s was removed with its network interface",
			failure->device);
		break;
	default:
		fputs(why_event_name(failure->event), out);
		break;
	}
}

const char *why_event_advice(const struct ipc_failure *failure)
{
	if (failure->reason == IPC_REASON_DAEMON_ENDED)
		return "run usrdmad --foreground --idle-seconds 0 in a container that runs longer than the others (usrdmad(8), Containers)";
	switch (failure->event) {
	case IBV_EVENT_CQ_ERR:
		return "create the CQ with as many entries as all its queues have WRs, or poll it more often";
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return "post receives to the SRQ, and arm the limit again with ibv_modify_srq()";
	case IBV_EVENT_PORT_ERR:
		return "look at the state of the interface (ip link); queue pairs continue if it comes back before their retries end";
	case IBV_EVENT_GID_CHANGE:
		return "query the GID again before the next connection: its index may have changed";
	default:
		return NULL;
	}
}
