/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_MCAST_H
#define USRDMA_CORE_DEVICE_MCAST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/object/objects.h"

/*
 * Multicast groups (IBA 1.x §10.5): the QPs attached to each group. A group belongs to one
 * interface, the one of its QPs' device; the same address on another interface is another group.
 * The first attached QP makes a transport join the group, the last detached QP makes it leave. All
 * functions with a `struct qp` or a `struct engine` are called with engine.lock held;
 * mcast_attach() releases it while it waits for the daemon.
 */

/* The limits that ibv_query_device() reports; they are enforced. */
#define MAX_MCAST_GROUPS    1024u
#define MAX_MCAST_GROUP_QPS 4096u
#define MAX_MCAST_ATTACHED  65536u

/*
 * 0, also if the QP is attached already. -EINVAL: not a UD QP, or gid is not a multicast address;
 * -ENOMEM: beyond the limits; -EOPNOTSUPP: no transport can join; -EIO: the connection to the
 * daemon was lost; else the -errno of the join.
 */
int mcast_attach(struct qp *qp, const union ibv_gid *gid) __attribute__((warn_unused_result));
/* 0, or -EINVAL: not attached. Never blocks. */
int mcast_detach(struct qp *qp, const union ibv_gid *gid) __attribute__((warn_unused_result));

/* Whether the QP is attached to a group, or ibv_attach_mcast() is in progress. */
bool mcast_is_attached(const struct qp *qp);

/* Removes a fork()ed child's copy of a QP; the parent remains a member. */
void mcast_forget(struct qp *qp);

/* Origin of a multicast datagram: its group, source address, receiving interface and source QPN. */
struct mcast_origin {
	const uint8_t *group; /* GID_BYTES each */
	const uint8_t *source;
	uint32_t ifindex;
	uint32_t src_qpn;
};

/*
 * Calls deliver() for each attached QP. The sender is skipped if it was created with
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB. Returns the number of calls. deliver() must not attach, detach
 * or destroy a QP.
 */
unsigned int mcast_for_each(struct engine *engine, const struct mcast_origin *origin,
			    void (*deliver)(struct qp *qp, void *arg), void *arg);

#endif
