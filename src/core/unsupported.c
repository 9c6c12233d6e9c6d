/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Calls of the API for which the device has no feature behind them. They answer EOPNOTSUPP in
 * whatever way the call reports errors, so that programs take the path they have for hardware without
 * the feature.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

static void *no_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* Memory of ours for other devices. */

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)dm;
	errno = EOPNOTSUPP;
	return -1;
}

/* PCIe processing hints: there is no bus. */

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

/* Enhanced connection establishment: vendors' options, and we have none. */

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
