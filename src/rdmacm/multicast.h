/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_MULTICAST_H
#define USRDMA_RDMACM_MULTICAST_H

#include "rdmacm/id.h"

/*
 * A membership in a multicast group, from rdma_join_multicast to rdma_leave_multicast or to the end of its id, which owns
 * it. The daemon names it in events by cookie. An event of it in the user's hands keeps it alive. The list is under the
 * id's lock, the rest belongs to whoever took its event, as the id does.
 */
struct rcm_membership {
	struct list_head node; /* rcm_id.memberships, the newest first */
	uint64_t cookie;
	struct sockaddr_storage addr;
	void *context;
	union ibv_gid group;
	struct ibv_qp *qp; /* the id's, when it was attached; else NULL */
	bool sends_only;
};

/* The id's membership of that cookie, or NULL. The id's lock is held. */
struct rcm_membership *rcm_membership_find(struct rcm_id *id, uint64_t cookie);

/* The daemon says how the group is reached: attaches the id's QP. 0 or -errno. */
int rcm_membership_attach(struct rcm_id *id, struct rcm_membership *membership,
			  const union ibv_gid *group) __attribute__((warn_unused_result));

/* The id's QP is about to go: a QP in a group cannot be destroyed. */
void rcm_membership_detach_all(struct rcm_id *id);

/* The id is gone for the daemon, and nobody has an event of it. */
void rcm_membership_free_all(struct rcm_id *id);

#endif
