/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_TRANSPORT_H
#define USRDMA_CORE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"

/*
 * What carries a QP's messages to its peer. Chosen once per QP, in bind(); nothing here per opcode, an opcode is data
 * in a WQE. Every function is called with engine.lock held and may not block, but for bind() and revoke_mr().
 * A member that a transport does not need is NULL.
 */
struct transport {
	const char *name;
	/* *segment_fd, the memfd that peers may map, is set by the one transport that has one (ipc/segment.h). */
	int (*open)(struct engine *engine, int *segment_fd);
	void (*close)(struct engine *engine);
	/* INIT -> RTR with qp->attr holding the path and the peer's QPN. -EOPNOTSUPP: not mine, try the next transport. */
	int (*bind)(struct qp *qp);
	void (*ready)(struct qp *qp); /* RTS, or back from SQD */
	void (*halt)(
		struct qp *qp); /* the QP is in ERR: send and accept nothing more; the core flushes */
	void (*unbind)(struct qp *qp);	    /* RESET or destroy: forget it */
	void (*kick)(struct qp *qp);	    /* WQEs were posted */
	void (*recv_posted)(struct qp *qp); /* a starved QP has receives again */
	void (*publish_qp)(struct qp *qp);  /* state, peer or access flags changed */
	void (*publish_mr)(struct engine *engine, const struct mr *mr);
	void (*revoke_mr)(struct engine *engine,
			  const struct mr *mr); /* returns when no peer can touch it any more */
	void (*notice)(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
		       int nfds); /* owns fds */
	unsigned int (*run)(struct engine *engine,
			    uint64_t now_ns); /* how many units of work were done */
	/* Asks peers to ring the doorbell from now on (true) or not to (false). Answers whether work is already here. */
	bool (*sleep)(struct engine *engine, bool want_doorbell);
};

/* Every transport of this build, in the order in which bind() is tried, NULL-terminated: transports.c. */
extern const struct transport *const transports[];

/*
 * The engine was lent a socket on which datagrams from other hosts come in (IPC_LEND): whichever transport speaks to them
 * takes it over. 0, or -errno and the socket is still the caller's. engine.lock held.
 */
int transports_take_socket(struct engine *engine, int fd) __attribute__((warn_unused_result));

#endif
