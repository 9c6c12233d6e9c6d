/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_FAILURE_WARN_H
#define USRDMA_CORE_FAILURE_WARN_H

#include "base/probe.h"
#include "core/objects.h"

/* Warnings, for `usrdma why`. Each is reported once for a QP until its reset. engine.lock held. */

/* The requester waits after its nth RNR NAK, `waited_ns` in total. Reported if the peer has had no receive for a while. */
PROBE_COLD void failure_warn_rnr(struct qp *qp, uint32_t naks, uint64_t waited_ns,
				 unsigned int timer_code);

#endif
