/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_NAMES_H
#define USRDMA_BASE_FAULT_NAMES_H

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

#endif
