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
 * An event channel. pub.fd, which the user polls, is this end of a SEQPACKET pair; the daemon holds
 * the other and pushes struct ipc_cm_event.
 *
 * The user owns it, or the one synchronous id it was made for; each id on it counts too, so that
 * its memory outlives a careless rdma_destroy_event_channel. The last reference tells the daemon.
 *
 * lock guards everything here and those members of an id that say so. A message is taken out of the
 * socket and booked to its id under one hold of it, so that whoever has the lock knows of every
 * event that is no longer in the socket. Nobody waits for an event with the lock held. hold_lock is
 * held by whoever has the daemon hold back the channel's pushes (migrate.c). Lock order: hold_lock
 * -> lock -> an id's lock -> id table, sessions, client.
 */
struct rcm_channel {
	struct rdma_event_channel pub; /* first: the user has its address */
	struct rcm_session *session;
	uint32_t handle; /* the daemon's */
	pthread_mutex_t hold_lock;
	pthread_mutex_t lock;
	unsigned refs;
	bool is_dead;		 /* the daemon is gone; every id is told once */
	bool has_stale;		 /* events of destroyed ids may be in the socket */
	struct list_head ids;	 /* struct rcm_id */
	struct rcm_event *spare; /* for an event where there is no memory; NULL while it is used */
};

static inline struct rcm_channel *rcm_channel_of(struct rdma_event_channel *channel)
{
	return container_of(channel, struct rcm_channel, pub);
}

/* Makes a channel in the current session, with one reference. */
int rcm_channel_create(struct rcm_channel **channel) __attribute__((warn_unused_result));
void rcm_channel_ref(struct rcm_channel *channel);
void rcm_channel_put(struct rcm_channel *channel);

/* Closes the user's end and drops the owner's reference. */
void rcm_channel_close(struct rcm_channel *channel);

#endif
