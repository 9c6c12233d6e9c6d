/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd_map.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/wait.h"
#include "rsocket/watch.h"

/*
 * Interval of periodic checks: limits how long a program that never sleeps in rsockets misses a
 * disconnect. Each check is a system call for each rsocket.
 */
#define LOOK_NS (10 * CLOCK_NS_PER_MS)

int rsock_init(struct rsock *sock, const struct rsock_ops *ops, int domain, int type)
{
	sock->ops = ops;
	sock->domain = domain;
	sock->type = type;
	sock->id = watch_new_id();
	sock->end_fd = -1;
	sock->fd = epoll_create1(EPOLL_CLOEXEC);
	if (sock->fd < 0)
		return -errno;
	atomic_init(&sock->refs, 1);
	atomic_init(&sock->status_flags, O_RDWR);
	pthread_mutex_init(&sock->lock, NULL);
	list_init(&sock->waiters);
	list_init(&sock->memberships);
	sock->sizes = rsock_config()->sizes;
	option_values_init(&sock->options);
	return 0;
}

void rsock_fini(struct rsock *sock)
{
	sys_close(sock->fd);
	if (sock->end_fd >= 0)
		sys_close(sock->end_fd);
	pthread_mutex_destroy(&sock->lock);
}

void rsock_ref(struct rsock *sock)
{
	atomic_fetch_add_explicit(&sock->refs, 1, memory_order_relaxed);
}

void rsock_put(struct rsock *sock)
{
	if (atomic_fetch_sub_explicit(&sock->refs, 1, memory_order_acq_rel) == 1)
		sock->ops->free(sock);
}

int rsock_watch(struct rsock *sock, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(sock->fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int rsock_watch_events(struct rsock *sock, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(sock->fd, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
}

void rsock_unwatch(struct rsock *sock, int fd)
{
	if (epoll_ctl(sock->fd, EPOLL_CTL_DEL, fd, NULL))
		log_debug("rsocket %d: cannot remove descriptor %d from its epoll set: %m",
			  sock->fd, fd);
}

void rsock_wake_waiters(struct rsock *sock)
{
	struct wait_link *link;

	list_for_each_entry(link, &sock->waiters, node)
		if (link->is_asleep)
			waiter_signal(link->waiter);
}

void rsock_wake(struct rsock *sock)
{
	sock->changes++;
	rsock_wake_waiters(sock);
}

void rsock_progress(struct rsock *sock, bool is_readable)
{
	if (sock->ops->progress(sock, is_readable))
		rsock_wake_waiters(sock);
}

void rsock_arm(struct rsock *sock)
{
	sock->ops->arm(sock);
}

bool rsock_is_due(struct rsock *sock, uint64_t now_ns)
{
	if (now_ns - sock->looked_ns < LOOK_NS)
		return false;
	sock->looked_ns = now_ns;
	return true;
}

bool rsock_must_not_wait(const struct rsock *sock, int flags)
{
	return flags & MSG_DONTWAIT || atomic_load(&sock->status_flags) & O_NONBLOCK;
}

bool rsock_may_look_again(int ret)
{
	return ret == -EAGAIN || ret == -EINTR || ret == -ENOMEM;
}

int rsock_take_error(struct rsock *sock)
{
	int error = sock->error;

	sock->error = 0;
	return -error;
}

static void socket_ref_object(void *object)
{
	rsock_ref(object);
}

static struct fd_map socks = FD_MAP_INIT(socket_ref_object);

struct rsock *rsock_find(int fd)
{
	return fd_map_get(&socks, fd);
}

int rsock_publish(struct rsock *sock)
{
	void *before;

	return fd_map_set(&socks, sock->fd, sock, &before);
}

void rsock_announce_end(struct rsock *sock)
{
	sock->end_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sock->end_fd < 0 || rsock_watch(sock, sock->end_fd))
		log_debug("rsocket %d is closed, but poll() cannot be woken: %m", sock->fd);
}

struct rsock *rsock_unpublish(int fd)
{
	return fd_map_remove(&socks, fd);
}

void rsock_leave_all(uint64_t deadline_ns)
{
	struct rsock *sock;
	int fd = 0;

	while ((sock = fd_map_next(&socks, &fd))) {
		if (!atomic_load(&sock->is_inherited) && !rsock_is_interrupted(sock)) {
			rsock_lock(sock);
			sock->ops->leave(sock, deadline_ns);
			rsock_unlock(sock);
		}
		rsock_put(sock);
	}
}

/*
 * In the child: the RDMA connections belong to the parent, and the child only closes its copies of
 * the descriptors.
 */
void rsock_after_fork(void)
{
	struct rsock *sock;
	int fd = 0;

	fd_map_after_fork(&socks);
	while ((sock = fd_map_next(&socks, &fd))) {
		atomic_store(&sock->is_inherited, true);
		atomic_store(&sock->is_closing, false);
		rsock_put(sock);
	}
}
