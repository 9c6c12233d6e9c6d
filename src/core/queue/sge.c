/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/sge.h"

#include <string.h>

#include "base/user_copy.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/mr.h"
#include "core/memory/null_mr.h"

/* SGEs that are looked up at once. */
#define COPY_IOVS 8

enum vendor_err sge_check(const struct pd *pd, const struct ibv_sge *sge, bool for_write,
			  uint8_t **at)
{
	struct mr *mr = mr_find(pd->context->engine, sge->lkey);

	if (!mr)
		return VENDOR_ERR_LKEY;
	if (mr->pd->id != pd->id)
		return VENDOR_ERR_LKEY_PD;
	if (for_write && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return VENDOR_ERR_LKEY_ACCESS;
	if (mr->is_null) {
		*at = null_mr_memory(for_write);
		return VENDOR_ERR_NONE;
	}
	*at = mr_translate(mr, sge->addr, sge->length);
	return *at ? VENDOR_ERR_NONE : VENDOR_ERR_LKEY_BOUNDS;
}

/* Stores the MR that the SGE refers to, which has passed the checks. */
static void sge_cache_fill(struct sge_cache *cache, const struct engine *engine,
			   const struct mr *mr)
{
	cache->length = 0;
	if (mr->is_null)
		return;
	cache->lkey = mr->key;
	cache->mr_changes = engine->tables.mr_changes;
	cache->iova = mr->iova;
	cache->length = mr->length;
	cache->addr = mr->addr;
	cache->is_writable = mr->access & IBV_ACCESS_LOCAL_WRITE;
}

static enum vendor_err sge_check_and_cache(struct sge_cache *cache, const struct pd *pd,
					   const struct ibv_sge *sge, bool for_write, uint8_t **at)
{
	struct engine *engine = pd->context->engine;
	enum vendor_err err = sge_check(pd, sge, for_write, at);

	if (!err)
		sge_cache_fill(cache, engine, mr_find(engine, sge->lkey));
	return err;
}

enum vendor_err sge_check_cached(struct sge_cache *cache, const struct pd *pd,
				 const struct ibv_sge *sge, bool for_write, uint8_t **at)
{
	uint64_t offset = sge->addr - cache->iova;

	engine_assert_any_locked(pd->context->engine);
	/*
	 * A failed comparison only means that the entry does not apply, also for an SGE without
	 * bytes.
	 */
	if (cache->mr_changes != pd->context->engine->tables.mr_changes ||
	    cache->lkey != sge->lkey || offset >= cache->length ||
	    sge->length > cache->length - offset || (for_write && !cache->is_writable))
		return sge_check_and_cache(cache, pd, sge, for_write, at);
	*at = cache->addr + offset;
	return VENDOR_ERR_NONE;
}

enum vendor_err sge_gather(struct qp *qp, struct send_wqe *wqe, uint32_t offset, uint32_t bytes,
			   bool for_write, struct sge_iovs *iovs)
{
	struct iovec *iov = iovs->iov;
	uint32_t left = bytes;
	int n = 0;

	qp_assert_locked(qp);
	if (wqe->is_inline) {
		iov[0].iov_base = wqe->data + offset;
		iov[0].iov_len = bytes;
		iovs->count = bytes ? 1 : 0;
		iovs->bytes = bytes;
		return VENDOR_ERR_NONE;
	}
	for (uint32_t i = 0; i < wqe->num_sge && left && n < iovs->max; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t take;
		uint8_t *at;
		enum vendor_err err;

		if (sge->length <= offset) {
			offset -= sge->length;
			continue;
		}
		err = sge_check_cached(&qp->sq.sge_cache, qp->pd, sge, for_write, &at);
		if (err)
			return err;
		take = sge->length - offset;
		if (take > left)
			take = left;
		iov[n].iov_base = at + offset;
		iov[n].iov_len = take;
		n++;
		offset = 0;
		left -= take;
	}
	iovs->count = n;
	iovs->bytes = bytes - left;
	return VENDOR_ERR_NONE;
}

/* Whether the range is that of the WQE's only SGE, as in most small messages. */
static bool is_whole_sge(const struct send_wqe *wqe, uint32_t offset, uint32_t bytes)
{
	return wqe->num_sge == 1 && !offset && bytes && bytes == wqe->sge[0].length;
}

static enum vendor_err sge_copy_whole(struct qp *qp, const struct send_wqe *wqe, void *to)
{
	uint8_t *from;
	enum vendor_err err = sge_check_cached(&qp->sq.sge_cache, qp->pd, &wqe->sge[0], false,
					       &from);

	if (err)
		return err;
	return user_copy_from(to, from, wqe->sge[0].length) ? VENDOR_ERR_NONE :
							      VENDOR_ERR_MEMORY_GONE;
}

enum vendor_err sge_copy_from(struct qp *qp, struct send_wqe *wqe, uint32_t offset, void *to,
			      uint32_t bytes)
{
	uint8_t *at = to;

	qp_assert_locked(qp);
	if (wqe->is_inline) {
		memcpy(to, wqe->data + offset, bytes);
		return VENDOR_ERR_NONE;
	}
	if (is_whole_sge(wqe, offset, bytes))
		return sge_copy_whole(qp, wqe, to);
	while (bytes) {
		struct iovec iov[COPY_IOVS];
		struct sge_iovs iovs = {.iov = iov, .max = COPY_IOVS};
		enum vendor_err err = sge_gather(qp, wqe, offset, bytes, false, &iovs);

		if (err)
			return err;
		if (!iovs.count)
			return VENDOR_ERR_LKEY_BOUNDS;
		if (!user_gather(at, iov, iovs.count))
			return VENDOR_ERR_MEMORY_GONE;
		at += iovs.bytes;
		offset += iovs.bytes;
		bytes -= iovs.bytes;
	}
	return VENDOR_ERR_NONE;
}

enum vendor_err sge_copy_to(struct qp *qp, struct send_wqe *wqe, uint32_t offset, const void *from,
			    uint32_t bytes)
{
	const uint8_t *at = from;

	qp_assert_locked(qp);
	while (bytes) {
		struct iovec iov[COPY_IOVS];
		struct sge_iovs iovs = {.iov = iov, .max = COPY_IOVS};
		enum vendor_err err = sge_gather(qp, wqe, offset, bytes, true, &iovs);

		if (err)
			return err;
		if (!iovs.count)
			return VENDOR_ERR_LKEY_BOUNDS;
		if (!user_scatter(iov, iovs.count, at))
			return VENDOR_ERR_MEMORY_GONE;
		at += iovs.bytes;
		offset += iovs.bytes;
		bytes -= iovs.bytes;
	}
	return VENDOR_ERR_NONE;
}
