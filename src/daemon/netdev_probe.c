/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev_probe.h"

#include <stdio.h>
#include <string.h>

#include "base/trace_points.h"
#include "base/util.h"

static const struct {
	enum ipc_device_what what;
	enum trace_port_change change;
} traced_changes[] = {
	{IPC_DEVICE_ADDED, TRACE_PORT_PRESENT},	 {IPC_DEVICE_REMOVED, TRACE_PORT_REMOVED},
	{IPC_DEVICE_GID_CHANGE, TRACE_PORT_GID}, {IPC_DEVICE_PORT_ACTIVE, TRACE_PORT_UP},
	{IPC_DEVICE_PORT_DOWN, TRACE_PORT_DOWN},
};

void emit_port(const struct netdev *dev, uint32_t changes)
{
	for (size_t i = 0; i < COUNT(traced_changes); i++) {
		struct trace_event event = {
			.ifindex = dev->dev_id,
			.port = {.change = traced_changes[i].change, .port = 1},
		};

		if (!(changes & 1u << traced_changes[i].what))
			continue;
		snprintf(event.port.device, sizeof(event.port.device), "%.31s", dev->name);
		memcpy(event.port.gid, dev->gids[0].raw, sizeof(event.port.gid));
		trace_emit(&point_port, &event);
	}
}
