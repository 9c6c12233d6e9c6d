/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_FAKE_DAEMON_H
#define USRDMA_TESTS_FAKE_DAEMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"

/*
 * A daemon in a thread of the test, behind ipc_client_open (--wrap): it answers every request with
 * success, keeps the books on ids, channels and held pushes as ipc/msg.h says, and pushes what the
 * test tells it to. And a device with index FAKE_DEV_ID, whose queue pairs only remember the states
 * they were taken through.
 */
#define FAKE_DEV_ID 7

/* Ends the current daemon, if any, as a crash would: every socket of it closes. */
void fake_daemon_kill(void);

/*
 * Pushes an event to the id that has this cookie or, without one, this handle. Its channel, count
 * and route to the fake device are filled in.
 */
void fake_daemon_push(struct ipc_cm_event *event);
void fake_daemon_push_type(uint64_t cookie, uint32_t type);

/* Pushes bytes as they are to the channel of an id. */
void fake_daemon_push_raw(uint64_t cookie, const void *bytes, uint32_t len);

/* A CONNECT_REQUEST for this listener; returns the new id's handle. */
uint32_t fake_daemon_push_request(uint64_t listen_cookie);

/* The cookie of the id that was made last. */
uint64_t fake_daemon_last_cookie(void);
/* How many requests of this type came, and how many ids live. */
unsigned fake_daemon_requests(enum ipc_type type);
unsigned fake_daemon_ids(void);
/* The next request of this type fails with that status, once. */
void fake_daemon_fail(enum ipc_type type, int status);

/* The cookie and group of the last JOIN; and what JOINs are answered with besides: an event of this type, 0: none. */
uint64_t fake_daemon_last_join(void);
struct sockaddr_storage fake_daemon_last_group(void);
void fake_daemon_answer_joins(uint32_t type);

/* What was attached and detached since the last call, and the last one of it. */
struct fake_mcast {
	unsigned attached;
	unsigned detached;
	const struct ibv_qp *qp;
	union ibv_gid group;
};
struct fake_mcast fake_mcast_calls(void);
/* The next attachment fails. */
void fake_mcast_fail(int error);

/* The moves of every queue pair since the last call, as letters I R S E. */
const char *fake_qp_moves(void);
/* The next move to this state fails with errno EIO. */
void fake_qp_fail(int state);

#endif
