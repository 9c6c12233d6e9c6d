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
 *   listeners, connections, multicast_joins, cm      daemon/cma.h
 *
 * Of many thousands that takes a while, in which others are served: a piece is written in each turn of the loop, and what
 * changes meanwhile may be in it or not.
 */
struct control_report;

/* Begins, and takes fd over; session_report_ends() is told how it ended. -EINVAL: no memfd; -ENOMEM. */
int control_report_begin(struct session *asker, int fd, struct control_report **report)
	__attribute__((warn_unused_result));

/* The asker has gone: ends it without a word. */
void control_report_drop(struct control_report *report);

#endif
