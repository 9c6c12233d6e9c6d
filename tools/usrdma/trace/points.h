/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_POINTS_H
#define USRDMA_TOOL_TRACE_POINTS_H

#include "base/trace.h"

/*
 * The description of a type (enum trace_type). An unknown type has a point whose printer prints the
 * type's number.
 */
const struct trace_point *trace_point_of(uint8_t type);

#endif
