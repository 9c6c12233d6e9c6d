/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/probe.h"
#include "base/syscalls.h"
#include "base/trace_ring.h"
#include "core/async.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/engine.h"
#include "core/engine_watch.h"
#include "core/failure_event.h"
#include "core/lock_check.h"
#include "core/moderation.h"
#include "core/probe.h"
#include "core/qp.h"
#include "core/transport.h"

/* Notifications of the daemon, and the loss of the daemon connection. */

/*
 * The daemon connection is lost: peers can no longer be connected or supervised. All QPs enter ERR,
 * and the contexts receive IBV_EVENT_DEVICE_FATAL.
 */
static void engine_die(struct engine *engine)
{
	struct context *context;
	uint32_t cursor = 0;
	struct qp *qp;

	if (engine->is_fatal)
		return;
	log_warn("the daemon has exited: all devices of this process fail");
	engine->is_fatal = true;
	engine_progress_do(engine, progress_daemon_lost(&engine->progress));
	failure_daemon_ended(engine);
	moderation_flush(engine);
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->daemon_lost)
			transports[i]->daemon_lost(engine);
	}
	while ((qp = qp_table_next(&engine->qps, &cursor)))
		qp_enter_error(qp, QP_NO_EVENT);
	list_for_each_entry(context, &engine->contexts, node)
		async_device_fatal(context);
	xrc_remote_end(&engine->xrc_remote);
	av_calls_end(engine);
}

void engine_lose_daemon(struct engine *engine)
{
	engine_assert_unlocked(engine);
	engine_lock(engine);
	engine_die(engine);
	engine_unlock(engine);
}

static void take_device_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			       int nfds)
{
	(void)fds;
	(void)nfds;
	device_notice(engine, (const struct ipc_device_notice *)(const void *)notice);
}

/* The daemon changed what is traced or which faults are injected. */
static void take_probes(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			int nfds)
{
	int error;

	(void)notice;
	probe_refresh();
	if (nfds == 1) {
		error = probe_attach_ring(fds[0]);
		if (error)
			log_warn("this process cannot be traced: %s", strerror(-error));
		sys_close(fds[0]);
	}
	/* Events that follow refer to these paths. */
	if (trace_is_on())
		probe_emit_paths(engine);
}

int engine_notices_open(struct engine *engine)
{
	int ret;

	engine_assert_locked(engine);
	memset(engine->notice_handlers, 0, sizeof(engine->notice_handlers));
	engine->dropped_notices = &engine->dropped_notices_unshown;
	ret = engine_on_notice(engine, IPC_DEVICE_NOTICE, take_device_notice, NULL);
	if (!ret)
		ret = av_calls_open(engine);
	return ret ? ret : engine_on_notice(engine, IPC_PROBES, take_probes, "tracing");
}

void engine_notices_register_counter(struct engine *engine)
{
	static const char *const names[] = {"dropped notices"};

	engine_assert_locked(engine);
	engine->dropped_notices = counters_register(engine, "engine", names, 1,
						    &engine->dropped_notices_unshown);
}

int engine_on_notice(struct engine *engine, uint16_t type,
		     void (*take)(struct engine *engine, const struct ipc_hdr *notice,
				  const int *fds, int nfds),
		     const char *what)
{
	const struct ipc_type_info *info = ipc_type_info(type);

	engine_assert_locked(engine);
	if (!info || !info->push_bytes || info->push_bytes > NOTICE_BYTES_MAX)
		return -EINVAL;
	if (engine->notice_handlers[type].take)
		return -EEXIST;
	engine->notice_handlers[type] = (struct notice_handler){take, what};
	return 0;
}

void engine_dispatch_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			    int nfds)
{
	const struct notice_handler *handler = &engine->notice_handlers[notice->type];

	engine_assert_locked(engine);
	if (!handler->take) {
		(*engine->dropped_notices)++;
		fdpass_close(fds, nfds);
		return;
	}
	if (nfds == FDPASS_LOST)
		log_warn("%s is not available: this process has no descriptor left (ulimit -n)",
			 handler->what);
	handler->take(engine, notice, fds, nfds);
}

void engine_take_notices(struct engine *engine)
{
	union {
		struct ipc_hdr hdr;
		uint64_t words[NOTICE_BYTES_MAX / sizeof(uint64_t)];
	} msg;
	int fds[IPC_FDS_MAX];
	int nfds, ret;

	engine_assert_locked(engine);
	while (!engine->is_fatal && engine->notice_fd >= 0) {
		ret = ipc_recv(engine->notice_fd, true, &msg, sizeof(msg), fds, &nfds);
		if (ret == -EAGAIN)
			return;
		if (ret == -EINTR)
			continue;
		if (ret < 0) {
			engine_die(engine);
			return;
		}
		engine_dispatch_notice(engine, &msg.hdr, fds, nfds);
	}
}

static void notices_are_readable(struct engine *engine, void *arg)
{
	(void)arg;
	engine_take_notices(engine);
}

int engine_watch_notices(struct engine *engine)
{
	engine_assert_locked(engine);
	return engine_watch(engine, engine->notice_fd, WATCH_BY_ENGINE, notices_are_readable, NULL,
			    &engine->notice_watch);
}

static int ask_for_peer(struct engine *engine, uint32_t slot)
{
	struct ipc_connect_peer req = {.hdr.type = IPC_CONNECT_PEER, .slot = slot};
	struct ipc_reply reply;

	return ipc_call(&engine->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));
}

int engine_try_send_request(struct engine *engine, void *request, uint32_t bytes)
{
	return ipc_try_send_request(&engine->client, request, bytes);
}

/*
 * Time until queued requests are sent again: another thread waits for the daemon, or the send
 * buffer is full.
 */
#define NOTIFY_RETRY_NS (10 * CLOCK_NS_PER_MS)

static void notify_retry(struct engine *engine, uint64_t now_ns)
{
	timer_add(&engine->timers, &engine->notify_timer, now_ns + NOTIFY_RETRY_NS);
	engine_timer_added(engine);
}

static void notify_timer(struct timer *timer, uint64_t now_ns)
{
	struct engine *engine = container_of(timer, struct engine, notify_timer);

	if (ipc_flush(&engine->client) == -EAGAIN)
		notify_retry(engine, now_ns);
}

void engine_send_init(struct engine *engine)
{
	timer_init(&engine->notify_timer, notify_timer);
}

void engine_send_in_order(struct engine *engine, const void *request, uint32_t bytes,
			  struct ipc_queued *memory)
{
	engine_assert_locked(engine);
	if (ipc_send_in_order(&engine->client, request, bytes, memory) == -EAGAIN &&
	    !engine->notify_timer.is_pending)
		notify_retry(engine, clock_now_ns());
}

int engine_connect_peer(struct engine *engine, uint32_t slot)
{
	int ret = ask_for_peer(engine, slot);

	engine_assert_unlocked(engine);
	if (ret)
		return ret;
	/* Process the notifications that the daemon sent before its reply. */
	engine_lock(engine);
	if (!engine->is_orphan)
		engine_take_notices(engine);
	engine_unlock(engine);
	return 0;
}
