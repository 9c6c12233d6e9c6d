/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_OPCODE_FAULT_H
#define USRDMA_WIRE_OPCODE_FAULT_H

#include "base/fault.h"
#include "wire/opcode.h"

/* The operation of a packet for the condition `op` of fault rules. `info` may be NULL: unknown. */
enum fault_op opcode_fault_op(const struct opcode_info *info);

#endif
