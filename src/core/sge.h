/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_SGE_H
#define USRDMA_CORE_SGE_H

#include <sys/uio.h>

#include "core/objects.h"

/*
 * The bytes [offset, offset + bytes) of a send WQE as an iovec of at most iov_max entries, each SGE checked against its
 * MR (lkey, PD, bounds, LOCAL_WRITE if for_write). Returns the number of entries and sets *covered to the bytes they
 * hold, which is less than asked if iov_max is short; or -(enum vendor_err) of the check that failed. engine.lock held.
 */
int sge_gather(struct qp *qp, struct send_wqe *wqe, uint32_t offset, uint32_t bytes, bool for_write,
	       struct iovec *iov, int iov_max, uint32_t *covered)
	__attribute__((warn_unused_result));

/* Checks one SGE of a WR of that PD; on success *at is its first byte. Returns VENDOR_ERR_NONE or why not. */
enum vendor_err sge_check(const struct pd *pd, const struct ibv_sge *sge, bool for_write,
			  uint8_t **at);

#endif
