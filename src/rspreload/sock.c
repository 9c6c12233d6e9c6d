/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd_map.h"
#include "rspreload/epoll.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

static void ref_object(void *object)
{
	sock_ref(object);
}

static struct fd_map socks = FD_MAP_INIT(ref_object);

/* Of the process whose memory this is. */
static pid_t owner;

bool sock_is_borrowed(void)
{
	return owner && getpid() != owner;
}

/* A thread that was left behind may have any of the locks, for as long as it waits for a peer. */
static void after_fork(void)
{
	struct sock *sock;
	int number = 0;

	owner = getpid();
	fd_map_after_fork(&socks);
	while ((sock = fd_map_next(&socks, &number))) {
		pthread_mutex_init(&sock->lock, NULL);
		sock_put(sock);
	}
	epoll_after_fork();
	stdio_after_fork();
}

static void know_owner(void)
{
	owner = getpid();
	pthread_atfork(NULL, NULL, after_fork);
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

void sock_put(struct sock *sock)
{
	if (atomic_fetch_sub_explicit(&sock->refs, 1, memory_order_acq_rel) > 1)
		return;
	epoll_set_free(sock->set);
	free(sock->numbers);
	pthread_mutex_destroy(&sock->lock);
	free(sock);
}

static int add_number(struct sock *sock, int number)
{
	int *numbers;

	pthread_mutex_lock(&sock->lock);
	numbers = realloc(sock->numbers, (sock->number_count + 1) * sizeof(*numbers));
	if (numbers) {
		numbers[sock->number_count++] = number;
		sock->numbers = numbers;
	}
	pthread_mutex_unlock(&sock->lock);
	return numbers ? 0 : -ENOMEM;
}

/* Whether there is none left. */
static bool remove_number(struct sock *sock, int number)
{
	bool is_last;

	pthread_mutex_lock(&sock->lock);
	for (size_t i = 0; i < sock->number_count; i++) {
		if (sock->numbers[i] != number)
			continue;
		sock->numbers[i] = sock->numbers[--sock->number_count];
		break;
	}
	is_last = !sock->number_count;
	pthread_mutex_unlock(&sock->lock);
	return is_last;
}

/* What a number meant before, if somebody closed it behind our back. */
static void forget(struct sock *before, int number)
{
	if (before && remove_number(before, number))
		sock_end(before);
}

int sock_name(struct sock *sock, int number)
{
	void *before;
	int ret = add_number(sock, number);

	if (ret)
		return ret;
	ret = fd_map_set(&socks, number, sock, &before);
	if (ret)
		remove_number(sock, number);
	else
		forget(before, number);
	return ret;
}

struct sock *sock_unname(int number, bool *is_last)
{
	struct sock *sock = fd_map_remove(&socks, number);

	if (!sock)
		return NULL;
	/* The numbers' common reference stays until the last of them goes. */
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
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int sock_open_rdma(int number, int rsocket, int domain, int type)
{
	struct sock *sock = sock_new(SOCK_RDMA, domain, type);
	int ret = -ENOMEM;

	if (!sock)
		goto err_new;
	sock->rsocket = rsocket;
	/* Behind the number stands what becomes readable when the rsocket has news. */
	ret = real.dup3(rsocket, number, O_CLOEXEC) < 0 ? -errno : sock_name(sock, number);
	if (!ret)
		return number;
	sock_put(sock);
err_new:
	real.close(number);
	rclose(rsocket);
	errno = -ret;
	return -1;
}

void sock_become_rdma(struct sock *sock, int rsocket)
{
	for (size_t i = 0; i < sock->number_count; i++)
		real.dup3(rsocket, sock->numbers[i], O_CLOEXEC);
	sock->rsocket = rsocket;
	atomic_store(&sock->kind, SOCK_RDMA);
	epoll_now_rdma(sock);
}

/* None of its numbers is in the map any more; who is inside still has a reference. */
static void leave_map(struct sock *sock)
{
	atomic_store(&sock->kind, SOCK_PLAIN);
	for (size_t i = 0; i < sock->number_count; i++)
		fd_map_remove(&socks, sock->numbers[i]);
	epoll_now_plain(sock);
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
	real.close(fd);
	leave_map(sock);
	pthread_mutex_unlock(&sock->lock);
	rclose(sock->rsocket);
}

void sock_stay_plain(struct sock *sock)
{
	leave_map(sock);
}
