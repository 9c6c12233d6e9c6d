/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/advise.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "core/engine/engine.h"
#include "core/memory/memory.h"
#include "core/memory/mr.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The memory of an SGE: 0, or an errno. */
static int find_memory(struct pd *pd, const struct ibv_sge *sge, bool is_written, uint8_t **at)
{
	struct engine *engine = pd->context->engine;
	const struct mr *mr;
	int ret = 0;

	engine_lock(engine);
	mr = mr_find(engine, sge->lkey);
	if (engine->is_orphan)
		ret = -EIO;
	else if (!mr)
		ret = -EFAULT;
	else if (mr->pd->id != pd->id || (is_written && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		ret = -EPERM;
	else if (!(mr->access & IBV_ACCESS_ON_DEMAND))
		ret = -EINVAL;
	else if (!(*at = mr_translate(mr, sge->addr, sge->length)))
		ret = -EFAULT;
	engine_unlock(engine);
	return ret;
}

/*
 * Faults the pages in. Kernels before 5.14 cannot do this; the pages are then faulted in when they
 * are used.
 */
static void populate(uint8_t *at, uint32_t length, int advice)
{
	uintptr_t page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	uintptr_t first = (uintptr_t)at & page_mask;
	int saved = errno;

	(void)madvise((void *)first, (uintptr_t)at + length - first, advice);
	errno = saved;
}

int advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *sg_list, uint32_t num_sge)
{
	bool is_written = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint8_t *at = NULL;

	if (fault_call_fails("ibv_advise_mr"))
		return errno;
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && !is_written &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !num_sge)
		return EINVAL;
	for (uint32_t i = 0; i < num_sge; i++) {
		int error = find_memory(to_pd(ibpd), &sg_list[i], is_written, &at);

		if (error)
			return -error;
		if (memory_check(at, sg_list[i].length, is_written))
			return EFAULT;
		/*
		 * PREFETCH_NO_FAULT has no effect: pages that are present are mapped already,
		 * because the CPU's page tables are used.
		 */
		if (sg_list[i].length && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			populate(at, sg_list[i].length,
				 is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	}
	return 0;
}
