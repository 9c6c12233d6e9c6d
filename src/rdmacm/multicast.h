/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_MULTICAST_H
#define USRDMA_RDMACM_MULTICAST_H

#include "rdmacm/id.h"

/*
 * A membership in a multicast group, from rdma_join_multicast() to rdma_leave_multicast() or to the
 * destruction of the id, which owns it. Events identify it by `cookie`. It is freed only after its
 * events are acknowledged. The id's lock guards the list; the other members follow the rules of
 * struct rcm_id.
 */
struct rcm_membership {
	struct list_head node; /* in rcm_id.memberships, newest first */
	uint64_t cookie;
	struct sockaddr_storage addr;
	void *context;
	union ibv_gid group;
	struct ibv_qp *qp; /* the id's QP if it is attached; else NULL */
	bool sends_only;
};

/* The id's membership with that cookie; NULL: none. Called with the id's lock held. */
struct rcm_membership *rcm_membership_find(struct rcm_id *id, uint64_t cookie);

/* Sets the group's GID from the MULTICAST_JOIN event and attaches the id's QP. 0 or -errno. */
int rcm_membership_attach(struct rcm_id *id, struct rcm_membership *membership,
			  const union ibv_gid *group) __attribute__((warn_unused_result));

/* Detaches the id's QP from all groups, because an attached QP cannot be destroyed. */
void rcm_membership_detach_all(struct rcm_id *id);

/* Frees all memberships. The id is destroyed in the daemon and all its events are acknowledged. */
void rcm_membership_free_all(struct rcm_id *id);

#endif
