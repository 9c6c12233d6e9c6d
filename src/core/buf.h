/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_BUF_H
#define USRDMA_CORE_BUF_H

#include "core/objects.h"

/*
 * Memory that ibv_alloc_buf() gave: pages of the process, as any memory does for the device. Owned by the application,
 * which knows but a pointer; keeps its PD; dies in ibv_free_buf().
 */
struct ibv_buf {
	struct pd *pd;
	uint8_t *addr;
	size_t bytes;
	size_t mapped_bytes;
};

/* Whether [addr, addr + length) is inside the buffer, and the PD the one that it was allocated for. */
bool buf_holds(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr, size_t length);

#endif
