/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace_points.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/util.h"

static_assert(TRACE_GID_TEXT_BYTES >= INET6_ADDRSTRLEN, "every address fits");

const char *trace_gid_text(char out[TRACE_GID_TEXT_BYTES], const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is_ipv4 = memcmp(gid, mapped, sizeof(mapped)) == 0;

	if (!inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid + sizeof(mapped) : gid, out,
		       TRACE_GID_TEXT_BYTES))
		out[0] = '\0';
	return out;
}

const char *trace_string(char *out, const char *member, size_t size)
{
	size_t len = strnlen(member, size);

	memcpy(out, member, len);
	out[len] = '\0';
	printable_replace(out, len);
	return out;
}

static void print_call_failed(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_call_failed *failed = &event->call_failed;
	char name[sizeof(failed->name) + 1];
	int saved_errno = errno;
	int len = 0;

	if (event->qpn)
		len = snprintf(out, out_bytes, "qpn 0x%x ", event->qpn);
	errno = failed->error;
	if (len >= 0 && (size_t)len < out_bytes)
		snprintf(out + len, out_bytes - (size_t)len, "%s: %m (errno %d)",
			 trace_string(name, failed->name, sizeof(failed->name)), failed->error);
	errno = saved_errno;
}

const struct trace_point point_call_failed = {TRACE_CALL_FAILED, "call failed", print_call_failed};

void trace_emit_call_failed(const char *name, int error, uint32_t qpn)
{
	struct trace_event event = {.qpn = qpn, .call_failed = {.error = error}};

	snprintf(event.call_failed.name, sizeof(event.call_failed.name), "%s", name);
	trace_emit(&point_call_failed, &event);
}

static void print_drop(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_drop *drop = &event->drop;
	char gid[TRACE_GID_TEXT_BYTES], cause[sizeof(drop->cause) + 1];

	snprintf(out, out_bytes, "qpn 0x%x psn %u from %s qpn 0x%x bytes %u: %s", event->qpn,
		 event->psn, trace_gid_text(gid, drop->remote_gid), drop->src_qpn, drop->bytes,
		 trace_string(cause, drop->cause, sizeof(drop->cause)));
}

const struct trace_point point_drop = {TRACE_DROP, "drop", print_drop};

void trace_emit_drop(const char *cause, uint32_t qpn, uint32_t src_qpn, uint32_t psn,
		     const uint8_t *remote_gid, uint32_t bytes)
{
	struct trace_event event = {
		.qpn = qpn,
		.psn = psn,
		.drop = {.src_qpn = src_qpn, .bytes = bytes},
	};

	if (remote_gid)
		memcpy(event.drop.remote_gid, remote_gid, sizeof(event.drop.remote_gid));
	snprintf(event.drop.cause, sizeof(event.drop.cause), "%s", cause);
	trace_emit(&point_drop, &event);
}

static const char *const change_names[] = {
	[TRACE_PORT_DOWN] = "down",
	[TRACE_PORT_UP] = "up",
	[TRACE_PORT_GID] = "GID table changed",
	[TRACE_PORT_REMOVED] = "removed",
	[TRACE_PORT_PRESENT] = "present",
};
static_assert(COUNT(change_names) == TRACE_PORT_CHANGE_COUNT, "every change has a name");

static void print_port(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_port *port = &event->port;
	char gid[TRACE_GID_TEXT_BYTES], device[sizeof(port->device) + 1];

	snprintf(out, out_bytes, "%s port %u %s gid %s",
		 trace_string(device, port->device, sizeof(port->device)), port->port,
		 port->change < COUNT(change_names) ? change_names[port->change] : "unknown",
		 trace_gid_text(gid, port->gid));
}

const struct trace_point point_port = {TRACE_PORT, "port", print_port};
