/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_SOCKET_H
#define USRDMA_RSOCKET_SOCKET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/list.h"
#include "rsocket/config.h"
#include "rsocket/option.h"

struct rsock;

/* One call that moves data. bytes: of all of iov together; flags: MSG_*. */
struct rsock_io {
	const struct iovec *iov;
	int iov_count;
	size_t bytes;
	int flags;
	const struct sockaddr *to; /* of a send; NULL: the peer */
	socklen_t to_bytes;
	struct sockaddr *from; /* of a receive; may be NULL */
	socklen_t *from_bytes;
	size_t whole_bytes; /* out: of the datagram, where it was longer than the buffers */
};

/*
 * What streams and datagrams do each in its own way. All answer 0 (or a number of bytes) or -errno.
 * The caller has a reference; only where "locked" is said, it has sock->lock.
 */
struct rsock_ops {
	int (*bind)(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
	int (*listen)(struct rsock *sock, int backlog);
	int (*accept)(struct rsock *sock, struct rsock **accepted);
	int (*connect)(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
	int (*shutdown)(struct rsock *sock, int how);
	ssize_t (*send)(struct rsock *sock, struct rsock_io *io);
	ssize_t (*receive)(struct rsock *sock, struct rsock_io *io);
	/* The address of one side, in the rsocket's own family. */
	int (*name)(struct rsock *sock, bool is_peer, struct sockaddr_storage *addr);
	/* What an option does besides being remembered, and what it reads if that changes. */
	int (*set_option)(struct rsock *sock, enum rsock_option option, const void *value,
			  socklen_t bytes);
	int (*get_option)(struct rsock *sock, enum rsock_option option, void *value,
			  socklen_t *bytes);

	/*
	 * Where there is a socket of the kernel's behind it, options go to that first; else NULL. pass_get answers 1 for what
	 * the rsocket knows better.
	 */
	int (*pass_set)(struct rsock *sock, int level, int name, const void *value,
			socklen_t bytes);
	int (*pass_get)(struct rsock *sock, int level, int name, void *value, socklen_t *bytes);

	/* Locked: takes what has come; `heard`: the rsocket's descriptor said so. True: news. */
	bool (*progress)(struct rsock *sock, bool heard);
	/* Locked: has the descriptor say when something comes, and takes what has come before. */
	void (*arm)(struct rsock *sock);
	/* Locked: the events of poll(2) that hold now. */
	short (*events)(struct rsock *sock);

	/* Locked: what was sent arrives, and the peer hears that nothing follows; until then. */
	void (*leave)(struct rsock *sock, uint64_t deadline_ns);
	/* Nobody finds it any more, but threads may still be inside: ends what it does. */
	void (*close)(struct rsock *sock);
	/* Nobody is inside any more: frees everything. */
	void (*free)(struct rsock *sock);
	/* In the child of a fork(): closes the copies of descriptors, and touches nothing else. */
	void (*disown)(struct rsock *sock);
};

/*
 * What streams (struct stream) and datagrams (struct dgram) have in common; the first member of
 * either. Made by rsocket() or a listener, found by descriptor through the map, which holds the
 * first reference; freed when rclose() has given that back and no thread is inside any more.
 *
 * fd is an epoll descriptor over all that may announce something for this rsocket; it is what the
 * application gets as the rsocket's number.
 *
 * lock guards everything that is not said to be fixed, and is never held while a thread sleeps. It
 * is taken after the send and receive locks of either kind, and before any lock of librdmacm and
 * libibverbs, which are called with it held; no rsocket's lock is taken while holding another's.
 *
 * It stays in the map while it says goodbye: rpoll(), finding nothing there, would take its number for
 * an ordinary descriptor's, and wait for what never comes.
 */
struct rsock {
	const struct rsock_ops *ops; /* fixed, as are fd, domain and type */
	atomic_uint refs;
	int fd;
	int domain;
	int type;

	pthread_mutex_t lock;
	atomic_ulong owner;	  /* the thread that has the lock, or 0 */
	struct list_head waiters; /* struct wait_link */
	atomic_bool is_closing;	  /* rclose() has begun: no call finds it any more */
	bool is_closed;		  /* … and has said goodbye: calls that were inside end */
	int error;		  /* for SO_ERROR; an errno */
	uint64_t looked_ns;	  /* when the descriptor was last looked at without having spoken */

	atomic_int status_flags;     /* F_GETFL: O_NONBLOCK and whatever was set */
	atomic_int descriptor_flags; /* F_GETFD */
	atomic_bool is_inherited;    /* this is a fork()ed child's copy of its parent's */

	struct rsock_sizes sizes;
	struct option_values options;
};

/* Fills in the common part: one reference, and a descriptor. */
int rsock_init(struct rsock *sock, const struct rsock_ops *ops, int domain, int type)
	__attribute__((warn_unused_result));
/* Undoes it, for those that were never found by anybody. */
void rsock_fini(struct rsock *sock);

void rsock_ref(struct rsock *sock);
void rsock_put(struct rsock *sock);

/* Has the rsocket's descriptor announce what this one announces. */
int rsock_watch(struct rsock *sock, int fd) __attribute__((warn_unused_result));
void rsock_unwatch(struct rsock *sock, int fd);

/* Locked: ops->progress; whoever waits on this rsocket hears of news. */
void rsock_progress(struct rsock *sock, bool heard);
/* Locked: ops->arm, likewise. */
void rsock_arm(struct rsock *sock);
/* Locked: something changed that others may wait for. */
void rsock_wake(struct rsock *sock);
/*
 * Locked: whether it is time to look at the descriptor although it has not spoken: a program that
 * never sleeps hears of its peer's end so.
 */
bool rsock_is_due(struct rsock *sock);

bool rsock_must_not_wait(const struct rsock *sock, int flags);

/*
 * Whether an event channel that gave nothing, but this -errno, is as good as before: what it holds stays there, also for
 * want of memory.
 */
bool rsock_may_look_again(int ret);

/* The error of SO_ERROR is reported once: -errno, or 0. Locked. */
int rsock_take_error(struct rsock *sock);

/*
 * By descriptor, with a reference, or NULL; and what makes it so. From rsock_publish() on the first
 * reference is the map's, until rsock_unpublish() gives it back.
 */
struct rsock *rsock_find(int fd);
int rsock_publish(struct rsock *sock) __attribute__((warn_unused_result));
struct rsock *rsock_unpublish(int fd);

/* In the child of a fork(): all that there are belong to the parent. */
void rsock_after_fork(void);

/* At the end of the process: all that are left take their leave. */
void rsock_leave_all(uint64_t deadline_ns);

static inline void rsock_lock(struct rsock *sock)
{
	pthread_mutex_lock(&sock->lock);
	atomic_store_explicit(&sock->owner, pthread_self(), memory_order_relaxed);
}

static inline void rsock_unlock(struct rsock *sock)
{
	atomic_store_explicit(&sock->owner, 0, memory_order_relaxed);
	pthread_mutex_unlock(&sock->lock);
}

/*
 * Whether this thread has the lock: then this is a signal handler, which must not make calls, and
 * would wait for the one that it interrupted. Programs do it all the same at their end; what is not
 * seen here is the moment in which the lock is taken.
 */
static inline bool rsock_is_interrupted(const struct rsock *sock)
{
	return atomic_load_explicit(&sock->owner, memory_order_relaxed) == pthread_self();
}

#endif
