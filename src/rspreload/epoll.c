/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/syscalls.h"
#include "rspreload/epoll_set.h"
#include "rspreload/real.h"

#define MEMBERS_MAX (1u << 20)

pthread_mutex_t epoll_sets_lock = PTHREAD_MUTEX_INITIALIZER;
/* Incremented in the child of each fork(). A set with another generation still has the parent's repoll set. */
static unsigned generation;

void epoll_before_fork(void)
{
	pthread_mutex_lock(&epoll_sets_lock);
}

void epoll_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&epoll_sets_lock);
}

/* librdmacm's fork handler may run after this one. Therefore the sets are changed when they are used next. */
void epoll_after_fork_in_child(void)
{
	pthread_mutex_init(&epoll_sets_lock, NULL);
	generation++;
}

void epoll_set_free(struct epoll_set *set)
{
	struct epoll_member *member, *next;

	if (!set)
		return;
	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry_safe(member, next, &set->members, in_set)
		epoll_member_free(member);
	pthread_mutex_unlock(&epoll_sets_lock);
	if (set->repoll >= 0)
		rclose(set->repoll);
	real_close(set->kernel_fd);
	id_table_fini(&set->handles);
	free(set);
}

/* Creates a repoll set with the kernel's set as its member. Returns the descriptor, or -errno. */
static int repoll_new(int kernel_fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = EPOLL_KERNEL_HANDLE};
	int repoll, ret;

	if (!repoll_calls())
		return -EOPNOTSUPP;
	repoll = repoll_calls()->create(EPOLL_CLOEXEC);
	if (repoll < 0)
		return -errno;
	ret = repoll_calls()->ctl(repoll, EPOLL_CTL_ADD, kernel_fd, &event);
	if (!ret)
		return repoll;
	rclose(repoll);
	/* epoll_ctl() fails with EINVAL if the descriptor is not an epoll descriptor. */
	return ret == EPERM ? -EINVAL : -ret;
}

/*
 * Creates a sock for an epoll descriptor, or finds the sock that another thread has created for it. 0 or -errno. *sock is
 * returned with a reference.
 */
static int epoll_name(int epoll, struct sock **sock)
{
	struct sock *made = sock_new(SOCK_EPOLL, 0, 0);
	int ret;

	*sock = NULL;
	if (!made)
		return -ENOMEM;
	sock_ref(made);
	ret = sock_name_unnamed(made, epoll, sock);
	if (!ret) {
		*sock = made;
		return 0;
	}
	sock_put(made);
	sock_put(made);
	if (ret != -EEXIST)
		return ret;
	return sock_kind_of(*sock) == SOCK_EPOLL ? 0 : -EINVAL;
}

struct sock *epoll_duplicated(int number)
{
	struct sock *sock;

	/*
	 * epoll_pwait(2) checks the address of the events when it stores one: it returns 0 or EFAULT for an epoll descriptor,
	 * and EINVAL for another descriptor. Events stay pending.
	 */
	if (sys_epoll_look(number, NULL, 1) && errno != EFAULT)
		return NULL;
	if (!epoll_name(number, &sock))
		return sock;
	if (sock)
		sock_put(sock);
	return NULL;
}

static int epoll_set_new(int epoll, struct epoll_set **made)
{
	struct epoll_set *set = calloc(1, sizeof(*set));
	int ret;

	if (!set)
		return -ENOMEM;
	list_init(&set->members);
	id_table_init(&set->handles, MEMBERS_MAX);
	set->generation = generation;
	set->kernel_fd = real.fcntl(epoll, F_DUPFD_CLOEXEC, 0);
	ret = set->kernel_fd < 0 ? -errno : 0;
	if (ret)
		goto err_kernel;
	sock_number_reused(set->kernel_fd, __builtin_return_address(0));
	set->repoll = repoll_new(set->kernel_fd);
	ret = set->repoll < 0 ? set->repoll : 0;
	if (ret)
		goto err_repoll;
	/* Fails with EINVAL if the descriptor is not an epoll descriptor, else with ENOENT. */
	real.epoll_ctl(epoll, EPOLL_CTL_DEL, set->repoll, NULL);
	ret = errno == ENOENT ? 0 : -errno;
	if (!ret) {
		*made = set;
		return 0;
	}
	rclose(set->repoll);
err_repoll:
	real_close(set->kernel_fd);
err_kernel:
	free(set);
	return ret;
}

/* Gives the sock this set, unless another thread has given it one; *set is NULL afterwards if the sock has taken it. */
static void set_install(struct sock *sock, struct epoll_set **set)
{
	struct epoll_set *none = NULL;

	if (atomic_compare_exchange_strong(&sock->set, &none, *set))
		*set = NULL;
}

/* The sock of an epoll descriptor with a set, with a reference. A missing sock and a missing set are created. */
static int sock_of(int epoll, struct sock **sock)
{
	struct epoll_set *set = NULL;
	int ret = 0;

	*sock = sock_find(epoll);
	if (*sock && sock_kind_of(*sock) != SOCK_EPOLL)
		ret = -EINVAL;
	else if (!*sock || !atomic_load(&(*sock)->set))
		ret = epoll_set_new(epoll, &set);
	if (!ret && !*sock)
		ret = epoll_name(epoll, sock);
	if (!ret && set)
		set_install(*sock, &set);
	epoll_set_free(set);
	if (ret && *sock)
		sock_put(*sock);
	return ret;
}

void epoll_set_disinherit(struct epoll_set *set)
{
	struct epoll_member *member, *next;

	if (set->generation == generation)
		return;
	set->generation = generation;
	rclose(set->repoll);
	set->repoll = -1;
	list_for_each_entry_safe(member, next, &set->members, in_set)
		if (!member->is_kernels)
			epoll_member_free(member);
}

int epoll_set_ready(struct epoll_set *set)
{
	int repoll;

	pthread_mutex_lock(&epoll_sets_lock);
	epoll_set_disinherit(set);
	repoll = set->repoll;
	pthread_mutex_unlock(&epoll_sets_lock);
	if (repoll >= 0)
		return 0;
	repoll = repoll_new(set->kernel_fd);
	if (repoll < 0)
		return repoll;
	pthread_mutex_lock(&epoll_sets_lock);
	if (set->repoll < 0) {
		set->repoll = repoll;
		repoll = -1;
		epoll_members_watch(set);
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	/* Another thread has set set->repoll already. */
	if (repoll >= 0)
		rclose(repoll);
	return 0;
}

static int control_set(struct epoll_set *set, int op, int number, struct sock *sock,
		       const struct epoll_event *event)
{
	struct epoll_set *nested = atomic_load(&sock->set);
	struct epoll_own_set *own = NULL;
	int ret = epoll_set_ready(set);

	if (!ret && nested)
		ret = epoll_set_ready(nested);
	while (!ret) {
		pthread_mutex_lock(&epoll_sets_lock);
		ret = epoll_member_control(set, op, number, sock, event, &own);
		pthread_mutex_unlock(&epoll_sets_lock);
		if (ret != -ENOTUNIQ || own)
			break;
		ret = epoll_own_set_new(&own);
	}
	if (own)
		epoll_own_set_put(own);
	return ret;
}

int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
{
	int cancel_state = cancel_disable();
	struct sock *owner;
	int ret = op != EPOLL_CTL_DEL && !event ? -EFAULT : sock_of(epoll, &owner);

	if (!ret) {
		ret = control_set(atomic_load(&owner->set), op, number, sock, event);
		sock_put(owner);
	}
	cancel_restore(cancel_state);
	return ret;
}
