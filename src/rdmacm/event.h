/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_EVENT_H
#define USRDMA_RDMACM_EVENT_H

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "ipc/msg.h"
#include "rdmacm/id.h"

/*
 * An event in the user's hands, from rdma_get_cm_event to rdma_ack_cm_event, which frees it. Its
 * owner is the id whose end must wait for it: pub.id, but the listener for a CONNECT_REQUEST. node
 * is on the owner's unacked list, under the owner's lock; the rest is the user's.
 */
struct rcm_event {
	struct rdma_cm_event pub; /* first: the user's pointer is ours */
	struct rcm_id *owner;
	struct rcm_membership *membership; /* of a join's outcome, which counts it; else NULL */
	struct list_head node;
	uint8_t private_data[IPC_PRIVATE_MAX];
};

static inline struct rcm_event *rcm_event_of(struct rdma_cm_event *event)
{
	return container_of(event, struct rcm_event, pub);
}

/*
 * The next event that concerns the user, waiting for it as the channel's fd says. 0 or -errno:
 * -EAGAIN, -EINTR, and -ENODEV once every id was told that the daemon is gone.
 */
int rcm_event_get(struct rcm_channel *channel, struct rcm_event **event)
	__attribute__((warn_unused_result));

/* Frees the event and lets its owner's end go on. */
void rcm_event_ack(struct rcm_event *event);

/*
 * Drops the events of destroyed ids and of multicast groups that were left, as long as they are at
 * the head of the channel's socket, with the channel's lock held: so whoever polls the fd and finds
 * it readable finds an event that somebody waits for.
 */
void rcm_event_trim(struct rcm_channel *channel);

/*
 * The end of a call on an id: on an asynchronous one nothing; on a synchronous one, waits for
 * `expected`, which is left in id->event like any event that decides the outcome. 0, or -errno:
 * -ECONNREFUSED when rejected, -ENODEV when the device is gone, otherwise what the event's status
 * says.
 */
int rcm_event_complete(struct rcm_id *id, enum rdma_cm_event_type expected)
	__attribute__((warn_unused_result));

/*
 * What an event does before the user sees it: one function per type, in deliver.c. false: the user
 * is not to see it.
 */
bool rcm_event_deliver(struct rcm_event *event, const struct ipc_cm_event *msg)
	__attribute__((warn_unused_result));

/* Ends an id of the daemon's that no id here stands for. */
void rcm_event_refuse(struct rcm_session *session, uint32_t handle);

#endif
