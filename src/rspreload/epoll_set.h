/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_EPOLL_SET_H
#define USRDMA_RSPRELOAD_EPOLL_SET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/id_table.h"
#include "base/list.h"
#include "rspreload/sock.h"

/*
 * Interface between epoll.c, which creates and frees sets, epoll_member.c, which changes their
 * members, and epoll_wait.c, which waits for events.
 */

/*
 * The event data of the kernel's set in the repoll set; the event data of other members is struct
 * epoll_member.handle.
 */
#define EPOLL_KERNEL_HANDLE 0

/*
 * A repoll set with a single member. A repoll set identifies its members by the rsocket's
 * descriptor, but an epoll set by the program's descriptor number. If an rsocket has two numbers in
 * one epoll set, the second one gets its own repoll set, which is a member of the first repoll set.
 * The member holds one reference, and each thread that reads its event holds one.
 */
struct epoll_own_set {
	atomic_uint refs;
	int fd;
};

/*
 * A socket of this library in one set, or an epoll descriptor with a repoll set, identified as in
 * epoll_ctl(2) by a descriptor number and its open file. The number may have been closed, while the
 * file has other numbers.
 */
struct epoll_member {
	struct list_head in_set;
	struct list_head in_sock;
	struct epoll_set *set;
	struct sock *sock;
	uint64_t handle;
	int number;
	uint32_t events;
	epoll_data_t data;
	struct epoll_own_set *own;
	/* a TCP socket or an inactive epoll set, which is a member of the kernel's set */
	bool is_kernels;
	bool is_watched; /* a member of the repoll set */
	/* EPOLLONESHOT: reported while it was the kernel's; not watched until EPOLL_CTL_MOD */
	bool is_disabled;
};

/*
 * The members of one epoll descriptor. Owned by the sock of that descriptor. epoll_sets_lock guards
 * all sets; it is acquired after the lock of a sock and before the locks of librdmacm's repoll
 * sets.
 *
 * A set is active from the first socket of this library that is added to it or to a set nested in
 * it: it has a repoll set. An inactive set has only other epoll descriptors in `members`; the
 * kernel reports all of its events. If a set is active, each set that contains it is active, too. A
 * set does not become inactive.
 */
struct epoll_set {
	struct sock *owner; /* without a reference */
	int kernel_fd;	    /* the kernel's set */
	/* -1: the set is inactive, or active in a fork()ed child that has not used it */
	int repoll;
	atomic_bool is_active;
	unsigned generation;
	struct epoll_wake *wake; /* see epoll_sleep.h */
	struct list_head members;
	struct id_table handles;
};

extern pthread_mutex_t epoll_sets_lock;
/*
 * Orders changes of the nesting of sets: EPOLL_CTL_ADD, EPOLL_CTL_MOD and EPOLL_CTL_DEL of an epoll
 * descriptor, and the change of a set to an active set. Acquired before the lock of a sock.
 */
extern pthread_mutex_t epoll_nesting_lock;

/* Makes the set of an epoll descriptor active. 0 or -errno. The caller holds epoll_nesting_lock. */
int epoll_activate(struct sock *owner) __attribute__((warn_unused_result));

/*
 * Prepares an active set for use: after a fork(), removes the parent's rsockets and creates new
 * repoll sets for the set and the sets in it. 0 or -errno. The second function is for callers that
 * hold epoll_nesting_lock.
 */
int epoll_set_ready(struct epoll_set *set) __attribute__((warn_unused_result));
int epoll_set_ready_locked(struct epoll_set *set) __attribute__((warn_unused_result));
/*
 * In a fork()ed child: removes the parent's rsockets and repoll set from the set. The caller holds
 * epoll_sets_lock.
 */
void epoll_set_disinherit(struct epoll_set *set);
/* In a fork()ed child: all sets still have the parent's repoll sets. */
void epoll_sets_inherited(void);
/* The generation of new sets. */
unsigned epoll_generation(void);

/*
 * 0 or -errno. Called without epoll_sets_lock: the new descriptor may reuse the number of a sock,
 * which then ends.
 */
int epoll_own_set_new(struct epoll_own_set **made) __attribute__((warn_unused_result));
void epoll_own_set_put(struct epoll_own_set *own);

/*
 * EPOLL_CTL_ADD, EPOLL_CTL_MOD and EPOLL_CTL_DEL for a socket of this library or an epoll
 * descriptor. 0 or -errno; -ENOTUNIQ: another number of the socket is a member, and *own is NULL.
 * *own becomes NULL if the member takes it. The caller holds epoll_sets_lock.
 */
int epoll_member_control(struct epoll_set *set, int op, int number, struct sock *sock,
			 const struct epoll_event *event, struct epoll_own_set **own)
	__attribute__((warn_unused_result));

/* Removes a member from the repoll set, and frees it. The caller holds epoll_sets_lock. */
void epoll_member_free(struct epoll_member *member);
/*
 * Adds the members to a new repoll set that are not the kernel's. The caller holds epoll_sets_lock.
 */
void epoll_members_watch(struct epoll_set *set);
/*
 * The set of an epoll descriptor has become active: moves it from the kernel's sets, of which it is
 * a member, to their repoll sets. The caller holds sock->lock and epoll_sets_lock.
 */
void epoll_member_activated(struct sock *sock);
/*
 * Whether the member is a nested set that has no event but a wake-up descriptor (epoll_sleep.h). If
 * so, the member is enabled again, because the event that was read is not reported. The caller
 * holds epoll_sets_lock.
 */
bool epoll_member_discard_wake_up(struct epoll_member *member) __attribute__((warn_unused_result));
/* Removes the member from the repoll set. The caller holds epoll_sets_lock. */
void epoll_member_unwatch(struct epoll_member *member);

#endif
