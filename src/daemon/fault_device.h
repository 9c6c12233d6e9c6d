/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_DEVICE_H
#define USRDMA_DAEMON_FAULT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/netdev.h"

/*
 * The fault point device: the devices that rules take down or remove, for all users
 * (FAULT_EVERY_USER) or for one user. For the clients of other users the device does not change.
 * Used by the loop's thread.
 */

/* Reports a change of a device (enum ipc_device_what) to the clients of a user, or of all users. */
typedef void fault_device_notify(void *ctx, uid_t uid, uint32_t dev_id, uint32_t what);

/* The device passes the point with the rules of this scope. Changes are reported. */
void fault_device_pass(const struct netdev *dev, uid_t scope, fault_device_notify *notify,
		       void *ctx);

/* Ends the faults of users who have no rules any more; all: of every scope. */
void fault_device_release(bool all, fault_device_notify *notify, void *ctx);

/* Whether a rule has removed the device for the clients of this user. */
bool fault_device_is_removed(const struct netdev *dev, uid_t uid);

/* Whether the port is active for the clients of this user. */
bool fault_device_is_active(const struct netdev *dev, uid_t uid);

#endif
