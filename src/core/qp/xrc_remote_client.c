/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/qp/qp.h"
#include "core/qp/xrc_remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "core/device/async.h"

/* Timeout of an operation, because the server may be stopped. */
#define CALL_TIMEOUT_NS (UINT64_C(5) * CLOCK_NS_PER_S)

/* An outstanding operation, on the stack of the calling thread. */
struct remote_call {
	struct list_head node; /* xrc_remote.calls */
	struct engine *engine;
	struct xrc_forward_waiter waiter;
	uint32_t slot;
	uint32_t serial;
	struct xrc_remote_qp *opens; /* linked to xrc_remote.qps on success; NULL unless OPEN */
	bool is_sent;
	bool is_done;
	int ret;
	struct ibv_qp_attr attr; /* result of OPEN and QUERY */
};

void xrc_remote_init(struct xrc_remote *remote)
{
	list_init(&remote->qps);
	list_init(&remote->orphaned);
	list_init(&remote->calls);
	list_init(&remote->clients);
}

/* Wakes the callers in remote_call_wait(). */
static void xrc_remote_has_changed(struct xrc_remote *remote)
{
	atomic_fetch_add(&remote->changes, 1);
	futex_wake_all(&remote->changes);
}

void xrc_remote_end(struct xrc_remote *remote)
{
	xrc_remote_has_changed(remote);
}

bool xrc_remote_is_possible(const struct engine *engine, const struct xrc_domain *domain,
			    uint32_t qpn)
{
	uint32_t slot = xrc_slot_of(qpn);

	return domain->id && slot && slot != engine->slot && qpn < IPC_SLOTS * IPC_SLOT_QPNS;
}

/*
 * Waits until a result arrives or there is space for messages. All locks held, once: the wait
 * releases them, so that the engine thread, or a thread that polls, can receive messages.
 */
static int remote_call_wait(struct engine *engine, uint64_t until_ns)
{
	uint32_t seen = atomic_load(&engine->xrc_remote.changes);

	engine_assert_once_locked(engine);
	engine_unlock(engine);
	futex_wait(&engine->xrc_remote.changes, seen, until_ns);
	engine_lock(engine);
	return engine_usable(engine);
}

static void remote_call_on_space(struct xrc_forward_waiter *waiter)
{
	const struct remote_call *call = container_of(waiter, struct remote_call, waiter);

	xrc_remote_has_changed(&call->engine->xrc_remote);
}

static int remote_call_send(struct remote_call *call, const struct xrc_forward_msg *msg,
			    uint64_t until_ns)
{
	struct engine *engine = call->engine;
	int ret = xrc_forward_send(engine, call->slot, msg);

	while (ret == -EAGAIN && clock_now_ns() < until_ns) {
		xrc_forward_wait(engine, call->slot, &call->waiter);
		ret = remote_call_wait(engine, until_ns);
		if (!ret)
			ret = xrc_forward_send(engine, call->slot, msg);
	}
	list_del(&call->waiter.node);
	call->is_sent = !ret;
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

/*
 * Sends an operation, whose serial is call->serial, and waits for the result. 0, or the error of
 * the server or of the connection to it.
 */
static int remote_call_execute(struct remote_call *call, const struct xrc_forward_msg *msg)
{
	struct engine *engine = call->engine;
	uint64_t until_ns = clock_now_ns() + CALL_TIMEOUT_NS;
	int ret;

	list_add_tail(&call->node, &engine->xrc_remote.calls);
	engine_will_block(engine);
	ret = remote_call_send(call, msg, until_ns);
	if (ret && ret != -ETIMEDOUT)
		ret = -EIO;
	while (!ret && !call->is_done) {
		ret = remote_call_wait(engine, until_ns);
		if (!ret && !call->is_done && clock_now_ns() > until_ns)
			ret = -ETIMEDOUT;
	}
	list_del(&call->node);
	return call->is_done ? call->ret : ret;
}

static struct remote_call remote_call_of(struct engine *engine, uint32_t slot)
{
	struct remote_call call = {
		.engine = engine, .slot = slot, .serial = ++engine->xrc_remote.serial};

	return call;
}

/* Sends CLOSE without waiting for the result. */
static void post_close(struct engine *engine, uint32_t slot, uint32_t qpn)
{
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_CLOSE,
		.qpn = qpn,
		.operation.serial = ++engine->xrc_remote.serial,
	};

	xrc_forward_post(engine, slot, &msg);
}

/*
 * After an OPEN timed out: stores its serial, so that a late positive result is followed by CLOSE.
 * Otherwise the server would count a handle that does not exist.
 */
static void remote_qp_orphan(struct engine *engine, struct xrc_remote_qp *qp, uint32_t serial)
{
	qp->handle = NULL;
	qp->serial = serial;
	list_add_tail(&qp->node, &engine->xrc_remote.orphaned);
}

int xrc_remote_connect(struct engine *engine, uint32_t qpn)
{
	int ret = engine_connect_peer(engine, xrc_slot_of(qpn));

	engine_assert_unlocked(engine);
	return ret == -ENOENT ? -EINVAL : ret;
}

int xrc_remote_open(struct qp *handle, uint32_t qpn)
{
	struct engine *engine = handle->context->engine;
	struct remote_call call = remote_call_of(engine, xrc_slot_of(qpn));
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_OPEN,
		.qpn = qpn,
		.open = {.domain_id = handle->xrcd->domain->id, .serial = call.serial},
	};
	struct xrc_remote_qp *qp = calloc(1, sizeof(*qp));
	int ret;

	engine_assert_locked(handle->context->engine);
	if (!qp)
		return -ENOMEM;
	qp->slot = call.slot;
	qp->qpn = qpn;
	qp->handle = handle;
	handle->remote = qp;
	call.opens = qp;
	xrc_forward_waiter_init(&call.waiter, remote_call_on_space);
	ret = remote_call_execute(&call, &msg);
	if (!ret) {
		handle->pub.state = call.attr.qp_state;
		return 0;
	}
	handle->remote = NULL;
	if (ret == -ETIMEDOUT && call.is_sent)
		remote_qp_orphan(engine, qp, call.serial);
	else
		free(qp);
	return ret;
}

/* Executes an operation of an open handle. */
static int handle_execute(const struct qp *handle, struct remote_call *call,
			  const struct xrc_forward_msg *msg)
{
	xrc_forward_waiter_init(&call->waiter, remote_call_on_space);
	if (engine_usable(call->engine) || handle->remote->has_exited)
		return -EIO;
	return remote_call_execute(call, msg);
}

int xrc_remote_query(struct qp *handle, struct ibv_qp_attr *attr)
{
	struct remote_call call = remote_call_of(handle->context->engine, handle->remote->slot);
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_QUERY, .qpn = handle->qpn, .operation.serial = call.serial};
	int ret = handle_execute(handle, &call, &msg);

	engine_assert_locked(handle->context->engine);
	if (!ret)
		*attr = call.attr;
	return ret;
}

int xrc_remote_modify(struct qp *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct remote_call call = remote_call_of(handle->context->engine, handle->remote->slot);
	struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_MODIFY,
		.qpn = handle->qpn,
		.modify = {.serial = call.serial, .mask = mask},
	};

	engine_assert_locked(handle->context->engine);
	memcpy(&msg.modify.attr, attr, QP_ATTR_COMPAT_BYTES);
	return handle_execute(handle, &call, &msg);
}

void xrc_remote_close(struct qp *handle)
{
	struct engine *engine = handle->context->engine;
	struct remote_call call = remote_call_of(engine, handle->remote->slot);
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_CLOSE, .qpn = handle->qpn, .operation.serial = call.serial};

	list_del(&handle->remote->node);
	/*
	 * Without a result the server has exited, or it closes the handle when it receives the
	 * operation.
	 */
	if (handle_execute(handle, &call, &msg) == -ETIMEDOUT && !call.is_sent)
		post_close(engine, call.slot, handle->qpn);
	free(handle->remote);
}

/* Adds the handle to xrc_remote.qps immediately, because an event for it may follow the result. */
static void remote_call_end(struct remote_call *call, const struct xrc_remote_result *result)
{
	struct xrc_remote *remote = &call->engine->xrc_remote;

	call->attr = result->attr;
	call->ret = -(int)result->error;
	call->is_done = true;
	if (!call->ret && call->opens)
		list_add_tail(&call->opens->node, &remote->qps);
	xrc_remote_has_changed(remote);
}

void xrc_remote_take_result(struct engine *engine, uint32_t slot,
			    const struct xrc_remote_result *result)
{
	struct xrc_remote_qp *qp, *tmp;
	struct remote_call *call;

	list_for_each_entry(call, &engine->xrc_remote.calls, node) {
		if (call->slot == slot && call->serial == result->serial && !call->is_done)
			remote_call_end(call, result);
	}
	/* The late result of an OPEN that timed out. */
	list_for_each_entry_safe(qp, tmp, &engine->xrc_remote.orphaned, node) {
		if (qp->slot != slot || qp->serial != result->serial)
			continue;
		list_del(&qp->node);
		if (!result->error)
			post_close(engine, slot, qp->qpn);
		free(qp);
	}
}

void xrc_remote_take_event(struct engine *engine, const struct xrc_forward_msg *msg)
{
	struct xrc_remote_qp *qp;

	list_for_each_entry(qp, &engine->xrc_remote.qps, node) {
		if (qp->qpn == msg->qpn)
			async_qp_event(qp->handle, (enum ibv_event_type)msg->event.event);
	}
}

void xrc_remote_peer_exited(struct engine *engine, uint32_t slot)
{
	struct xrc_remote *remote = &engine->xrc_remote;
	struct xrc_remote_qp *qp, *tmp;
	struct remote_call *call;

	xrc_remote_client_exited(engine, slot);
	list_for_each_entry(call, &remote->calls, node) {
		if (call->slot == slot && !call->is_done) {
			call->ret = -EIO;
			call->is_done = true;
		}
	}
	xrc_remote_has_changed(remote);
	list_for_each_entry_safe(qp, tmp, &remote->orphaned, node) {
		if (qp->slot == slot) {
			list_del(&qp->node);
			free(qp);
		}
	}
	list_for_each_entry(qp, &remote->qps, node) {
		if (qp->slot == slot && !qp->has_exited) {
			qp->has_exited = true;
			async_qp_event(qp->handle, IBV_EVENT_QP_FATAL);
		}
	}
}
