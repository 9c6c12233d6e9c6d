/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/failure_event.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "core/engine/engine.h"
#include "core/report/failure.h"
#include "ipc/daemon_end.h"

/* Events that are part of normal operation, too. */
static bool is_note(enum ibv_event_type event)
{
	return event == IBV_EVENT_SRQ_LIMIT_REACHED || event == IBV_EVENT_PORT_ACTIVE ||
	       event == IBV_EVENT_GID_CHANGE || event == IBV_EVENT_LID_CHANGE ||
	       event == IBV_EVENT_SM_CHANGE || event == IBV_EVENT_CLIENT_REREGISTER;
}

static void report_event(const struct context *context, enum ibv_event_type event, uint64_t first,
			 uint64_t second)
{
	struct ipc_failure failure = {.numbers = {first, second}};
	struct engine *engine = failure_begin_context(context, IPC_FAILURE_EVENT, &failure);

	if (!engine)
		return;
	failure.event = event;
	if (is_note(event))
		failure.flags |= IPC_FAILURE_NOTE;
	failure_send(engine, &failure);
}

void failure_cq_event(const struct cq *cq, enum ibv_event_type event)
{
	report_event(cq->context, event, cq->capacity, 0);
}

void failure_srq_event(const struct srq *srq, enum ibv_event_type event)
{
	report_event(srq->context, event, srq->rq.head - srq->rq.tail, srq->rq.max_wr);
}

void failure_port_event(const struct context *context, enum ibv_event_type event)
{
	report_event(context, event, 0, 0);
}

void failure_daemon_ended(struct engine *engine)
{
	struct ipc_failure failure = {.event = IBV_EVENT_DEVICE_FATAL};
	const struct ipc_failures earlier = {engine->failures.kept.reports,
					     engine->failures.kept.count};
	/*
	 * The fork handlers of the engine wait for engine.lock, so no child has a copy of the
	 * connection.
	 */
	struct ipc_client successor;
	int error;

	ipc_explain_daemon_end(&engine->client);
	failure.id = ++engine->failures.last_id;
	error = ipc_report_daemon_end(&engine->client, &earlier, &failure, &successor);
	if (error && error != -ENOTSUP)
		log_warn("the end of the daemon is not stored for usrdma why: %s",
			 strerror(-error));
}
