/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_H
#define USRDMA_DAEMON_CONTROL_H

#include "daemon/session.h"

/*
 * STATUS: writes the report on the daemon and everything it serves, as JSON, into fd. Only a memfd is taken: nothing
 * else is certain not to block the daemon. Processes of other users appear without their QPs and MRs unless root asks.
 *
 *   daemon      version, pid, uid, counters
 *   devices     name, dev_id, node_guid, state, mtu, speed, gids [index, gid]
 *   processes   pid, uid, slot, peers; qps [qpn, type, state, peer]; mrs [rkey, addr, length, access]; counters
 *   listeners, connections, cm      daemon/cma.h
 */
int control_report(struct session *asker, int fd) __attribute__((warn_unused_result));

#endif
