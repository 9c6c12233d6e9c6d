/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd_map.h"
#include "base/syscalls.h"
#include "rsocket/calls.h"
#include "rsocket/repoll.h"
#include "rsocket/repoll_edge.h"
#include "rsocket/socket.h"
#include "rsocket/wait.h"
#include "rsocket/watch.h"

pthread_mutex_t repoll_lock = PTHREAD_MUTEX_INITIALIZER;

static void rsocket_repoll_ref_object(void *object)
{
	struct repoll *set = object;

	atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
}

static struct fd_map sets = FD_MAP_INIT(rsocket_repoll_ref_object);

struct repoll *repoll_find(int fd)
{
	return fd_map_get(&sets, fd);
}

void repoll_put(struct repoll *set)
{
	if (atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1)
		return;
	/*
	 * Not earlier: while a thread polls the descriptor, its number must not be reused for
	 * another file.
	 */
	sys_close(set->fd);
	free(set);
}

/*
 * After a change of the members: wakes the threads that wait for this set or for a set that
 * contains it. Locked.
 */
static void changed(struct repoll *set)
{
	struct repoll_member *member;
	struct repoll_wait *wait;

	set->version++;
	list_for_each_entry(wait, &set->waits, node)
		waiter_signal(wait->waiter);
	list_for_each_entry(member, &set->within, in_target)
		changed(member->set);
}

static void rsocket_repoll_member_free(struct repoll_member *member)
{
	list_del(&member->in_set);
	list_del(&member->in_target);
	changed(member->set);
	repoll_edge_close(member);
	free(member);
}

void repoll_forget(struct rsock *sock)
{
	struct repoll_member *member, *next;

	if (!atomic_load(&sock->is_in_repoll))
		return;
	pthread_mutex_lock(&repoll_lock);
	list_for_each_entry_safe(member, next, &sock->memberships, in_target)
		rsocket_repoll_member_free(member);
	pthread_mutex_unlock(&repoll_lock);
}

/*
 * Removes all members of a set that is being closed, and removes the set from the sets that contain
 * it. Locked.
 */
static void set_empty(struct repoll *set)
{
	struct repoll_member *member, *next;

	list_for_each_entry_safe(member, next, &set->members, in_set)
		rsocket_repoll_member_free(member);
	list_for_each_entry_safe(member, next, &set->within, in_target)
		rsocket_repoll_member_free(member);
	set->is_closed = true;
	changed(set);
}

static struct repoll *rsocket_repoll_set_new(int flags)
{
	struct repoll *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->fd = epoll_create1(flags);
	if (set->fd < 0) {
		free(set);
		return NULL;
	}
	set->id = watch_new_id();
	atomic_init(&set->refs, 1);
	list_init(&set->members);
	list_init(&set->within);
	list_init(&set->waits);
	return set;
}

/*
 * Empties a set whose descriptor number was reused for another file. The memory is not freed:
 * threads may still use the set.
 */
static void forget_lost(struct repoll *set)
{
	pthread_mutex_lock(&repoll_lock);
	set_empty(set);
	pthread_mutex_unlock(&repoll_lock);
}

int repoll_create(int flags)
{
	struct repoll *set;
	void *before;
	int ret;

	/*
	 * As in rdma-core, O_NONBLOCK is accepted and has no effect: the timeout of repoll_wait()
	 * determines whether it waits.
	 */
	calls_init();
	set = rsocket_repoll_set_new(flags & ~O_NONBLOCK);
	if (!set)
		return -1;
	ret = fd_map_set(&sets, set->fd, set, &before);
	if (ret) {
		sys_close(set->fd);
		free(set);
		return (int)call_result(ret);
	}
	/*
	 * An earlier set whose descriptor was closed by close(2). The new set has the same number.
	 */
	if (before)
		forget_lost(before);
	return set->fd;
}

int repoll_close(int fd)
{
	struct repoll *set = fd_map_remove(&sets, fd);

	if (!set)
		return -EBADF;
	pthread_mutex_lock(&repoll_lock);
	set_empty(set);
	pthread_mutex_unlock(&repoll_lock);
	repoll_put(set);
	return 0;
}

/*
 * Nesting depth of the sets below this set. A depth above REPOLL_DEPTH_MAX is not counted exactly.
 * Locked.
 */
static unsigned int depth_of(const struct repoll *set, unsigned int level)
{
	const struct repoll_member *member;
	unsigned int most = 0;

	if (level > REPOLL_DEPTH_MAX)
		return 0;
	list_for_each_entry(member, &set->members, in_set) {
		unsigned int depth = member->nested ? 1 + depth_of(member->nested, level + 1) : 0;

		most = depth > most ? depth : most;
	}
	return most;
}

static unsigned int height_of(const struct repoll *set, unsigned int level)
{
	const struct repoll_member *member;
	unsigned int most = 0;

	if (level > REPOLL_DEPTH_MAX)
		return 0;
	list_for_each_entry(member, &set->within, in_target) {
		unsigned int height = 1 + height_of(member->set, level + 1);

		most = height > most ? height : most;
	}
	return most;
}

/* Whether `set` is `from` or is nested in it. Locked. */
static bool contains(const struct repoll *from, const struct repoll *set)
{
	const struct repoll_member *member;

	if (from == set)
		return true;
	list_for_each_entry(member, &from->members, in_set)
		if (member->nested && contains(member->nested, set))
			return true;
	return false;
}

/*
 * The descriptor that is added to a set. At most one of the two is not NULL, with a reference; both
 * are NULL for an ordinary descriptor.
 */
struct target {
	struct rsock *sock;
	struct repoll *nested;
};

static struct repoll_member *rsocket_repoll_member_find(struct repoll *set, int fd,
							const struct target *target)
{
	struct repoll_member *member;

	list_for_each_entry(member, &set->members, in_set)
		if (member->fd == fd && member->sock == target->sock &&
		    member->nested == target->nested)
			return member;
	return NULL;
}

static int nesting_check(const struct repoll *set, const struct repoll *nested)
{
	if (contains(nested, set))
		return -ELOOP;
	return height_of(set, 0) + 1 + depth_of(nested, 0) > REPOLL_DEPTH_MAX ? -ELOOP : 0;
}

static void member_set(struct repoll_member *member, const struct epoll_event *event)
{
	member->events = event->events;
	member->data = event->data;
	member->reported = 0;
	member->is_spent = false;
	repoll_edge_close(member);
}

static int rsocket_repoll_add(struct repoll *set, int fd, const struct target *target,
			      const struct epoll_event *event)
{
	struct repoll_member *member;
	int ret = target->nested ? nesting_check(set, target->nested) : 0;

	if (ret)
		return ret;
	if (target->nested && target->nested->is_closed)
		return -EBADF;
	/*
	 * rclose() sets is_closing before it checks is_in_repoll, so one of the two threads sees
	 * the store of the other.
	 */
	if (target->sock) {
		atomic_store(&target->sock->is_in_repoll, true);
		if (atomic_load(&target->sock->is_closing))
			return -EBADF;
	}
	if (rsocket_repoll_member_find(set, fd, target))
		return -EEXIST;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->set = set;
	member->sock = target->sock;
	member->nested = target->nested;
	member->fd = fd;
	member->edge_fd = -1;
	member_set(member, event);
	list_add_tail(&member->in_set, &set->members);
	list_add_tail(&member->in_target,
		      target->sock ? &target->sock->memberships : &target->nested->within);
	return 0;
}

static int rsocket_repoll_change(struct repoll *set, int fd, const struct target *target,
				 const struct epoll_event *event)
{
	struct repoll_member *member = rsocket_repoll_member_find(set, fd, target);

	if (!member)
		return -ENOENT;
	if (member->events & EPOLLEXCLUSIVE)
		return -EINVAL;
	member_set(member, event);
	return 0;
}

static int rsocket_repoll_drop(struct repoll *set, int fd, const struct target *target)
{
	struct repoll_member *member = rsocket_repoll_member_find(set, fd, target);

	if (!member)
		return -ENOENT;
	rsocket_repoll_member_free(member);
	return 0;
}

/* The conditions of epoll_ctl(2) for EPOLLEXCLUSIVE. */
#define EXCLUSIVE_WITH \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

static bool is_exclusive_valid(int op, const struct target *target, uint32_t events)
{
	return !(events & EPOLLEXCLUSIVE) ||
	       (op == EPOLL_CTL_ADD && !target->nested && !(events & ~(uint32_t)EXCLUSIVE_WITH));
}

static int rsocket_repoll_control(struct repoll *set, int op, int fd, const struct target *target,
				  const struct epoll_event *event)
{
	switch (op) {
	case EPOLL_CTL_ADD:
		return rsocket_repoll_add(set, fd, target, event);
	case EPOLL_CTL_MOD:
		return rsocket_repoll_change(set, fd, target, event);
	case EPOLL_CTL_DEL:
		return rsocket_repoll_drop(set, fd, target);
	default:
		return -EINVAL;
	}
}

static int control_target(struct repoll *set, int op, int fd, const struct target *target,
			  struct epoll_event *event)
{
	int ret;

	if (!target->sock && !target->nested)
		return epoll_ctl(set->fd, op, fd, event) ? -errno : 0;
	if (target->nested == set)
		return -EINVAL;
	if (target->sock && atomic_load(&target->sock->is_inherited))
		return -ENODEV;
	if (op != EPOLL_CTL_DEL && !event)
		return -EFAULT;
	if (op != EPOLL_CTL_DEL && !is_exclusive_valid(op, target, event->events))
		return -EINVAL;
	pthread_mutex_lock(&repoll_lock);
	ret = set->is_closed ? -EBADF : rsocket_repoll_control(set, op, fd, target, event);
	if (!ret)
		changed(set);
	pthread_mutex_unlock(&repoll_lock);
	return ret;
}

/* Returns a positive errno, as rdma-core does. */
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct repoll *set = repoll_find(epfd);
	struct target target = {0};
	int ret;

	if (!set)
		return EINVAL;
	target.sock = rsock_find(fd);
	if (!target.sock)
		target.nested = repoll_find(fd);
	ret = control_target(set, op, fd, &target, event);
	if (target.sock)
		rsock_put(target.sock);
	if (target.nested)
		repoll_put(target.nested);
	repoll_put(set);
	return -ret;
}

void repoll_before_fork(void)
{
	pthread_mutex_lock(&repoll_lock);
}

void repoll_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&repoll_lock);
}

/*
 * The remaining references and waits belong to threads of the parent, which must not be signalled.
 */
void repoll_after_fork_in_child(void)
{
	struct repoll *set;
	int fd = 0;

	pthread_mutex_init(&repoll_lock, NULL);
	fd_map_after_fork(&sets);
	while ((set = fd_map_next(&sets, &fd))) {
		list_init(&set->waits);
		atomic_store(&set->refs, 1);
	}
}
