/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_TRACE_POINTS_H
#define USRDMA_ROCE_TRACE_POINTS_H

#include "base/trace.h"

/* The trace points of the RoCEv2 transport, without those of packets (wire/trace_packet.h). */

extern const struct trace_point point_retransmit;
extern const struct trace_point point_recovery_state;
extern const struct trace_point point_window;

#endif
