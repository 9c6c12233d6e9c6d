/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_XRC_REMOTE_H
#define USRDMA_CORE_QP_XRC_REMOTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/qp/xrc.h"
#include "core/qp/xrc_forward.h"

/*
 * Remote open: XRC target QPs that are open in other processes than their creator's
 * (ibv_open_qp(3)). The creator's process, the server, owns the QP; the QP ends with that process
 * at the latest. The process with a remote handle, the client, sends the handle's operations to the
 * server and receives the QP's events. The client proves access with the id of the QP's domain. A
 * remote handle permits all operations that the creator's handle permits.
 */

/*
 * In the client: the QP of a remote handle. Guarded by engine.lock; freed with the handle. After an
 * OPEN timed out it has no handle (orphaned); then it is freed when the result arrives or the
 * server exits.
 */
struct xrc_remote_qp {
	struct list_head node; /* xrc_remote.qps or xrc_remote.orphaned */
	struct qp *handle;     /* NULL: orphaned */
	uint32_t slot;	       /* of the server */
	uint32_t qpn;
	uint32_t serial; /* orphaned: serial of the OPEN */
	bool has_exited; /* the server exited */
};

/* The engine's state of remote opens. */
struct xrc_remote {
	struct list_head qps;	   /* client: struct xrc_remote_qp of the handles */
	struct list_head orphaned; /* client: struct xrc_remote_qp of timed-out OPENs */
	struct list_head calls;	   /* client: struct remote_call, outstanding operations */
	uint32_t serial;	   /* client: of the last operation */
	/*
	 * Client: incremented when a result arrived, there is space, or a server exited; a futex.
	 */
	_Atomic uint32_t changes;
	struct list_head clients; /* server: struct xrc_remote_client */
};

void xrc_remote_init(struct xrc_remote *remote);

/* xrc_remote_client.c */

/* The engine is fatal: wakes all waiting callers. */
void xrc_remote_end(struct xrc_remote *remote);

/* Whether the QPN belongs to another process and the domain can be open there. */
bool xrc_remote_is_possible(const struct engine *engine, const struct xrc_domain *domain,
			    uint32_t qpn);

/*
 * To be called before xrc_remote_open() and without engine.lock: requests a connection to the owner
 * of the QPN. 0 or -errno; -EINVAL: the QPN has no owner; -EIO: the daemon is gone. Blocks until
 * the daemon replies.
 */
int xrc_remote_connect(struct engine *engine, uint32_t qpn) __attribute__((warn_unused_result));

/*
 * The operations of a remote handle. Each waits up to 5 s for the server. All are called with
 * engine.lock held, and release it while they wait. 0 or -errno; -EIO: the server exited;
 * -ETIMEDOUT.
 */
int xrc_remote_open(struct qp *handle, uint32_t qpn) __attribute__((warn_unused_result));
int xrc_remote_query(struct qp *handle, struct ibv_qp_attr *attr)
	__attribute__((warn_unused_result));
int xrc_remote_modify(struct qp *handle, const struct ibv_qp_attr *attr, int mask)
	__attribute__((warn_unused_result));
/* Ends the remote handle; it receives no more events. */
void xrc_remote_close(struct qp *handle);

void xrc_remote_take_result(struct engine *engine, uint32_t slot,
			    const struct xrc_remote_result *result);
void xrc_remote_take_event(struct engine *engine, const struct xrc_forward_msg *msg);
/* For client and server. */
void xrc_remote_peer_exited(struct engine *engine, uint32_t slot);

/* xrc_remote_server.c */

/* Sends the event to all processes that have opened the QP. */
void xrc_remote_post_event(struct qp *qp, enum ibv_event_type event);
/* Executes the operation of a client and sends the result. */
void xrc_remote_execute(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg);
/* Ends the handles of the process. */
void xrc_remote_client_exited(struct engine *engine, uint32_t slot);

#endif
