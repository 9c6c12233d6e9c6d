/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_ASYNC_H
#define USRDMA_CORE_DEVICE_ASYNC_H

#include "core/object/objects.h"

/*
 * Async events, queued on the context's async_fd for ibv_get_async_event(). The destroy call of an
 * object waits until all its fetched events are acknowledged (events_completed). Callable by any
 * thread; engine.lock may be held.
 */
void async_qp_event(struct qp *qp, enum ibv_event_type type);
void async_cq_event(struct cq *cq, enum ibv_event_type type);
void async_srq_event(struct srq *srq, enum ibv_event_type type);
void async_port_event(struct context *context, enum ibv_event_type type);
void async_device_fatal(struct context *context);

/* The context is being closed: closes its descriptor; later events are dropped. */
void async_close(struct context *context);
/* Frees the events that were not fetched. */
void async_drop_all(struct context *context);

/* Removes an object's events that were not fetched; called when the object is destroyed. */
void async_forget(struct context *context, const void *element);

/*
 * Waits until all fetched events of an object are acknowledged; called when the object is
 * destroyed, after async_forget(). `mutex` is the object's public lock. If this takes longer than 2
 * s, `waiting` is logged: it contains the destroy call and the acknowledge call that is missing.
 */
void async_wait_acks(const struct context *context, pthread_mutex_t *mutex, pthread_cond_t *cond,
		     const uint32_t *completed, uint32_t fetched, const char *waiting);

#endif
