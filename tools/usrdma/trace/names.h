/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_NAMES_H
#define USRDMA_TOOL_TRACE_NAMES_H

#include <stdint.h>

/*
 * Short names of the values in events; "unknown" for other values, never NULL. Those of opcodes are
 * in core/object/opcode.h.
 */
const char *name_of_wc_status(uint32_t status);
const char *name_of_qp_state(uint32_t state);
const char *name_of_cm_event(uint32_t event);
const char *name_of_async_event(uint32_t event);
const char *name_of_fault_point(uint32_t point);
const char *name_of_fault_action(uint32_t action);
const char *name_of_errno(int error); /* for example "EINVAL" */

#endif
