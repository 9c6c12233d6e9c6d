/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_RESIZE_H
#define USRDMA_BASE_RESIZE_H

#include <stdint.h>

/*
 * Sets the size of a memfd with ftruncate(). RLIMIT_FSIZE applies to a memfd, too. If the size is
 * above this limit, -EFBIG is returned and the process gets no SIGXFSZ, which would terminate it.
 */
int resize_memory(int fd, uint64_t bytes) __attribute__((warn_unused_result));

#endif
