/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/engine_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/syscalls.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

/*
 * An event of epoll carries the handle of its watch, not its descriptor: a descriptor that was
 * closed after the event may belong to the application by the time the event is processed.
 */
struct watch {
	int fd;
	enum watch_scope scope;
	uint64_t handle;
	struct list_head node; /* of engine.watches.list */
	void (*callback)(struct engine *engine, void *arg);
	void *arg;
};

static int add_to(int epoll_fd, const struct watch *watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = watch->handle};

	if (watch->scope == WATCH_BY_ANY)
		event.events |= EPOLLEXCLUSIVE;
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? -errno : 0;
}

static void remove_from_all(struct engine *engine, const struct watch *watch)
{
	struct watch_set *set;

	epoll_ctl(engine->watches.epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	if (watch->scope != WATCH_BY_ANY)
		return;
	list_for_each_entry(set, &engine->watches.sets, node)
		epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

static int add_to_all(struct engine *engine, const struct watch *watch)
{
	int ret = add_to(engine->watches.epoll_fd, watch);
	struct watch_set *set;

	if (watch->scope != WATCH_BY_ANY)
		return ret;
	list_for_each_entry(set, &engine->watches.sets, node) {
		if (!ret)
			ret = add_to(set->epoll_fd, watch);
	}
	return ret;
}

int engine_watch(struct engine *engine, int fd, enum watch_scope scope,
		 void (*callback)(struct engine *engine, void *arg), void *arg, uint64_t *handle)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	int ret;

	engine_assert_locked(engine);
	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){.fd = fd, .scope = scope, .callback = callback, .arg = arg};
	ret = id_table_add(&engine->watches.table, watch, &watch->handle);
	if (ret)
		goto err_watch;
	ret = add_to_all(engine, watch);
	if (!ret) {
		list_add_tail(&watch->node, &engine->watches.list);
		*handle = watch->handle;
		return 0;
	}
	remove_from_all(engine, watch);
	id_table_remove(&engine->watches.table, watch->handle);
err_watch:
	free(watch);
	*handle = 0;
	return ret;
}

void engine_unwatch(struct engine *engine, uint64_t handle)
{
	struct watch *watch = id_table_remove(&engine->watches.table, handle);

	engine_assert_locked(engine);
	if (!watch)
		return;
	remove_from_all(engine, watch);
	list_del(&watch->node);
	free(watch);
}

void engine_watch_dispatch(struct engine *engine, uint64_t handle)
{
	const struct watch *watch = id_table_get(&engine->watches.table, handle);

	engine_assert_locked(engine);
	if (watch)
		watch->callback(engine, watch->arg);
}

/*
 * The kernel examines exclusive waiters in the order in which they were added, and wakes the first
 * one that waits. Adds those of the standby set again, behind a new set. Without memory for it, the
 * engine thread does not run for the suspended threads.
 */
static void standby_move_to_end(struct engine *engine)
{
	struct watch_set *standby = &engine->watches.standby;
	const struct watch *watch;

	if (standby->epoll_fd < 0)
		standby->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	else
		list_del(&standby->node);
	if (standby->epoll_fd < 0)
		return;
	list_add_tail(&standby->node, &engine->watches.sets);
	list_for_each_entry(watch, &engine->watches.list, node) {
		if (watch->scope != WATCH_BY_ANY)
			continue;
		epoll_ctl(standby->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
		(void)add_to(standby->epoll_fd, watch);
	}
}

int watch_set_open(struct engine *engine, struct watch_set *set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	const struct watch *watch;
	int ret = 0;

	engine_assert_locked(engine);
	set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (set->epoll_fd < 0)
		return -errno;
	list_add_tail(&set->node, &engine->watches.sets);
	if (fd >= 0 && epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		ret = -errno;
	list_for_each_entry(watch, &engine->watches.list, node) {
		if (!ret && watch->scope == WATCH_BY_ANY)
			ret = add_to(set->epoll_fd, watch);
	}
	if (ret)
		watch_set_close(engine, set);
	else
		standby_move_to_end(engine);
	return ret;
}

void watch_set_close(struct engine *engine, struct watch_set *set)
{
	engine_assert_locked(engine);
	if (set->epoll_fd < 0)
		return;
	list_del(&set->node);
	sys_close(set->epoll_fd);
	set->epoll_fd = -1;
}
