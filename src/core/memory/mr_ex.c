/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * ibv_reg_mr_ex(): the options that this device supports are those of ibv_reg_mr_iova2() and
 * ibv_reg_dmabuf_mr().
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>

#include "core/memory/buf.h"

#define KNOWN_MASK                                                          \
	(IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD | \
	 IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_BUF)

static int check_mask(uint64_t mask)
{
	if (mask & ~(uint64_t)KNOWN_MASK)
		return -EINVAL;
	/* DMA hints: there is no bus. */
	if (mask & IBV_REG_MR_MASK_DMAH)
		return -EOPNOTSUPP;
	/* Exactly one of an address and a file descriptor. */
	if (!(mask & IBV_REG_MR_MASK_ADDR) == !(mask & IBV_REG_MR_MASK_FD))
		return -EINVAL;
	if (mask & IBV_REG_MR_MASK_FD)
		return mask & IBV_REG_MR_MASK_BUF ? -EINVAL : 0;
	return mask & IBV_REG_MR_MASK_FD_OFFSET ? -EINVAL : 0;
}

static struct ibv_mr *reg_fd(struct ibv_pd *pd, const struct ibv_mr_init_attr *attr)
{
	uint64_t offset = attr->comp_mask & IBV_REG_MR_MASK_FD_OFFSET ? attr->fd_offset : 0;
	uint64_t iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA ? attr->iova : offset;

	return ibv_reg_dmabuf_mr(pd, offset, attr->length, iova, attr->fd, attr->access);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr)
{
	const struct ibv_mr_init_attr *attr = mr_init_attr;
	uint64_t iova = (uintptr_t)attr->addr;
	int err = check_mask(attr->comp_mask);

	if (!err && attr->comp_mask & IBV_REG_MR_MASK_BUF &&
	    (!attr->buf || !buf_holds(attr->buf, pd, attr->addr, attr->length)))
		err = -EINVAL;
	if (err) {
		errno = -err;
		return NULL;
	}
	if (attr->comp_mask & IBV_REG_MR_MASK_FD)
		return reg_fd(pd, attr);
	if (attr->comp_mask & IBV_REG_MR_MASK_IOVA)
		iova = attr->iova;
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned int)attr->access);
}
