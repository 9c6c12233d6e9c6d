/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_H
#define USRDMA_DAEMON_CONTROL_H

#include "daemon/session.h"

/*
 * STATUS: a report on the daemon and all processes that it serves, as JSON, which the client reads
 * in pieces. The daemon does not write into a memfd of the client: such a write can block on locks
 * that the client holds. Processes of other users appear without their QPs and MRs, unless root
 * asks.
 *
 *   daemon      version, pid, uid, counters
 *   devices     name, dev_id, node_guid, state, mtu, speed, what its QPs transferred, gids [index,
 *               gid]
 *   processes   pid, uid, slot, peers; qps [qpn, type, state, peer]; mrs [rkey, addr, length,
 *               access]; counters
 *   listeners, connections, multicast_joins, cm      daemon/cma.h
 *
 * Each request produces at most one section of the report, so that other clients are served between
 * sections. A change between two requests may be missing from the report.
 */
struct control_report;

/*
 * Maximum number of unfinished reports of one uid. Each report holds the text of one section, up to
 * about 100 KiB.
 */
#define CONTROL_REPORTS_UID_MAX 64

/*
 * Fills in the reply with the next piece of the session's report. Begins a report if the session
 * has none, and frees it after the last piece. 0, -EDQUOT or -ENOMEM.
 */
int control_report_read(struct session *asker, struct ipc_status_reply *reply)
	__attribute__((warn_unused_result));

/* Frees the session's unfinished report, if it has one. */
void control_report_drop(struct session *asker);

#endif
