/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode_fault.h"

#include <stddef.h>

static enum fault_op response_fault_op(const struct opcode_info *info)
{
	if (info->has_atomic_ack_eth)
		return FAULT_OP_ATOMIC_RESPONSE;
	return info->is_ack ? FAULT_OP_ACK : FAULT_OP_READ_RESPONSE;
}

enum fault_op opcode_fault_op(const struct opcode_info *info)
{
	if (!info)
		return FAULT_OP_NONE;
	if (info->has_notification)
		return FAULT_OP_CNP;
	if (info->is_response)
		return response_fault_op(info);
	if (info->is_send)
		return FAULT_OP_SEND;
	if (info->is_write)
		return FAULT_OP_WRITE;
	if (info->is_read)
		return FAULT_OP_READ;
	if (info->is_atomic)
		return FAULT_OP_ATOMIC;
	return info->is_flush ? FAULT_OP_FLUSH : FAULT_OP_ATOMIC_WRITE;
}
