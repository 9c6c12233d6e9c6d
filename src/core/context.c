/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/context.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/async.h"
#include "core/device.h"
#include "core/event_fd.h"
#include "core/mr.h"
#include "core/qp.h"

static void context_free(struct context *context)
{
	async_drop_all(context);
	pthread_mutex_destroy(&context->events_lock);
	pthread_mutex_destroy(&context->pub.context.mutex);
	free(context);
}

void context_get(struct context *context)
{
	context->users++;
}

void context_put(struct context *context)
{
	context->users--;
	if (context->is_closed && !context->users)
		context_free(context);
}

static int context_open_fds(struct context *context)
{
	struct ibv_context *pub = &context->pub.context;
	int ret;

	pub->async_fd = event_fd_open();
	if (pub->async_fd < 0)
		return pub->async_fd;
	/* There is no kernel object to command, but programs expect a descriptor that they may dup() and fcntl(). */
	pub->cmd_fd = eventfd(0, EFD_CLOEXEC);
	if (pub->cmd_fd >= 0)
		return 0;
	ret = -errno;
	close(pub->async_fd);
	return ret;
}

static int context_new(struct engine *engine, struct device *device, struct context **made)
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
	ret = context_open_fds(context);
	if (ret) {
		context_free(context);
		return ret;
	}
	*made = context;
	return 0;
}

static int context_open(struct device *device, struct context **made)
{
	struct engine *engine = engine_get();
	int ret;

	if (!engine)
		return -errno;
	device_refresh(engine, device);
	if (!device_is_present(device))
		return -ENODEV;
	/* From here on async events may come, also to a program that only polls async_fd. */
	ret = engine_start(engine);
	if (ret)
		return ret;
	ret = context_new(engine, device, made);
	if (ret)
		return ret;
	engine_lock(engine);
	list_add_tail(&(*made)->node, &engine->contexts);
	engine_unlock(engine);
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *context = NULL;
	int ret = context_open(to_device(device), &context);

	if (!ret)
		return &context->pub.context;
	errno = -ret;
	return NULL;
}

/* What the kernel does when a process closes a device that it still has objects of: they stop working. */
static void context_abandon(struct context *context)
{
	struct engine *engine = context->engine;

	if (engine->is_orphan)
		return;
	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++) {
		if (engine->qps[i] && engine->qps[i]->context == context)
			qp_enter_error(engine->qps[i], QP_NO_EVENT);
	}
	mr_revoke_all(context);
}

int ibv_close_device(struct ibv_context *ibcontext)
{
	struct context *context = to_context(ibcontext);
	struct engine *engine = context->engine;
	bool is_last;

	async_close(context);
	close(ibcontext->cmd_fd);
	engine_lock(engine);
	list_del(&context->node);
	is_last = !context->users;
	context->is_closed = true;
	if (!is_last)
		context_abandon(context);
	engine_unlock(engine);
	if (is_last)
		context_free(context);
	return 0;
}
