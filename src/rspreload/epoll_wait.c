/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "rspreload/epoll.h"
#include "rspreload/epoll_set.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"

/* Classification of an event of the repoll set. */
enum event_kind {
	EVENT_NONE, /* the member left the set */
	EVENT_KERNEL,
	EVENT_MEMBER,
	EVENT_OWN, /* the member has its own repoll set, which is returned with a reference */
};

static enum event_kind event_kind(struct epoll_set *set, struct epoll_event *event,
				  struct epoll_own_set **own)
{
	enum event_kind kind = EVENT_NONE;
	struct epoll_member *member;

	if (event->data.u64 == EPOLL_KERNEL_HANDLE)
		return EVENT_KERNEL;
	pthread_mutex_lock(&epoll_sets_lock);
	member = id_table_get(&set->handles, event->data.u64);
	if (member && !member->is_kernels) {
		kind = member->own && own ? EVENT_OWN : EVENT_MEMBER;
		if (kind == EVENT_OWN) {
			*own = member->own;
			atomic_fetch_add(&member->own->refs, 1);
		} else {
			event->data = member->data;
		}
	}
	pthread_mutex_unlock(&epoll_sets_lock);
	return kind;
}

/* Reads the event of a member that has its own repoll set. False: no event. */
static bool own_event(struct epoll_set *set, struct epoll_own_set *own, struct epoll_event *event)
{
	bool has_event = repoll_calls()->wait(own->fd, event, 1, 0) == 1;

	epoll_own_set_put(own);
	return has_event && event_kind(set, event, NULL) == EVENT_MEMBER;
}

/*
 * Whether an event of a nested set is only a wake-up descriptor in a kernel's set. The event is
 * then discarded: one-shot and edge-triggered members are enabled again.
 */
static bool is_wake_up(struct epoll_set *set, uint64_t handle)
{
	struct epoll_member *member;
	bool is_wake_up = false;

	pthread_mutex_lock(&epoll_sets_lock);
	member = id_table_get(&set->handles, handle);
	if (member)
		is_wake_up = epoll_member_discard_wake_up(member);
	pthread_mutex_unlock(&epoll_sets_lock);
	return is_wake_up;
}

/*
 * Converts events of the repoll set to events of the program, in place. Returns the number of
 * events. An error of the kernel is returned as -errno if there are no other events. wakes:
 * epoll_wake_now() before the events were read.
 */
static int translate(struct epoll_set *set, struct epoll_event *events, int count, int most,
		     unsigned wakes)
{
	bool has_kernel = false;
	int done = 0, more = 0;

	for (int i = 0; i < count; i++) {
		struct epoll_event event = events[i];
		struct epoll_own_set *own = NULL;
		enum event_kind kind;

		if (epoll_wake_since(wakes) && is_wake_up(set, event.data.u64))
			continue;
		kind = event_kind(set, &event, &own);

		has_kernel = has_kernel || kind == EVENT_KERNEL;
		if (kind == EVENT_MEMBER || (kind == EVENT_OWN && own_event(set, own, &event)))
			events[done++] = event;
	}
	if (has_kernel && done < most)
		more = epoll_sleep_look(set->kernel_fd, events + done, most - done);
	if (more < 0)
		return done ? done : -errno;
	return done + more;
}

static int wait_once(struct epoll_set *set, struct epoll_event *events, int most, int timeout_ms,
		     const sigset_t *mask)
{
	unsigned wakes = epoll_wake_now();
	int count = preload_repoll_wait(set->repoll, events, most, timeout_ms, mask);
	int cancel_state;

	if (count <= 0)
		return count < 0 ? -errno : 0;
	/* A cancellation here would lose events that were already dequeued. */
	cancel_state = cancel_disable();
	count = translate(set, events, count, most, wakes);
	cancel_restore(cancel_state);
	return count;
}

int epoll_set_wait(struct sock *epoll, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask)
{
	struct epoll_set *set = atomic_load(&epoll->set);
	uint64_t deadline_ns = 0;
	int ret;

	if (most <= 0 || most > SYS_EPOLL_EVENTS_MAX)
		return -EINVAL;
	ret = epoll_set_ready(set);
	if (ret)
		return ret;
	if (timeout_ms > 0)
		deadline_ns = clock_now_ns() + (unsigned)timeout_ms * CLOCK_NS_PER_MS;
	for (;;) {
		unsigned wakes = epoll_wake_now();
		int left_ms = timeout_ms;

		if (timeout_ms > 0)
			left_ms = clock_left_ms(clock_now_ns(), deadline_ns);
		ret = wait_once(set, events, most, left_ms, mask);
		/* The threads that a wake-up descriptor wakes can leave the kernel now. */
		if (!ret && epoll_wake_since(wakes))
			sched_yield();
		if (ret || !timeout_ms || (timeout_ms > 0 && clock_now_ns() >= deadline_ns))
			return ret;
	}
}
