/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/epoll_sleep.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/barrier.h"
#include "base/syscalls.h"
#include "rspreload/epoll_set.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"

#define NO_NUMBER (-1)

/*
 * A thread in epoll_wait(). In a list that other threads read without a lock, and never freed:
 * another thread uses it after the end of this one.
 */
struct epoll_sleeper {
	struct epoll_sleeper *next;
	atomic_bool is_used;
	atomic_int number; /* of the epoll descriptor, or NO_NUMBER */
	/*
	 * Counts the thread. Stored by a thread that wakes this one; a thread that exchanges it for
	 * NULL ends the count.
	 */
	struct epoll_wake *_Atomic wake;
	const void *frame; /* of the function that waits; for the thread itself */
};

/* In the list of all, while the thread waits. Guarded by polls_lock. */
struct epoll_poll {
	struct list_head node;
	struct epoll_wake *wake; /* counts the thread; NULL: not woken */
	size_t count;
	int numbers[];
};

static struct epoll_sleeper *_Atomic sleepers;
static __thread struct epoll_sleeper *own_sleeper PRELOAD_THREAD;
static pthread_key_t sleeper_key;

/* Guarded by epoll_sets_lock. */
static struct list_head wakes = LIST_HEAD_INIT(wakes);
/* The readable wake-up descriptors: those that exist, and all that ever were. */
static atomic_uint wakes_in_use;
static atomic_uint wakes_armed;

/* Acquired after epoll_sets_lock. */
static pthread_mutex_t polls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_head polls = LIST_HEAD_INIT(polls);

/*
 * Orders a store of a waiting thread before its later loads. The other thread executes
 * barrier_threads() between its own.
 */
static inline void order_own(void)
{
	if (atomic_load_explicit(&barrier_has_threads, memory_order_relaxed))
		barrier_light();
	else
		atomic_thread_fence(memory_order_seq_cst);
}

static void order_all(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	barrier_threads_if_light();
}

/* Destructor of the key, at the end of a thread. */
static void sleeper_put(void *sleeper)
{
	own_sleeper = NULL;
	atomic_store(&((struct epoll_sleeper *)sleeper)->is_used, false);
}

static void sleeper_init(void)
{
	/* Without a key the sleepers of ended threads are not used again. */
	(void)!pthread_key_create(&sleeper_key, sleeper_put);
	sock_watch_forks();
}

static struct epoll_sleeper *sleeper_unused(void)
{
	struct epoll_sleeper *sleeper = atomic_load(&sleepers);

	for (; sleeper; sleeper = sleeper->next) {
		bool is_used = false;

		if (atomic_compare_exchange_strong(&sleeper->is_used, &is_used, true))
			return sleeper;
	}
	sleeper = calloc(1, sizeof(*sleeper));
	if (!sleeper)
		return NULL;
	atomic_init(&sleeper->is_used, true);
	atomic_init(&sleeper->number, NO_NUMBER);
	sleeper->next = atomic_load(&sleepers);
	while (!atomic_compare_exchange_weak(&sleepers, &sleeper->next, sleeper))
		;
	return sleeper;
}

/* The sleeper of this thread; NULL: out of memory. */
static struct epoll_sleeper *sleeper_own(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (own_sleeper)
		return own_sleeper;
	pthread_once(&once, sleeper_init);
	own_sleeper = sleeper_unused();
	if (own_sleeper)
		(void)!pthread_setspecific(sleeper_key, own_sleeper);
	return own_sleeper;
}

/* A thread that was woken has left the kernel. */
static void wake_leave(struct epoll_wake *wake)
{
	int error = errno;

	pthread_mutex_lock(&epoll_sets_lock);
	if (!--wake->sleepers) {
		epoll_wake_free(wake);
		atomic_fetch_sub(&wakes_in_use, 1);
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	errno = error;
}

static void sleeper_leave(struct epoll_sleeper *sleeper)
{
	struct epoll_wake *wake;

	atomic_store_explicit(&sleeper->number, NO_NUMBER, memory_order_release);
	order_own();
	if (!atomic_load_explicit(&sleeper->wake, memory_order_relaxed))
		return;
	wake = atomic_exchange(&sleeper->wake, NULL);
	if (wake)
		wake_leave(wake);
}

/*
 * Whether the wait that the sleeper belongs to has ended without epoll_sleep_end(), because a
 * signal handler left it by longjmp(3). Otherwise the caller is a signal handler, whose frame has a
 * lower address unless it runs on another stack.
 */
static bool sleeper_is_left(const struct epoll_sleeper *sleeper, const void *frame)
{
	stack_t stack;

	if (sigaltstack(NULL, &stack) || stack.ss_flags & SS_ONSTACK)
		return false;
	return (uintptr_t)sleeper->frame <= (uintptr_t)frame;
}

struct epoll_sleeper *epoll_sleep_begin(int number)
{
	struct epoll_sleeper *sleeper = sleeper_own();
	const void *frame = __builtin_frame_address(0);

	if (sleeper && atomic_load_explicit(&sleeper->number, memory_order_relaxed) != NO_NUMBER) {
		if (sleeper_is_left(sleeper, frame))
			sleeper_leave(sleeper);
		else
			sleeper = sleeper_unused();
	}
	if (!sleeper)
		return NULL;
	sleeper->frame = frame;
	atomic_store_explicit(&sleeper->number, number, memory_order_relaxed);
	order_own();
	return sleeper;
}

void epoll_sleep_end(void *arg)
{
	struct epoll_sleeper *sleeper = arg;

	sleeper_leave(sleeper);
	if (sleeper != own_sleeper)
		atomic_store(&sleeper->is_used, false);
}

int epoll_sleep_look(int kernel_fd, struct epoll_event *events, int most)
{
	int count = sys_epoll_look(kernel_fd, events, most);
	int kept = count < 0 ? count : epoll_sleep_filter(events, count);

	if (kept || !count)
		return kept;
	/*
	 * The kernel moves a reported event to the end of its list: the next call begins with the
	 * other events.
	 */
	count = sys_epoll_look(kernel_fd, events, most);
	return count < 0 ? count : epoll_sleep_filter(events, count);
}

struct epoll_poll *epoll_poll_begin(const struct pollfd *fds, size_t count)
{
	struct epoll_poll *poll = malloc(sizeof(*poll) + count * sizeof(poll->numbers[0]));

	if (!poll)
		return NULL;
	poll->wake = NULL;
	poll->count = count;
	for (size_t i = 0; i < count; i++)
		poll->numbers[i] = fds[i].fd;
	sock_watch_forks();
	pthread_mutex_lock(&polls_lock);
	list_add_tail(&poll->node, &polls);
	pthread_mutex_unlock(&polls_lock);
	return poll;
}

bool epoll_poll_end(struct epoll_poll *poll)
{
	struct epoll_wake *wake;

	pthread_mutex_lock(&polls_lock);
	list_del(&poll->node);
	wake = poll->wake;
	pthread_mutex_unlock(&polls_lock);
	if (wake)
		wake_leave(wake);
	free(poll);
	return wake;
}

void epoll_poll_cancel(void *poll)
{
	(void)epoll_poll_end(poll);
}

int epoll_wake_new(int kernel_fd, struct epoll_wake **at)
{
	struct epoll_event event = {.data.u64 = EPOLL_WAKE_DATA};
	struct epoll_wake *wake = calloc(1, sizeof(*wake));
	int ret;

	if (!wake)
		return -ENOMEM;
	wake->kernel_fd = kernel_fd;
	wake->at = at;
	wake->fd = real.eventfd(1, EFD_CLOEXEC);
	ret = wake->fd < 0 ? -errno : 0;
	if (!ret) {
		sock_number_reused(wake->fd, __builtin_return_address(0));
		ret = real.epoll_ctl(kernel_fd, EPOLL_CTL_ADD, wake->fd, &event) ? -errno : 0;
	}
	if (ret) {
		if (wake->fd >= 0)
			real_close(wake->fd);
		free(wake);
		return ret;
	}
	pthread_mutex_lock(&epoll_sets_lock);
	list_add_tail(&wake->node, &wakes);
	*at = wake;
	pthread_mutex_unlock(&epoll_sets_lock);
	return 0;
}

void epoll_wake_free(struct epoll_wake *wake)
{
	/* Another process may have a copy of the descriptor, which keeps it in the kernel's set. */
	if (wake->kernel_fd >= 0)
		real.epoll_ctl(wake->kernel_fd, EPOLL_CTL_DEL, wake->fd, NULL);
	if (wake->at)
		*wake->at = NULL;
	real_close(wake->fd);
	list_del(&wake->node);
	free(wake);
}

void epoll_wake_orphan(struct epoll_wake *wake)
{
	wake->kernel_fd = -1;
	wake->at = NULL;
}

/* Cannot fail for a descriptor that is in the set. */
static void wake_set_events(const struct epoll_wake *wake, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = EPOLL_WAKE_DATA};

	if (wake->kernel_fd >= 0)
		real.epoll_ctl(wake->kernel_fd, EPOLL_CTL_MOD, wake->fd, &event);
}

static bool is_one_of(int number, const int *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* Counts the threads that poll these numbers. One wake-up descriptor is enough for a thread. */
static void wake_count_polls(struct epoll_wake *wake, const int *numbers, size_t count)
{
	struct epoll_poll *poll;

	pthread_mutex_lock(&polls_lock);
	list_for_each_entry(poll, &polls, node) {
		for (size_t i = 0; !poll->wake && i < poll->count; i++) {
			if (!is_one_of(poll->numbers[i], numbers, count))
				continue;
			poll->wake = wake;
			wake->sleepers++;
		}
	}
	pthread_mutex_unlock(&polls_lock);
}

/*
 * Counts the threads that wait for these numbers. A thread that leaves before the second
 * order_all() may not have found sleeper.wake. If so, this thread takes it back. A thread that
 * leaves later finds it.
 */
static void wake_count_sleepers(struct epoll_wake *wake, const int *numbers, size_t count)
{
	struct epoll_sleeper *sleeper, *first;
	bool has_any = false;

	order_all();
	/* The sleepers of threads that are created from now on find the repoll set. */
	first = atomic_load(&sleepers);
	for (sleeper = first; sleeper; sleeper = sleeper->next) {
		if (!is_one_of(atomic_load(&sleeper->number), numbers, count))
			continue;
		wake->sleepers++;
		atomic_store(&sleeper->wake, wake);
		has_any = true;
	}
	if (!has_any)
		return;
	order_all();
	for (sleeper = first; sleeper; sleeper = sleeper->next) {
		struct epoll_wake *expected = wake;

		if (!is_one_of(atomic_load(&sleeper->number), numbers, count) &&
		    atomic_compare_exchange_strong(&sleeper->wake, &expected, NULL))
			wake->sleepers--;
	}
}

void epoll_wake_all(struct epoll_wake *wake, const int *numbers, size_t count)
{
	wake_count_polls(wake, numbers, count);
	wake_count_sleepers(wake, numbers, count);
	if (!wake->sleepers) {
		epoll_wake_free(wake);
		return;
	}
	atomic_fetch_add(&wakes_in_use, 1);
	atomic_fetch_add(&wakes_armed, 1);
	wake_set_events(wake, EPOLLIN);
}

unsigned epoll_wake_now(void)
{
	unsigned armed = atomic_load(&wakes_armed);

	return atomic_load(&wakes_in_use) ? armed - 1 : armed;
}

bool epoll_wake_since(unsigned then)
{
	return atomic_load(&wakes_armed) != then;
}

void epoll_wake_pause(void)
{
	struct epoll_wake *wake;

	list_for_each_entry(wake, &wakes, node)
		if (wake->sleepers)
			wake_set_events(wake, 0);
}

void epoll_wake_resume(void)
{
	struct epoll_wake *wake;

	list_for_each_entry(wake, &wakes, node)
		if (wake->sleepers)
			wake_set_events(wake, EPOLLIN);
}

void epoll_sleep_rename(int number, int other)
{
	struct epoll_sleeper *sleeper = atomic_load(&sleepers);

	for (; sleeper; sleeper = sleeper->next) {
		int expected = number;

		atomic_compare_exchange_strong(&sleeper->number, &expected, other);
	}
}

void epoll_sleep_after_fork_in_child(void)
{
	struct epoll_sleeper *sleeper = atomic_load(&sleepers);
	struct epoll_wake *wake, *next;

	for (; sleeper; sleeper = sleeper->next) {
		atomic_store(&sleeper->number, NO_NUMBER);
		atomic_store(&sleeper->wake, NULL);
		atomic_store(&sleeper->is_used, sleeper == own_sleeper);
	}
	barrier_register();
	pthread_mutex_init(&polls_lock, NULL);
	list_init(&polls);
	list_for_each_entry_safe(wake, next, &wakes, node) {
		if (wake->at)
			*wake->at = NULL;
		real_close(wake->fd);
		free(wake);
	}
	list_init(&wakes);
	atomic_store(&wakes_in_use, 0);
}
