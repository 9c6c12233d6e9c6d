/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_names.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "base/fault.h"
#include "base/util.h"

static const char *const point_names[] = {
	[FAULT_PACKET_SEND] = "packet.send",
	[FAULT_PACKET_RECEIVE] = "packet.receive",
	[FAULT_MAD_SEND] = "mad.send",
	[FAULT_MAD_RECEIVE] = "mad.receive",
	[FAULT_FIFO_SEND] = "fifo.send",
	[FAULT_FIFO_RECEIVE] = "fifo.receive",
	[FAULT_WR_POST] = "wr.post",
	[FAULT_WR_EXECUTE] = "wr.execute",
	[FAULT_QP_MODIFY] = "qp.modify",
	[FAULT_IPC_CALL] = "ipc.call",
	[FAULT_COMPLETION] = "completion",
	[FAULT_QP_EVENT] = "qp.event",
	[FAULT_RECEIVE] = "receive",
	[FAULT_ACCESS] = "access",
	[FAULT_CALL] = "call",
	[FAULT_DEVICE] = "device",
	[FAULT_PROCESS] = "process",
	[FAULT_MESSAGE] = "message",
	[FAULT_MESSAGE_RECEIVE] = "message.receive",
	[FAULT_CONNECTION] = "connection",
};
static_assert(COUNT(point_names) == FAULT_POINT_COUNT, "every fault point has a name");

static const char *const action_names[] = {
	[FAULT_DROP] = "drop",
	[FAULT_DUPLICATE] = "duplicate",
	[FAULT_CORRUPT] = "corrupt",
	[FAULT_DELAY] = "delay",
	[FAULT_FAIL] = "fail",
	[FAULT_RATE] = "rate",
	[FAULT_REORDER] = "reorder",
	[FAULT_MARK] = "mark",
	[FAULT_ERROR] = "error",
	[FAULT_SRQ_LIMIT] = "srq_limit",
	[FAULT_OVERRUN] = "overrun",
	[FAULT_EMPTY] = "empty",
	[FAULT_DENY] = "deny",
	[FAULT_DOWN] = "down",
	[FAULT_GID_CHANGE] = "gid_change",
	[FAULT_STOP] = "stop",
	[FAULT_KILL] = "kill",
	[FAULT_REJECT] = "reject",
	[FAULT_DISCONNECT] = "disconnect",
	[FAULT_REMOVE] = "remove",
	[FAULT_LID_CHANGE] = "lid_change",
	[FAULT_SM_CHANGE] = "sm_change",
	[FAULT_CLIENT_REREGISTER] = "client_reregister",
};
static_assert(COUNT(action_names) == FAULT_ACTION_COUNT, "every action has a name");

const char *fault_point_name(enum fault_point point)
{
	return (unsigned int)point < FAULT_POINT_COUNT ? point_names[point] : "unknown";
}

const char *fault_action_name(enum fault_action action)
{
	return (unsigned int)action < FAULT_ACTION_COUNT ? action_names[action] : "unknown";
}

#define ERRNO(name)         \
	{                   \
#name, name \
	}

const struct fault_name fault_errno_names[] = {
	ERRNO(EACCES),	    ERRNO(EADDRINUSE),	 ERRNO(EADDRNOTAVAIL), ERRNO(EAGAIN),
	ERRNO(EBUSY),	    ERRNO(ECONNREFUSED), ERRNO(ECONNRESET),    ERRNO(EDQUOT),
	ERRNO(EEXIST),	    ERRNO(EFAULT),	 ERRNO(EHOSTUNREACH),  ERRNO(EINTR),
	ERRNO(EINVAL),	    ERRNO(EIO),		 ERRNO(EMFILE),	       ERRNO(EMSGSIZE),
	ERRNO(ENETUNREACH), ERRNO(ENFILE),	 ERRNO(ENOBUFS),       ERRNO(ENODEV),
	ERRNO(ENOENT),	    ERRNO(ENOMEM),	 ERRNO(ENOSPC),	       ERRNO(EOPNOTSUPP),
	ERRNO(EPERM),	    ERRNO(EPIPE),	 ERRNO(EPROTO),	       ERRNO(ETIMEDOUT),
	{NULL, 0},
};

/* The values are part of the ABI, also in the next table. */
const struct fault_name fault_status_names[] = {
	{"LOC_LEN_ERR", 1},	    {"LOC_QP_OP_ERR", 2},
	{"LOC_EEC_OP_ERR", 3},	    {"LOC_PROT_ERR", 4},
	{"WR_FLUSH_ERR", 5},	    {"MW_BIND_ERR", 6},
	{"BAD_RESP_ERR", 7},	    {"LOC_ACCESS_ERR", 8},
	{"REM_INV_REQ_ERR", 9},	    {"REM_ACCESS_ERR", 10},
	{"REM_OP_ERR", 11},	    {"RETRY_EXC_ERR", 12},
	{"RNR_RETRY_EXC_ERR", 13},  {"LOC_RDD_VIOL_ERR", 14},
	{"REM_INV_RD_REQ_ERR", 15}, {"REM_ABORT_ERR", 16},
	{"INV_EECN_ERR", 17},	    {"INV_EEC_STATE_ERR", 18},
	{"FATAL_ERR", 19},	    {"RESP_TIMEOUT_ERR", 20},
	{"GENERAL_ERR", 21},	    {NULL, 0},
};

const struct fault_name fault_qp_type_names[] = {
	{"RC", 2}, {"UC", 3}, {"UD", 4}, {"XRC_SEND", 9}, {"XRC_RECV", 10}, {NULL, 0},
};

#define OP_NAME(word) {#word, FAULT_OP_##word},

const struct fault_name fault_op_names[] = {FAULT_OPS(OP_NAME){NULL, 0}};
static_assert(FAULT_OP_COUNT <= 32, "a rule has one bit for each operation");

const char *fault_op_name(uint32_t op)
{
	for (const struct fault_name *name = fault_op_names; name->word; name++) {
		if ((uint32_t)name->value == op)
			return name->word;
	}
	return NULL;
}

/* IBA 1.x §12.6.7.2; 35 is an extension of Linux. */
const struct fault_name fault_reject_names[] = {
	{"NO_QP", 1},
	{"NO_EEC", 2},
	{"NO_RESOURCES", 3},
	{"TIMEOUT", 4},
	{"UNSUPPORTED", 5},
	{"INVALID_COMM_ID", 6},
	{"INVALID_COMM_INSTANCE", 7},
	{"INVALID_SERVICE_ID", 8},
	{"INVALID_TRANSPORT_TYPE", 9},
	{"STALE_CONN", 10},
	{"RDC_NOT_EXIST", 11},
	{"INVALID_GID", 12},
	{"INVALID_LID", 13},
	{"INVALID_SL", 14},
	{"INVALID_TRAFFIC_CLASS", 15},
	{"INVALID_HOP_LIMIT", 16},
	{"INVALID_PACKET_RATE", 17},
	{"INVALID_ALT_GID", 18},
	{"INVALID_ALT_LID", 19},
	{"INVALID_ALT_SL", 20},
	{"INVALID_ALT_TRAFFIC_CLASS", 21},
	{"INVALID_ALT_HOP_LIMIT", 22},
	{"INVALID_ALT_PACKET_RATE", 23},
	{"PORT_CM_REDIRECT", 24},
	{"PORT_REDIRECT", 25},
	{"INVALID_MTU", 26},
	{"INSUFFICIENT_RESP_RESOURCES", 27},
	{"CONSUMER_DEFINED", 28},
	{"INVALID_RNR_RETRY", 29},
	{"DUPLICATE_LOCAL_COMM_ID", 30},
	{"INVALID_CLASS_VERSION", 31},
	{"INVALID_FLOW_LABEL", 32},
	{"INVALID_ALT_FLOW_LABEL", 33},
	{"VENDOR_OPTION_NOT_SUPPORTED", 35},
	{NULL, 0},
};
