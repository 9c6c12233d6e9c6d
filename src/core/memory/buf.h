/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_BUF_H
#define USRDMA_CORE_MEMORY_BUF_H

#include "core/object/objects.h"

/*
 * Memory of ibv_alloc_buf(): anonymous pages of the process. Owned by the application; holds a
 * reference to its PD; freed by ibv_free_buf().
 */
struct ibv_buf {
	struct pd *pd;
	uint8_t *addr;
	size_t bytes;
	size_t mapped_bytes;
};

/* Whether [addr, addr + length) is inside the buffer, and the buffer belongs to the PD. */
bool buf_holds(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr, size_t length);

#endif
