/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/service.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id_table.h"
#include "base/list.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/wait.h"

#define ITEMS_MAX (1u << 20)

/*
 * lock guards all fields. running is the item whose fn the service thread executes. A thread that
 * removes this item waits until fn has returned, unless fn itself removes it. Events identify items
 * by handle, so that an event of a removed item has no effect.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle;
	bool is_running;
	pthread_t thread;
	int epoll_fd;
	int wake_fd;
	struct id_table items;
	struct timer_heap timers;
	struct list_head due; /* items whose deadline has passed and whose fn has not been called */
	struct service_item *running;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

/* Called by timer_expire() with the lock held, where fn must not be called: the item is queued. */
static void on_deadline(struct timer *timer, uint64_t now_ns)
{
	struct service_item *item = container_of(timer, struct service_item, timer);

	(void)now_ns;
	list_move_tail(&item->due, &service.due);
}

void service_item_init(struct service_item *item, void (*fn)(struct service_item *item))
{
	item->fn = fn;
	item->fd = -1;
	item->handle = 0;
	list_init(&item->due);
	timer_init(&item->timer, on_deadline);
}

static void run_item(struct service_item *item)
{
	service.running = item;
	pthread_mutex_unlock(&service.lock);
	item->fn(item);
	pthread_mutex_lock(&service.lock);
	service.running = NULL;
	pthread_cond_broadcast(&service.idle);
}

/* Calls fn of the items whose deadline has passed. Each fn may remove any item. */
static void run_due(void)
{
	timer_expire(&service.timers, clock_now_ns());
	while (!list_is_empty(&service.due)) {
		struct service_item *item = list_first_entry(&service.due, struct service_item,
							     due);

		list_del(&item->due);
		run_item(item);
	}
}

static void service_dispatch(uint64_t handle)
{
	struct service_item *item;
	eventfd_t count;

	if (!handle) {
		sys_eventfd_read(service.wake_fd, &count);
		return;
	}
	item = id_table_get(&service.items, handle);
	if (item)
		run_item(item);
}

static void *service_serve(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&service.lock);
	for (;;) {
		uint64_t deadline_ns = timer_next_deadline(&service.timers);
		struct epoll_event event;
		int timeout_ms = -1;
		int count;

		if (deadline_ns != TIMER_NEVER_NS)
			timeout_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
		pthread_mutex_unlock(&service.lock);
		count = epoll_wait(service.epoll_fd, &event, 1, timeout_ms);
		pthread_mutex_lock(&service.lock);
		if (count > 0)
			service_dispatch(event.data.u64);
		run_due();
	}
	return NULL;
}

/* All signals are blocked in the service thread, so that application threads receive them. */
static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int ret;

	ret = pthread_attr_init(&attr);
	if (ret)
		return -ret;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&service.thread, &attr, service_serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -ret;
}

static int service_start(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
	int ret;

	service.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (service.epoll_fd < 0)
		return -errno;
	service.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = service.wake_fd < 0 ? -errno : 0;
	if (ret)
		goto err_wake;
	ret = epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, service.wake_fd, &event) ? -errno : 0;
	if (ret)
		goto err_start;
	id_table_init(&service.items, ITEMS_MAX);
	timer_heap_init(&service.timers);
	list_init(&service.due);
	ret = start_thread();
	if (ret)
		goto err_start;
	service.is_running = true;
	return 0;

err_start:
	sys_close(service.wake_fd);
err_wake:
	sys_close(service.epoll_fd);
	return ret;
}

static int add_locked(struct service_item *item, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret = service.is_running ? 0 : service_start();

	if (ret)
		return ret;
	ret = id_table_add(&service.items, item, &item->handle);
	if (ret)
		return ret;
	item->fd = fd;
	event.data.u64 = item->handle;
	if (fd < 0 || !epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return 0;
	ret = -errno;
	id_table_remove(&service.items, item->handle);
	item->handle = 0;
	return ret;
}

int service_add(struct service_item *item, int fd)
{
	int ret = 0;

	pthread_mutex_lock(&service.lock);
	if (!item->handle)
		ret = add_locked(item, fd);
	pthread_mutex_unlock(&service.lock);
	return ret;
}

void service_set_deadline(struct service_item *item, uint64_t deadline_ns)
{
	pthread_mutex_lock(&service.lock);
	if (item->handle && deadline_ns == TIMER_NEVER_NS)
		timer_cancel(&service.timers, &item->timer);
	else if (item->handle)
		timer_add(&service.timers, &item->timer, deadline_ns);
	if (item->handle && !pthread_equal(service.thread, pthread_self()))
		sys_eventfd_write(service.wake_fd, 1);
	pthread_mutex_unlock(&service.lock);
}

void service_set_watching(struct service_item *item, bool is_watched)
{
	struct epoll_event event = {.events = is_watched ? EPOLLIN : 0};

	pthread_mutex_lock(&service.lock);
	event.data.u64 = item->handle;
	if (item->handle && item->fd >= 0 &&
	    epoll_ctl(service.epoll_fd, EPOLL_CTL_MOD, item->fd, &event))
		log_debug("cannot change the events of descriptor %d: %m", item->fd);
	pthread_mutex_unlock(&service.lock);
}

static void remove_locked(struct service_item *item)
{
	id_table_remove(&service.items, item->handle);
	item->handle = 0;
	timer_cancel(&service.timers, &item->timer);
	list_del(&item->due);
	if (item->fd >= 0 && epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, item->fd, NULL))
		log_debug("cannot remove descriptor %d from the service thread: %m", item->fd);
	item->fd = -1;
}

void service_remove(struct service_item *item)
{
	int cancel_state = cancel_disable();

	pthread_mutex_lock(&service.lock);
	if (item->handle)
		remove_locked(item);
	while (service.running == item && !pthread_equal(service.thread, pthread_self()))
		pthread_cond_wait(&service.idle, &service.lock);
	pthread_mutex_unlock(&service.lock);
	cancel_restore(cancel_state);
}

void service_before_fork(void)
{
	pthread_mutex_lock(&service.lock);
}

void service_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&service.lock);
}

void service_after_fork_in_child(void)
{
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.idle, NULL);
	service.running = NULL;
	if (!service.is_running)
		return;
	service.is_running = false;
	sys_close(service.wake_fd);
	sys_close(service.epoll_fd);
	id_table_fini(&service.items);
}
