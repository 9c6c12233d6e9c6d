/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_TRANSPORT_H
#define USRDMA_CORE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/objects.h"

struct datagram_tx;
struct relay_msg;

/*
 * What carries a QP's messages to its peer. Chosen once per QP, in bind(); nothing here per opcode, an opcode is data
 * in a WQE. Every function is called with engine.lock held and may not block, but for bind() and revoke_mr().
 * A member that a transport does not need is NULL.
 */
struct transport {
	const char *name;
	/* *segment_fd, the memfd that peers may map, and engine.counters are set by the one transport that has a segment
	 * (ipc/segment.h), which is asked first. */
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
	/* Of any transport: state, peer or access flags changed. RESET: nobody is to find it any more. */
	void (*publish_qp)(struct qp *qp);
	void (*publish_mr)(struct engine *engine, const struct mr *mr);
	void (*revoke_mr)(struct engine *engine,
			  const struct mr *mr); /* returns when no peer can touch it any more */
	void (*notice)(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
		       int nfds); /* owns fds */
	/*
	 * A new address handle: sets ah->transport_ah. -EOPNOTSUPP: not mine, try the next transport. May block as
	 * bind().
	 */
	int (*ah_open)(struct ah *ah);
	void (*ah_close)(struct ah *ah);
	/*
	 * One datagram of a UD QP; nothing of it is looked at after the call. 0: it has left, or is lost as datagrams
	 * may be; -EAGAIN: no room now, and run() will call datagram_resume() when there is.
	 */
	int (*send_datagram)(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
	void (*datagrams_end)(struct engine *engine); /* the last of some datagrams was sent */
	/*
	 * What is sent to the group comes in on the interface for this process too, or no longer. Once for each;
	 * leave() only after a join() that answered 0. -EOPNOTSUPP: not mine, try the next.
	 */
	int (*join)(struct engine *engine, uint32_t ifindex, const union ibv_gid *group);
	void (*leave)(struct engine *engine, uint32_t ifindex, const union ibv_gid *group);
	/* XRC across processes (relay.h): one transport carries the messages, the other sends and takes them. */
	int (*relay_send)(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
			  const struct iovec *pieces, int count);
	void (*relay_take)(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
			   const uint8_t *bytes, uint32_t len);
	void (*relay_room)(struct engine *engine, uint32_t slot);
	void (*relay_gone)(struct engine *engine, uint32_t slot);
	void (*relay_domain_closed)(struct engine *engine, const struct xrc_domain *domain);
	unsigned int (*run)(struct engine *engine,
			    uint64_t now_ns); /* how many units of work were done */
	/* Asks peers to ring the doorbell from now on (true) or not to (false). Answers whether work is already here. */
	bool (*sleep)(struct engine *engine, bool want_doorbell);
};

/* Every transport of this build, in the order in which bind() is tried, NULL-terminated: transports.c. */
extern const struct transport *const transports[];

/*
 * USRDMA_TRANSPORT=NAME has this process's queue pairs and datagrams travel by the transport of that name or not at
 * all; the others stay open, but whoever looks for a way to a peer passes them over. Their peers have to do the same: a
 * QP speaks to a QP of its own transport only. -EINVAL: there is none of that name, which the user was told.
 */
int transport_choose(struct engine *engine) __attribute__((warn_unused_result));
bool transport_is_chosen(const struct engine *engine, const struct transport *transport);

/* No transport takes a peer: has the user know why, if there is a reason that it can do something about. */
void transport_explain(const struct engine *engine);

/*
 * The engine was lent a socket on which datagrams from other hosts come in (IPC_LEND): whichever transport speaks to them
 * takes it over. 0, or -errno and the socket is still the caller's. engine.lock held.
 */
int transports_take_socket(struct engine *engine, int fd) __attribute__((warn_unused_result));

#endif
