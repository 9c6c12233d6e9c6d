/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_REPOLL_H
#define USRDMA_RSOCKET_REPOLL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

struct rsock;
struct waiter;

/* Maximum nesting depth of epoll sets (epoll_ctl(2)). */
#define REPOLL_DEPTH_MAX 5

/*
 * An epoll set of repoll_create(). `fd` is an epoll descriptor of the kernel, which watches the
 * members that are neither rsockets nor sets. Rsockets and nested sets are in `members`, because
 * the kernel cannot detect when they are ready. A map finds the set by descriptor and holds the
 * first reference. The set is freed when rclose() has dropped that reference and no thread uses the
 * set. repoll_lock guards all sets and their members; it is taken before the lock of an rsocket.
 */
struct repoll {
	atomic_uint refs;
	int fd;
	uint64_t id; /* watch_new_id() */
	bool is_closed;
	atomic_bool kernel_first; /* alternates: ordinary descriptors are reported first */
	uint32_t version; /* number of changes of the members, including those of nested sets */
	struct list_head members; /* of struct repoll_member.in_set */
	struct list_head within;  /* of struct repoll_member.in_target: sets with this member */
	struct list_head waits;	  /* of struct repoll_wait.node: threads in repoll_wait() */
};

/* An rsocket or a set that is a member of a set. Owned by the set. */
struct repoll_member {
	struct list_head in_set;    /* repoll.members */
	struct list_head in_target; /* rsock.memberships, or repoll.within */
	struct repoll *set;
	struct rsock *sock;    /* either sock or nested is set */
	struct repoll *nested; /* a nested set */
	int fd;
	uint32_t events;
	epoll_data_t data;
	uint32_t reported; /* EPOLLET: the events that were reported */
	/* EPOLLET: rsock_edge.changes at that time; of a nested set, look_changes() */
	uint64_t reported_changes;
	uint32_t reported_version; /* EPOLLET: of a nested set, its version at that time */
	bool is_spent;		   /* EPOLLONESHOT: disabled until EPOLL_CTL_MOD */
	int edge_fd;		   /* of a nested set with EPOLLET, see repoll_edge.h; -1: none */
	uint32_t edge_version;	   /* version of the nested set when edge_fd was created */
	uint64_t edge_id;	   /* of edge_fd, watch_new_id() */
};

/*
 * A thread in repoll_wait(), on the thread's stack. The waiter is signalled when the members
 * change.
 */
struct repoll_wait {
	struct list_head node; /* repoll.waits */
	struct waiter *waiter;
};

extern pthread_mutex_t repoll_lock;

/* Finds a set by descriptor and takes a reference; NULL: not found. */
struct repoll *repoll_find(int fd);
void repoll_put(struct repoll *set);

/* Closes a set for rclose(). -EBADF: the descriptor is not a set. */
int repoll_close(int fd) __attribute__((warn_unused_result));

/* Removes an rsocket that is being closed from all sets. */
void repoll_forget(struct rsock *sock);

/* fork() handlers. They take the lock so that the child's copies of the sets are consistent. */
void repoll_before_fork(void);
void repoll_after_fork_in_parent(void);
void repoll_after_fork_in_child(void);

#endif
