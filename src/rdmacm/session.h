/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_SESSION_H
#define USRDMA_RDMACM_SESSION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "ipc/client.h"

/*
 * A session: the connection of this process to one daemon and the devices opened during it. The
 * first call that needs the daemon opens the current session. If the connection is lost, and in the
 * child of a fork(), the next such call opens a new one. Calls on objects of an old session fail
 * with ENODEV.
 *
 * All channels and ids of the session have a reference, counted in `refs` (guarded by the lock in
 * session.c). Dropping the last reference closes the connection. `devices` is guarded by
 * devices_lock, which is never held while this process waits for the daemon. The devices' contexts
 * are never closed, because the application may use them (rdma_get_devices(3)).
 *
 * Functions of this module have the prefix rcm_.
 */
struct rcm_session {
	struct ipc_client client;
	unsigned refs;
	bool is_inherited; /* in the child of a fork(): a session of the parent */
	/* rcm_session_report_end() was called; guarded by the lock in session.c */
	bool is_end_reported;

	pthread_mutex_t opening_lock; /* held while a device is opened, before devices_lock */
	pthread_mutex_t devices_lock;
	struct list_head devices; /* struct rcm_device */
	struct rcm_session *next; /* in the list of ended sessions with open devices */
};

/*
 * Gets a reference to the current session. Opens a new session if no session exists or if its
 * connection is lost. 0 or -errno. The caller drops the reference with rcm_session_put().
 */
int rcm_session_get(struct rcm_session **session) __attribute__((warn_unused_result));
struct rcm_session *rcm_session_ref(struct rcm_session *session);
void rcm_session_put(struct rcm_session *session);

/*
 * The connection to the daemon is lost: reports it once to the daemon's successor
 * (ipc/daemon_end.h). Blocks until the successor has started. To be called before the application
 * gets DEVICE_REMOVAL.
 */
void rcm_session_report_end(struct rcm_session *session);

/* Sends a request whose reply has no body. Returns the status of the reply. */
int rcm_session_request(struct rcm_session *session, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));

#endif
