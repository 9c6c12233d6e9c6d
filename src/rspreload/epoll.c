/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd_map.h"
#include "base/syscalls.h"
#include "rspreload/epoll_set.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/real.h"

#define MEMBERS_MAX (1u << 20)

pthread_mutex_t epoll_sets_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t epoll_nesting_lock = PTHREAD_MUTEX_INITIALIZER;

/* The numbers of epoll descriptors, one bit each. */
#define MARK_BITS    64
#define MARK_NUMBERS (FD_MAP_PAGES * FD_MAP_PAGE_SLOTS)
static _Atomic uint64_t marks[MARK_NUMBERS / MARK_BITS];
/* No higher number was ever marked. */
static atomic_int highest_mark = -1;
/*
 * The process whose numbers are marked. The child of a vfork(), which shares the memory, must not
 * remove marks.
 */
static atomic_int marks_owner;

static uint64_t mark_bit(int number)
{
	return UINT64_C(1) << number % MARK_BITS;
}

void epoll_mark(int number)
{
	int highest = atomic_load(&highest_mark);

	if (number < 0 || number >= MARK_NUMBERS)
		return;
	if (!atomic_load(&marks_owner))
		atomic_store(&marks_owner, getpid());
	atomic_fetch_or(&marks[number / MARK_BITS], mark_bit(number));
	while (highest < number && !atomic_compare_exchange_weak(&highest_mark, &highest, number))
		;
}

bool epoll_is_marked(int number)
{
	return number >= 0 && number < MARK_NUMBERS &&
	       atomic_load_explicit(&marks[number / MARK_BITS], memory_order_relaxed) &
		       mark_bit(number);
}

void epoll_unmark(int number)
{
	if (epoll_is_marked(number) && getpid() == atomic_load(&marks_owner))
		atomic_fetch_and(&marks[number / MARK_BITS], ~mark_bit(number));
}

void epoll_unmark_range(unsigned first, unsigned last)
{
	int highest = atomic_load(&highest_mark);

	for (unsigned number = first; highest >= 0 && number <= last && number <= (unsigned)highest;
	     number++)
		epoll_unmark((int)number);
}

void epoll_before_fork(void)
{
	pthread_mutex_lock(&epoll_nesting_lock);
	pthread_mutex_lock(&epoll_sets_lock);
}

void epoll_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&epoll_sets_lock);
	pthread_mutex_unlock(&epoll_nesting_lock);
}

/*
 * librdmacm's fork handler may run after this one. Therefore the sets are changed when they are
 * used next.
 */
void epoll_after_fork_in_child(void)
{
	pthread_mutex_init(&epoll_nesting_lock, NULL);
	pthread_mutex_init(&epoll_sets_lock, NULL);
	if (atomic_load(&marks_owner))
		atomic_store(&marks_owner, getpid());
	epoll_sets_inherited();
	epoll_sleep_after_fork_in_child();
}

void epoll_set_free(struct epoll_set *set)
{
	struct epoll_member *member, *next;

	if (!set)
		return;
	pthread_mutex_lock(&epoll_sets_lock);
	list_for_each_entry_safe(member, next, &set->members, in_set)
		epoll_member_free(member);
	if (set->wake)
		epoll_wake_orphan(set->wake);
	pthread_mutex_unlock(&epoll_sets_lock);
	if (set->repoll >= 0)
		rclose(set->repoll);
	real_close(set->kernel_fd);
	id_table_fini(&set->handles);
	free(set);
}

/*
 * Creates a sock for an epoll descriptor, or finds the sock that another thread has created for it.
 * 0 or -errno. *sock is returned with a reference.
 */
static int epoll_name(int epoll, struct sock **sock)
{
	struct sock *made = sock_new(SOCK_EPOLL, 0, 0);
	struct stat stat;
	int ret;

	*sock = NULL;
	if (!made)
		return -ENOMEM;
	if (!real.fstat(epoll, &stat))
		made->inode = stat.st_ino;
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

/*
 * epoll_pwait(2) checks the address of the events when it stores one: it returns 0 or EFAULT for an
 * epoll descriptor, and EINVAL for another descriptor. Events stay pending.
 */
static bool is_epoll(int number)
{
	return !sys_epoll_look(number, NULL, 1) || errno == EFAULT;
}

void epoll_mark_received(int number)
{
	int error = errno;

	if (!epoll_is_marked(number) && is_epoll(number))
		epoll_mark(number);
	errno = error;
}

struct sock *epoll_sock(int number)
{
	struct sock *sock = NULL;
	int error = errno;

	if (repoll_calls() && is_epoll(number) && epoll_name(number, &sock) && sock) {
		sock_put(sock);
		sock = NULL;
	}
	errno = error;
	return sock;
}

static int epoll_set_new(int epoll, struct epoll_set **made)
{
	struct epoll_set *set;

	if (!repoll_calls())
		return -EOPNOTSUPP;
	if (!is_epoll(epoll))
		return -errno;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	list_init(&set->members);
	id_table_init(&set->handles, MEMBERS_MAX);
	set->generation = epoll_generation();
	set->repoll = -1;
	set->kernel_fd = real.fcntl(epoll, F_DUPFD_CLOEXEC, 0);
	if (set->kernel_fd < 0) {
		int ret = -errno;

		free(set);
		return ret;
	}
	sock_number_reused(set->kernel_fd, __builtin_return_address(0));
	*made = set;
	return 0;
}

/*
 * Gives the sock this set, unless another thread has given it one; *set is NULL afterwards if the
 * sock has taken it.
 */
static void set_install(struct sock *sock, struct epoll_set **set)
{
	struct epoll_set *none = NULL;

	(*set)->owner = sock;
	if (atomic_compare_exchange_strong(&sock->set, &none, *set))
		*set = NULL;
}

/*
 * The sock of an epoll descriptor with a set, with a reference. A missing sock and a missing set
 * are created.
 */
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

static int control_set(struct epoll_set *set, int op, int number, struct sock *sock,
		       const struct epoll_event *event)
{
	struct epoll_own_set *own = NULL;
	int ret;

	for (;;) {
		pthread_mutex_lock(&epoll_sets_lock);
		ret = epoll_member_control(set, op, number, sock, event, &own);
		pthread_mutex_unlock(&epoll_sets_lock);
		if (ret != -ENOTUNIQ || own)
			break;
		ret = epoll_own_set_new(&own);
		if (ret)
			break;
	}
	if (own)
		epoll_own_set_put(own);
	return ret;
}

bool epoll_is_active(struct sock *sock)
{
	struct epoll_set *set = atomic_load(&sock->set);

	return set && atomic_load(&set->is_active);
}

int epoll_repoll(struct sock *sock)
{
	struct epoll_set *set = atomic_load(&sock->set);
	int cancel_state = cancel_disable();
	int ret = epoll_set_ready(set);

	cancel_restore(cancel_state);
	return ret ? ret : set->repoll;
}

/* EPOLL_CTL_DEL in a set without `members`: the kernel's result. */
static int delete_from_kernel(int epoll, int number)
{
	return real.epoll_ctl(epoll, EPOLL_CTL_DEL, number, NULL) ? -errno : 0;
}

/* The case in which the set or the nesting of sets changes. The caller holds epoll_nesting_lock. */
static int control_nesting(int epoll, int op, int number, struct sock *sock,
			   const struct epoll_event *event)
{
	bool is_set = sock_kind_of(sock) == SOCK_EPOLL;
	struct sock *owner;
	int ret = sock_of(epoll, &owner);

	if (ret)
		return ret;
	if (op != EPOLL_CTL_DEL && (!is_set || epoll_is_active(sock)))
		ret = epoll_activate(owner);
	if (!ret && epoll_is_active(owner))
		ret = epoll_set_ready_locked(atomic_load(&owner->set));
	if (!ret && is_set && epoll_is_active(sock))
		ret = epoll_set_ready_locked(atomic_load(&sock->set));
	if (!ret)
		ret = control_set(atomic_load(&owner->set), op, number, sock, event);
	sock_put(owner);
	return ret;
}

static int control_uncancelled(int epoll, int op, int number, struct sock *sock,
			       const struct epoll_event *event)
{
	bool is_set = sock_kind_of(sock) == SOCK_EPOLL;
	struct sock *owner = sock_find(epoll);
	struct epoll_set *set = owner ? atomic_load(&owner->set) : NULL;
	int ret;

	if (op == EPOLL_CTL_DEL && !set) {
		ret = delete_from_kernel(epoll, number);
	} else if (set && !is_set && epoll_is_active(owner)) {
		ret = epoll_set_ready(set);
		if (!ret)
			ret = control_set(set, op, number, sock, event);
	} else {
		pthread_mutex_lock(&epoll_nesting_lock);
		ret = control_nesting(epoll, op, number, sock, event);
		pthread_mutex_unlock(&epoll_nesting_lock);
	}
	if (owner)
		sock_put(owner);
	return ret;
}

int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
{
	int cancel_state = cancel_disable();
	int ret = -EFAULT;

	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		ret = -EINVAL;
	else if (op == EPOLL_CTL_DEL || event)
		ret = control_uncancelled(epoll, op, number, sock, event);
	cancel_restore(cancel_state);
	return ret;
}
