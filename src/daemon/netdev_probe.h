/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_PROBE_H
#define USRDMA_DAEMON_NETDEV_PROBE_H

#include "base/trace.h"
#include "daemon/netdev.h"

PROBE_COLD void emit_port(const struct netdev *dev, uint32_t changes);

/* The trace point of a device's changes: a set of bits, 1 << enum ipc_device_what. */
static inline void trace_port(const struct netdev *dev, uint32_t changes)
{
	if (trace_is_on())
		emit_port(dev, changes);
}

#endif
