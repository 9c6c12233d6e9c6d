/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/async.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "core/engine/engine.h"
#include "core/object/event_fd.h"
#include "core/qp/xrc_remote.h"
#include "core/report/failure_event.h"
#include "core/report/failure_warn.h"
#include "core/report/probe.h"

#define ACK_WARNING_S 2

/*
 * One queued event for ibv_get_async_event(). In context.events, guarded by events_lock; freed when
 * it is fetched.
 */
struct async_event {
	struct list_head node;
	struct ibv_async_event pub;
	const void *element; /* NULL: an event of a port or the device */
	uint32_t *fetched;   /* the element's count of fetched events, or NULL */
};

static void async_add(struct context *context, const struct ibv_async_event *pub,
		      const void *element, uint32_t *fetched)
{
	struct async_event *event = malloc(sizeof(*event));

	if (!event) {
		log_error("out of memory: async event %d is lost", pub->event_type);
		return;
	}
	event->pub = *pub;
	event->element = element;
	event->fetched = fetched;
	pthread_mutex_lock(&context->events_lock);
	if (context->pub.context.async_fd < 0) {
		free(event);
	} else {
		list_add_tail(&event->node, &context->events);
		event_fd_post(context->pub.context.async_fd, 1);
	}
	pthread_mutex_unlock(&context->events_lock);
}

void async_qp_event(struct qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event pub = {.element.qp = &qp->pub, .event_type = type};
	struct qp *handle;

	trace_async_event(qp->context, qp->qpn, &pub);
	if (!qp->is_destroyed_by_creator)
		async_add(qp->context, &pub, qp, &qp->events_fetched);
	list_for_each_entry(handle, &qp->handles, handle_node) {
		pub.element.qp = &handle->pub;
		async_add(handle->context, &pub, handle, &handle->events_fetched);
	}
	if (qp->type == IBV_QPT_XRC_RECV)
		xrc_remote_post_event(qp, type);
}

void async_cq_event(struct cq *cq, enum ibv_event_type type)
{
	struct ibv_async_event pub = {.element.cq = &cq->pub, .event_type = type};

	trace_async_event(cq->context, 0, &pub);
	failure_cq_event(cq, type);
	async_add(cq->context, &pub, cq, &cq->async_events_fetched);
}

void async_srq_event(struct srq *srq, enum ibv_event_type type)
{
	struct ibv_async_event pub = {.element.srq = &srq->pub, .event_type = type};

	trace_async_event(srq->context, 0, &pub);
	failure_srq_event(srq, type);
	async_add(srq->context, &pub, srq, &srq->events_fetched);
}

void async_port_event(struct context *context, enum ibv_event_type type)
{
	struct ibv_async_event pub = {.element.port_num = 1, .event_type = type};

	trace_async_event(context, 0, &pub);
	async_add(context, &pub, NULL, NULL);
}

void async_device_fatal(struct context *context)
{
	struct ibv_async_event pub = {.event_type = IBV_EVENT_DEVICE_FATAL};

	trace_async_event(context, 0, &pub);
	async_add(context, &pub, NULL, NULL);
}

void async_close(struct context *context)
{
	int fd = context->pub.context.async_fd;

	/*
	 * In a fork()ed child no other thread uses the queue, but a thread of the parent may have
	 * held its lock.
	 */
	if (!context->engine->is_orphan) {
		pthread_mutex_lock(&context->events_lock);
		context->pub.context.async_fd = -1;
		pthread_mutex_unlock(&context->events_lock);
	}
	sys_close(fd);
}

void async_drop_all(struct context *context)
{
	struct async_event *event, *next;

	list_for_each_entry_safe(event, next, &context->events, node) {
		list_del(&event->node);
		free(event);
	}
}

void async_forget(struct context *context, const void *element)
{
	struct async_event *event, *next;
	uint32_t forgotten = 0;

	pthread_mutex_lock(&context->events_lock);
	list_for_each_entry_safe(event, next, &context->events, node) {
		if (event->element != element)
			continue;
		list_del(&event->node);
		free(event);
		forgotten++;
	}
	if (context->pub.context.async_fd >= 0)
		context->units_pending = event_fd_drain(context->pub.context.async_fd,
							context->units_pending + forgotten);
	pthread_mutex_unlock(&context->events_lock);
}

/*
 * The object's condition variable uses the wall clock. If the clock is set during the wait, the
 * warning comes early or late.
 */
void async_wait_acks(const struct context *context, pthread_mutex_t *mutex, pthread_cond_t *cond,
		     const uint32_t *completed, uint32_t fetched, const char *waiting)
{
	struct timespec warn_at;
	bool was_logged = false;
	int cancel_state, ret = 0;
	uint32_t left;

	/* Not a cancellation point: the object is partially destroyed. */
	cancel_state = cancel_disable();
	clock_gettime(CLOCK_REALTIME, &warn_at);
	warn_at.tv_sec += ACK_WARNING_S;
	pthread_mutex_lock(mutex);
	while (*completed != fetched) {
		if (ret == ETIMEDOUT && !was_logged) {
			was_logged = true;
			log_warn("%s: %d events left", waiting, (int)(fetched - *completed));
			left = fetched - *completed;
			pthread_mutex_unlock(mutex);
			failure_warn_unacked(context, waiting, left);
			pthread_mutex_lock(mutex);
			ret = 0;
			continue;
		}
		ret = was_logged ? pthread_cond_wait(cond, mutex) :
				   pthread_cond_timedwait(cond, mutex, &warn_at);
	}
	pthread_mutex_unlock(mutex);
	cancel_restore(cancel_state);
}

/* The oldest event, or NULL if the event that was waited for was removed. */
static struct async_event *async_take(struct context *context)
{
	struct async_event *event = NULL;

	pthread_mutex_lock(&context->events_lock);
	if (!list_is_empty(&context->events)) {
		event = list_first_entry(&context->events, struct async_event, node);
		list_del(&event->node);
		if (event->fetched)
			++*event->fetched;
		context->units_pending = event_fd_drain(context->pub.context.async_fd,
							context->units_pending);
	} else if (context->units_pending) {
		context->units_pending--;
	}
	pthread_mutex_unlock(&context->events_lock);
	return event;
}

int ibv_get_async_event(struct ibv_context *ibcontext, struct ibv_async_event *pub)
{
	struct context *context = to_context(ibcontext);
	struct async_event *event;
	int ret;

	if (fault_call_fails(__func__))
		return -1;
	do {
		/* In a fork()ed child the parent owns the descriptor and the events. */
		ret = context->engine->is_orphan ? -EIO : event_fd_wait(ibcontext->async_fd);
		if (ret) {
			errno = -ret;
			return -1;
		}
		event = async_take(context);
	} while (!event);
	*pub = event->pub;
	free(event);
	return 0;
}

static void async_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_qp *qp = event->element.qp;
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		async_ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		async_ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		async_ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		/* Events of a port or the device: no destroy call waits for them. */
		break;
	}
}
