/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_SESSION_H
#define USRDMA_RDMACM_SESSION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "ipc/client.h"

/*
 * This process's time with one daemon: the connection for requests and the devices opened while it
 * lasted. There is one current session, made by the first call that needs the daemon; when the
 * daemon is found dead, or after fork() in the child, the next such call makes a new one, and
 * whatever belongs to the old one answers ENODEV.
 *
 * Shared by every channel and id made in it, counted in refs (guarded by the lock inside
 * session.c); the last to go closes the connection. devices is guarded by devices_lock. The
 * devices' contexts stay open for ever: the application may hold them (rdma_get_devices(3)).
 *
 * rcm_ is the prefix of this room.
 */
struct rcm_session {
	struct ipc_client client;
	unsigned refs;
	bool is_inherited; /* seen in the child of a fork() */

	pthread_mutex_t devices_lock;
	struct list_head devices; /* struct rcm_device */
	struct rcm_session *next; /* of those that ended with devices */
};

/*
 * The current session, made if there is none or its daemon is known to be dead. 0 or -errno; the
 * caller puts it.
 */
int rcm_session_get(struct rcm_session **session) __attribute__((warn_unused_result));
struct rcm_session *rcm_session_ref(struct rcm_session *session);
void rcm_session_put(struct rcm_session *session);

/* A request whose answer is nothing but its status. */
int rcm_session_request(struct rcm_session *session, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));

#endif
