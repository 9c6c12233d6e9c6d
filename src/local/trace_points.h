/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_TRACE_POINTS_H
#define USRDMA_LOCAL_TRACE_POINTS_H

#include "base/trace.h"

/* The trace points of the shared-memory FIFOs. */

extern const struct trace_point point_fifo_sent;
extern const struct trace_point point_fifo_received;

#endif
