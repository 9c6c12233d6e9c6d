/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SERVER_H
#define USRDMA_DAEMON_SERVER_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "daemon/roce_port.h"
#include "daemon/slots.h"

struct cma;
struct cma_peer;

/* What one user may hold of a daemon that others share; root may hold all there is. */
#define SERVER_UID_SESSIONS_MAX 4096
#define SERVER_UID_SLOTS_MAX	448
#define SERVER_SESSIONS_MAX	16384

struct server_counters {
	uint64_t sessions;  /* let in */
	uint64_t refused;   /* not let in: foreign uid, quota, version */
	uint64_t malformed; /* ended for breaking the protocol */
	uint64_t requests;
	uint64_t introductions;
	uint64_t unresponsive; /* ended for not taking what they were sent */
};

/* The daemon: its name, its clients and what they share. Lives in main's frame; one thread, one loop. */
struct server {
	uv_loop_t *loop;
	int listen_fd;
	int spare_fd; /* given up for a moment to turn clients away when descriptors ran out */
	uv_poll_t listen_poll;
	uv_timer_t idle_timer;
	uint64_t idle_ms; /* 0: never leave */
	uid_t uid;	  /* whose daemon this is */
	uint64_t daemon_id;
	uint64_t next_pair_id;
	struct list_head sessions;
	uint32_t session_count;
	struct list_head xrc_domains; /* that any session has open (xrcds.c) */
	struct slots slots;
	struct roce_port port;
	struct cma *cma;
	struct server_counters counters;
	struct json_object
		*departed; /* what processes that are gone had counted: control_counters.h */
};

/*
 * Takes the daemon's name in this network namespace and listens; nobody is let in before server_start.
 * Returns the socket, -EADDRINUSE if another daemon listens, or -errno.
 */
int server_bind(void) __attribute__((warn_unused_result));

/* Starts serving on the socket, which stays the caller's to close. */
int server_start(struct server *server, uv_loop_t *loop, int listen_fd, uint64_t idle_ms)
	__attribute__((warn_unused_result));

/*
 * Takes UDP port 4791 if it is not taken yet: whoever held it may have let go since. 0, or -errno: other hosts cannot be
 * reached. Engines that came before stay without it.
 */
int server_open_port(struct server *server);

void server_end_sessions(struct server *server);

/* After server_end_sessions. Handles close in the loop's next turns. */
void server_stop(struct server *server);

/* A session began or ended: arms or stops the idle timer. */
void server_count_changed(struct server *server);

/* Tells every engine about a device: what is an enum ipc_device_what. */
void server_notify_device(struct server *server, uint32_t dev_id, uint32_t what);

/*
 * Whether a client of the communication manager may connect this QPN: not QP1, and not one of another user's. As in the
 * kernel, a QPN that belongs to nobody is the client's own affair.
 */
int server_check_qpn(void *ctx, const struct cma_peer *peer, uint32_t qpn);

#endif
