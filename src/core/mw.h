/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MW_H
#define USRDMA_CORE_MW_H

#include "core/execute.h"
#include "core/objects.h"

/*
 * Memory windows (IBA 1.x §10.6.7): a part of a memory region under an rkey of its own, made and unmade by work requests. A
 * window's rkey has SEGMENT_WINDOW_KEY set, 23 bits that are its handle in engine.mws, and the 8 low bits that change from
 * bind to bind: counted by us for type 1, chosen by the application for type 2. Peers do not see windows in the
 * segment; what names one is executed here. All with engine.lock held.
 */

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *mw);
/* Posts a bind of a type 1 window and gives it the rkey that it will have. 0 or an errno. */
int mw_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Fills in a WQE that binds a type 2 window under an rkey of the application's. 0 or an errno. */
int mw_fill_bind(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info) __attribute__((warn_unused_result));

/* Work that a requester does by itself, without a word to the peer. */
static inline bool opcode_is_local(uint32_t opcode)
{
	return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV;
}

/* Does it. Anything but success comes with its reason, and nothing has changed. */
enum ibv_wc_status mw_execute(struct qp *qp, const struct send_wqe *wqe,
			      enum vendor_err *vendor_err);

/* A peer's access through a window: the responder's checks, as for a region. */
enum access_result mw_check(struct qp *qp, uint64_t remote_addr, uint32_t rkey, uint64_t bytes,
			    unsigned int access, uint8_t **at);

/* A peer's SEND with invalidate. */
enum access_result mw_invalidate(struct qp *qp, uint32_t rkey);

/* The QP ends: the type 2 windows that were bound over it are free. */
void mw_forget_qp(struct qp *qp);

#endif
