/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sge.h"

#include <string.h>

#include "core/mr.h"
#include "core/null_mr.h"

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
	if (!*at)
		return VENDOR_ERR_LKEY_BOUNDS;
	return mr_is_there(mr, *at, sge->length, for_write) ? VENDOR_ERR_NONE :
							      VENDOR_ERR_MEMORY_GONE;
}

int sge_gather(struct qp *qp, struct send_wqe *wqe, uint32_t offset, uint32_t bytes, bool for_write,
	       struct iovec *iov, int iov_max, uint32_t *covered)
{
	int n = 0;

	*covered = 0;
	if (wqe->is_inline) {
		iov[0].iov_base = wqe->data + offset;
		iov[0].iov_len = bytes;
		*covered = bytes;
		return bytes ? 1 : 0;
	}
	for (uint32_t i = 0; i < wqe->num_sge && bytes && n < iov_max; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t take;
		uint8_t *at;
		enum vendor_err err;

		if (sge->length <= offset) {
			offset -= sge->length;
			continue;
		}
		err = sge_check(qp->pd, sge, for_write, &at);
		if (err)
			return -(int)err;
		take = sge->length - offset;
		if (take > bytes)
			take = bytes;
		iov[n].iov_base = at + offset;
		iov[n].iov_len = take;
		n++;
		offset = 0;
		bytes -= take;
		*covered += take;
	}
	return n;
}

enum vendor_err sge_copy_from(struct qp *qp, struct send_wqe *wqe, uint32_t offset, void *to,
			      uint32_t bytes)
{
	uint8_t *at = to;

	while (bytes) {
		struct iovec iov[COPY_IOVS];
		uint32_t covered;
		int n = sge_gather(qp, wqe, offset, bytes, false, iov, COPY_IOVS, &covered);

		if (n <= 0)
			return n ? (enum vendor_err) - n : VENDOR_ERR_LKEY_BOUNDS;
		for (int i = 0; i < n; i++) {
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
			at += iov[i].iov_len;
		}
		offset += covered;
		bytes -= covered;
	}
	return VENDOR_ERR_NONE;
}

enum vendor_err sge_copy_to(struct qp *qp, struct send_wqe *wqe, uint32_t offset, const void *from,
			    uint32_t bytes)
{
	const uint8_t *at = from;

	while (bytes) {
		struct iovec iov[COPY_IOVS];
		uint32_t covered;
		int n = sge_gather(qp, wqe, offset, bytes, true, iov, COPY_IOVS, &covered);

		if (n <= 0)
			return n ? (enum vendor_err) - n : VENDOR_ERR_LKEY_BOUNDS;
		for (int i = 0; i < n; i++) {
			memcpy(iov[i].iov_base, at, iov[i].iov_len);
			at += iov[i].iov_len;
		}
		offset += covered;
		bytes -= covered;
	}
	return VENDOR_ERR_NONE;
}
