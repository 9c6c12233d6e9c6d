/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_PUBLIC_H
#define USRDMA_RDMACM_PUBLIC_H

#include <errno.h>

#include "base/fault.h"
#include "base/trace_points.h"

/* As rcm_public_result(), for the public function `call`. */
static inline int rcm_result_of_call(int ret, const char *call)
{
	if (!ret)
		return 0;
	errno = -ret;
	/* The caller repeats the call. */
	if (ret != -EAGAIN && ret != -EINTR)
		trace_call_failed(call, -ret, 0);
	return -1;
}

/*
 * Converts 0 or -errno to the convention of librdmacm's public functions: 0, or -1 and errno. To be
 * used in the public function, whose name is traced if it fails.
 */
#define rcm_public_result(ret) rcm_result_of_call(ret, __func__)

/*
 * The same for an expression that carries out the call: it is not evaluated if the fault point
 * `call` fails.
 */
#define rcm_public_call(call) rcm_result_of_call(fault_call(__func__) ?: (call), __func__)

#endif
