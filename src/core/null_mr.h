/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_NULL_MR_H
#define USRDMA_CORE_NULL_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* A memory region that swallows what is written to it and reads as zeros, at any address; for local use alone. */
struct ibv_mr *null_mr_alloc(struct ibv_pd *pd);

/* Where any number of bytes that one SGE can name may be written to, or is read as zeros. There if a null MR is. */
uint8_t *null_mr_memory(bool is_written);

#endif
