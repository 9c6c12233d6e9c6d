/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MCAST_H
#define USRDMA_CORE_MCAST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"

/*
 * Multicast groups (IBA 1.x §10.5): which QPs hear which group. A group is one on an interface, that of its QPs'
 * device: the same address elsewhere is another group. The first QP that is attached has a transport join, the last one
 * that is detached has it leave. engine.lock is held throughout.
 */

/* What ibv_query_device says, and what is kept to. */
#define MAX_MCAST_GROUPS    1024u
#define MAX_MCAST_GROUP_QPS 4096u
#define MAX_MCAST_ATTACHED  65536u

/* 0, also for a QP that is attached already, or -errno: -EINVAL if it is no UD QP or gid no group, -ENOMEM beyond the
 * limits, -EOPNOTSUPP without a transport that can join, and what the join says. */
int mcast_attach(struct qp *qp, const union ibv_gid *gid) __attribute__((warn_unused_result));
/* 0, or -EINVAL: it is not attached. */
int mcast_detach(struct qp *qp, const union ibv_gid *gid) __attribute__((warn_unused_result));

bool mcast_is_attached(const struct qp *qp);

/* A fork()ed child's copy of a QP goes: its parent's stays where it is. */
void mcast_forget(struct qp *qp);

/* Where a datagram to a group came from, and where it came in. */
struct mcast_origin {
	const uint8_t *group; /* GID_BYTES each */
	const uint8_t *source;
	uint32_t ifindex;
	uint32_t src_qpn;
};

/*
 * Calls hear() for every QP that is to have a copy: the sender too, unless it was made with
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB. Answers how many they are. hear() attaches, detaches and destroys nothing.
 */
unsigned int mcast_for_each(struct engine *engine, const struct mcast_origin *origin,
			    void (*hear)(struct qp *qp, void *arg), void *arg);

#endif
