/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_H
#define USRDMA_DAEMON_CMA_H

#include <json-c/json.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "ipc/msg.h"

/*
 * The rdma_cm half of the daemon: every client's ids and event channels, port spaces, and the InfiniBand
 * communication manager below them. One thread: everything is called from the loop that cma_open() was given, and
 * events are pushed only from that loop, never while a request is being answered, so that a client has the answer to
 * what it asked before any event that follows from it.
 */
struct cma;
struct cma_client;

/* Who a client is, from SO_PEERCRED. */
struct cma_peer {
	uid_t uid;
	pid_t pid;
};

struct cma *cma_open(uv_loop_t *loop) __attribute__((warn_unused_result));

/*
 * QP1 speaks to other hosts over this socket, that of slot 0, which it takes over in any case. Without it connections
 * end at this host.
 */
int cma_attach_wire(struct cma *cma, int fd) __attribute__((warn_unused_result));

/* Ends every connection without a word on the wire and closes every channel. No client may be left. Its handles close
 * in the loop's next turns, which the caller runs before it closes the loop. */
void cma_close(struct cma *cma);

/* Installs the check whether a QPN that a client names in CONNECT or ACCEPT is one its process may use (0 or
 * -errno); without one every QPN is accepted. */
void cma_set_qpn_check(struct cma *cma,
		       int (*check)(void *ctx, const struct cma_peer *peer, uint32_t qpn),
		       void *ctx);

/* One per session of role IPC_ROLE_CM. NULL: out of memory. */
struct cma_client *cma_client_new(struct cma *cma, const struct cma_peer *peer)
	__attribute__((warn_unused_result));

/* The session ended: its listeners vanish, its connections are disconnected, its requests rejected, all at once. */
void cma_client_gone(struct cma_client *client);

/*
 * Answers one request. The caller has checked that req->len bytes are there, and type, length and content are checked
 * here. A descriptor that is kept is replaced by -1 in fds, the others stay the caller's. `reply` has room for
 * IPC_MSG_MAX bytes. Returns the reply's length, its header filled in.
 */
uint32_t cma_request(struct cma_client *client, const struct ipc_hdr *req, int *fds, int nfds,
		     void *reply) __attribute__((warn_unused_result));

/* After netdev.h's table has changed: what is an enum ipc_device_what. */
void cma_netdev_changed(struct cma *cma, uint32_t dev_id, uint32_t what);

/* What ids a list of the report is of. */
enum cma_listed { CMA_LISTENERS, CMA_CONNECTIONS, CMA_JOINS };

/*
 * An array of those among some more ids, NULL after the last: start with *cursor 0. Ids that come and go meanwhile may be
 * in it or not.
 */
json_object *cma_report_ids(const struct cma *cma, enum cma_listed listed, uint32_t *cursor);

/* "cm" of the report; and what QP1 and the CM count is added to `counters`. */
json_object *cma_report_counters(const struct cma *cma, json_object *counters);

#endif
