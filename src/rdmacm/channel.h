/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CHANNEL_H
#define USRDMA_RDMACM_CHANNEL_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "base/list.h"
#include "rdmacm/session.h"

struct rcm_event;

/*
 * An event channel. pub.fd, which the application polls, is this end of a SEQPACKET socket pair.
 * The daemon has the other end and pushes struct ipc_cm_event.
 *
 * Owned by the application, or by the synchronous id for which it was created. Its end destroys the
 * daemon's channel and, as in Linux, the daemon's ids of the channel. Each id on the channel has a
 * reference, so that a premature rdma_destroy_event_channel() does not free it. The memory is freed
 * when the last reference is dropped.
 *
 * `lock` guards this struct and the members of an id that are marked so. A thread receives a
 * message from the socket and adds the event to its id without releasing `lock`, so a thread with
 * the lock sees every event that is no longer in the socket. No thread waits for an event with
 * `lock` held. `hold_lock` is held while the daemon suspends the pushes of the channel (migrate.c).
 * Lock order: hold_lock -> lock -> an id's lock -> id table, sessions, client.
 */
struct rcm_channel {
	struct rdma_event_channel pub; /* first: the application has its address */
	struct rcm_session *session;
	uint32_t handle; /* the daemon's handle of the channel */
	pthread_mutex_t hold_lock;
	pthread_mutex_t lock;
	unsigned refs;
	unsigned waiters;     /* threads that wait for an event, or left the wait by siglongjmp() */
	bool is_closed;	      /* by the application */
	bool is_destroyed;    /* in the daemon, with its ids, or the request is under way */
	bool is_dead;	      /* connection lost; each id gets one DEVICE_REMOVAL event */
	bool has_stale;	      /* events of destroyed ids may be in the socket */
	struct list_head ids; /* struct rcm_id */
	bool has_reader;  /* a thread has received an event and is expected to receive the next */
	pthread_t reader; /* the thread that received the last event */
	struct rcm_event *spare; /* used if an event cannot be allocated; NULL while in use */
	/* memory of the next rejection of a dropped connection request; NULL after use */
	struct ipc_queued *refusal;
};

static inline struct rcm_channel *rcm_channel_of(struct rdma_event_channel *channel)
{
	return container_of(channel, struct rcm_channel, pub);
}

/* Creates a channel in the current session, with one reference. 0 or -errno. */
int rcm_channel_create(struct rcm_channel **channel) __attribute__((warn_unused_result));
void rcm_channel_ref(struct rcm_channel *channel);
void rcm_channel_put(struct rcm_channel *channel);

/*
 * Takes and drops a reference of a thread that waits for an event. As with a descriptor of Linux,
 * whose file remains while a thread is in read(), the daemon's channel and ids exist until the last
 * thread leaves the wait.
 */
void rcm_channel_begin_wait(struct rcm_channel *channel);
void rcm_channel_end_wait(struct rcm_channel *channel);

/*
 * Closes the application's end of the socket pair, destroys the daemon's channel and ids unless a
 * thread waits on the channel, and drops the owner's reference.
 */
void rcm_channel_close(struct rcm_channel *channel);

/* Whether the daemon has destroyed the channel and its ids. */
bool rcm_channel_is_destroyed(struct rcm_channel *channel);

#endif
