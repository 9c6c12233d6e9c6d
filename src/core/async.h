/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ASYNC_H
#define USRDMA_CORE_ASYNC_H

#include "core/objects.h"

/*
 * Async events: queued on the context's async_fd for ibv_get_async_event. Each counts in the object's events_completed
 * until it is acknowledged, and its destroy waits for that. Any thread, engine.lock may be held.
 */
void async_qp_event(struct qp *qp, enum ibv_event_type type);
void async_cq_event(struct cq *cq, enum ibv_event_type type);
void async_srq_event(struct srq *srq, enum ibv_event_type type);
void async_port_event(struct context *context, enum ibv_event_type type);
void async_device_fatal(struct context *context);

/* The context is being closed: its descriptor goes, and events that still come are dropped. */
void async_close(struct context *context);
/* Frees the events that nobody fetched. */
void async_drop_all(struct context *context);

/* Takes an object's events that nobody fetched out of the queue; for destroy. */
void async_forget(struct context *context, const void *element);

/* Waits, under an object's public lock, until as many of its events were acknowledged as were fetched; for destroy,
 * after async_forget. When that takes long the log says who waits for which call, as in `waiting`. */
void async_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		     uint32_t fetched, const char *waiting);

#endif
