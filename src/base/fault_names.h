/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_NAMES_H
#define USRDMA_BASE_FAULT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* The words of fault rules and their values. Each table ends with a NULL word. */
struct fault_name {
	const char *word;
	int value;
};

extern const struct fault_name fault_errno_names[];
extern const struct fault_name fault_status_names[];  /* enum ibv_wc_status */
extern const struct fault_name fault_qp_type_names[]; /* enum ibv_qp_type */
extern const struct fault_name fault_op_names[];      /* enum fault_op */
extern const struct fault_name fault_reject_names[];  /* reasons of a REJ */

/* The word of an enum fault_op; NULL: it has none. */
const char *fault_op_name(uint32_t op);

/* Whether a public call with this name passes the point call. */
bool fault_call_is_known(const char *name);

/*
 * Whether a rule for `name` concerns `call`: the call with this name, and the extended one, whose
 * name ends in "_ex".
 */
bool fault_call_is(const char *name, const char *call);

#endif
