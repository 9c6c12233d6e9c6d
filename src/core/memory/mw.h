/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_MW_H
#define USRDMA_CORE_MEMORY_MW_H

#include "core/object/objects.h"
#include "core/object/vendor_err.h"
#include "core/queue/execute.h"

/*
 * Memory windows (IBA 1.x §10.6.7): a part of a memory region with its own rkey, bound and
 * invalidated by work requests. A window's rkey consists of SEGMENT_WINDOW_KEY, 23 bits of its
 * handle in engine.tables.mws, and 8 low bits that change with each bind. The low bits are random
 * at first, incremented by each bind of type 1, and chosen by the application for type 2. Windows
 * are not published in the segment; the owner executes accesses to them. mw_alloc(), mw_dealloc()
 * and mw_bind() take engine.lock; the other functions are called with it held.
 */

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *mw);
/* ibv_bind_mw(): posts a bind of a type 1 window and sets its new rkey. 0 or a positive errno. */
int mw_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Fills in a WQE that binds a type 2 window with an rkey of the application. 0 or -errno. */
int mw_fill_bind(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info) __attribute__((warn_unused_result));

/* Executes a WQE of WR_KIND_LOCAL. On failure *vendor_err is set and nothing has changed. */
enum ibv_wc_status mw_execute(struct qp *qp, const struct send_wqe *wqe,
			      enum vendor_err *vendor_err);

/* A peer's access through a window: performs the responder's checks, as for an MR. */
struct remote_range;
enum access_result mw_check(struct qp *qp, const struct remote_range *range, uint8_t **at);

/* A peer's SEND with invalidate. */
enum access_result mw_invalidate(struct qp *qp, uint32_t rkey);

/*
 * The rkey of a refused access is that of a window: describes the window as the region, if it is
 * bound under this rkey.
 */
struct ipc_failure;
void mw_describe(struct engine *engine, uint32_t rkey, struct ipc_failure *failure);

/* The QP is destroyed: frees the type 2 windows that are bound to it. */
void mw_forget_qp(struct qp *qp);

#endif
