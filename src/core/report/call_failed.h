/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_CALL_FAILED_H
#define USRDMA_CORE_REPORT_CALL_FAILED_H

#include <errno.h>

#include "base/probe.h"
#include "core/object/objects.h"
#include "ipc/msg_failure.h"

/*
 * The public call `call`, a string that remains valid, has failed with `ret`, a -errno: it is
 * traced, and reported for `usrdma why`. The same error of the same call is reported once in
 * CALL_FAILED_INTERVAL_NS, because applications repeat calls. Called without engine.lock. Does not
 * change errno.
 */
#define CALL_FAILED_INTERVAL_NS (10 * CLOCK_NS_PER_S)

PROBE_COLD void call_failed(const struct context *context, const char *call, int ret);

/* The same with a cause, whose numbers are described in ipc/msg_failure.h. */
PROBE_COLD void call_failed_because(const struct context *context, const char *call, int ret,
				    enum ipc_failure_reason reason, uint64_t first,
				    uint64_t second);

/* The same because of failure_unreachable(). */
PROBE_COLD void call_failed_unreachable(const struct context *context, const char *call, int ret,
					const struct ipc_gid *source, const union ibv_gid *dgid);

/* EBUSY: this number of objects uses the object. Sets errno to EBUSY and returns it. */
PROBE_COLD int call_failed_busy(const struct context *context, const char *call, uint64_t users);

/*
 * The result of a call that returns an errno: 0, or -ret after call_failed(). Also sets errno,
 * because applications check either the return value or errno: in rdma-core both have the value,
 * which is that of the system call.
 */
static inline int call_result(const struct context *context, const char *call, int ret)
{
	if (__builtin_expect(ret, 0)) {
		call_failed(context, call, ret);
		errno = -ret;
	}
	return -ret;
}

#endif
