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

struct ibv_context;
struct rsock;

/* One call that transfers data. bytes: total length of iov; flags: MSG_*. */
struct rsock_io {
	const struct iovec *iov;
	int iov_count;
	size_t bytes;
	int flags;
	const struct sockaddr *to; /* destination of a send; NULL: the connected peer */
	socklen_t to_bytes;
	struct sockaddr *from; /* source address of a receive; may be NULL */
	socklen_t *from_bytes;
	size_t whole_bytes; /* out: length of the datagram if it exceeds the buffers */
};

/*
 * Operations that differ between streams and datagrams. They return 0 (or a number of bytes) or
 * -errno. The caller holds a reference. Operations marked "locked" are called with sock->lock held,
 * the others without it.
 */
struct rsock_ops {
	int (*bind)(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
	int (*listen)(struct rsock *sock, int backlog);
	int (*accept)(struct rsock *sock, struct rsock **accepted);
	int (*connect)(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
	int (*shutdown)(struct rsock *sock, int how);
	ssize_t (*send)(struct rsock *sock, struct rsock_io *io);
	ssize_t (*receive)(struct rsock *sock, struct rsock_io *io);
	/* The local or remote address, in the address family of the rsocket. */
	int (*name)(struct rsock *sock, bool is_peer, struct sockaddr_storage *addr);
	/*
	 * Locked. set_option: effect of an option in addition to storing its value. get_option:
	 * value of an option that is not the stored one; -ENOTSUP: use the stored value.
	 */
	int (*set_option)(struct rsock *sock, enum rsock_option option, const void *value,
			  socklen_t bytes);
	int (*get_option)(struct rsock *sock, enum rsock_option option, void *value,
			  socklen_t *bytes);

	/*
	 * Locked. For an rsocket with a kernel socket: passes the option to the kernel socket
	 * first. NULL: no kernel socket. pass_get returns 1 if the rsocket has the value.
	 */
	int (*pass_set)(struct rsock *sock, int level, int name, const void *value,
			socklen_t bytes);
	int (*pass_get)(struct rsock *sock, int level, int name, void *value, socklen_t *bytes);

	/*
	 * Locked: processes completions and events. `is_readable`: the rsocket's descriptor was
	 * readable. Returns true if waiting threads have to check their conditions. Updates
	 * sock->changes.
	 */
	bool (*progress)(struct rsock *sock, bool is_readable);
	/*
	 * Locked: requests a notification for the next event, then processes the events that
	 * arrived before.
	 */
	void (*arm)(struct rsock *sock);
	/* Locked: the events of poll(2) that hold now. */
	short (*events)(struct rsock *sock);

	/*
	 * Called when a thread is cancelled in rsock_wait(): releases what the thread holds except
	 * its reference. NULL: nothing to release.
	 */
	void (*abandon)(struct rsock *sock);
	/*
	 * Locked: waits until the sent data has been delivered and the peer has been notified of
	 * the shutdown, at most until the deadline.
	 */
	void (*leave)(struct rsock *sock, uint64_t deadline_ns);
	/*
	 * Shuts the rsocket down. No new call finds the rsocket, but other threads may still be
	 * inside a call.
	 */
	void (*close)(struct rsock *sock);
	/* Frees the rsocket. No thread is inside a call. */
	void (*free)(struct rsock *sock);
	/*
	 * In the child of a fork(): closes the copies of the descriptors and changes nothing else.
	 */
	void (*disown)(struct rsock *sock);
};

/*
 * The common part of streams (struct stream) and datagram sockets (struct dgram), and the first
 * member of both. Created by rsocket() or by a listener. A map finds it by descriptor and holds the
 * first reference. It is freed when rclose() has dropped that reference and no thread is inside a
 * call.
 *
 * fd is an epoll descriptor that watches all descriptors on which events of this rsocket arrive.
 * The application uses fd as the descriptor of the rsocket.
 *
 * lock guards all fields that are not marked as fixed, and no thread holds it while it sleeps. It
 * is taken after the send and receive locks, and before any lock of librdmacm and libibverbs, which
 * are called with lock held. A thread holds the lock of at most one rsocket.
 *
 * The rsocket stays in the map while it shuts down. Otherwise rpoll() would treat fd as an ordinary
 * descriptor and might wait indefinitely.
 */
struct rsock {
	const struct rsock_ops *ops; /* fixed, as are id, fd, domain and type */
	atomic_uint refs;
	uint64_t id; /* watch_new_id() */
	int fd;
	int end_fd; /* set by rsock_announce_end(); -1: none */
	int domain;
	int type;

	pthread_mutex_t lock;
	atomic_ulong owner;	  /* the thread that holds lock, or 0 */
	struct list_head waiters; /* list of struct wait_link */
	atomic_bool is_closing;	  /* rclose() has started: new calls fail */
	bool is_closed;		  /* shutdown is complete: calls in progress return */
	int error;		  /* value of SO_ERROR, a positive errno */
	/*
	 * Numbers of edges for repoll_wait(): changes of the state; arrivals of data, which are
	 * edges for POLLIN; sends that found no space, because new space is an edge for POLLOUT
	 * only after such a send.
	 */
	uint64_t changes;
	uint64_t arrivals;
	uint64_t full_sends;
	struct list_head memberships; /* of struct repoll_member.in_target; under repoll_lock */
	atomic_bool is_in_repoll;     /* it has been a member of a set */
	struct ibv_context *context;  /* set when the rsocket first has a completion channel */
	uint64_t looked_ns;	      /* time of the last periodic check (rsock_is_due()) */

	atomic_int status_flags;     /* F_GETFL: O_RDWR, O_NONBLOCK and other flags that were set */
	atomic_int descriptor_flags; /* F_GETFD */
	atomic_bool is_inherited;    /* a child's copy of the parent's rsocket after fork() */

	struct rsock_sizes sizes;
	struct option_values options;
};

/* Initialises the common part with one reference and a descriptor. */
int rsock_init(struct rsock *sock, const struct rsock_ops *ops, int domain, int type)
	__attribute__((warn_unused_result));
/* Undoes rsock_init() for an rsocket that was never published. */
void rsock_fini(struct rsock *sock);

void rsock_ref(struct rsock *sock);
void rsock_put(struct rsock *sock);

/* Adds a descriptor to those that the rsocket's descriptor watches. */
int rsock_watch(struct rsock *sock, int fd) __attribute__((warn_unused_result));
/* Changes the events of such a descriptor, which are EPOLLIN at first. */
int rsock_watch_events(struct rsock *sock, int fd, uint32_t events)
	__attribute__((warn_unused_result));
void rsock_unwatch(struct rsock *sock, int fd);

/* Locked: calls ops->progress and wakes the waiting threads if it returns true. */
void rsock_progress(struct rsock *sock, bool is_readable);
/* Locked: calls ops->arm. */
void rsock_arm(struct rsock *sock);
/* Locked: wakes the waiting threads after a change that is an edge for repoll_wait(). */
void rsock_wake(struct rsock *sock);
/* The same for a change that is not an edge, or that was already counted in `changes`. */
void rsock_wake_waiters(struct rsock *sock);
/*
 * Locked: whether a periodic check of the descriptor is due at this time (clock_now_ns()). It
 * detects a disconnect for a program that never sleeps in rsockets.
 */
bool rsock_is_due(struct rsock *sock, uint64_t now_ns);

bool rsock_must_not_wait(const struct rsock *sock, int flags);

/*
 * Whether an event channel that returned this -errno is still usable. Its events stay queued, also
 * after -ENOMEM.
 */
bool rsock_may_look_again(int ret);

/* Returns and clears the error of SO_ERROR: -errno, or 0. Locked. */
int rsock_take_error(struct rsock *sock);

/*
 * rsock_find() finds an rsocket by descriptor and takes a reference; NULL: not found.
 * rsock_publish() transfers the first reference to the map; rsock_unpublish() returns it to the
 * caller.
 */
struct rsock *rsock_find(int fd);
int rsock_publish(struct rsock *sock) __attribute__((warn_unused_result));
struct rsock *rsock_unpublish(int fd);

/*
 * Makes the descriptor permanently readable; to be called before rsock_unpublish(). A thread that
 * enters rpoll() between rsock_unpublish() and the close treats the descriptor as an ordinary one,
 * and poll(2) does not return when a descriptor is closed.
 */
void rsock_announce_end(struct rsock *sock);

/* In the child of a fork(): marks all rsockets as inherited from the parent. */
void rsock_after_fork(void);

/* At the exit of the process: shuts down all remaining rsockets in order. */
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
 * Whether this thread holds the lock. If so, the caller is a signal handler, which must not call
 * rsockets: it would wait for the call that it interrupted. Some programs do so at exit. A signal
 * between the acquisition of the lock and the store to owner is not detected.
 */
static inline bool rsock_is_interrupted(const struct rsock *sock)
{
	return atomic_load_explicit(&sock->owner, memory_order_relaxed) == pthread_self();
}

#endif
