/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/probe.h"

#include <arpa/inet.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/trace_points.h"

/* Writes the address as a GID. An address of another family leaves the GID and the port zero. */
static void put_address(uint8_t gid[16], uint16_t *port, const struct sockaddr *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;

	if (addr->sa_family == AF_INET) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + sizeof(mapped), &in->sin_addr, sizeof(in->sin_addr));
		*port = ntohs(in->sin_port);
	} else if (addr->sa_family == AF_INET6) {
		memcpy(gid, &in6->sin6_addr, sizeof(in6->sin6_addr));
		*port = ntohs(in6->sin6_port);
	}
}

void emit_cm_event(const struct rcm_event *event)
{
	const struct rcm_id *id = rcm_id_of(event->pub.id);
	struct trace_event out = {
		.qpn = atomic_load_explicit(&id->qpn, memory_order_relaxed),
		.cm_event =
			{
				.id = id->handle,
				.event = event->pub.event,
				.status = event->pub.status,
				.port_space = (uint16_t)id->pub.ps,
			},
	};
	struct trace_cm_event *cm = &out.cm_event;
	const void *private_data;
	uint8_t private_bytes;

	if (rcm_id_is_datagram(id)) {
		private_data = event->pub.param.ud.private_data;
		private_bytes = event->pub.param.ud.private_data_len;
		cm->remote_qpn = event->pub.param.ud.qp_num;
	} else {
		private_data = event->pub.param.conn.private_data;
		private_bytes = event->pub.param.conn.private_data_len;
		cm->remote_qpn = event->pub.param.conn.qp_num;
	}
	put_address(cm->local_gid, &cm->local_port, &id->pub.route.addr.src_addr);
	put_address(cm->remote_gid, &cm->remote_port, &id->pub.route.addr.dst_addr);
	if (private_data) {
		cm->private_bytes = private_bytes < TRACE_PRIVATE_BYTES ? private_bytes :
									  TRACE_PRIVATE_BYTES;
		memcpy(cm->private_data, private_data, cm->private_bytes);
	}
	trace_emit(&point_cm_event, &out);
}
