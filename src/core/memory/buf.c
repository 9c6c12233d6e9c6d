/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "core/engine/engine.h"
#include "core/memory/pd.h"

static int buf_map(struct ibv_buf *buf, size_t bytes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *map;

	if (!bytes || bytes > MAX_MR_BYTES)
		return -EINVAL;
	buf->bytes = bytes;
	buf->mapped_bytes = (bytes + page_bytes - 1) & ~(page_bytes - 1);
	map = mmap(NULL, buf->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	buf->addr = map;
	return 0;
}

static int buf_keep_pd(struct ibv_buf *buf)
{
	struct engine *engine = buf->pd->context->engine;
	int ret;

	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret)
		buf->pd->users++;
	engine_unlock(engine);
	return ret;
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **handle)
{
	struct ibv_buf *buf;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return NULL;
	buf->pd = to_pd(pd);
	ret = buf_map(buf, size);
	if (ret)
		goto err_map;
	ret = buf_keep_pd(buf);
	if (ret)
		goto err_keep;
	*handle = buf;
	return buf->addr;
err_keep:
	munmap(buf->addr, buf->mapped_bytes);
err_map:
	free(buf);
	errno = -ret;
	return NULL;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	struct engine *engine;

	if (!buf)
		return;
	engine = buf->pd->context->engine;
	engine_lock(engine);
	pd_put(buf->pd);
	engine_unlock(engine);
	munmap(buf->addr, buf->mapped_bytes);
	free(buf);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	/* The buffer is anonymous memory, not a dma-buf. */
	errno = buf ? ENODATA : EINVAL;
	return -1;
}

bool buf_holds(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr, size_t length)
{
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)buf->addr;

	/* A parent domain has the id of its PD, but is not the same protection domain. */
	return &buf->pd->pub == pd && offset <= buf->bytes && length <= buf->bytes - offset;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	if (fault_call_fails(__func__))
		return NULL;
	if (!buf || !buf_holds(buf, pd, addr, length)) {
		errno = EINVAL;
		return NULL;
	}
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}
