/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_SGE_H
#define USRDMA_CORE_QUEUE_SGE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/object/vendor_err.h"

struct pd;
struct qp;
struct sge_cache;
struct send_wqe;

/*
 * The memory of a part of a WQE. The caller sets iov and max, sge_gather() sets the other fields.
 */
struct sge_iovs {
	struct iovec *iov;
	int max;	/* entries of iov; at least 1 */
	int count;	/* entries in use */
	uint32_t bytes; /* sum of their lengths */
};

/*
 * Finds the memory of the bytes [offset, offset + bytes) of a send WQE. Each SGE is checked against
 * its MR (lkey, PD, bounds, LOCAL_WRITE if for_write). Returns VENDOR_ERR_NONE, or the error of an
 * invalid SGE; count and bytes of *iovs are not set then. iovs->bytes is less than `bytes` if
 * iovs->max is too small or if the SGEs are shorter. The lock of the QP held.
 */
enum vendor_err sge_gather(struct qp *qp, struct send_wqe *wqe, uint32_t offset, uint32_t bytes,
			   bool for_write, struct sge_iovs *iovs)
	__attribute__((warn_unused_result));

/*
 * Copies the bytes [offset, offset + bytes) of a send WQE from its SGEs or inline data, or to its
 * SGEs. Each SGE is checked as by sge_gather(). Returns VENDOR_ERR_NONE, or the error of an invalid
 * SGE (LKEY_BOUNDS: the SGEs are shorter); part of the bytes may be copied then. The lock of the QP
 * held.
 */
enum vendor_err sge_copy_from(struct qp *qp, struct send_wqe *wqe, uint32_t offset, void *to,
			      uint32_t bytes) __attribute__((warn_unused_result));
enum vendor_err sge_copy_to(struct qp *qp, struct send_wqe *wqe, uint32_t offset, const void *from,
			    uint32_t bytes) __attribute__((warn_unused_result));

/*
 * As sge_check(), for an SGE of the work queue that owns the cache. `pd` is the PD of all SGEs of
 * that queue. engine.lock or the lock of the shard held that guards the queue.
 */
enum vendor_err sge_check_cached(struct sge_cache *cache, const struct pd *pd,
				 const struct ibv_sge *sge, bool for_write, uint8_t **at)
	__attribute__((warn_unused_result));

/*
 * Checks one SGE of a WR of that PD. On success *at is the address of its first byte. Returns
 * VENDOR_ERR_NONE or the error.
 */
enum vendor_err sge_check(const struct pd *pd, const struct ibv_sge *sge, bool for_write,
			  uint8_t **at);

#endif
