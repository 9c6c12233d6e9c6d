/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_TRACE_POINTS_H
#define USRDMA_RDMACM_TRACE_POINTS_H

#include "base/trace.h"

/* The trace point of the events of ids. */

extern const struct trace_point point_cm_event;

#endif
