/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_FAILURE_EVENT_H
#define USRDMA_CORE_REPORT_FAILURE_EVENT_H

#include "base/probe.h"
#include "core/object/objects.h"

/* Asynchronous events that concern no QP, for `usrdma why`. engine.lock may be held. */
PROBE_COLD void failure_cq_event(const struct cq *cq, enum ibv_event_type event);
PROBE_COLD void failure_srq_event(const struct srq *srq, enum ibv_event_type event);

/* Also of the device. To be called for one of the contexts of the device. */
PROBE_COLD void failure_port_event(const struct context *context, enum ibv_event_type event);

/*
 * The daemon connection is lost. If the daemon was in another PID namespace, its successor gets the
 * report. Blocks until the successor has started. To be called before the application can detect
 * the loss and exit.
 */
PROBE_COLD void failure_daemon_ended(struct engine *engine);

#endif
