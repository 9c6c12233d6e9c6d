/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/av_call.h"

#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

/* A resolution in progress, on the stack of the calling thread. */
struct av_call {
	struct list_head node; /* av_calls.list */
	uint32_t serial;
	bool is_done;
	int error;
};

static void av_calls_changed(struct av_calls *calls)
{
	atomic_fetch_add(&calls->changes, 1);
	futex_wake_all(&calls->changes);
}

void av_calls_end(struct engine *engine)
{
	av_calls_changed(&engine->av_calls);
}

static void av_call_take(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			 int nfds)
{
	const struct ipc_av_resolved *msg = (const void *)notice;
	struct av_call *call;

	(void)fds;
	(void)nfds;
	list_for_each_entry(call, &engine->av_calls.list, node) {
		if (call->serial != msg->serial || call->is_done)
			continue;
		call->error = msg->error;
		call->is_done = true;
	}
	av_calls_changed(&engine->av_calls);
}

int av_calls_open(struct engine *engine)
{
	engine_assert_locked(engine);
	return engine_on_notice(engine, IPC_AV_RESOLVED, av_call_take, NULL);
}

/*
 * The result may be received by another thread before the reply to the request, so the call is
 * added before the request is sent.
 */
static int av_call_add(struct engine *engine, struct av_call *call)
{
	int ret;

	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret) {
		call->serial = ++engine->av_calls.serial;
		list_add_tail(&call->node, &engine->av_calls.list);
	}
	engine_unlock(engine);
	return ret;
}

static void av_call_remove(struct engine *engine, struct av_call *call)
{
	engine_lock(engine);
	list_del(&call->node);
	engine_unlock(engine);
}

/*
 * Waits without a lock for AV_RESOLVED, which the engine thread receives, or for the end of the
 * daemon.
 */
static int av_call_wait(struct engine *engine, struct av_call *call)
{
	struct av_calls *calls = &engine->av_calls;
	uint32_t seen;
	int ret;

	engine_will_block(engine);
	engine_lock(engine);
	for (;;) {
		ret = engine_usable(engine);
		if (ret || call->is_done)
			break;
		seen = atomic_load(&calls->changes);
		engine_unlock(engine);
		futex_wait(&calls->changes, seen, 0);
		engine_lock(engine);
	}
	if (call->is_done)
		ret = call->error;
	engine_unlock(engine);
	return ret;
}

int av_call_resolve(struct engine *engine, const struct ipc_gid *source, const union ibv_gid *dgid,
		    bool route_only, bool *is_local, uint8_t *hop_limit)
{
	struct ipc_av_resolve req = {
		.hdr.type = IPC_AV_RESOLVE,
		.ifindex = source->ifindex,
		.flags = route_only ? IPC_AV_ROUTE_ONLY : 0,
	};
	struct ipc_av_resolve_reply reply;
	struct av_call call = {.is_done = false};
	int ret;

	engine_assert_unlocked(engine);
	*is_local = false;
	ret = av_call_add(engine, &call);
	if (ret)
		return ret;
	req.serial = call.serial;
	memcpy(req.sgid, source->raw, sizeof(req.sgid));
	memcpy(req.dgid, dgid->raw, sizeof(req.dgid));
	ret = engine_call(engine, &req, sizeof(req), -1, &reply, sizeof(reply));
	if (!ret) {
		*is_local = reply.flags & IPC_AV_IS_LOCAL;
		if (reply.flags & IPC_AV_WAITS)
			ret = av_call_wait(engine, &call);
		if (reply.hop_limit)
			*hop_limit = (uint8_t)reply.hop_limit;
	}
	av_call_remove(engine, &call);
	return ret == -EDQUOT ? -EAGAIN : ret;
}
