/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_FAILURE_WARN_H
#define USRDMA_CORE_REPORT_FAILURE_WARN_H

#include "base/probe.h"
#include "core/object/objects.h"

/*
 * Warnings, for `usrdma why`. Each is reported once for a QP until its reset. All functions with a
 * `struct qp` are called with the lock of the QP held.
 */

/*
 * The requester waits after its nth RNR NAK, `waited_ns` in total. Reported if the peer has had no
 * receive for a while.
 */
PROBE_COLD void failure_warn_rnr(struct qp *qp, uint32_t naks, uint64_t waited_ns,
				 unsigned int timer_code);

/*
 * The CQ is nearly full, and smaller than the queues that use it. Once for a CQ. engine.lock held.
 */
PROBE_COLD void failure_warn_cq(const struct cq *cq);

/* The requester has found its peer on this host, whose path_mtu differs. Both in bytes. */
PROBE_COLD void failure_warn_mtu(struct qp *qp, uint32_t path_mtu, uint32_t peers_path_mtu);

/*
 * A call that destroys an object has waited for a while until the application acknowledges `events`
 * asynchronous events. Takes engine.lock.
 */
PROBE_COLD void failure_warn_unacked(const struct context *context, const char *call,
				     uint32_t events);

#endif
