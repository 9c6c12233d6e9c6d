/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PAGE_H
#define USRDMA_BASE_PAGE_H

#include <stdbool.h>

/*
 * Whether the page that contains the address can be read or written by this process. Each is one
 * system call, which accesses the page: the kernel reads it in, or allocates it for the second
 * function. The contents do not change. errno is unchanged.
 */
bool page_is_readable(const void *at);
bool page_is_writable(void *at);

#endif
