/* SPDX-License-Identifier: BSD-2-Clause */
/* Sentences of usrdma why about failed calls of libibverbs. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <string.h>

#include "why.h"
#include "wire/gid.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *why_state_name(uint64_t state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state < COUNT_OF(names) ? names[state] : "an invalid state";
}

static const char *type_of(uint64_t type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	default:
		return "unknown";
	}
}

static void write_attributes(FILE *out, uint64_t mask)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} names[] = {
		{IBV_QP_STATE, "STATE"},
		{IBV_QP_CUR_STATE, "CUR_STATE"},
		{IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
		{IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
		{IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
		{IBV_QP_PORT, "PORT"},
		{IBV_QP_QKEY, "QKEY"},
		{IBV_QP_AV, "AV"},
		{IBV_QP_PATH_MTU, "PATH_MTU"},
		{IBV_QP_TIMEOUT, "TIMEOUT"},
		{IBV_QP_RETRY_CNT, "RETRY_CNT"},
		{IBV_QP_RNR_RETRY, "RNR_RETRY"},
		{IBV_QP_RQ_PSN, "RQ_PSN"},
		{IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
		{IBV_QP_ALT_PATH, "ALT_PATH"},
		{IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
		{IBV_QP_SQ_PSN, "SQ_PSN"},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
		{IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
		{IBV_QP_CAP, "CAP"},
		{IBV_QP_DEST_QPN, "DEST_QPN"},
		{IBV_QP_RATE_LIMIT, "RATE_LIMIT"},
	};
	const char *separator = "";

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		if (!(mask & names[i].bit))
			continue;
		fprintf(out, "%sIBV_QP_%s", separator, names[i].name);
		separator = " | ";
	}
	if (!*separator)
		fprintf(out, "0x%" PRIx64, mask);
}

/* "path_mtu 4096 exceeds the port's active_mtu of 1024" */
static void write_mtu(FILE *out, const struct ipc_failure *failure)
{
	fprintf(out, "path_mtu is %u bytes, the active_mtu of the port %u",
		128u << (failure->numbers[0] & 7), 128u << (failure->numbers[1] & 7));
}

/* A value above its maximum. */
static const char *limited_name(uint32_t reason)
{
	switch (reason) {
	case IPC_REASON_DEST_QPN:
		return "dest_qp_num";
	case IPC_REASON_PORT:
		return "port_num";
	case IPC_REASON_TIMEOUT:
		return "timeout";
	case IPC_REASON_RETRY_CNT:
		return "retry_cnt";
	case IPC_REASON_RNR_RETRY:
		return "rnr_retry";
	case IPC_REASON_RNR_TIMER:
		return "min_rnr_timer";
	case IPC_REASON_RD_ATOMIC:
		return "max_rd_atomic or max_dest_rd_atomic";
	case IPC_REASON_POST_SGES:
		return "num_sge";
	case IPC_REASON_POST_INLINE:
		return "the length of the inline data";
	case IPC_REASON_CAP_WR:
		return "cap.max_send_wr or cap.max_recv_wr";
	case IPC_REASON_CAP_SGE:
		return "cap.max_send_sge or cap.max_recv_sge";
	case IPC_REASON_CAP_INLINE:
		return "cap.max_inline_data";
	case IPC_REASON_CAP_CQE:
		return "cqe";
	case IPC_REASON_CAP_SRQ_WR:
		return "attr.max_wr";
	case IPC_REASON_CAP_SRQ_SGE:
		return "attr.max_sge";
	default:
		return NULL;
	}
}

static void call_write_gid(FILE *out, const uint8_t gid[GID_BYTES])
{
	bool is_ipv4 = gid_is_ipv4(gid);
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(is_ipv4 ? AF_INET : AF_INET6, gid + (is_ipv4 ? 12 : 0), text, sizeof(text)))
		fputs(text, out);
}

static void write_unreachable(FILE *out, const struct ipc_failure *failure)
{
	switch (failure->error) {
	case ENETUNREACH:
		fputs("this host has no route from ", out);
		break;
	case EAGAIN:
		fputs("the daemon resolves as many addresses for this user as it permits, not the one from ",
		      out);
		break;
	case ETIMEDOUT:
		fputs("no reply to ARP or neighbour discovery of the next hop from ", out);
		break;
	default:
		fprintf(out, "%s: from ", strerror(failure->error));
		break;
	}
	call_write_gid(out, failure->local_ip);
	fputs(" to ", out);
	call_write_gid(out, failure->remote_ip);
}

static void write_modify_reason(FILE *out, const struct ipc_failure *failure)
{
	const uint64_t *numbers = failure->numbers;

	switch (failure->reason) {
	case IPC_REASON_TRANSITION:
		fprintf(out, "no transition leads from %s to %s", why_state_name(numbers[0]),
			why_state_name(numbers[1]));
		break;
	case IPC_REASON_ATTR_MISSING:
		fprintf(out, "the transition to %s also needs ", why_state_name(numbers[1]));
		write_attributes(out, numbers[0]);
		break;
	case IPC_REASON_ATTR_SURPLUS:
		fprintf(out, "the transition to %s does not permit ", why_state_name(numbers[1]));
		write_attributes(out, numbers[0]);
		break;
	case IPC_REASON_CUR_STATE:
		fprintf(out, "cur_qp_state is %s, but the queue pair is in %s",
			why_state_name(numbers[0]), why_state_name(numbers[1]));
		break;
	case IPC_REASON_NO_GRH:
		fputs("ah_attr.is_global is 0, but RoCE addresses have a GRH", out);
		break;
	case IPC_REASON_SGID_INDEX:
		fprintf(out, "no GID has the index %" PRIu64 " (sgid_index)", numbers[0]);
		break;
	case IPC_REASON_GID_FAMILY:
		fprintf(out,
			"the source GID of sgid_index %" PRIu64 " is %s, the destination GID is %s",
			numbers[1], numbers[0] ? "IPv4" : "IPv6", numbers[0] ? "IPv6" : "IPv4");
		break;
	case IPC_REASON_UNREACHABLE:
		write_unreachable(out, failure);
		break;
	default:
		fputs(strerror(failure->error), out);
		break;
	}
}

void why_write_verbs_reason(FILE *out, const struct ipc_failure *failure)
{
	const char *limited = limited_name(failure->reason);
	const uint64_t *numbers = failure->numbers;

	if (limited && !numbers[0] && numbers[1]) {
		fprintf(out, "%s is 0, at least 1", limited);
		return;
	}
	if (limited) {
		fprintf(out, "%s is ", limited);
		why_write_number(out, numbers[0]);
		fputs(", at most ", out);
		why_write_number(out, numbers[1]);
		return;
	}
	switch (failure->reason) {
	case IPC_REASON_MTU:
		write_mtu(out, failure);
		break;
	case IPC_REASON_POST_STATE:
		fprintf(out, "the queue pair is in %s; the call is valid from %s on",
			why_state_name(numbers[0]), why_state_name(numbers[1]));
		break;
	case IPC_REASON_POST_OPCODE:
		fprintf(out, "%s queue pairs do not have the operation %s", type_of(numbers[1]),
			why_operation(failure));
		break;
	case IPC_REASON_POST_FULL:
		fprintf(out, "the queue is full: %" PRIu64 " WRs have no polled completion",
			numbers[0]);
		break;
	case IPC_REASON_POST_SRQ:
		fputs("the queue pair receives from an SRQ", out);
		break;
	case IPC_REASON_MR_ACCESS:
		fputs("remote write and atomic access need IBV_ACCESS_LOCAL_WRITE, and the flags are ",
		      out);
		why_write_access(out, (uint32_t)numbers[0]);
		break;
	case IPC_REASON_MR_ACCESS_UNSUPPORTED:
		fprintf(out, "the access flags 0x%" PRIx64 " contain one that is not supported",
			numbers[0]);
		break;
	case IPC_REASON_MR_UNMAPPED:
		fprintf(out, "not all of the ");
		why_write_number(out, numbers[1]);
		fprintf(out,
			" bytes at 0x%" PRIx64 " are mapped with the access that the flags need",
			numbers[0]);
		break;
	case IPC_REASON_BUSY:
		why_write_number(out, numbers[0]);
		fputs(numbers[0] == 1 ? " object still uses it" : " objects still use it", out);
		break;
	case IPC_REASON_SEND_OPS:
		fprintf(out,
			"the queue pair was created without the flag of %s in send_ops_flags (0x%" PRIx64
			")",
			why_operation(failure), numbers[0]);
		break;
	case IPC_REASON_QP_TYPE:
		fprintf(out, "QP type %s is not supported", type_of(numbers[0]));
		break;
	default:
		write_modify_reason(out, failure);
		break;
	}
}

const char *why_verbs_call_advice(const struct ipc_failure *failure)
{
	switch (failure->reason) {
	case IPC_REASON_MTU:
		return "use the smaller active_mtu of both ports (ibv_query_port()) as path_mtu";
	case IPC_REASON_TRANSITION:
		return "go RESET, INIT, RTR, RTS in this order; from ERR only RESET is valid";
	case IPC_REASON_ATTR_MISSING:
	case IPC_REASON_ATTR_SURPLUS:
		return "ibv_modify_qp(3) lists the attributes of each transition";
	case IPC_REASON_GID_FAMILY:
	case IPC_REASON_SGID_INDEX:
		return "choose a GID of the destination's family: usrdma status lists the GIDs with their index";
	case IPC_REASON_UNREACHABLE:
		return "check the destination GID and sgid_index, ip route get DESTINATION from SOURCE, and ip neigh";
	case IPC_REASON_NO_GRH:
		return "set ah_attr.is_global, and grh.dgid and grh.sgid_index";
	case IPC_REASON_POST_STATE:
		return "call ibv_modify_qp() first";
	case IPC_REASON_POST_FULL:
		return "poll completions before posting more, signal at least one WR of each full queue, or create larger queues";
	case IPC_REASON_POST_SRQ:
		return "use ibv_post_srq_recv()";
	case IPC_REASON_POST_SGES:
	case IPC_REASON_POST_INLINE:
		return "use the limits that ibv_create_qp() returned in cap";
	case IPC_REASON_CAP_WR:
	case IPC_REASON_CAP_SGE:
	case IPC_REASON_CAP_INLINE:
	case IPC_REASON_CAP_CQE:
	case IPC_REASON_CAP_SRQ_WR:
	case IPC_REASON_CAP_SRQ_SGE:
		return "use the limits of ibv_query_device()";
	case IPC_REASON_BUSY:
		return "destroy the objects that were created with it first: queue pairs, then completion queues, memory regions and the protection domain";
	case IPC_REASON_SEND_OPS:
		return "set the flags of all operations in ibv_qp_init_attr_ex.send_ops_flags (IBV_QP_EX_WITH_*)";
	case IPC_REASON_MR_UNMAPPED:
		return "allocate the memory before ibv_reg_mr(), and keep it writable if the flags contain IBV_ACCESS_LOCAL_WRITE";
	default:
		return NULL;
	}
}
