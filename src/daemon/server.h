/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SERVER_H
#define USRDMA_DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "daemon/closer.h"
#include "daemon/device_total.h"
#include "daemon/failures.h"
#include "daemon/fault_tick.h"
#include "daemon/probes.h"
#include "daemon/roce_forward.h"
#include "daemon/roce_port.h"
#include "daemon/rule_expiry.h"
#include "daemon/slots.h"
#include "daemon/turns.h"
#include "daemon/users.h"

struct cma;
struct cma_peer;

/*
 * Limits of one user of a shared daemon; root and the daemon's user are exempt (fair_share.h).
 * _ROOT_: the number that is reserved for them. _UID_..._MIN: the number that every user gets while
 * more than the reserved ones are free.
 */
#define SERVER_ROOT_SLOTS	16
#define SERVER_UID_SLOTS_MIN	4
#define SERVER_SESSIONS_MAX	16384
#define SERVER_ROOT_SESSIONS	1024
#define SERVER_UID_SESSIONS_MIN 16
#define SERVER_UID_SESSIONS_MAX 4096

/* Time for which an idle daemon keeps failures for `usrdma why`. */
#define SERVER_FAILURES_KEPT_MS (600 * 1000)

struct server_counters {
	uint64_t sessions;  /* accepted */
	uint64_t refused;   /* uid not served, quota, protocol version */
	uint64_t malformed; /* sessions ended because of a malformed message */
	uint64_t requests;
	uint64_t peer_connects;
	uint64_t unresponsive; /* sessions ended because the client did not read its messages */
};

/* State of the daemon. On the stack of main(); one thread, one loop. */
struct server {
	uv_loop_t *loop;
	int listen_fd;
	/* closed to accept and refuse a client when no descriptors are left; -1: not open */
	int spare_fd;
	bool is_unresponsive; /* no connections are accepted until a descriptor is closed */
	struct closer closer;
	uv_poll_t listen_poll;
	uv_timer_t idle_timer;
	uint64_t idle_ms; /* 0: never exits when idle */
	/* set before server_start(): exits SERVER_FAILURES_KEPT_MS after the last failure */
	bool keeps_failures;
	/* a client of another protocol version was refused: exits when it is idle */
	bool is_outdated;
	uid_t uid; /* the daemon's user */
	uint64_t daemon_id;
	uint64_t next_pair_id;
	struct users users;
	struct turns turns;
	struct list_head sessions;
	uint32_t session_count;
	struct list_head av_waits; /* of all sessions (av.c) */
	uint32_t av_wait_count;
	uint32_t descriptor_count;    /* sum of session.descriptor_count */
	struct list_head xrc_domains; /* domains that any session has open (xrcds.c) */
	struct slots slots;
	struct roce_port port;
	struct roce_forward forward;
	struct cma *cma;
	struct probes probes;
	struct fault_tick fault_tick;
	struct rule_expiry rule_expiry;
	struct failures failures;
	struct server_counters counters;
	struct device_ended device_ended;
	/* counters of processes that have ended: control_counters.h */
	struct json_object *departed;
};

/*
 * Binds the daemon's socket name of this network namespace and listens. Clients are accepted after
 * server_start(). Returns the socket, -EADDRINUSE if another daemon listens, or -errno.
 */
int server_bind(void) __attribute__((warn_unused_result));

/*
 * Uses a socket that another process bound to the daemon's name, and listens. 0; -EINVAL: another
 * socket; or -errno.
 */
int server_adopt(int fd) __attribute__((warn_unused_result));

/* Starts serving on the socket, which the caller closes. */
int server_start(struct server *server, uv_loop_t *loop, int listen_fd, uint64_t idle_ms)
	__attribute__((warn_unused_result));

/*
 * Opens UDP port 4791 if it is not open: the previous owner may have closed it. 0, or -errno: other
 * hosts cannot be reached. Engines that connected while the port was not open do not get a socket
 * later.
 */
int server_open_port(struct server *server);

void server_end_sessions(struct server *server);

/* To be called after server_end_sessions(). libuv handles close in the loop's next iterations. */
void server_stop(struct server *server);

/* To be called when a session begins or ends: starts or stops the idle timer. */
void server_count_changed(struct server *server);

/*
 * Notifies the engines and the connection manager of a change of a device; `what` is an enum
 * ipc_device_what. uid: only those of this user; FAULT_EVERY_USER: all.
 */
void server_notify_device(struct server *server, uid_t uid, uint32_t dev_id, uint32_t what);

/*
 * Whether a client of the communication manager may use this QPN: 0 or -errno. QP1 and QPNs outside
 * the ranges of the client's user are refused: the peer's host would reject the QPN as a stale
 * connection when the later owner of the range uses it. The QPNs of slot 0 never belong to a
 * process. As in the kernel, programs without QPs may use them.
 */
int server_check_qpn(void *ctx, const struct cma_peer *peer, uint32_t qpn);

/* Stores a failure of a client of the communication manager. */
void server_store_failure(void *ctx, const struct cma_peer *peer,
			  const struct ipc_failure *failure);

/* Whether a process of this host owns the QPN range that contains this QPN. */
bool server_knows_qpn(void *ctx, uint32_t qpn);

#endif
