/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * API calls for features that the device does not have. They report EOPNOTSUPP, so that
 * applications use the code path for hardware without the feature.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

static void *no_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* Export of device memory to other devices. */

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)dm;
	errno = EOPNOTSUPP;
	return -1;
}

/* PCIe processing hints: the device is not on a PCIe bus. */

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	(void)context;
	(void)attr;
	return no_object();
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	(void)dmah;
	return EOPNOTSUPP;
}

/* Enhanced connection establishment: this device has no vendor options. */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}
