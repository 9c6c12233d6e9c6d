/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CLOSER_H
#define USRDMA_DAEMON_CLOSER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"

/*
 * Closes descriptors whose close() may block for as long as a client chooses: a file of a FUSE file
 * system that the client serves, a TCP socket with SO_LINGER, an AF_UNIX socket whose receive queue
 * holds such a descriptor. Threads call close(). So the daemon's loop never waits. They close
 * memory and sockets with empty queues first, which is all that most requests of clients contain.
 * Of each user, at most one thread closes other descriptors, so that no user waits for descriptors
 * of another user. A thread allocates no memory.
 */

/*
 * Limit of one user: while this many of its descriptors are not closed, the daemon receives nothing
 * from that user.
 */
#define CLOSER_USER_MAX 64
/*
 * Limit of all users together: at this number, the daemon receives only from users without unclosed
 * descriptors.
 */
#define CLOSER_ALL_MAX 2048
/*
 * Maximum number of threads in a close() that may block. If it hangs for this many users, such
 * descriptors of other users wait.
 */
#define CLOSER_SERVING_MAX 64
/* Maximum number of threads. */
#define CLOSER_THREADS_MAX (2 * CLOSER_SERVING_MAX)

/*
 * Part of struct server, which outlives the threads. The loop's thread calls the functions below;
 * `lock` guards the fields that the closing threads use.
 */
struct closer {
	uv_async_t done;
	void (*on_closed)(
		struct closer *closer); /* called from the loop after descriptors were closed */
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	struct list_head
		users; /* struct closer_user: users with descriptors that are not closed yet */
	struct list_head added;	    /* struct closing that no thread has examined */
	struct list_head closed;    /* struct closing, to be freed by the loop's thread */
	unsigned int serving_count; /* threads in a close() that may block */
	unsigned int thread_count;
	unsigned int idle_count; /* threads that wait for work */
	unsigned int busy_count; /* threads in close() */
	unsigned int wake_count; /* threads that were signalled and have not run yet */
	unsigned int pending;
	bool is_stopped; /* the loop ends: the threads do not notify it any more */
};

/* 0, or -errno if the first thread cannot be started. */
int closer_start(struct closer *closer, uv_loop_t *loop, void (*on_closed)(struct closer *closer))
	__attribute__((warn_unused_result));

/*
 * No calls may follow. A close() that still blocks continues until it returns or the process ends.
 */
void closer_stop(struct closer *closer);

/*
 * Closes fd in a thread. uid is the user who passed the descriptor or can write into it; fd counts
 * towards its limit. -1 is ignored.
 */
void closer_add(struct closer *closer, uid_t uid, int fd);

/*
 * Closes a socket of the daemon that is connected to a client: at once if its receive queue
 * contains no descriptors, otherwise as closer_add(). Only for sockets from which only the daemon
 * reads; no client may hold a copy.
 */
void closer_add_socket(struct closer *closer, uid_t uid, int fd);

/*
 * closer_pending() returns the number of the user's unclosed descriptors. closer_is_full() returns
 * whether the user has reached the limit at which the daemon stops receiving from it.
 */
unsigned int closer_pending(struct closer *closer, uid_t uid);
bool closer_is_full(struct closer *closer, uid_t uid);

#endif
