/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"

/* The bits of an epoll event that poll(2) has too, by the same values. */
#define POLL_BITS                                                                         \
	(EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLRDNORM | \
	 EPOLLWRNORM)
#define ALWAYS	 (EPOLLERR | EPOLLHUP)
#define IN_BITS	 (EPOLLIN | EPOLLRDNORM)
#define OUT_BITS (EPOLLOUT | EPOLLWRNORM)

/*
 * One of ours in one set, as epoll_ctl(2) has it: a number, and what it stands for. is_kernels: it is
 * still a TCP socket, which the kernel's set watches.
 */
struct member {
	struct list_head in_set;
	struct list_head in_sock;
	struct epoll_set *set;
	struct sock *sock;
	int number;
	uint32_t events;
	epoll_data_t data;
	uint32_t told;
	bool is_spent; /* EPOLLONESHOT, until EPOLL_CTL_MOD */
	bool is_kernels;
};

/* Lives with the sock of its descriptor's numbers. All sets are guarded by one lock. */
struct epoll_set {
	int kernel_fd; /* the kernel's set */
	int kick_fd;   /* wakes who waits, to look again */
	unsigned waiting;
	unsigned version; /* counts whatever changes the list */
	struct list_head members;
};

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;

void epoll_after_fork(void)
{
	pthread_mutex_init(&sets_lock, NULL);
}

static void kick(struct epoll_set *set)
{
	if (set->waiting)
		eventfd_write(set->kick_fd, 1);
}

static void member_free(struct member *member)
{
	list_del(&member->in_set);
	list_del(&member->in_sock);
	member->set->version++;
	kick(member->set);
	free(member);
}

void epoll_set_free(struct epoll_set *set)
{
	struct member *member, *next;

	if (!set)
		return;
	pthread_mutex_lock(&sets_lock);
	list_for_each_entry_safe(member, next, &set->members, in_set)
		member_free(member);
	pthread_mutex_unlock(&sets_lock);
	real.close(set->kernel_fd);
	real.close(set->kick_fd);
	free(set);
}

/* -EINVAL, -EBADF, as epoll_ctl() itself says of a descriptor that has no set. */
static int check_epoll(int epoll, int other)
{
	real.epoll_ctl(epoll, EPOLL_CTL_DEL, other, NULL);
	return errno == ENOENT ? 0 : -errno;
}

static int set_new(int epoll, struct epoll_set **made)
{
	struct epoll_set *set = calloc(1, sizeof(*set));
	int ret;

	if (!set)
		return -ENOMEM;
	list_init(&set->members);
	set->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = set->kick_fd < 0 ? -errno : check_epoll(epoll, set->kick_fd);
	if (ret)
		goto err_kick;
	set->kernel_fd = real.fcntl(epoll, F_DUPFD_CLOEXEC, 0);
	if (set->kernel_fd >= 0) {
		*made = set;
		return 0;
	}
	ret = -errno;
err_kick:
	if (set->kick_fd >= 0)
		real.close(set->kick_fd);
	free(set);
	return ret;
}

/* The set of an epoll descriptor, with a reference to what that is; made if there is none. */
static int sock_of(int epoll, struct sock **sock)
{
	struct epoll_set *set = NULL;
	int ret;

	*sock = sock_find(epoll);
	if (*sock)
		return sock_kind_of(*sock) == SOCK_EPOLL ? 0 : -EINVAL;
	ret = set_new(epoll, &set);
	if (ret)
		return ret;
	*sock = sock_new(SOCK_EPOLL, 0, 0);
	if (!*sock) {
		epoll_set_free(set);
		return -ENOMEM;
	}
	(*sock)->set = set;
	sock_ref(*sock);
	ret = sock_name(*sock, epoll);
	if (ret)
		sock_put(*sock);
	return ret;
}

static struct member *find(struct epoll_set *set, int number, const struct sock *sock)
{
	struct member *member;

	list_for_each_entry(member, &set->members, in_set)
		if (member->number == number && member->sock == sock)
			return member;
	return NULL;
}

static int add(struct epoll_set *set, int number, struct sock *sock,
	       const struct epoll_event *event)
{
	struct member *member;

	if (find(set, number, sock))
		return -EEXIST;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	*member = (struct member){
		.set = set,
		.sock = sock,
		.number = number,
		.events = event->events,
		.data = event->data,
		.is_kernels = sock_kind_of(sock) != SOCK_RDMA,
	};
	if (member->is_kernels &&
	    real.epoll_ctl(set->kernel_fd, EPOLL_CTL_ADD, number, (struct epoll_event *)event)) {
		free(member);
		return -errno;
	}
	list_add_tail(&member->in_set, &set->members);
	list_add_tail(&member->in_sock, &sock->members);
	atomic_store(&sock->is_in_epoll, true);
	return 0;
}

static int change(struct epoll_set *set, int number, const struct sock *sock,
		  const struct epoll_event *event)
{
	struct member *member = find(set, number, sock);

	if (!member)
		return -ENOENT;
	member->events = event->events;
	member->data = event->data;
	member->told = 0;
	member->is_spent = false;
	if (member->is_kernels &&
	    real.epoll_ctl(set->kernel_fd, EPOLL_CTL_MOD, number, (struct epoll_event *)event))
		return -errno;
	return 0;
}

static int drop(struct epoll_set *set, int number, const struct sock *sock)
{
	struct member *member = find(set, number, sock);

	if (!member)
		return -ENOENT;
	if (member->is_kernels)
		real.epoll_ctl(set->kernel_fd, EPOLL_CTL_DEL, number, NULL);
	member_free(member);
	return 0;
}

int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
{
	struct sock *owner;
	int ret;

	if (op != EPOLL_CTL_DEL && !event)
		return -EFAULT;
	ret = sock_of(epoll, &owner);
	if (ret)
		return ret;
	pthread_mutex_lock(&sets_lock);
	switch (op) {
	case EPOLL_CTL_ADD:
		ret = add(owner->set, number, sock, event);
		break;
	case EPOLL_CTL_MOD:
		ret = change(owner->set, number, sock, event);
		break;
	case EPOLL_CTL_DEL:
		ret = drop(owner->set, number, sock);
		break;
	default:
		ret = -EINVAL;
		break;
	}
	owner->set->version++;
	kick(owner->set);
	pthread_mutex_unlock(&sets_lock);
	sock_put(owner);
	return ret;
}

void epoll_touched(struct sock *sock, bool by_reading)
{
	struct member *member;

	if (!atomic_load_explicit(&sock->is_in_epoll, memory_order_relaxed))
		return;
	pthread_mutex_lock(&sets_lock);
	list_for_each_entry(member, &sock->members, in_sock) {
		uint32_t told = member->told;

		member->told &= ~(uint32_t)(by_reading ? IN_BITS : OUT_BITS);
		if (told != member->told)
			kick(member->set);
	}
	pthread_mutex_unlock(&sets_lock);
}

void epoll_now_rdma(struct sock *sock)
{
	struct member *member;

	pthread_mutex_lock(&sets_lock);
	/* The kernel forgot it together with the TCP socket. */
	list_for_each_entry(member, &sock->members, in_sock) {
		member->is_kernels = false;
		member->told = 0;
		member->set->version++;
		kick(member->set);
	}
	pthread_mutex_unlock(&sets_lock);
}

void epoll_now_plain(struct sock *sock)
{
	struct member *member, *next;

	pthread_mutex_lock(&sets_lock);
	list_for_each_entry_safe(member, next, &sock->members, in_sock) {
		struct epoll_event event = {.events = member->events, .data = member->data};

		if (!member->is_kernels)
			real.epoll_ctl(member->set->kernel_fd, EPOLL_CTL_ADD, member->number,
				       &event);
		member_free(member);
	}
	pthread_mutex_unlock(&sets_lock);
}

void epoll_forget(struct sock *sock)
{
	struct member *member, *next;

	if (!atomic_load(&sock->is_in_epoll))
		return;
	pthread_mutex_lock(&sets_lock);
	list_for_each_entry_safe(member, next, &sock->members, in_sock)
		member_free(member);
	pthread_mutex_unlock(&sets_lock);
}

bool epoll_has_rdma(const struct sock *epoll)
{
	const struct member *member;
	bool has_rdma = false;

	pthread_mutex_lock(&sets_lock);
	list_for_each_entry(member, &epoll->set->members, in_set)
		has_rdma = has_rdma || !member->is_kernels;
	pthread_mutex_unlock(&sets_lock);
	return has_rdma;
}

/*
 * One look at a set: what rpoll() is given, and the members that stand for it. fds[0] is the
 * kernel's set, fds[1] the kick. Good as long as the set's version is the same.
 */
struct look {
	struct pollfd *fds;
	struct member **members;
	size_t count;
	size_t room;
	unsigned version;
};

#define FIXED 2

static int look_grow(struct look *look)
{
	size_t room = look->room ? 2 * look->room : 32;
	struct pollfd *fds = realloc(look->fds, (room + FIXED) * sizeof(*fds));
	struct member **members;

	if (!fds)
		return -ENOMEM;
	look->fds = fds;
	members = realloc(look->members, room * sizeof(*members));
	if (!members)
		return -ENOMEM;
	look->members = members;
	look->room = room;
	return 0;
}

/* Locked. */
static int look_fill(struct look *look, struct epoll_set *set)
{
	struct member *member;
	int ret = look->fds ? 0 : look_grow(look);

	if (ret)
		return ret;
	look->count = 0;
	look->version = set->version;
	look->fds[0] = (struct pollfd){.fd = set->kernel_fd, .events = POLLIN};
	look->fds[1] = (struct pollfd){.fd = set->kick_fd, .events = POLLIN};
	list_for_each_entry(member, &set->members, in_set) {
		if (member->is_kernels || member->is_spent)
			continue;
		if (look->count == look->room && look_grow(look))
			return -ENOMEM;
		look->members[look->count] = member;
		look->fds[FIXED + look->count++] = (struct pollfd){
			.fd = member->told & ALWAYS ? -1 : member->sock->rsocket,
			.events = (short)(member->events & POLL_BITS & ~member->told),
		};
	}
	return 0;
}

/* What rpoll() found, as events of the program's. Locked. */
static int look_collect(struct look *look, struct epoll_set *set, struct epoll_event *events,
			int most)
{
	int count = 0;

	if (look->version != set->version)
		return 0;
	for (size_t i = 0; i < look->count && count < most; i++) {
		struct member *member = look->members[i];
		uint32_t bits = (uint32_t)look->fds[FIXED + i].revents & POLL_BITS & ~member->told;

		if (!bits || member->is_spent)
			continue;
		events[count++] = (struct epoll_event){.events = bits, .data = member->data};
		if (member->events & EPOLLET)
			member->told |= bits;
		member->is_spent = member->events & EPOLLONESHOT;
		/* The next look begins with those that had no turn. */
		list_move_tail(&member->in_set, &set->members);
	}
	return count;
}

static int poll_once(struct look *look, struct epoll_set *set, int timeout_ms, const sigset_t *mask)
{
	int ret;

	pthread_mutex_lock(&sets_lock);
	ret = look_fill(look, set);
	set->waiting++;
	pthread_mutex_unlock(&sets_lock);
	if (!ret && preload_rpoll(look->fds, FIXED + look->count, timeout_ms, mask) < 0)
		ret = -errno;
	pthread_mutex_lock(&sets_lock);
	set->waiting--;
	pthread_mutex_unlock(&sets_lock);
	return ret;
}

/* What there is, of ours and of the kernel's. */
static int gather(struct look *look, struct epoll_set *set, struct epoll_event *events, int most)
{
	eventfd_t kicks;
	int count, more;

	if (look->fds[1].revents)
		eventfd_read(set->kick_fd, &kicks);
	pthread_mutex_lock(&sets_lock);
	count = look_collect(look, set, events, most);
	pthread_mutex_unlock(&sets_lock);
	if (!look->fds[0].revents || count == most)
		return count;
	more = real.epoll_wait(set->kernel_fd, events + count, most - count, 0);
	return more > 0 ? count + more : count;
}

static int wait_in(struct epoll_set *set, struct look *look, struct epoll_event *events, int most,
		   int timeout_ms, const sigset_t *mask)
{
	uint64_t deadline_ns = clock_now_ns() +
			       (unsigned)(timeout_ms < 0 ? 0 : timeout_ms) * CLOCK_NS_PER_MS;
	int ret;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		uint64_t left_ms = (deadline_ns > now_ns ? deadline_ns - now_ns : 0) /
				   CLOCK_NS_PER_MS;

		ret = poll_once(look, set, timeout_ms < 0 ? -1 : (int)left_ms, mask);
		if (ret)
			return ret;
		ret = gather(look, set, events, most);
		if (ret || (timeout_ms >= 0 && clock_now_ns() >= deadline_ns))
			return ret;
	}
}

int epoll_set_wait(struct sock *epoll, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask)
{
	struct look look = {0};
	int ret;

	if (most <= 0)
		return -EINVAL;
	ret = wait_in(epoll->set, &look, events, most, timeout_ms, mask);
	free(look.fds);
	free(look.members);
	return ret;
}
