/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_TAKE_EVENT_H
#define USRDMA_RSOCKET_TAKE_EVENT_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "base/syscalls.h"

/*
 * rdma_get_cm_event() on a channel in non-blocking mode, with cancellation disabled: it is a
 * cancellation point even if it does not wait, and rsockets call it with a lock held. Most calls
 * find no event. One recv() detects that; rdma_get_cm_event() needs six system calls for it.
 */
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
