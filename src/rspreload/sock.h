/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_SOCK_H
#define USRDMA_RSPRELOAD_SOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/list.h"

struct epoll_set;

/*
 * What a descriptor of the program's is, if it is not simply what the kernel says.
 *
 * With RDMAV_FORK_SAFE a stream begins as a TCP socket, so that it passes a fork() or an execve(),
 * and becomes an rsocket when it is first read or written: SOCK_TCP_* until then.
 */
enum sock_kind {
	SOCK_RDMA,	/* an rsocket; the program's number is only a place-holder */
	SOCK_TCP_FRESH, /* neither listens nor is connected */
	SOCK_TCP_LISTENS,
	SOCK_TCP_ACTIVE,  /* connected, and about to do so again by RDMA */
	SOCK_TCP_PASSIVE, /* accepted, and about to be met again by RDMA */
	SOCK_EPOLL,	  /* an epoll descriptor with rsockets among what it watches */
	SOCK_PLAIN,	  /* nothing of ours any more */
};

/*
 * Shared by all numbers that were duplicated from one another. Counted by references: one for all
 * the numbers together, and one for each call that is inside. lock guards what is below it, and is
 * held while a TCP socket becomes an rsocket, so that nobody reads or writes meanwhile.
 */
struct sock {
	atomic_uint refs;
	atomic_int kind;
	int domain;
	int type;
	int rsocket; /* of SOCK_RDMA; fixed from then on */
	ino_t inode; /* of a TCP socket: by it two numbers are known to be one */
	atomic_bool is_in_epoll;
	struct list_head members; /* epoll.c's, under its lock */
	struct epoll_set *set;	  /* of SOCK_EPOLL */

	pthread_mutex_t lock;
	int *numbers;
	size_t number_count;
	bool was_bound;
};

/* A new one without a number. NULL: no memory. */
struct sock *sock_new(enum sock_kind kind, int domain, int type);
/* By number, with a reference, or NULL: the kernel's business. */
struct sock *sock_find(int number);
void sock_ref(struct sock *sock);
void sock_put(struct sock *sock);

/* Gives it another number; the number's own descriptor stays what it is. 0 or -errno. */
int sock_name(struct sock *sock, int number) __attribute__((warn_unused_result));
/*
 * Takes a number away, without closing it. What had it, with a reference, and in *is_last whether
 * that was its last number; or NULL.
 */
struct sock *sock_unname(int number, bool *is_last);
/* All numbers from first to last. */
void sock_unname_range(unsigned first, unsigned last);

/* What a sock does at its end, when its last number was closed. The result of a close(2). */
int sock_end(struct sock *sock);

/* The lowest free number, for what is to come; without that, close() takes it back. -1 with errno. */
int sock_reserve(void);
/* The number becomes this rsocket's. It, or -1 with errno, and both are closed. */
int sock_open_rdma(int number, int rsocket, int domain, int type);
/* From now on all its numbers are place-holders of this rsocket. Locked. */
void sock_become_rdma(struct sock *sock, int rsocket);
/* The other way round: they are this descriptor, which is closed, and nothing else. */
void sock_become_plain(struct sock *sock, int fd);
/* The same for a TCP socket that stays one. Locked. */
void sock_stay_plain(struct sock *sock);

static inline enum sock_kind sock_kind_of(const struct sock *sock)
{
	return (enum sock_kind)atomic_load(&sock->kind);
}

/*
 * Whether this is the child of a vfork(), which runs in its parent's memory: what it does to its
 * descriptors is none of the table's business.
 */
bool sock_is_borrowed(void);

#endif
