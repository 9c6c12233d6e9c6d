/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "rspreload/epoll.h"
#include "rspreload/epoll_set.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"

/* Events that the kernel keeps when it disables a one-shot member. */
#define PRIVATE_EVENTS (EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE)

/* The events that EPOLLEXCLUSIVE can be combined with (epoll_ctl(2)). */
#define EXCLUSIVE_WITH \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

void epoll_own_set_put(struct epoll_own_set *own)
{
	if (atomic_fetch_sub(&own->refs, 1) > 1)
		return;
	rclose(own->fd);
	free(own);
}

int epoll_own_set_new(struct epoll_own_set **made)
{
	struct epoll_own_set *own = malloc(sizeof(*own));
	int ret;

	if (!own)
		return -ENOMEM;
	atomic_init(&own->refs, 1);
	own->fd = repoll_calls()->create(EPOLL_CLOEXEC);
	if (own->fd >= 0) {
		*made = own;
		return 0;
	}
	ret = -errno;
	free(own);
	return ret;
}

/* The descriptor by which the repoll set identifies a member that is not the kernel's. */
static int repoll_fd_of(const struct epoll_member *member)
{
	struct epoll_set *nested = atomic_load(&member->sock->set);

	return sock_kind_of(member->sock) == SOCK_EPOLL ? nested->repoll : member->sock->rsocket;
}

void epoll_member_unwatch(struct epoll_member *member)
{
	if (!member->is_watched)
		return;
	repoll_calls()->ctl(member->set->repoll, EPOLL_CTL_DEL,
			    member->own ? member->own->fd : repoll_fd_of(member), NULL);
	member->is_watched = false;
}

/*
 * Adds a member to the repoll set, by its own repoll set if the repoll set has another number of
 * the same socket. 0 or -errno. The caller holds epoll_sets_lock.
 */
static int member_watch(struct epoll_member *member)
{
	struct epoll_event event = {.events = member->is_disabled ? 0 : member->events,
				    .data.u64 = member->handle};
	int repoll = member->set->repoll, fd = repoll_fd_of(member);
	int ret = repoll_calls()->ctl(repoll, EPOLL_CTL_ADD, fd, &event);

	if (!ret && member->own) {
		epoll_own_set_put(member->own);
		member->own = NULL;
	} else if (ret == EEXIST && member->own) {
		ret = repoll_calls()->ctl(member->own->fd, EPOLL_CTL_ADD, fd, &event);
		event.events = EPOLLIN;
		if (!ret)
			ret = repoll_calls()->ctl(repoll, EPOLL_CTL_ADD, member->own->fd, &event);
	}
	member->is_watched = !ret;
	return -ret;
}

/* The same where the caller cannot report an error to the program. */
static void member_watch_or_warn(struct epoll_member *member)
{
	int ret;

	/* epoll_set_ready() adds the member when a fork()ed child uses the set. */
	if (member->is_watched || member->set->repoll < 0)
		return;
	/* A set without events is not reported, but librdmacm must find loops of sets. */
	if (member->is_disabled && sock_kind_of(member->sock) != SOCK_EPOLL)
		return;
	ret = member_watch(member);
	if (ret)
		log_warn("cannot add socket %d to an epoll set: %s", member->number,
			 strerror(-ret));
}

void epoll_members_watch(struct epoll_set *set)
{
	struct epoll_member *member;

	list_for_each_entry(member, &set->members, in_set)
		if (!member->is_kernels)
			member_watch_or_warn(member);
}

void epoll_member_free(struct epoll_member *member)
{
	epoll_member_unwatch(member);
	if (member->own)
		epoll_own_set_put(member->own);
	id_table_remove(&member->set->handles, member->handle);
	list_del(&member->in_set);
	list_del(&member->in_sock);
	free(member);
}

static int kernel_control(const struct epoll_set *set, int op, int number, uint32_t events,
			  epoll_data_t data)
{
	struct epoll_event event = {.events = events, .data = data};

	return real.epoll_ctl(set->kernel_fd, op, number, &event) ? -errno : 0;
}

/* Any number of the socket in this set, or only `number` if it is not negative. */
static struct epoll_member *epoll_find(const struct epoll_set *set, int number, struct sock *sock)
{
	struct epoll_member *member;

	list_for_each_entry(member, &sock->members, in_sock)
		if (member->set == set && (number < 0 || member->number == number))
			return member;
	return NULL;
}

/* 0 or -errno. The caller lists the member afterwards. */
static int member_begin(struct epoll_member *member)
{
	int ret = id_table_add(&member->set->handles, member, &member->handle);

	if (ret)
		return ret;
	ret = member->is_kernels ? kernel_control(member->set, EPOLL_CTL_ADD, member->number,
						  member->events, member->data) :
				   member_watch(member);
	if (ret)
		id_table_remove(&member->set->handles, member->handle);
	return ret;
}

static int epoll_add(struct epoll_set *set, int number, struct sock *sock,
		     const struct epoll_event *event, struct epoll_own_set **own)
{
	enum sock_kind kind = sock_kind_of(sock);
	struct epoll_member *member;
	int ret;

	/*
	 * epoll_forget() sets is_ended before it reads is_in_epoll, so one of the two threads sees
	 * the store of the other.
	 */
	atomic_store(&sock->is_in_epoll, true);
	if (atomic_load(&sock->is_ended))
		return -EBADF;
	if (epoll_find(set, number, sock))
		return -EEXIST;
	if (!*own && epoll_find(set, -1, sock))
		return -ENOTUNIQ;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	*member = (struct epoll_member){
		.set = set,
		.sock = sock,
		.number = number,
		.events = event->events,
		.data = event->data,
		.own = *own,
		.is_kernels = kind != SOCK_RDMA && !epoll_is_active(sock),
	};
	ret = member_begin(member);
	if (ret) {
		free(member);
		return ret;
	}
	*own = NULL;
	list_add_tail(&member->in_set, &set->members);
	list_add_tail(&member->in_sock, &sock->members);
	return 0;
}

static int repoll_change(struct epoll_member *member, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = member->handle};
	int repoll = member->own ? member->own->fd : member->set->repoll;

	return -repoll_calls()->ctl(repoll, EPOLL_CTL_MOD, repoll_fd_of(member), &event);
}

bool epoll_member_discard_wake_up(struct epoll_member *member)
{
	struct pollfd pollfd = {.events = POLLIN};
	int ret;

	if (!member->is_watched || sock_kind_of(member->sock) != SOCK_EPOLL)
		return false;
	pollfd.fd = repoll_fd_of(member);
	epoll_wake_pause();
	ret = preload_rpoll(&pollfd, 1, 0, NULL);
	epoll_wake_resume();
	if (!ret)
		(void)!repoll_change(member, member->events);
	return !ret;
}

/* Whether the repoll set has another number of the member's socket. */
static bool has_watched_number(const struct epoll_member *member)
{
	struct epoll_member *other;

	list_for_each_entry(other, &member->sock->members, in_sock)
		if (other != member && other->set == member->set && other->is_watched)
			return true;
	return false;
}

/* EPOLL_CTL_MOD enables a member that is not watched because it was disabled. */
static int member_watch_enabled(struct epoll_member *member)
{
	bool was_disabled = member->is_disabled;
	int ret;

	member->is_disabled = false;
	ret = member_watch(member);
	if (ret)
		member->is_disabled = was_disabled;
	return ret;
}

static int epoll_change(struct epoll_member *member, const struct epoll_event *event,
			struct epoll_own_set **own)
{
	uint32_t before = member->events;
	int ret;

	if (member->is_disabled && !member->is_watched && !member->own &&
	    has_watched_number(member)) {
		if (!*own)
			return -ENOTUNIQ;
		member->own = *own;
		*own = NULL;
	}
	member->events = event->events;
	if (member->is_kernels)
		ret = kernel_control(member->set, EPOLL_CTL_MOD, member->number, event->events,
				     event->data);
	else if (member->is_watched)
		ret = repoll_change(member, event->events);
	else
		ret = member_watch_enabled(member);
	if (ret) {
		member->events = before;
		return ret;
	}
	member->data = event->data;
	member->is_disabled = false;
	return 0;
}

static int epoll_drop(struct epoll_member *member)
{
	if (member->is_kernels)
		kernel_control(member->set, EPOLL_CTL_DEL, member->number, 0, member->data);
	epoll_member_free(member);
	return 0;
}

/*
 * EPOLL_CTL_ADD, EPOLL_CTL_MOD and EPOLL_CTL_DEL for an epoll descriptor that is not in `members`.
 * It may be a member of the kernel's set, to which the program added it before execve() or by a
 * system call. EPOLL_CTL_MOD makes it a member of this module.
 */
static int nested_control(struct epoll_set *set, int op, int number, struct sock *sock,
			  const struct epoll_event *event, struct epoll_own_set **own)
{
	const epoll_data_t none = {0};
	int ret;

	if (op == EPOLL_CTL_ADD && !epoll_is_active(sock))
		return epoll_add(set, number, sock, event, own);
	if (op == EPOLL_CTL_ADD) {
		/*
		 * Fails with EEXIST if it is a member of the kernel's set, and with EINVAL if it is
		 * the set itself.
		 */
		ret = kernel_control(set, EPOLL_CTL_ADD, number, 0, none);
		/*
		 * The kernel's sets may be nested too deep, although the repoll sets are not.
		 * librdmacm finds loops.
		 */
		if (ret == -ELOOP)
			return epoll_add(set, number, sock, event, own);
		if (ret)
			return ret;
	}
	ret = kernel_control(set, EPOLL_CTL_DEL, number, 0, none);
	return ret || op == EPOLL_CTL_DEL ? ret : epoll_add(set, number, sock, event, own);
}

int epoll_member_control(struct epoll_set *set, int op, int number, struct sock *sock,
			 const struct epoll_event *event, struct epoll_own_set **own)
{
	enum sock_kind kind = sock_kind_of(sock);
	struct epoll_member *member;

	/* Another thread has replaced the rsocket by a socket of the kernel. */
	if (kind == SOCK_PLAIN)
		return real.epoll_ctl(set->kernel_fd, op, number, (struct epoll_event *)event) ?
			       -errno :
			       0;
	member = epoll_find(set, number, sock);
	/* epoll_ctl(2) checks this condition before it looks for the member. */
	if (op != EPOLL_CTL_DEL && event->events & EPOLLEXCLUSIVE &&
	    (op == EPOLL_CTL_MOD || kind == SOCK_EPOLL ||
	     event->events & ~(uint32_t)EXCLUSIVE_WITH))
		return -EINVAL;
	if (!member && kind == SOCK_EPOLL)
		return nested_control(set, op, number, sock, event, own);
	if (op == EPOLL_CTL_ADD)
		return epoll_add(set, number, sock, event, own);
	if (!member)
		return -ENOENT;
	return op == EPOLL_CTL_MOD ? epoll_change(member, event, own) : epoll_drop(member);
}

/*
 * Whether the kernel has reported this one-shot member and disabled it. Read from the members of
 * the set in fdinfo (proc(5)); if the file cannot be read, the member is not disabled.
 */
static bool is_disabled_by_kernel(const struct epoll_member *member)
{
	int cancel_state = cancel_disable();
	char line[256];
	bool is_disabled = false;
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", member->set->kernel_fd);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long inode = 0;
		unsigned events;
		int number;

		if (sscanf(line, "tfd: %d events: %x data: %*x pos:%*d ino:%lx", &number, &events,
			   &inode) < 2)
			continue;
		/* A member whose number was closed may have the same number. */
		if (number == member->number && (!inode || inode == member->sock->inode))
			is_disabled = !(events & ~PRIVATE_EVENTS);
	}
	if (file)
		fclose(file);
	cancel_restore(cancel_state);
	return is_disabled;
}

/*
 * The kernel's set would report the end of the TCP connection, also after this process has closed
 * the TCP socket.
 */
static void leave_kernel(struct epoll_member *member)
{
	epoll_set_disinherit(member->set);
	if (member->events & EPOLLONESHOT)
		member->is_disabled = is_disabled_by_kernel(member);
	/* A closed number may refer to another file now. */
	if (sock_has_number(member->sock, member->number))
		kernel_control(member->set, EPOLL_CTL_DEL, member->number, 0, member->data);
	member->is_kernels = false;
}

void epoll_change_to_rdma(struct sock *sock)
{
	struct epoll_member *member;

	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry(member, &sock->members, in_sock)
		leave_kernel(member);
}

void epoll_now_rdma(struct sock *sock)
{
	struct epoll_member *member;

	list_for_each_entry(member, &sock->members, in_sock)
		member_watch_or_warn(member);
	pthread_mutex_unlock(&epoll_sets_lock);
}

void epoll_member_activated(struct sock *sock)
{
	struct epoll_member *member;

	list_for_each_entry(member, &sock->members, in_sock) {
		if (member->is_kernels)
			leave_kernel(member);
		member_watch_or_warn(member);
	}
}

void epoll_now_plain(struct sock *sock)
{
	struct epoll_member *member, *next;

	pthread_mutex_lock(&epoll_sets_lock);
	atomic_store(&sock->kind, SOCK_PLAIN);
	list_for_each_entry_safe(member, next, &sock->members, in_sock) {
		/* A closed number may refer to another file now. */
		if (!member->is_kernels && sock_has_number(sock, member->number))
			kernel_control(member->set, EPOLL_CTL_ADD, member->number, member->events,
				       member->data);
		epoll_member_free(member);
	}
	pthread_mutex_unlock(&epoll_sets_lock);
}

void epoll_forget(struct sock *sock)
{
	struct epoll_member *member, *next;

	atomic_store(&sock->is_ended, true);
	if (!atomic_load(&sock->is_in_epoll))
		return;
	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry_safe(member, next, &sock->members, in_sock)
		epoll_member_free(member);
	pthread_mutex_unlock(&epoll_sets_lock);
}
