/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_EVENT_H
#define USRDMA_RDMACM_EVENT_H

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "ipc/msg_cm.h"
#include "rdmacm/id.h"

/*
 * An event that the application holds, from rdma_get_cm_event() to rdma_ack_cm_event(), which frees
 * it. `owner` is the id whose destruction waits for the acknowledgement: pub.id, or the listener
 * for a CONNECT_REQUEST. `node` is in the owner's unacked list and guarded by the owner's lock. The
 * application may read and write `pub`.
 */
struct rcm_event {
	struct rdma_cm_event pub; /* first: the application has its address */
	struct rcm_id *owner;
	struct rcm_membership *membership; /* of MULTICAST_JOIN and MULTICAST_ERROR; else NULL */
	struct list_head node;
	uint8_t private_data[IPC_PRIVATE_MAX];
};

static inline struct rcm_event *rcm_event_of(struct rdma_cm_event *event)
{
	return container_of(event, struct rcm_event, pub);
}

/*
 * Gets the next event for the application. Blocks unless the channel's fd is O_NONBLOCK. 0 or
 * -errno: -EAGAIN; -EINTR; -ENODEV if the connection to the daemon is lost and each id has got its
 * DEVICE_REMOVAL event.
 */
int rcm_event_get(struct rcm_channel *channel, struct rcm_event **event)
	__attribute__((warn_unused_result));

/*
 * Removes the event from its owner's unacked list, wakes threads that wait for that, and frees the
 * event.
 */
void rcm_event_ack(struct rcm_event *event);

/*
 * Drops events of destroyed ids and ended multicast memberships from the head of the channel's
 * socket. A readable fd then means that an event for the application is available. Called with the
 * channel's lock held.
 */
void rcm_event_trim(struct rcm_channel *channel);

/*
 * Completes a call on an id. For an asynchronous id it returns 0 at once. For a synchronous id it
 * waits for the event `expected` or an event that reports a failure, and stores the event in
 * id->event. CONNECT_RESPONSE, which an id without a QP gets, also ends a wait for ESTABLISHED, and
 * TIMEWAIT_EXIT a wait for DISCONNECTED. 0, or -errno: -ECONNREFUSED if the connection was
 * rejected, -ENODEV if the device was removed, otherwise from the event's status.
 */
int rcm_event_complete(struct rcm_id *id, enum rdma_cm_event_type expected)
	__attribute__((warn_unused_result));

/*
 * Whether a preceding call on a synchronous id was interrupted while it waited for this event, and
 * the event was not received since. If so, its request was already sent, and the repeated call only
 * has to wait.
 */
bool rcm_event_is_awaited(const struct rcm_id *id, enum rdma_cm_event_type expected);

/*
 * Updates the id for an event before the application gets it; deliver.c has one function for each
 * event type. false: the event is not reported to the application.
 */
bool rcm_event_deliver(struct rcm_event *event, const struct ipc_cm_event *msg)
	__attribute__((warn_unused_result));

#endif
