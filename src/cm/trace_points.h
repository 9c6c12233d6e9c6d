/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_TRACE_POINTS_H
#define USRDMA_CM_TRACE_POINTS_H

#include "base/trace.h"

/* The trace points of the communication manager's state machines. */

extern const struct trace_point point_cm_state;
extern const struct trace_point point_sidr_state;

#endif
