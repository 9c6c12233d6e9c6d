/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

#include "rspreload/epoll.h"
#include "rspreload/epoll_set.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/real.h"

/*
 * Repoll sets of epoll descriptors: when the first socket of this library is added, and in the
 * child of a fork().
 */

/*
 * Incremented in the child of each fork(). A set with another generation still has the parent's
 * repoll set.
 */
static unsigned generation;

void epoll_sets_inherited(void)
{
	generation++;
}

unsigned epoll_generation(void)
{
	return generation;
}

/* Creates a repoll set with the kernel's set as its member. Returns the descriptor, or -errno. */
static int repoll_new(int kernel_fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = EPOLL_KERNEL_HANDLE};
	int repoll, ret;

	repoll = repoll_calls()->create(EPOLL_CLOEXEC);
	if (repoll < 0)
		return -errno;
	ret = repoll_calls()->ctl(repoll, EPOLL_CTL_ADD, kernel_fd, &event);
	if (!ret)
		return repoll;
	rclose(repoll);
	return -ret;
}

/*
 * An inactive set of which the set is a member: the sock of its descriptor with a reference, or
 * NULL.
 */
static struct sock *inactive_outer(struct sock *sock)
{
	struct epoll_member *member;
	struct sock *outer = NULL;

	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry(member, &sock->members, in_sock) {
		if (atomic_load(&member->set->is_active))
			continue;
		/* The last reference of the owner is released while its set is being freed. */
		if (sock_ref_if_used(member->set->owner)) {
			outer = member->set->owner;
			break;
		}
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	return outer;
}

static int activate_outer_sets(struct sock *sock)
{
	struct sock *outer;
	int ret = 0;

	while (!ret && (outer = inactive_outer(sock))) {
		ret = epoll_activate(outer);
		sock_put(outer);
	}
	return ret;
}

/*
 * The depth of the recursion is limited by the kernel, which does not nest sets more than 5 levels
 * deep (epoll_ctl(2)).
 */
int epoll_activate(struct sock *owner)
{
	struct epoll_set *set = atomic_load(&owner->set);
	int repoll, ret;

	if (atomic_load(&set->is_active))
		return 0;
	ret = activate_outer_sets(owner);
	if (!ret)
		ret = epoll_wake_new(set->kernel_fd, &set->wake);
	if (ret)
		return ret;
	repoll = repoll_new(set->kernel_fd);
	pthread_mutex_lock(&owner->lock);
	pthread_mutex_lock(&epoll_sets_lock);
	if (repoll >= 0) {
		set->repoll = repoll;
		set->generation = generation;
		atomic_store(&set->is_active, true);
		epoll_member_activated(owner);
		epoll_wake_all(set->wake, owner->numbers, owner->number_count);
	} else {
		epoll_wake_free(set->wake);
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	pthread_mutex_unlock(&owner->lock);
	return repoll < 0 ? repoll : 0;
}

void epoll_set_disinherit(struct epoll_set *set)
{
	struct epoll_member *member, *next;

	if (set->generation == generation)
		return;
	list_for_each_entry_safe(member, next, &set->members, in_set) {
		if (member->is_kernels)
			continue;
		if (sock_kind_of(member->sock) != SOCK_EPOLL) {
			epoll_member_free(member);
			continue;
		}
		epoll_member_unwatch(member);
		if (member->own)
			epoll_own_set_put(member->own);
		member->own = NULL;
	}
	set->generation = generation;
	if (set->repoll >= 0)
		rclose(set->repoll);
	set->repoll = -1;
}

static bool is_ready(struct epoll_set *set)
{
	return set->generation == generation && set->repoll >= 0;
}

/* A set in this set that is not ready: the sock of its descriptor with a reference, or NULL. */
static struct sock *unready_inner(struct epoll_set *set)
{
	struct epoll_member *member;
	struct sock *inner = NULL;

	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry(member, &set->members, in_set) {
		if (member->is_kernels || sock_kind_of(member->sock) != SOCK_EPOLL ||
		    is_ready(atomic_load(&member->sock->set)))
			continue;
		inner = member->sock;
		sock_ref(inner);
		break;
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	return inner;
}

int epoll_set_ready_locked(struct epoll_set *set)
{
	struct sock *inner;
	int repoll, ret = 0;

	pthread_mutex_lock(&epoll_sets_lock);
	epoll_set_disinherit(set);
	repoll = set->repoll;
	pthread_mutex_unlock(&epoll_sets_lock);
	if (repoll >= 0)
		return 0;
	while (!ret && (inner = unready_inner(set))) {
		ret = epoll_set_ready_locked(atomic_load(&inner->set));
		sock_put(inner);
	}
	if (ret)
		return ret;
	repoll = repoll_new(set->kernel_fd);
	if (repoll < 0)
		return repoll;
	pthread_mutex_lock(&epoll_sets_lock);
	set->repoll = repoll;
	epoll_members_watch(set);
	pthread_mutex_unlock(&epoll_sets_lock);
	return 0;
}

int epoll_set_ready(struct epoll_set *set)
{
	bool ready;
	int ret;

	pthread_mutex_lock(&epoll_sets_lock);
	ready = is_ready(set);
	pthread_mutex_unlock(&epoll_sets_lock);
	if (ready)
		return 0;
	pthread_mutex_lock(&epoll_nesting_lock);
	ret = epoll_set_ready_locked(set);
	pthread_mutex_unlock(&epoll_nesting_lock);
	return ret;
}
