/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_TRACE_POINTS_H
#define USRDMA_CORE_REPORT_TRACE_POINTS_H

#include "base/trace.h"

/*
 * The trace points of the verbs: names and printers, which the emitting functions and the command
 * `usrdma trace` use.
 */

extern const struct trace_point point_wr_posted;
extern const struct trace_point point_recv_posted;
extern const struct trace_point point_cqe;
extern const struct trace_point point_qp_state;
extern const struct trace_point point_qp_path;
extern const struct trace_point point_one_sided;
extern const struct trace_point point_async_event;

#endif
