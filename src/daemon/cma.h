/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_H
#define USRDMA_DAEMON_CMA_H

#include <json-c/json.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "ipc/msg_cm.h"
#include "ipc/msg_failure.h"

/*
 * The rdma_cm part of the daemon: ids and event channels of all clients, port spaces, and the
 * connection managers (daemon/cm_ops.h). All functions are called by the loop's thread. Events are
 * pushed from the loop, never while a request is served: a client receives the reply to its request
 * before any event that the request causes.
 */
struct cma;
struct cma_client;
struct cm_ops;

/* The client's identity, from SO_PEERCRED. */
struct cma_peer {
	uid_t uid;
	pid_t pid;
	/* Ends its session in a later iteration of the loop; NULL: the session cannot be ended */
	void (*end)(void *ctx);
	/* Whether the daemon may keep fd for the client (descriptors.h); NULL: always */
	bool (*may_keep)(void *ctx, int fd);
	void *ctx;
};

/* The connection managers that the list of cma_open() can contain. */
extern const struct cm_ops cma_ib_ops; /* InfiniBand, for RoCE v2 */

/*
 * `cms` lists the connection managers to open, and ends with NULL. NULL: out of memory, or a
 * connection manager failed.
 */
struct cma *cma_open(uv_loop_t *loop, const struct cm_ops *const cms[])
	__attribute__((warn_unused_result));

/*
 * QP1 of the InfiniBand CM sends and receives MADs of other hosts on this socket, the one of slot
 * 0. The function takes ownership of fd, also if it fails. Without this call only connections
 * within this host are possible.
 */
int cma_attach_wire(struct cma *cma, int fd) __attribute__((warn_unused_result));

/*
 * Frees every connection without sending MADs, and closes every channel. All clients must have been
 * freed. The libuv handles close in the following iterations of the loop; the caller runs the loop
 * until then and closes it afterwards.
 */
void cma_close(struct cma *cma);

/*
 * Installs the check of a QPN that a client passes in CONNECT or ACCEPT: 0 if the client's process
 * may use the QPN, or -errno. Without a check every QPN is accepted.
 */
void cma_set_qpn_check(struct cma *cma,
		       int (*check)(void *ctx, const struct cma_peer *peer, uint32_t qpn),
		       void *ctx);

/*
 * A process of this user now owns the QPNs of the slot. Ends the connections of other users that
 * name one of them: the former owner of the slot has ended, but the peer's host still knows its
 * QPNs.
 */
void cma_claim_qpns(struct cma *cma, uid_t uid, uint32_t slot);

/*
 * Installs the check whether a QPN belongs to a process of this host. Without a check every QPN is
 * accepted.
 */
void cma_set_qpn_known(struct cma *cma, bool (*is_known)(void *ctx, uint32_t qpn), void *ctx);

/* Installs the function that stores the failures of clients. Without it they are not stored. */
typedef void cma_failure_fn(void *ctx, const struct cma_peer *peer,
			    const struct ipc_failure *failure);
void cma_set_failure_sink(struct cma *cma, cma_failure_fn *report, void *ctx);

/*
 * Reports each connection attempt of a process that `reader` may see, if it has waited for a
 * response for a while.
 */
void cma_report_waiting(struct cma *cma, uid_t reader);

/* Allocates a client, one for each session of role IPC_ROLE_CM. NULL: out of memory. */
struct cma_client *cma_client_new(struct cma *cma, const struct cma_peer *peer)
	__attribute__((warn_unused_result));

uint32_t cma_client_channels(const struct cma_client *client);

/*
 * The session has ended: removes its listeners, disconnects its connections, rejects the requests
 * that it has not replied to, and frees the client.
 */
void cma_client_gone(struct cma_client *client);

/*
 * Serves one request. The caller has received req->len bytes; this function checks type, length and
 * content. `reply` has room for IPC_MSG_MAX bytes. *client_end is a descriptor to pass with the
 * reply, which the caller closes afterwards, or -1. Returns the length of the reply, whose header
 * is filled in.
 */
uint32_t cma_request(struct cma_client *client, const struct ipc_hdr *req, void *reply,
		     int *client_end) __attribute__((warn_unused_result));

uint32_t cma_client_ids(const struct cma_client *client);

/*
 * The fault point connection: passes the established connections of this number of ids of the
 * client, and ends those for which a rule fires by a DREQ. The next call continues with the next
 * ids.
 */
void cma_fault_connections(struct cma_client *client, uint32_t count);

/*
 * Ends the established connection of this user's QP by a DREQ, as a fault rule requires. -ENOTCONN:
 * it has no connection.
 */
int cma_fault_disconnect(struct cma *cma, uid_t uid, uint32_t qpn);

/* To be called after the table of daemon/netdev.h changed. `what` is an enum ipc_device_what. */
void cma_netdev_changed(struct cma *cma, uint32_t dev_id, uint32_t what);

/*
 * The same for the ids of one user, for whom a fault rule changes the device; FAULT_EVERY_USER: of
 * all users.
 */
void cma_netdev_changed_for(struct cma *cma, uid_t uid, uint32_t dev_id, uint32_t what);

/* The kinds of lists in the report. */
enum cma_listed { CMA_LISTENERS, CMA_CONNECTIONS, CMA_JOINS };

/*
 * Returns an array that describes the next ids of the given kind; NULL after the last. Start with
 * *cursor 0. Ids that are created or destroyed between two calls may be missing or not.
 *
 * Connections and multicast joins of other users are left out unless `asker` is root, because their
 * QPNs and addresses would help an attacker. Listeners of all users are listed, as in
 * /proc/net/tcp, but those of other users without pid and id.
 */
json_object *cma_report_ids(const struct cma *cma, enum cma_listed listed, uid_t asker,
			    uint32_t *cursor);

/*
 * The object "cm" of the report. The counters of the connection managers are added to `counters`.
 */
json_object *cma_report_counters(const struct cma *cma, json_object *counters);

#endif
