/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_POINTS_H
#define USRDMA_BASE_TRACE_POINTS_H

#include "base/trace.h"

/* The trace points that several modules pass, and helpers of printers. */

extern const struct trace_point point_call_failed;
extern const struct trace_point point_drop;
extern const struct trace_point point_port;
extern const struct trace_point point_fault; /* defined in fault.c */

#define TRACE_GID_TEXT_BYTES 46

/* Writes a GID: an IPv4-mapped address as IPv4, any other as IPv6. Returns `out`. */
const char *trace_gid_text(char out[TRACE_GID_TEXT_BYTES], const uint8_t gid[16]);

/*
 * Copies a member of `size` bytes that may lack its NUL. Unprintable bytes (base/printable.h)
 * become '?'. Returns `out`, of size + 1 bytes.
 */
const char *trace_string(char *out, const char *member, size_t size);

/*
 * Emits TRACE_CALL_FAILED for the public call `name`; `error` is an errno. qpn 0: the call concerns
 * no QP.
 */
PROBE_COLD void trace_emit_call_failed(const char *name, int error, uint32_t qpn);

static inline void trace_call_failed(const char *name, int error, uint32_t qpn)
{
	if (trace_is_on())
		trace_emit_call_failed(name, error, qpn);
}

/* Emits TRACE_DROP of a packet or element of `bytes` bytes. remote_gid may be NULL. */
PROBE_COLD void trace_emit_drop(const char *cause, uint32_t qpn, uint32_t src_qpn, uint32_t psn,
				const uint8_t *remote_gid, uint32_t bytes);

#endif
