/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_map.h"
#include "rspreload/epoll.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

static void preload_sock_ref_object(void *object)
{
	sock_ref(object);
}

static struct fd_map socks = FD_MAP_INIT(preload_sock_ref_object);

/*
 * Guards changes of all arrays sock.numbers, so that fork() copies whole arrays. Acquired after the
 * lock of a sock.
 */
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;

/* The process that owns this memory; the child of a vfork() has another process id. */
static pid_t owner;

bool sock_in_vfork_child(void)
{
	return owner && getpid() != owner;
}

/*
 * At the time of the fork() another thread may hold the lock of a sock while it waits for a peer.
 */
static void preload_sock_after_fork_in_child(void)
{
	struct sock *sock;
	int number = 0;

	if (owner)
		owner = getpid();
	fd_map_after_fork(&socks);
	while ((sock = fd_map_next(&socks, &number))) {
		pthread_mutex_init(&sock->lock, NULL);
		/* Belongs to the parent. */
		sock->listener = -1;
		sock_put(sock);
	}
	pthread_mutex_init(&numbers_lock, NULL);
	epoll_after_fork_in_child();
	stdio_after_fork_in_child();
}

static void preload_sock_before_fork(void)
{
	epoll_before_fork();
	stdio_before_fork();
	pthread_mutex_lock(&numbers_lock);
}

static void preload_sock_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&numbers_lock);
	stdio_after_fork_in_parent();
	epoll_after_fork_in_parent();
}

/*
 * librdmacm registers its fork handlers at its first call, which is made here. fork() runs its
 * prepare handlers in reverse order, so that it acquires the locks of this library first, as all
 * other calls do.
 */
static void register_fork_handlers(void)
{
	if (repoll_calls())
		rclose(repoll_calls()->create(EPOLL_CLOEXEC));
	pthread_atfork(preload_sock_before_fork, preload_sock_after_fork_in_parent,
		       preload_sock_after_fork_in_child);
}

void sock_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork_handlers);
}

static void know_owner(void)
{
	owner = getpid();
	sock_watch_forks();
}

struct sock *sock_new(enum sock_kind kind, int domain, int type)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sock *sock = calloc(1, sizeof(*sock));

	pthread_once(&once, know_owner);
	if (!sock)
		return NULL;
	atomic_init(&sock->refs, 1);
	atomic_init(&sock->kind, kind);
	sock->domain = domain;
	sock->type = type;
	sock->rsocket = -1;
	sock->listener = -1;
	list_init(&sock->members);
	pthread_mutex_init(&sock->lock, NULL);
	return sock;
}

struct sock *sock_find(int number)
{
	return fd_map_get(&socks, number);
}

void sock_ref(struct sock *sock)
{
	atomic_fetch_add_explicit(&sock->refs, 1, memory_order_relaxed);
}

bool sock_ref_if_used(struct sock *sock)
{
	unsigned refs = atomic_load(&sock->refs);

	while (refs && !atomic_compare_exchange_weak(&sock->refs, &refs, refs + 1))
		;
	return refs;
}

void sock_put(struct sock *sock)
{
	if (atomic_fetch_sub_explicit(&sock->refs, 1, memory_order_acq_rel) > 1)
		return;
	epoll_set_free(atomic_load(&sock->set));
	if (sock->listener >= 0)
		rclose(sock->listener);
	free(sock->numbers);
	pthread_mutex_destroy(&sock->lock);
	free(sock);
}

/* The caller holds sock->lock, as for the next functions. */
static int add_number(struct sock *sock, int number)
{
	int *numbers;

	pthread_mutex_lock(&numbers_lock);
	numbers = realloc(sock->numbers, (sock->number_count + 1) * sizeof(*numbers));
	if (numbers) {
		numbers[sock->number_count++] = number;
		sock->numbers = numbers;
	}
	pthread_mutex_unlock(&numbers_lock);
	return numbers ? 0 : -ENOMEM;
}

/* Removes a number. Returns whether it was the last one. */
static bool remove_number_locked(struct sock *sock, int number)
{
	bool is_last = false;

	pthread_mutex_lock(&numbers_lock);
	for (size_t i = 0; i < sock->number_count; i++) {
		if (sock->numbers[i] != number)
			continue;
		sock->numbers[i] = sock->numbers[--sock->number_count];
		is_last = !sock->number_count;
		break;
	}
	pthread_mutex_unlock(&numbers_lock);
	if (sock_kind_of(sock) == SOCK_EPOLL && sock->number_count)
		epoll_sleep_rename(number, sock->numbers[0]);
	return is_last;
}

/* False also if leave_map() has removed the number first. */
static bool remove_number(struct sock *sock, int number)
{
	bool is_last;

	pthread_mutex_lock(&sock->lock);
	is_last = remove_number_locked(sock, number);
	pthread_mutex_unlock(&sock->lock);
	return is_last;
}

/*
 * Removes a reused number from its former sock: the program closed it without a call of this
 * module.
 */
static void preload_sock_forget(struct sock *before, int number)
{
	if (before && remove_number(before, number))
		sock_end(before);
}

bool sock_has_number(const struct sock *sock, int number)
{
	for (size_t i = 0; i < sock->number_count; i++)
		if (sock->numbers[i] == number)
			return true;
	return false;
}

/* With `present` a number that has a sock is not changed; see sock_name_unnamed(). */
static int sock_name_locked(struct sock *sock, int number, void **before, void **present)
{
	int ret = 0;

	/* leave_map() has removed all numbers: this number is a descriptor of the kernel, too. */
	if (sock_kind_of(sock) == SOCK_PLAIN)
		return 0;
	ret = add_number(sock, number);
	if (ret)
		return ret;
	ret = present ? fd_map_add(&socks, number, sock, present) :
			fd_map_set(&socks, number, sock, before);
	if (ret)
		remove_number_locked(sock, number);
	return ret;
}

int sock_name(struct sock *sock, int number)
{
	void *before = NULL;
	int ret;

	pthread_mutex_lock(&sock->lock);
	ret = sock_name_locked(sock, number, &before, NULL);
	pthread_mutex_unlock(&sock->lock);
	preload_sock_forget(before, number);
	return ret;
}

int sock_name_unnamed(struct sock *sock, int number, struct sock **present)
{
	void *found = NULL;
	int ret;

	pthread_mutex_lock(&sock->lock);
	ret = sock_name_locked(sock, number, NULL, &found);
	pthread_mutex_unlock(&sock->lock);
	*present = found;
	return ret;
}

struct sock *sock_unname(int number, bool *is_last)
{
	struct sock *sock = fd_map_remove(&socks, number);

	if (!sock)
		return NULL;
	/* The common reference of all numbers is released with the last number. */
	sock_ref(sock);
	*is_last = remove_number(sock, number);
	return sock;
}

void sock_unname_range(unsigned first, unsigned last)
{
	unsigned most = FD_MAP_PAGES * FD_MAP_PAGE_SLOTS - 1;

	for (unsigned number = first; number <= last && number <= most; number++) {
		bool is_last;
		struct sock *sock = sock_unname((int)number, &is_last);

		if (!sock)
			continue;
		if (is_last)
			sock_end(sock);
		sock_put(sock);
	}
}

/*
 * A number that the kernel reused for another descriptor and that has not yet been removed from its
 * sock.
 */
struct stale_number {
	struct stale_number *next;
	struct sock *sock; /* with a reference */
	int number;
};

static _Atomic(struct stale_number *) stale_numbers;

void sock_end_stale(const void *caller)
{
	struct stale_number *stale;

	if (!atomic_load_explicit(&stale_numbers, memory_order_relaxed) || preload_is_ours(caller))
		return;
	stale = atomic_exchange(&stale_numbers, NULL);
	while (stale) {
		struct stale_number *next = stale->next;

		preload_sock_forget(stale->sock, stale->number);
		sock_put(stale->sock);
		free(stale);
		stale = next;
	}
}

/* If memory is exhausted, the number stays assigned to the sock. */
static void number_lost(struct sock *sock, int number)
{
	struct stale_number *stale = malloc(sizeof(*stale));

	if (!stale)
		return;
	/* Another thread may have removed the number already. */
	if (fd_map_remove(&socks, number) != sock) {
		free(stale);
		return;
	}
	sock_ref(sock);
	*stale = (struct stale_number){.sock = sock, .number = number};
	stale->next = atomic_load(&stale_numbers);
	while (!atomic_compare_exchange_weak(&stale_numbers, &stale->next, stale))
		;
}

void sock_number_reused(int number, const void *caller)
{
	int error = errno;
	struct sock *sock = number < 0 ? NULL : sock_find(number);

	epoll_unmark(number);
	if (!sock)
		return;
	/* The child of a vfork() has its own descriptors, but the table is the parent's. */
	if (!sock_in_vfork_child()) {
		number_lost(sock, number);
		sock_end_stale(caller);
	}
	sock_put(sock);
	errno = error;
}

int sock_end(struct sock *sock)
{
	int ret = 0;

	epoll_forget(sock);
	if (sock_kind_of(sock) == SOCK_RDMA)
		ret = rclose(sock->rsocket);
	sock_put(sock);
	return ret;
}

int sock_reserve(void)
{
	int number = sys_open("/dev/null", O_RDONLY | O_CLOEXEC);

	sock_number_reused(number, __builtin_return_address(0));
	return number;
}

int sock_open_rdma(int number, int rsocket, int domain, int type)
{
	struct sock *sock = sock_new(SOCK_RDMA, domain, type);
	int ret = -ENOMEM;

	if (!sock)
		goto err_new;
	sock->rsocket = rsocket;
	/* The placeholder is a duplicate of the rsocket's descriptor. */
	ret = real.dup3(rsocket, number, O_CLOEXEC) < 0 ? -errno : sock_name(sock, number);
	if (!ret)
		return number;
	sock_put(sock);
err_new:
	real_close(number);
	rclose(rsocket);
	errno = -ret;
	return -1;
}

void sock_become_rdma(struct sock *sock, int rsocket)
{
	epoll_change_to_rdma(sock);
	real.shutdown(sock->numbers[0], SHUT_RDWR);
	for (size_t i = 0; i < sock->number_count; i++)
		real.dup3(rsocket, sock->numbers[i], O_CLOEXEC);
	sock->rsocket = rsocket;
	atomic_store(&sock->kind, SOCK_RDMA);
	epoll_now_rdma(sock);
}

/* Removes all numbers of the sock from the map. Calls in progress still hold references. */
static void leave_map(struct sock *sock)
{
	epoll_now_plain(sock);
	for (size_t i = 0; i < sock->number_count; i++)
		fd_map_remove(&socks, sock->numbers[i]);
	if (sock->number_count)
		sock_put(sock);
	sock->number_count = 0;
}

void sock_become_plain(struct sock *sock, int fd)
{
	int flags = rfcntl(sock->rsocket, F_GETFD);

	pthread_mutex_lock(&sock->lock);
	for (size_t i = 0; i < sock->number_count; i++)
		real.dup3(fd, sock->numbers[i], flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	real_close(fd);
	leave_map(sock);
	pthread_mutex_unlock(&sock->lock);
	rclose(sock->rsocket);
}

void sock_stay_plain(struct sock *sock)
{
	leave_map(sock);
}
