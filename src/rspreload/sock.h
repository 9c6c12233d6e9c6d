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
 * The kind of a descriptor of the program that this module handles. All other descriptors are
 * passed to the kernel.
 *
 * With RDMAV_FORK_SAFE a stream is a TCP socket at first (SOCK_TCP_*), so that it can be inherited
 * across fork() and execve(). It becomes an rsocket when the program first reads or writes.
 */
enum sock_kind {
	SOCK_RDMA,	/* an rsocket; the program's descriptor is only a placeholder */
	SOCK_TCP_FRESH, /* neither listening nor connected */
	SOCK_TCP_LISTENS,
	SOCK_TCP_ACTIVE,  /* connected; will connect again by RDMA */
	SOCK_TCP_PASSIVE, /* accepted; will accept again by RDMA */
	/*
	 * an epoll descriptor: several numbers, nested in or around another one, or with rsockets
	 * as members
	 */
	SOCK_EPOLL,
	SOCK_PLAIN, /* an ordinary descriptor of the kernel from now on */
};

/*
 * An open file, shared by all descriptor numbers that were duplicated from one another (dup(2)).
 * Reference-counted: one reference for all numbers together, one for each call in progress. `lock`
 * guards the fields below it. A thread holds it while a TCP socket becomes an rsocket, so that no
 * other thread reads or writes during this time.
 */
struct sock {
	atomic_uint refs;
	atomic_int kind;
	int domain;
	int type;
	int rsocket; /* of SOCK_RDMA; does not change afterwards */
	/*
	 * Of a TCP socket: equal inodes identify numbers of the same socket. Of an epoll
	 * descriptor: not unique.
	 */
	ino_t inode;
	atomic_bool is_in_epoll;  /* is, or was, a member of an epoll set */
	atomic_bool is_ended;	  /* epoll_forget() was called */
	struct list_head members; /* struct epoll_member.in_sock, guarded by epoll_sets_lock */
	/*
	 * Of SOCK_EPOLL; NULL until a socket of this library is added. Does not change afterwards.
	 */
	struct epoll_set *_Atomic set;

	pthread_mutex_t lock;
	int *numbers;
	size_t number_count;
	bool was_bound;
	/* of SOCK_TCP_ACTIVE: data was written by TCP, because the peer had sent nothing */
	bool writes_tcp;
	/* of SOCK_TCP_PASSIVE: rsocket to which the peer was asked to connect; -1: none yet */
	int listener;
};

/* Registers the fork handlers of this module, at the first call. sock_new() calls it, too. */
void sock_watch_forks(void);

/* Creates a sock without a number. NULL: out of memory. */
struct sock *sock_new(enum sock_kind kind, int domain, int type);
/* The sock of a number, with a reference; NULL: an ordinary descriptor of the kernel. */
struct sock *sock_find(int number);
void sock_ref(struct sock *sock);
/* Adds a reference unless the last one has been released, and the sock is being freed. */
bool sock_ref_if_used(struct sock *sock);
void sock_put(struct sock *sock);

/* Whether the sock has this number. The caller holds sock->lock. */
bool sock_has_number(const struct sock *sock, int number);

/*
 * Adds a number to the sock; the kernel's descriptor with that number is not changed. Has no effect
 * on a SOCK_PLAIN. 0 or -errno.
 */
int sock_name(struct sock *sock, int number) __attribute__((warn_unused_result));
/* The same unless the number has a sock: -EEXIST, and *present is that sock with a reference. */
int sock_name_unnamed(struct sock *sock, int number, struct sock **present)
	__attribute__((warn_unused_result));
/*
 * Removes a number from its sock, without closing the descriptor. Returns the sock with a
 * reference; *is_last: whether this was its last number. NULL: the number has no sock.
 */
struct sock *sock_unname(int number, bool *is_last);
/* Removes all numbers from first to last, and ends the socks that have no other number. */
void sock_unname_range(unsigned first, unsigned last);

/*
 * To be called when the kernel has returned this number for a new descriptor. If the number still
 * belongs to a sock, the program closed it without a call of this module (a direct system call,
 * io_uring): the number is removed from the sock. A sock without numbers is ended now. If `caller`
 * (a return address) is in librdmacm or libibverbs, which may hold their locks, it is ended by the
 * next sock_end_stale() of the program instead. Does not change errno.
 */
void sock_number_reused(int number, const void *caller);
/*
 * Ends the socks that sock_number_reused() deferred, unless `caller` is in librdmacm or libibverbs.
 */
void sock_end_stale(const void *caller);

/* Ends a sock after its last number was closed. Returns as close(2). */
int sock_end(struct sock *sock);

/*
 * Reserves the lowest free number for a new socket; real_close() frees it. -1 and errno on failure.
 * Not a cancellation point.
 */
int sock_reserve(void);
/*
 * Assigns the number to this rsocket. Returns the number; -1 and errno on failure, after both were
 * closed.
 */
int sock_open_rdma(int number, int rsocket, int domain, int type);
/*
 * Ends the TCP connection of the sock, and makes all numbers placeholders of this rsocket. The
 * caller holds sock->lock.
 */
void sock_become_rdma(struct sock *sock, int rsocket);
/*
 * Makes all numbers duplicates of the ordinary descriptor fd, closes fd and the rsocket, and
 * removes the sock.
 */
void sock_become_plain(struct sock *sock, int fd);
/* Removes the sock of a TCP socket that does not become an rsocket. The caller holds sock->lock. */
void sock_stay_plain(struct sock *sock);

static inline enum sock_kind sock_kind_of(const struct sock *sock)
{
	return (enum sock_kind)atomic_load(&sock->kind);
}

/*
 * Whether this process is the child of a vfork(), which shares its parent's memory. Its descriptors
 * are not the parent's, so its calls must not change the table.
 */
bool sock_in_vfork_child(void);

#endif
