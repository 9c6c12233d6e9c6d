/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_TRANSPORT_H
#define USRDMA_CORE_ENGINE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/object/objects.h"

struct datagram_tx;
struct ipc_failure;

/*
 * The operations of a transport. Unless its comment states otherwise, a member is called with all
 * locks held (engine_lock()), does not block, and does not release the locks. "Path": the lock of
 * the QP's data path is held (core/engine/qp_lock.h), which is engine.lock or that of a shard.
 * Members that may be NULL are marked "optional".
 */
struct transport {
	const char *name;
	/*
	 * Packets to other hosts take the routes of the host's IP stack: before bind() and
	 * ah_open() the daemon has found the route and the link-layer address of the next hop.
	 */
	bool is_routed;
	/*
	 * Called once, when the first object is created. Exactly one transport has a segment
	 * (ipc/segment.h); it is opened first. It sets *segment_fd, the memfd that peers may map,
	 * and engine.segment.counters. 0 or -errno.
	 */
	int (*open)(struct engine *engine, int *segment_fd);
	/*
	 * Called if the engine could not be opened, also for transports whose open() failed or was
	 * not called: frees what open() has created.
	 */
	void (*close)(struct engine *engine);
	/*
	 * Optional. Called in the child of a fork(), whose copy of the engine is unused: closes the
	 * copies of descriptors. Calls only async-signal-safe functions. Only the thread that
	 * called fork() exists.
	 */
	void (*disown)(struct engine *engine);
	/* Optional. The daemon has exited: engine.is_fatal is set; all QPs will enter ERR. */
	void (*daemon_lost)(struct engine *engine);
	/*
	 * Optional. Called before bind(), without engine.lock: requests a connection to the owner
	 * of a QPN of this host. Blocks until the daemon replies.
	 */
	void (*connect_peer)(struct engine *engine, uint32_t qpn);
	/*
	 * Optional. Called in the engine thread when it starts and when it has ended its loop,
	 * without engine.lock. During thread_begins() another thread holds the lock and waits, so
	 * that it must not be acquired. 0 or -errno.
	 */
	int (*thread_begins)(struct engine *engine);
	void (*thread_ends)(struct engine *engine);
	/*
	 * INIT -> RTR; qp->attr contains the path and the peer's QPN. -EOPNOTSUPP: not reachable by
	 * this transport; the caller tries the next one.
	 */
	int (*bind)(struct qp *qp);
	/* Optional. RTS, or return from SQD. */
	void (*ready)(struct qp *qp);
	/*
	 * Optional. ERR: neither sends nor accepts; the core flushes the queues. Path, and
	 * engine.lock.
	 */
	void (*halt)(struct qp *qp);
	/* Optional. RESET or destroy: releases the QP. */
	void (*unbind)(struct qp *qp);
	/* WQEs were posted; required if bind() accepts a QP. Path. */
	void (*kick)(struct qp *qp);
	/* Receives were posted to a QP that had none; required as kick(). Path. */
	void (*recv_posted)(struct qp *qp);
	/*
	 * Optional. Called on all transports when the state, the peer or the access flags changed.
	 * RESET: the QP is unpublished. Path, and engine.lock.
	 */
	void (*publish_qp)(struct qp *qp);
	void (*publish_mr)(struct engine *engine, const struct mr *mr);
	/*
	 * Optional. Return 0 when no peer accesses memory through the MR or QP any more. -EBUSY: a
	 * peer may still do so after the transport's timeout; the object is unchanged. Both block
	 * for at most that timeout, and release the locks while they wait: the caller must look up
	 * every other object again.
	 */
	int (*revoke_mr)(struct engine *engine, const struct mr *mr);
	int (*revoke_qp)(struct qp *qp);
	/*
	 * Optional. Adds what the transport knows to the report of a failure of the QP: the peer's
	 * process, the region of an rkey, retries. wqe: the failed WQE; NULL: none. Path.
	 */
	void (*describe)(const struct qp *qp, const struct send_wqe *wqe,
			 struct ipc_failure *failure);
	/*
	 * Optional. Sets ah->transport_ah of a new address handle. -EOPNOTSUPP: not reachable by
	 * this transport; the caller tries the next one.
	 */
	int (*ah_open)(struct ah *ah);
	/* engine.lock is held. */
	void (*ah_close)(struct ah *ah);
	/*
	 * Sends one datagram of a UD QP; the transport does not refer to it after the call.
	 * Required if ah_open() accepts an address handle. 0: sent, or lost like any datagram;
	 * -EAGAIN: no room now; run() calls datagram_resume() when there is room; -EFAULT: the
	 * memory of the datagram cannot be read. engine.lock is held.
	 */
	int (*send_datagram)(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
	/*
	 * Optional. Called after the last of a series of send_datagram(). may_wait: the datagrams
	 * may wait for those of the next series; then it returns true, and run() calls
	 * datagram_resume(). engine.lock is held.
	 */
	bool (*datagrams_end)(struct engine *engine, bool may_wait);
	/*
	 * Optional. Joins a multicast group on an interface, or leaves it; at most once for each
	 * pair. leave() is only called after join() returned 0. -EOPNOTSUPP: not supported by this
	 * transport; the caller tries the next one. -EREMOTE: the daemon owns the receiving socket
	 * and must join. engine.lock is held.
	 */
	int (*join)(struct engine *engine, uint32_t ifindex, const union ibv_gid *group);
	void (*leave)(struct engine *engine, uint32_t ifindex, const union ibv_gid *group);
	/*
	 * Called by ibv_poll_cq(), by a thread that waits in ibv_get_cq_event(), and by the engine
	 * thread. Returns the number of units of work that were done. engine.lock is held, and all
	 * locks if engine.shards.all_depth is not 0.
	 */
	unsigned int (*run)(struct engine *engine);
	/*
	 * Optional, if the transport carries QPs of shards other than 0 (shard.h); bind() then
	 * calls qp_set_lock() for such a QP. As run(), for the QPs of one shard other than 0, whose
	 * lock is held. run() runs all shards if engine.shards.all_depth is not 0, otherwise shard
	 * 0 only.
	 */
	unsigned int (*run_shard)(struct engine *engine, uint32_t shard);
	/*
	 * Optional. Called before the thread that runs the transports sleeps: requests doorbells
	 * from the peers (true) or stops them (false). Returns whether work is pending already. To
	 * stop them, engine.lock is sufficient.
	 */
	bool (*sleep)(struct engine *engine, bool want_doorbell);
};

/*
 * All transports of this build, in the order in which bind() tries them, NULL-terminated:
 * src/transports.c. Each transport has a number, which its header defines: its index here and in
 * engine.transport_state.
 */
extern const struct transport *const transports[];

/*
 * USRDMA_TRANSPORT=NAME restricts the QPs and datagrams of this process to one transport. The other
 * transports remain open but are not considered for a path. The peers must use the same
 * restriction, because both QPs of a connection use the same transport. -EINVAL: unknown name,
 * which was reported to the user.
 */
int transport_choose(struct engine *engine) __attribute__((warn_unused_result));
bool transport_is_chosen(const struct engine *engine, const struct transport *transport);

/* No transport reaches a peer: logs the cause if the user can correct it. */
void transport_explain(const struct engine *engine);

/*
 * Registers the handlers of the notices with which the daemon delegates a receive socket
 * (IPC_DELEGATE) or a forwarding ring (IPC_RING) for datagrams of other hosts. Called after open()
 * of all transports. 0 or -errno.
 */
int transports_register_notices(struct engine *engine) __attribute__((warn_unused_result));

#endif
