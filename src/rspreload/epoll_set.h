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
 * Interface between epoll.c, which creates and frees sets, epoll_member.c, which changes their members, and epoll_wait.c,
 * which waits for events.
 */

/* The event data of the kernel's set in the repoll set; the event data of other members is struct epoll_member.handle. */
#define EPOLL_KERNEL_HANDLE 0

/*
 * A repoll set with a single member. A repoll set identifies its members by the rsocket's descriptor, but an epoll set by the
 * program's descriptor number. If an rsocket has two numbers in one epoll set, the second one gets its own repoll set, which
 * is a member of the first repoll set. The member holds one reference, and each thread that reads its event holds one.
 */
struct epoll_own_set {
	atomic_uint refs;
	int fd;
};

/*
 * A socket of this library in one set, or an epoll descriptor with a repoll set, identified as in epoll_ctl(2) by a
 * descriptor number and its open file. The number may have been closed, while the file has other numbers.
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
	bool is_kernels; /* a TCP socket, which is a member of the kernel's set */
	bool is_watched; /* a member of the repoll set */
	bool is_disabled; /* EPOLLONESHOT: reported while it was the kernel's; not watched until EPOLL_CTL_MOD */
};

/*
 * The members of one epoll descriptor. Owned by the sock of that descriptor. epoll_sets_lock guards all sets; it is acquired
 * after the lock of a sock and before the locks of librdmacm's repoll sets. repoll: -1 in a fork()ed child until the set is
 * used.
 */
struct epoll_set {
	int kernel_fd; /* the kernel's set */
	int repoll;
	unsigned generation;
	struct list_head members;
	struct id_table handles;
};

extern pthread_mutex_t epoll_sets_lock;

/* Prepares the set for use: after a fork(), removes the parent's rsockets and creates a new repoll set. 0 or -errno. */
int epoll_set_ready(struct epoll_set *set) __attribute__((warn_unused_result));
/* In a fork()ed child: removes the parent's rsockets and repoll set from the set. The caller holds epoll_sets_lock. */
void epoll_set_disinherit(struct epoll_set *set);

/* 0 or -errno. Called without epoll_sets_lock: the new descriptor may reuse the number of a sock, which then ends. */
int epoll_own_set_new(struct epoll_own_set **made) __attribute__((warn_unused_result));
void epoll_own_set_put(struct epoll_own_set *own);

/*
 * EPOLL_CTL_ADD, EPOLL_CTL_MOD and EPOLL_CTL_DEL for a socket of this library. 0 or -errno; -ENOTUNIQ: another number of the
 * socket is a member, and *own is NULL. *own becomes NULL if the member takes it. The caller holds epoll_sets_lock.
 */
int epoll_member_control(struct epoll_set *set, int op, int number, struct sock *sock,
			 const struct epoll_event *event, struct epoll_own_set **own)
	__attribute__((warn_unused_result));

/* Removes a member from the repoll set, and frees it. The caller holds epoll_sets_lock. */
void epoll_member_free(struct epoll_member *member);
/* Adds the members to a new repoll set that are not the kernel's. The caller holds epoll_sets_lock. */
void epoll_members_watch(struct epoll_set *set);

#endif
