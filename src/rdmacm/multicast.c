/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Multicast groups, which belong to datagram ids (RDMA_PS_UDP, RDMA_PS_IPOIB). There are no datagram QPs
 * yet, so every join is refused and there is never a group to leave.
 */

#include <errno.h>
#include <rdma/rdma_cma.h>

static int refused(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)id;
	(void)addr;
	(void)context;
	return refused();
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context)
{
	(void)id;
	(void)mc_join_attr;
	(void)context;
	return refused();
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id;
	(void)addr;
	return refused();
}
