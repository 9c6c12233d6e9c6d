/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "core/core_notice.h"
#include "core/engine/engine.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/report/counters.h"

/* Notifications of the daemon, and requests to it. */

void engine_lose_daemon(struct engine *engine)
{
	engine_assert_unlocked(engine);
	engine_lock(engine);
	core_lose_daemon(engine);
	engine_unlock(engine);
}

void engine_notices_register_counter(struct engine *engine)
{
	static const char *const names[] = {"dropped notices"};

	engine_assert_locked(engine);
	engine->notices.dropped = counters_register(engine, "engine", names, 1,
						    &engine->notices.dropped_unshown);
}

void engine_notices_clear(struct engine *engine)
{
	engine_assert_locked(engine);
	memset(engine->notices.handlers, 0, sizeof(engine->notices.handlers));
	engine->notices.dropped = &engine->notices.dropped_unshown;
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
	if (engine->notices.handlers[type].take)
		return -EEXIST;
	engine->notices.handlers[type] = (struct notice_handler){take, what};
	return 0;
}

void engine_dispatch_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			    int nfds)
{
	const struct notice_handler *handler = &engine->notices.handlers[notice->type];

	engine_assert_locked(engine);
	if (!handler->take) {
		(*engine->notices.dropped)++;
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
	while (!engine->is_fatal && engine->notices.fd >= 0) {
		ret = ipc_recv(engine->notices.fd, true, &msg, sizeof(msg), fds, &nfds);
		if (ret == -EAGAIN)
			return;
		if (ret == -EINTR)
			continue;
		if (ret < 0) {
			core_lose_daemon(engine);
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
	return engine_watch(engine, engine->notices.fd, WATCH_BY_ENGINE, notices_are_readable, NULL,
			    &engine->notices.watch);
}

int engine_call(struct engine *engine, void *request, uint32_t bytes, int fd, void *reply,
		uint32_t reply_bytes)
{
	int ret;

	engine_assert_unlocked(engine);
	ret = ipc_call(&engine->client, request, bytes, fd < 0 ? NULL : &fd, fd < 0 ? 0 : 1, reply,
		       reply_bytes);
	return ret == -ENODEV && ipc_client_is_lost(&engine->client) ? -EIO : ret;
}

static int ask_for_peer(struct engine *engine, uint32_t slot)
{
	struct ipc_connect_peer req = {.hdr.type = IPC_CONNECT_PEER, .slot = slot};
	struct ipc_reply reply;

	return engine_call(engine, &req, sizeof(req), -1, &reply, sizeof(reply));
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
