/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "core/engine.h"

/*
 * An event of epoll carries the handle of its watch, not its descriptor: a descriptor that was closed after the event
 * may belong to the application by the time the event is processed.
 */
struct watch {
	int fd;
	void (*callback)(struct engine *engine, void *arg);
	void *arg;
};

int engine_watch(struct engine *engine, int fd, void (*callback)(struct engine *engine, void *arg),
		 void *arg, uint64_t *handle)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){fd, callback, arg};
	ret = id_table_add(&engine->watches, watch, handle);
	if (ret)
		goto err_watch;
	event.data.u64 = *handle;
	if (!epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return 0;
	ret = -errno;
	id_table_remove(&engine->watches, *handle);
err_watch:
	free(watch);
	*handle = 0;
	return ret;
}

void engine_unwatch(struct engine *engine, uint64_t handle)
{
	struct watch *watch = id_table_remove(&engine->watches, handle);

	if (!watch)
		return;
	epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	free(watch);
}

void engine_watch_dispatch(struct engine *engine, uint64_t handle)
{
	const struct watch *watch = id_table_get(&engine->watches, handle);

	if (watch)
		watch->callback(engine, watch->arg);
}
