/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_TAKE_EVENT_H
#define USRDMA_RSOCKET_TAKE_EVENT_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "base/syscalls.h"

/*
 * ibv_get_cq_event() and rdma_get_cm_event() on channels in non-blocking mode, with cancellation disabled. Both calls
 * are cancellation points even if they do not wait, and rsockets call them with a lock held. The return values are
 * those of the wrapped calls.
 */

static inline int take_cq_event(struct ibv_comp_channel *channel)
{
	int cancel_state = cancel_disable();
	struct ibv_cq *cq;
	void *context;
	int ret = ibv_get_cq_event(channel, &cq, &context);

	cancel_restore(cancel_state);
	return ret;
}

/* Most calls find no event. One recv() detects that; rdma_get_cm_event() needs six system calls for it. */
static inline int take_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int cancel_state;
	char byte;
	int ret;

	if (sys_recv(channel->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 &&
	    errno == EAGAIN)
		return -1;
	cancel_state = cancel_disable();
	ret = rdma_get_cm_event(channel, event);
	cancel_restore(cancel_state);
	return ret;
}

#endif
