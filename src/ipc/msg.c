/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "ipc/msg.h"
#include "ipc/msg_cm.h"
#include "ipc/msg_failure.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define VERBS	IPC_ROLE_BIT(IPC_ROLE_VERBS)
#define CM	IPC_ROLE_BIT(IPC_ROLE_CM)
#define CONTROL IPC_ROLE_BIT(IPC_ROLE_CONTROL)

#define FIELD_BYTES(type, field) sizeof(((struct type *)0)->field)

/* A request, its reply and the roles that may send it. */
#define REQUEST(request, reply, role) \
	.request_bytes = sizeof(struct request), .reply_bytes = sizeof(struct reply), .roles = role
/* A field of a request that must be zero; at most IPC_ZERO_FIELDS for each type. */
#define ZERO(request, field)                                                 \
	{                                                                    \
		offsetof(struct request, field), FIELD_BYTES(request, field) \
	}

static const struct ipc_type_info types[] = {
	[IPC_HELLO] = {.name = "hello",
		       REQUEST(ipc_hello, ipc_hello_reply, VERBS | CM | CONTROL),
		       .reply_fds = 1,
		       .zero = {ZERO(ipc_hello, reserved)}},
	[IPC_SEGMENT] = {.name = "segment",
			 REQUEST(ipc_segment, ipc_reply, VERBS),
			 .request_fds = 1,
			 .reply_fds = 1},
	[IPC_DEVICE_GET] = {.name = "device_get",
			    REQUEST(ipc_device_get, ipc_device_reply, VERBS | CM | CONTROL),
			    .zero = {ZERO(ipc_device_get, reserved)}},
	[IPC_CONNECT_PEER] = {.name = "connect_peer",
			      REQUEST(ipc_connect_peer, ipc_reply, VERBS),
			      .may_be_unanswered = true,
			      .zero = {ZERO(ipc_connect_peer, error)}},
	[IPC_PEER] = {.name = "peer",
		      .push_bytes = sizeof(struct ipc_peer),
		      .push_fds_min = 2,
		      .push_fds_max = 3},
	[IPC_PEER_GONE] = {.name = "peer_gone", .push_bytes = sizeof(struct ipc_peer_gone)},
	[IPC_DEVICE_NOTICE] = {.name = "device_notice",
			       .push_bytes = sizeof(struct ipc_device_notice)},
	[IPC_DELEGATE] = {.name = "delegate",
			  .push_bytes = sizeof(struct ipc_delegate),
			  .push_fds_min = 1,
			  .push_fds_max = 1},
	[IPC_CM_CHANNEL_CREATE] = {.name = "cm_channel_create",
				   REQUEST(ipc_reply, ipc_cm_channel_reply, CM),
				   .reply_fds = 1},
	[IPC_CM_CHANNEL_DESTROY] = {.name = "cm_channel_destroy",
				    REQUEST(ipc_cm_channel, ipc_reply, CM),
				    .zero = {ZERO(ipc_cm_channel, reserved)}},
	[IPC_CM_CREATE] = {.name = "cm_create",
			   REQUEST(ipc_cm_create, ipc_cm_create_reply, CM),
			   .zero = {ZERO(ipc_cm_create, reserved)}},
	[IPC_CM_DESTROY] = {.name = "cm_destroy",
			    REQUEST(ipc_cm_id, ipc_cm_destroy_reply, CM),
			    .may_be_unanswered = true,
			    .zero = {ZERO(ipc_cm_id, reserved)}},
	[IPC_CM_BIND] = {.name = "cm_bind",
			 REQUEST(ipc_cm_bind, ipc_cm_route_reply, CM),
			 .zero = {ZERO(ipc_cm_bind, reserved)}},
	[IPC_CM_RESOLVE_ADDR] = {.name = "cm_resolve_addr",
				 REQUEST(ipc_cm_resolve_addr, ipc_cm_route_reply, CM)},
	[IPC_CM_RESOLVE_ROUTE] = {.name = "cm_resolve_route",
				  REQUEST(ipc_cm_resolve_route, ipc_reply, CM)},
	[IPC_CM_LISTEN] = {.name = "cm_listen", REQUEST(ipc_cm_listen, ipc_cm_route_reply, CM)},
	[IPC_CM_CONNECT] = {.name = "cm_connect",
			    REQUEST(ipc_cm_connect, ipc_reply, CM),
			    .may_be_unanswered = true,
			    .zero = {ZERO(ipc_cm_connect, param.reserved)}},
	[IPC_CM_ACCEPT] = {.name = "cm_accept",
			   REQUEST(ipc_cm_connect, ipc_reply, CM),
			   .may_be_unanswered = true,
			   .zero = {ZERO(ipc_cm_connect, param.reserved)}},
	[IPC_CM_REJECT] = {.name = "cm_reject", REQUEST(ipc_cm_reject, ipc_reply, CM)},
	[IPC_CM_ESTABLISH] = {.name = "cm_establish",
			      REQUEST(ipc_cm_id, ipc_reply, CM),
			      .may_be_unanswered = true,
			      .zero = {ZERO(ipc_cm_id, reserved)}},
	[IPC_CM_DISCONNECT] = {.name = "cm_disconnect",
			       REQUEST(ipc_cm_id, ipc_reply, CM),
			       .zero = {ZERO(ipc_cm_id, reserved)}},
	[IPC_CM_NOTIFY] = {.name = "cm_notify", REQUEST(ipc_cm_notify, ipc_reply, CM)},
	[IPC_CM_SET_OPTION] = {.name = "cm_set_option", REQUEST(ipc_cm_set_option, ipc_reply, CM)},
	[IPC_CM_MIGRATE_BEGIN] = {.name = "cm_migrate_begin",
				  REQUEST(ipc_cm_migrate, ipc_reply, CM)},
	[IPC_CM_MIGRATE_END] = {.name = "cm_migrate_end",
				REQUEST(ipc_cm_migrate_end, ipc_reply, CM),
				.zero = {ZERO(ipc_cm_migrate_end, reserved)}},
	[IPC_CM_WRITE_EVENT] = {.name = "cm_write_event",
				REQUEST(ipc_cm_write_event, ipc_reply, CM),
				.zero = {ZERO(ipc_cm_write_event, reserved)}},
	[IPC_CM_JOIN] = {.name = "cm_join", REQUEST(ipc_cm_join, ipc_reply, CM)},
	[IPC_CM_LEAVE] = {.name = "cm_leave",
			  REQUEST(ipc_cm_leave, ipc_reply, CM),
			  .zero = {ZERO(ipc_cm_leave, reserved)}},
	[IPC_CM_EVENT] = {.name = "cm_event", .push_bytes = sizeof(struct ipc_cm_event)},
	[IPC_STATUS] = {.name = "status", REQUEST(ipc_status, ipc_status_reply, CONTROL)},
	[IPC_XRCD_OPEN] = {.name = "xrcd_open",
			   REQUEST(ipc_xrcd_open, ipc_xrcd_open_reply, VERBS),
			   .request_fds = 1},
	[IPC_XRCD_CLOSE] = {.name = "xrcd_close",
			    REQUEST(ipc_xrcd_close, ipc_reply, VERBS),
			    .may_be_unanswered = true},
	[IPC_RING] = {.name = "ring",
		      .push_bytes = sizeof(struct ipc_ring),
		      .push_fds_min = IPC_RING_FDS,
		      .push_fds_max = IPC_RING_FDS},
	[IPC_GROUP_JOIN] = {.name = "group_join",
			    REQUEST(ipc_group, ipc_reply, VERBS),
			    .zero = {ZERO(ipc_group, reserved)}},
	[IPC_GROUP_LEAVE] = {.name = "group_leave",
			     REQUEST(ipc_group, ipc_reply, VERBS),
			     .may_be_unanswered = true,
			     .zero = {ZERO(ipc_group, reserved)}},
	[IPC_PEER_NOT_TAKEN] = {.name = "peer_not_taken",
				REQUEST(ipc_peer_gone, ipc_reply, VERBS),
				.may_be_unanswered = true,
				.zero = {ZERO(ipc_peer_gone, reserved)}},
	[IPC_CONNECT_PEER_FAILED] = {.name = "connect_peer_failed",
				     .push_bytes = sizeof(struct ipc_connect_peer)},
	[IPC_PROBES] = {.name = "probes",
			.push_bytes = sizeof(struct ipc_probes),
			.push_fds_max = 1},
	[IPC_TRACE_RING] = {.name = "trace_ring",
			    REQUEST(ipc_trace_ring, ipc_reply, CM),
			    .reply_fds = 1},
	[IPC_TRACE_START] = {.name = "trace_start", REQUEST(ipc_trace_start, ipc_reply, CONTROL)},
	[IPC_TRACE_NEXT] = {.name = "trace_next",
			    REQUEST(ipc_trace_next, ipc_trace_next_reply, CONTROL),
			    .reply_fds = 1},
	[IPC_FAULT_SET] = {.name = "fault_set",
			   REQUEST(ipc_fault_set, ipc_reply, CONTROL),
			   .request_fds = 1,
			   .zero = {ZERO(ipc_fault_set, reserved)}},
	[IPC_FAILURE] = {.name = "failure",
			 REQUEST(ipc_failure, ipc_reply, VERBS | CM),
			 .may_be_unanswered = true},
	[IPC_FAULT_DISCONNECT] = {.name = "fault_disconnect",
				  REQUEST(ipc_fault_disconnect, ipc_reply, VERBS),
				  .may_be_unanswered = true,
				  .zero = {ZERO(ipc_fault_disconnect, reserved)}},
	[IPC_AV_RESOLVE] = {.name = "av_resolve",
			    REQUEST(ipc_av_resolve, ipc_av_resolve_reply, VERBS),
			    .zero = {ZERO(ipc_av_resolve, reserved)}},
	[IPC_AV_RESOLVED] = {.name = "av_resolved", .push_bytes = sizeof(struct ipc_av_resolved)},
	[IPC_DEVICE_TOTAL] = {.name = "device_total",
			      REQUEST(ipc_device_total, ipc_device_total_reply, CONTROL),
			      .zero = {ZERO(ipc_device_total, reserved)}},
	[IPC_FAILURE_GET] = {.name = "failure_get",
			     REQUEST(ipc_failure_get, ipc_failure_get_reply, CONTROL)},
};
static_assert(COUNT(types) == IPC_TYPE_COUNT, "every type has its row");

const struct ipc_type_info *ipc_type_info(uint32_t type)
{
	if (type >= IPC_TYPE_COUNT || !types[type].name)
		return NULL;
	return &types[type];
}

/*
 * Returns the type's row, or NULL: unknown type, or the header's length differs from that of the
 * datagram.
 */
static const struct ipc_type_info *msg_header_check(const void *msg, size_t len,
						    struct ipc_hdr *hdr)
{
	if (len < sizeof(*hdr))
		return NULL;
	memcpy(hdr, msg, sizeof(*hdr));
	if (hdr->len != len)
		return NULL;
	return ipc_type_info(hdr->type);
}

static int fields_are_zero(const struct ipc_type_info *info, const uint8_t *msg)
{
	for (size_t i = 0; i < IPC_ZERO_FIELDS; i++) {
		for (uint32_t at = 0; at < info->zero[i].len; at++) {
			if (msg[info->zero[i].at + at] != 0)
				return 0;
		}
	}
	return 1;
}

int ipc_request_check(const void *msg, size_t len, int nfds)
{
	struct ipc_hdr hdr;
	const struct ipc_type_info *info = msg_header_check(msg, len, &hdr);

	if (!info || info->request_bytes != len || hdr.status != 0)
		return -EPROTO;
	if (hdr.flags && !(hdr.flags == IPC_UNANSWERED && info->may_be_unanswered))
		return -EPROTO;
	if (nfds != info->request_fds || !fields_are_zero(info, msg))
		return -EPROTO;
	return 0;
}

int ipc_push_check(const void *msg, size_t len, int nfds)
{
	struct ipc_hdr hdr;
	const struct ipc_type_info *info = msg_header_check(msg, len, &hdr);

	if (!info || info->push_bytes != len || hdr.status != 0 || hdr.seq != 0 || hdr.flags != 0)
		return -EPROTO;
	/* FDPASS_LOST: the handler of the push deals with the missing descriptors. */
	if (nfds < 0)
		return info->push_fds_max > 0 ? 0 : -EPROTO;
	if (nfds < info->push_fds_min || nfds > info->push_fds_max)
		return -EPROTO;
	return 0;
}

int ipc_reply_check(const struct ipc_hdr *req, const void *msg, size_t len, size_t reply_len,
		    int nfds)
{
	struct ipc_hdr hdr;

	if (!msg_header_check(msg, len, &hdr))
		return -EPROTO;
	if (hdr.type != req->type || hdr.seq != req->seq || hdr.status > 0 || hdr.flags != 0)
		return -EPROTO;
	if (len != reply_len && !(hdr.status < 0 && len == sizeof(hdr)))
		return -EPROTO;
	if (nfds >= 0 && nfds != (hdr.status ? 0 : ipc_type_info(hdr.type)->reply_fds))
		return -EPROTO;
	return 0;
}
