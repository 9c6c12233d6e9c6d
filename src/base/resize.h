/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_RESIZE_H
#define USRDMA_BASE_RESIZE_H

#include <stdint.h>

/*
 * Gives shared memory its size, as ftruncate() does. The kernel takes it for a file: where that is more than the process
 * may have of one (RLIMIT_FSIZE), the answer is -EFBIG, and no SIGXFSZ, which would end a program that wrote no file.
 */
int resize_memory(int fd, uint64_t bytes) __attribute__((warn_unused_result));

#endif
