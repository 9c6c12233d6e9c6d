/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_H
#define USRDMA_CORE_QP_H

#include "core/objects.h"

/*
 * The QP went wrong by itself (a failed WR, a peer's fault): enters ERR, halts its transport, flushes both queues in
 * order, and reports `event` unless it is 0. engine.lock held. Harmless on a QP that is in ERR or RESET.
 */
#define QP_NO_EVENT ((enum ibv_event_type)-1)
void qp_enter_error(struct qp *qp, enum ibv_event_type event);

/* First message on a QP in RTR: IBV_EVENT_COMM_EST, once. engine.lock held. */
void qp_comm_established(struct qp *qp);

/* A local QP by number, or NULL. engine.lock held. */
struct qp *qp_find(struct engine *engine, uint32_t qpn);

#endif
