/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the values in a failure. A failure comes from another process, so any value is possible.
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "core/object/opcode.h"
#include "why.h"

#define NAME(value)	[value] = #value
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *name_in(const char *const *names, size_t count, uint32_t value)
{
	return value < count && names[value] ? names[value] : "unknown";
}

const char *why_operation(const struct ipc_failure *failure)
{
	if (failure->flags & IPC_FAILURE_IS_RECV)
		return "receive";
	return wr_title(failure->opcode);
}

const char *why_status_name(uint32_t status)
{
	static const char *const names[] = {
		NAME(IBV_WC_SUCCESS),
		NAME(IBV_WC_LOC_LEN_ERR),
		NAME(IBV_WC_LOC_QP_OP_ERR),
		NAME(IBV_WC_LOC_EEC_OP_ERR),
		NAME(IBV_WC_LOC_PROT_ERR),
		NAME(IBV_WC_WR_FLUSH_ERR),
		NAME(IBV_WC_MW_BIND_ERR),
		NAME(IBV_WC_BAD_RESP_ERR),
		NAME(IBV_WC_LOC_ACCESS_ERR),
		NAME(IBV_WC_REM_INV_REQ_ERR),
		NAME(IBV_WC_REM_ACCESS_ERR),
		NAME(IBV_WC_REM_OP_ERR),
		NAME(IBV_WC_RETRY_EXC_ERR),
		NAME(IBV_WC_RNR_RETRY_EXC_ERR),
		NAME(IBV_WC_LOC_RDD_VIOL_ERR),
		NAME(IBV_WC_REM_INV_RD_REQ_ERR),
		NAME(IBV_WC_REM_ABORT_ERR),
		NAME(IBV_WC_INV_EECN_ERR),
		NAME(IBV_WC_INV_EEC_STATE_ERR),
		NAME(IBV_WC_FATAL_ERR),
		NAME(IBV_WC_RESP_TIMEOUT_ERR),
		NAME(IBV_WC_GENERAL_ERR),
		NAME(IBV_WC_TM_ERR),
		NAME(IBV_WC_TM_RNDV_INCOMPLETE),
	};

	return name_in(names, COUNT_OF(names), status);
}

const char *why_event_name(uint32_t event)
{
	static const char *const names[] = {
		NAME(IBV_EVENT_CQ_ERR),
		NAME(IBV_EVENT_QP_FATAL),
		NAME(IBV_EVENT_QP_REQ_ERR),
		NAME(IBV_EVENT_QP_ACCESS_ERR),
		NAME(IBV_EVENT_COMM_EST),
		NAME(IBV_EVENT_SQ_DRAINED),
		NAME(IBV_EVENT_PATH_MIG),
		NAME(IBV_EVENT_PATH_MIG_ERR),
		NAME(IBV_EVENT_DEVICE_FATAL),
		NAME(IBV_EVENT_PORT_ACTIVE),
		NAME(IBV_EVENT_PORT_ERR),
		NAME(IBV_EVENT_LID_CHANGE),
		NAME(IBV_EVENT_PKEY_CHANGE),
		NAME(IBV_EVENT_SM_CHANGE),
		NAME(IBV_EVENT_SRQ_ERR),
		NAME(IBV_EVENT_SRQ_LIMIT_REACHED),
		NAME(IBV_EVENT_QP_LAST_WQE_REACHED),
		NAME(IBV_EVENT_CLIENT_REREGISTER),
		NAME(IBV_EVENT_GID_CHANGE),
		NAME(IBV_EVENT_WQ_FATAL),
		NAME(IBV_EVENT_DEVICE_SPEED_CHANGE),
	};

	return name_in(names, COUNT_OF(names), event);
}

const char *why_cm_event_name(uint32_t event)
{
	static const char *const names[] = {
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED),   NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),  NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST), NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR),   NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED),	     NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED),    NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),  NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
		NAME(RDMA_CM_EVENT_ADDR_CHANGE),     NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
	};

	return name_in(names, COUNT_OF(names), event);
}

const char *why_errno_name(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "unknown errno";
}

void why_write_number(FILE *out, uint64_t number)
{
	if (number >= 1000) {
		why_write_number(out, number / 1000);
		fprintf(out, ",%03" PRIu64, number % 1000);
	} else {
		fprintf(out, "%" PRIu64, number);
	}
}

void why_write_duration(FILE *out, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *unit;
	} units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};

	for (size_t i = 0; i < COUNT_OF(units); i++) {
		if (ns < units[i].ns && units[i].ns > 1)
			continue;
		fprintf(out, "%.4g %s", (double)ns / (double)units[i].ns, units[i].unit);
		return;
	}
}

void why_write_access(FILE *out, uint32_t access)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} flags[] = {
		{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
		{IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
		{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
		{IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
		{IBV_ACCESS_MW_BIND, "MW_BIND"},
	};
	const char *separator = "";

	for (size_t i = 0; i < COUNT_OF(flags); i++) {
		if (!(access & flags[i].bit))
			continue;
		fprintf(out, "%sIBV_ACCESS_%s", separator, flags[i].name);
		separator = " | ";
	}
	if (!*separator)
		fputs("no access", out);
}
