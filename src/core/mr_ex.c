/* SPDX-License-Identifier: BSD-2-Clause */

/* Registration by a structure: what it can ask for that the device has is what ibv_reg_mr_iova2() takes. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>

#define KNOWN_MASK                                                          \
	(IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD | \
	 IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_BUF)

/* Memory of other devices, processing hints of the bus, buffers of the provider's own. */
#define REFUSED_MASK                                                             \
	(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH | \
	 IBV_REG_MR_MASK_BUF)

static int check_mask(uint64_t mask)
{
	if (mask & ~(uint64_t)KNOWN_MASK)
		return EINVAL;
	if (mask & (uint64_t)REFUSED_MASK)
		return EOPNOTSUPP;
	return mask & IBV_REG_MR_MASK_ADDR ? 0 : EINVAL;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr)
{
	const struct ibv_mr_init_attr *attr = mr_init_attr;
	uint64_t iova = (uintptr_t)attr->addr;
	int err = check_mask(attr->comp_mask);

	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->comp_mask & IBV_REG_MR_MASK_IOVA)
		iova = attr->iova;
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned int)attr->access);
}
