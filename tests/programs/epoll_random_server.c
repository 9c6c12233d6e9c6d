/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "epoll_random.h"

#define SETS	    8 /* with the roots, which come first */
#define BUF_BYTES   8192
#define DEPTH	    3
#define SET_HANDLE  (UINT64_C(1) << 32)
#define STOP_HANDLE (UINT64_C(1) << 33)

/* Connections whose data is in [done, filled) of buf. Guarded by lock. A number is used once. */
struct served {
	pthread_mutex_t lock;
	int fd; /* -1: none yet, or closed */
	/* another number of the same socket, which is a member instead of fd; -1: none */
	int second;
	int set;
	uint32_t mode; /* EPOLLET, EPOLLONESHOT and EPOLLEXCLUSIVE */
	bool is_ended; /* no more data */
	size_t done;
	size_t filled;
	char buf[BUF_BYTES];
};

static struct served *all;
static unsigned count_all;

/*
 * A handle of an event that was read before its set was replaced belongs to the new set. The lock
 * of sets_lock is held for writing while a set is replaced, so that no thread uses its number.
 */
static pthread_rwlock_t sets_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	int epoll;
	int outer;
	uint32_t mode; /* EPOLLET, EPOLLONESHOT or 0 */
} sets[SETS];
static int stop_fd;

/* SplitMix64. */
uint32_t random_dice(uint64_t *dice, uint32_t sides)
{
	uint64_t z = *dice += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 33) % sides;
}

int random_root(int root)
{
	return sets[root].epoll;
}

static int depth_of(int set)
{
	return set < ROOTS ? 1 : 1 + depth_of(sets[set].outer);
}

static void set_control(int set, int op)
{
	struct epoll_event event = {.events = EPOLLIN | sets[set].mode,
				    .data.u64 = SET_HANDLE | (uint64_t)set};

	MUST(!epoll_ctl(sets[sets[set].outer].epoll, op, sets[set].epoll, &event));
}

/* Sets are nested before they have sockets. */
void random_open(unsigned connections)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = STOP_HANDLE};

	all = calloc(connections, sizeof(*all));
	MUST(all);
	for (unsigned i = 0; i < connections; i++) {
		pthread_mutex_init(&all[i].lock, NULL);
		all[i].fd = all[i].second = -1;
	}
	count_all = connections;
	stop_fd = eventfd(0, EFD_NONBLOCK);
	MUST(stop_fd >= 0);
	for (int i = 0; i < SETS; i++) {
		sets[i].epoll = epoll_create1(0);
		MUST(sets[i].epoll >= 0);
		if (i < ROOTS) {
			MUST(!epoll_ctl(sets[i].epoll, EPOLL_CTL_ADD, stop_fd, &event));
			continue;
		}
		sets[i].outer = i % 3 ? i % ROOTS : i - 1;
		sets[i].mode = i % 4 == 1 ? EPOLLET : i % 4 == 2 ? EPOLLONESHOT : 0;
		set_control(i, EPOLL_CTL_ADD);
	}
}

void random_stop(void)
{
	MUST(!eventfd_write(stop_fd, 1));
}

static int member_of(const struct served *one)
{
	return one->second >= 0 ? one->second : one->fd;
}

/* The events that the connection waits for. Locked. */
static uint32_t wanted(const struct served *one)
{
	if (one->mode & EPOLLET)
		return EPOLLIN | EPOLLOUT | one->mode;
	return (one->done < one->filled ? EPOLLOUT : EPOLLIN) | one->mode;
}

/* Adds the connection to its set. Locked, with sets_lock. */
static void connection_join(struct served *one)
{
	struct epoll_event event = {.events = wanted(one), .data.u64 = (uint64_t)(one - all)};

	MUST(!epoll_ctl(sets[one->set].epoll, EPOLL_CTL_ADD, member_of(one), &event));
}

static void connection_leave(struct served *one)
{
	MUST(!epoll_ctl(sets[one->set].epoll, EPOLL_CTL_DEL, member_of(one), NULL));
}

/*
 * Waits for other events. A member with EPOLLEXCLUSIVE cannot be changed. Locked, with sets_lock.
 */
static void connection_change(struct served *one)
{
	struct epoll_event event = {.events = wanted(one), .data.u64 = (uint64_t)(one - all)};

	if (one->mode & EPOLLEXCLUSIVE) {
		connection_leave(one);
		connection_join(one);
	} else {
		MUST(!epoll_ctl(sets[one->set].epoll, EPOLL_CTL_MOD, member_of(one), &event));
	}
}

static uint32_t some_mode(uint64_t *dice)
{
	static const uint32_t modes[] = {0,
					 EPOLLET,
					 EPOLLONESHOT,
					 EPOLLET | EPOLLONESHOT,
					 EPOLLEXCLUSIVE,
					 EPOLLEXCLUSIVE | EPOLLET};

	return modes[random_dice(dice, sizeof(modes) / sizeof(modes[0]))];
}

void random_add_connection(uint64_t *dice, uint32_t number, int fd)
{
	struct served *one = &all[number];

	pthread_rwlock_rdlock(&sets_lock);
	pthread_mutex_lock(&one->lock);
	one->fd = fd;
	one->mode = some_mode(dice);
	one->set = (int)random_dice(dice, SETS);
	connection_join(one);
	pthread_mutex_unlock(&one->lock);
	pthread_rwlock_unlock(&sets_lock);
}

static void connection_close(struct served *one)
{
	/* close() removes the members, except those whose socket has another number. */
	if (one->second >= 0) {
		connection_leave(one);
		MUST(!close(one->second));
	}
	MUST(!close(one->fd));
	one->fd = one->second = -1;
}

/*
 * Echoes until neither the input nor the output makes progress. Returns false at the end. Locked.
 */
static bool connection_echo(struct served *one)
{
	ssize_t ret;

	for (;;) {
		if (one->done == one->filled && one->is_ended)
			return false;
		if (one->done == one->filled) {
			ret = recv(one->fd, one->buf, BUF_BYTES, MSG_DONTWAIT);
			one->is_ended = ret == 0;
			one->done = 0;
			one->filled = ret > 0 ? (size_t)ret : 0;
		} else {
			ret = send(one->fd, one->buf + one->done, one->filled - one->done,
				   MSG_DONTWAIT);
			one->done += ret > 0 ? (size_t)ret : 0;
		}
		MUST(ret >= 0 || errno == EAGAIN);
		if (ret < 0)
			return true;
	}
}

static void connection_serve(struct served *one)
{
	uint32_t before;

	pthread_mutex_lock(&one->lock);
	/* Another thread may have closed the connection since the event was reported. */
	if (one->fd >= 0) {
		before = wanted(one);
		if (!connection_echo(one))
			connection_close(one);
		else if (one->mode & EPOLLONESHOT || wanted(one) != before)
			connection_change(one);
	}
	pthread_mutex_unlock(&one->lock);
}

static void serve_locked(const struct epoll_event *events, int count);

/* An edge-triggered set is reported again only after the next arrival: serves all events. */
static void serve_set(int set)
{
	struct epoll_event events[3];
	int count;

	do {
		count = epoll_wait(sets[set].epoll, events, 3, 0);
		MUST(count >= 0);
		serve_locked(events, count);
	} while (count && sets[set].mode & EPOLLET);
	if (sets[set].mode & EPOLLONESHOT)
		set_control(set, EPOLL_CTL_MOD);
}

static void serve_locked(const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t handle = events[i].data.u64;

		if (handle & STOP_HANDLE)
			continue;
		if (!(handle & SET_HANDLE)) {
			MUST(handle < count_all);
			connection_serve(&all[handle]);
			continue;
		}
		MUST((handle & ~SET_HANDLE) < SETS);
		serve_set((int)(handle & ~SET_HANDLE));
	}
}

void random_serve(uint64_t *dice, const struct epoll_event *events, int count)
{
	if (!random_dice(dice, 16))
		usleep(random_dice(dice, 500));
	pthread_rwlock_rdlock(&sets_lock);
	serve_locked(events, count);
	pthread_rwlock_unlock(&sets_lock);
}

/*
 * Moves a connection to another set, with another mode, and perhaps with another number of the
 * socket.
 */
static void connection_move(uint64_t *dice, struct served *one)
{
	pthread_rwlock_rdlock(&sets_lock);
	pthread_mutex_lock(&one->lock);
	if (one->fd >= 0) {
		uint32_t what = random_dice(dice, 4);

		connection_leave(one);
		if (one->second >= 0 && what) {
			MUST(!close(one->second));
			one->second = -1;
		} else if (one->second < 0 && !what) {
			one->second = dup(one->fd);
			MUST(one->second >= 0);
		}
		if (what & 1)
			one->set = (int)random_dice(dice, SETS);
		one->mode = some_mode(dice);
		connection_join(one);
	}
	pthread_mutex_unlock(&one->lock);
	pthread_rwlock_unlock(&sets_lock);
}

/* Removes an inner set and closes it, or moves it to another set, with all of its connections. */
static void set_replace(uint64_t *dice, int set)
{
	bool is_new = random_dice(dice, 2);
	int outer;

	pthread_rwlock_wrlock(&sets_lock);
	for (int i = ROOTS; i < SETS; i++)
		if (sets[i].outer == set)
			goto out;
	set_control(set, EPOLL_CTL_DEL);
	if (is_new) {
		MUST(!close(sets[set].epoll));
		sets[set].epoll = epoll_create1(0);
		MUST(sets[set].epoll >= 0);
	}
	outer = (int)random_dice(dice, SETS);
	sets[set].outer = outer == set || depth_of(outer) >= DEPTH ? set % ROOTS : outer;
	/* Half of the new sets are nested before they have sockets. */
	if (is_new && random_dice(dice, 2))
		set_control(set, EPOLL_CTL_ADD);
	else
		outer = -1;
	for (unsigned i = 0; is_new && i < count_all; i++) {
		pthread_mutex_lock(&all[i].lock);
		if (all[i].fd >= 0 && all[i].set == set)
			connection_join(&all[i]);
		pthread_mutex_unlock(&all[i].lock);
	}
	if (outer < 0)
		set_control(set, EPOLL_CTL_ADD);
out:
	pthread_rwlock_unlock(&sets_lock);
}

void random_change(uint64_t *dice)
{
	if (!random_dice(dice, 8))
		set_replace(dice, ROOTS + (int)random_dice(dice, SETS - ROOTS));
	else
		connection_move(dice, &all[random_dice(dice, count_all)]);
}

void random_print_sets(void)
{
	for (int i = 0; i < SETS; i++)
		printf("set %d in %d, mode %x\n", i, i < ROOTS ? -1 : sets[i].outer, sets[i].mode);
	for (unsigned i = 0; i < count_all; i++)
		if (all[i].fd >= 0)
			printf("connection %u: set %d, mode %x, second number %d, %zu bytes to send\n",
			       i, all[i].set, all[i].mode, all[i].second,
			       all[i].filled - all[i].done);
	fflush(stdout);
}

int random_by_epoll_wait(int root, struct epoll_event *events, int most)
{
	return epoll_wait(root, events, most, -1);
}

int random_by_epoll_pwait(int root, struct epoll_event *events, int most)
{
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(root, events, most, -1, &none);
}

int random_by_epoll_pwait2(int root, struct epoll_event *events, int most)
{
	return epoll_pwait2(root, events, most, NULL, NULL);
}

int random_by_poll(int root, struct epoll_event *events, int most)
{
	struct pollfd pollfd = {.fd = root, .events = POLLIN};

	MUST(poll(&pollfd, 1, -1) == 1);
	return epoll_wait(root, events, most, 0);
}

int random_by_select(int root, struct epoll_event *events, int most)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(root, &in);
	MUST(select(root + 1, &in, NULL, NULL, NULL) == 1);
	return epoll_wait(root, events, most, 0);
}
