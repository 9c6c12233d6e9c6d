/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_TRACE_POINTS_H
#define USRDMA_IPC_TRACE_POINTS_H

#include "base/trace.h"

/* The trace points of the messages between a client and the daemon. */

extern const struct trace_point point_ipc_request;
extern const struct trace_point point_ipc_reply;
extern const struct trace_point point_ipc_notice;

#endif
