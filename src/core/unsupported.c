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

/* Buffers from the provider's own allocator: any memory of the process does here. */

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	(void)pd;
	(void)size;
	(void)buf;
	return no_object();
}

void ibv_free_buf(struct ibv_buf *buf)
{
	(void)buf;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	(void)pd;
	(void)buf;
	(void)addr;
	(void)length;
	(void)access;
	return no_object();
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
