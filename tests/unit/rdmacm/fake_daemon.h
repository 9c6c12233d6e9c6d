/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_FAKE_DAEMON_H
#define USRDMA_TESTS_FAKE_DAEMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg_cm.h"

/*
 * A daemon in a thread of the test, behind ipc_client_open (--wrap). It answers every request with
 * success, tracks ids, channels and held pushes as ipc/msg.h describes, and pushes events for the
 * test. The device with index FAKE_DEV_ID has queue pairs that only record their transitions.
 */
#define FAKE_DEV_ID 7

/* Ends the current daemon, if any, as a crash would: all its sockets are closed. */
void fake_daemon_kill(void);

/*
 * Pushes an event to the id with this cookie or, without one, this handle. Fills in its channel,
 * count and route to the fake device.
 */
void fake_daemon_push(struct ipc_cm_event *event);
void fake_daemon_push_type(uint64_t cookie, uint32_t type);

/* Pushes these bytes unchanged to the channel of an id. */
void fake_daemon_push_raw(uint64_t cookie, const void *bytes, uint32_t len);

/* Pushes a CONNECT_REQUEST for this listener; returns the new id's handle. */
uint32_t fake_daemon_push_request(uint64_t listen_cookie);

/*
 * Pushes a CONNECT_REQUEST for a listener that does not exist, on the channel of this id; returns
 * the new id's handle.
 */
uint32_t fake_daemon_push_stray_request(uint64_t cookie);

/*
 * Between these calls the daemon processes no request. The test calls no other function of this
 * file.
 */
void fake_daemon_stop(void);
void fake_daemon_continue(void);

/* Returns the cookie of the id that was created last. */
uint64_t fake_daemon_last_cookie(void);
/* Return the number of received requests of this type, and the number of ids. */
unsigned fake_daemon_requests(enum ipc_type type);
unsigned fake_daemon_ids(void);
/* The next request of this type fails with that status, once. */
void fake_daemon_fail(enum ipc_type type, int status);

/*
 * Return the cookie and group of the last JOIN. After a JOIN the daemon pushes an event of this
 * type, 0: none.
 */
uint64_t fake_daemon_last_join(void);
struct sockaddr_storage fake_daemon_last_group(void);
void fake_daemon_answer_joins(uint32_t type);

/* The attached and detached groups since the last call, and the last of them. */
struct fake_mcast {
	unsigned attached;
	unsigned detached;
	const struct ibv_qp *qp;
	union ibv_gid group;
};
struct fake_mcast fake_mcast_calls(void);
/* The next attachment fails. */
void fake_mcast_fail(int error);

/* Returns the transitions of every queue pair since the last call, as letters I R S E. */
const char *fake_qp_moves(void);
/* The next transition to this state fails with errno EIO. */
void fake_qp_fail(int state);

#endif
