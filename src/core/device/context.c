/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "core/device/async.h"
#include "core/device/command_file.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/mr.h"
#include "core/object/event_fd.h"
#include "core/queue/qp_error.h"

static void context_free(struct context *context)
{
	async_drop_all(context);
	pthread_mutex_destroy(&context->events_lock);
	pthread_mutex_destroy(&context->pub.context.mutex);
	free(context);
}

void context_get(struct context *context)
{
	engine_assert_locked(context->engine);
	context->users++;
}

void context_put(struct context *context)
{
	engine_assert_locked(context->engine);
	context->users--;
	if (context->is_closed && !context->users)
		context_free(context);
}

bool context_is_kin(const struct context *a, const struct context *b)
{
	return !memcmp(a->token, b->token, sizeof(a->token));
}

/* Creates the command file, unless `cmd_fd` is the caller's descriptor of one. */
static int context_open_fds(struct context *context, int cmd_fd, struct command_file *file)
{
	struct ibv_context *pub = &context->pub.context;
	struct ipc_device_reply info;
	int ret;

	pub->async_fd = event_fd_open();
	if (pub->async_fd < 0)
		return pub->async_fd;
	if (cmd_fd < 0) {
		device_info(context->device, &info);
		cmd_fd = command_file_make(&info, context->device->rail, file);
	}
	pub->cmd_fd = cmd_fd;
	if (cmd_fd >= 0) {
		memcpy(context->token, file->token, sizeof(context->token));
		return 0;
	}
	ret = cmd_fd;
	sys_close(pub->async_fd);
	return ret;
}

/* cmd_fd: -1, or a copy of another context's command file, whose contents are in *file. */
static int context_new(struct engine *engine, struct device *device, int cmd_fd,
		       struct command_file *file, struct context **made)
{
	struct context *context = calloc(1, sizeof(*context));
	int ret;

	if (!context)
		return -ENOMEM;
	context->device = device;
	context->engine = engine;
	context->pub.sz = sizeof(context->pub);
	context->pub.context.device = &device->pub;
	context->pub.context.num_comp_vectors = NUM_COMP_VECTORS;
	context->pub.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context_init_ops(&context->pub);
	pthread_mutex_init(&context->pub.context.mutex, NULL);
	pthread_mutex_init(&context->events_lock, NULL);
	list_init(&context->events);
	ret = context_open_fds(context, cmd_fd, file);
	if (ret) {
		context_free(context);
		return ret;
	}
	*made = context;
	return 0;
}

/*
 * Marks an imported context, and the contexts of this process from which it was imported.
 * engine.lock held.
 */
static void mark_import(const struct engine *engine, struct context *imported)
{
	struct context *context;

	engine_assert_locked(engine);
	imported->is_shared = true;
	imported->is_foreign = true;
	list_for_each_entry(context, &engine->tables.contexts, node) {
		if (!context_is_kin(context, imported))
			continue;
		context->is_shared = true;
		if (!context->is_foreign)
			imported->is_foreign = false;
	}
}

static int context_open(struct engine *engine, struct device *device, int cmd_fd,
			struct command_file *file, struct context **made)
{
	int ret;

	device_refresh(engine, device);
	if (!device_is_present(device))
		return -ENODEV;
	/* From here on async events may occur, also for a program that only polls async_fd. */
	ret = engine_start(engine);
	if (ret)
		return ret;
	ret = context_new(engine, device, cmd_fd, file, made);
	if (ret)
		return ret;
	engine_lock(engine);
	if (cmd_fd >= 0)
		mark_import(engine, *made);
	list_add_tail(&(*made)->node, &engine->tables.contexts);
	/*
	 * The engine has reported the daemon's end to the contexts of the list before this one was
	 * added.
	 */
	if (engine->is_fatal)
		async_device_fatal(*made);
	engine_unlock(engine);
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct engine *engine = engine_get();
	struct context *context = NULL;
	struct command_file file;
	int ret;

	/* engine_get() reads the rules of the environment. */
	if (!engine || fault_call_fails(__func__))
		return NULL;
	ret = context_open(engine, to_device(device), -1, &file, &context);
	if (!ret)
		return &context->pub.context;
	errno = -ret;
	return NULL;
}

static int context_import(int cmd_fd, struct context **made)
{
	struct command_file file;
	struct engine *engine;
	struct device *device;
	int ret = command_file_read(cmd_fd, &file);

	if (ret)
		return ret;
	engine = engine_get();
	if (!engine)
		return -errno;
	device = device_known_as(engine, file.name, file.dev_id, file.node_guid, file.rail);
	return device ? context_open(engine, device, cmd_fd, &file, made) : -ENODEV;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct context *context = NULL;
	int ret;

	probe_init();
	if (fault_call_fails(__func__))
		return NULL;
	ret = context_import(cmd_fd, &context);
	if (!ret)
		return &context->pub.context;
	errno = -ret;
	return NULL;
}

/* Whether another open context shares the objects; then they remain usable. engine.lock held. */
static bool has_kin(const struct context *closed)
{
	const struct context *context;

	engine_assert_locked(closed->engine);
	list_for_each_entry(context, &closed->engine->tables.contexts, node) {
		if (context_is_kin(context, closed))
			return true;
	}
	return false;
}

/* Makes the remaining objects unusable, as the kernel does when a process closes a device. */
static void context_abandon(struct context *context)
{
	struct engine *engine = context->engine;
	uint32_t cursor = 0;
	struct qp *qp;

	if (engine->is_orphan || has_kin(context))
		return;
	while ((qp = qp_table_next(&engine->tables.qps, &cursor))) {
		if (context_is_kin(qp->context, context))
			qp_enter_error(qp, QP_NO_EVENT);
	}
	mr_revoke_all(context);
}

int ibv_close_device(struct ibv_context *ibcontext)
{
	struct context *context = to_context(ibcontext);
	struct engine *engine = context->engine;
	bool is_last;

	if (fault_call_fails(__func__))
		return errno;
	async_close(context);
	sys_close(ibcontext->cmd_fd);
	engine_lock(engine);
	list_del(&context->node);
	is_last = !context->users;
	context->is_closed = true;
	/*
	 * Objects of closed contexts that shared the token may have remained usable through this
	 * one.
	 */
	if (!is_last || context->is_shared)
		context_abandon(context);
	engine_unlock(engine);
	if (is_last)
		context_free(context);
	return 0;
}
