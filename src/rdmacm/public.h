/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_PUBLIC_H
#define USRDMA_RDMACM_PUBLIC_H

#include <errno.h>

/* Converts 0 or -errno to the convention of librdmacm's public functions: 0, or -1 and errno. */
static inline int rcm_public_result(int ret)
{
	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

#endif
