/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>

#include "daemon/cma_priv.h"

/* What `usrdma status` shows of the rdma_cm half; see docs for the names. */

#define ADDR_TEXT_BYTES (INET6_ADDRSTRLEN + 16)

static const char *addr_text(const struct sockaddr_storage *addr, char text[ADDR_TEXT_BYTES])
{
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *sin = (const struct sockaddr_in *)addr;
	char host[INET6_ADDRSTRLEN];

	if (addr->ss_family == AF_INET && inet_ntop(AF_INET, &sin->sin_addr, host, sizeof(host)))
		snprintf(text, ADDR_TEXT_BYTES, "%s:%u", host, ntohs(sin->sin_port));
	else if (addr->ss_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &sin6->sin6_addr, host, sizeof(host)))
		snprintf(text, ADDR_TEXT_BYTES, "[%s]:%u", host, ntohs(sin6->sin6_port));
	else
		snprintf(text, ADDR_TEXT_BYTES, "-");
	return text;
}

static const char *ps_name(uint32_t ps)
{
	switch (ps) {
	case RDMA_PS_TCP:
		return "tcp";
	case RDMA_PS_UDP:
		return "udp";
	case RDMA_PS_IB:
		return "ib";
	case RDMA_PS_IPOIB:
		return "ipoib";
	default:
		return "?";
	}
}

static void add_int(json_object *to, const char *name, uint64_t value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void add_text(json_object *to, const char *name, const char *value)
{
	json_object_object_add(to, name, json_object_new_string(value));
}

static json_object *describe(const struct cma_id *id)
{
	json_object *out = json_object_new_object();
	const struct netdev *dev = id->route.dev_id ? netdev_by_id(id->route.dev_id) : NULL;
	char text[ADDR_TEXT_BYTES];

	add_int(out, "pid", (uint64_t)id->client->peer.pid);
	add_int(out, "uid", id->client->peer.uid);
	add_int(out, "id", id->handle);
	add_text(out, "port_space", ps_name(id->ps));
	add_text(out, "device", dev ? dev->name : "*");
	add_text(out, "local", addr_text(&id->route.src, text));
	return out;
}

static json_object *describe_listener(const struct cma_id *id)
{
	json_object *out = describe(id);

	add_int(out, "backlog", id->backlog);
	return out;
}

static json_object *describe_connection(const struct cma_id *id)
{
	json_object *out = describe(id);
	char text[ADDR_TEXT_BYTES];

	add_text(out, "remote", addr_text(&id->route.dst, text));
	add_text(out, "state",
		 id->conn ? cm_state_name(cm_conn_state(id->conn)) : cma_state_name(id->state));
	add_int(out, "qp", id->qp_num);
	add_int(out, "remote_qp", id->qp.remote_qpn);
	return out;
}

static json_object *describe_mads(const uint64_t counts[CM_MSG_COUNT])
{
	json_object *out = json_object_new_object();

	for (unsigned i = 0; i < CM_MSG_COUNT; i++) {
		if (counts[i])
			add_int(out, cm_msg_name((enum cm_msg_type)i), counts[i]);
	}
	return out;
}

static void report_wire(struct json_object *out, const struct gsi_wire_counters *counters)
{
	add_int(out, "wire_mads_sent", counters->sent);
	add_int(out, "wire_mads_received", counters->received);
	add_int(out, "wire_unsent", counters->unsent);
	add_int(out, "wire_unparsable", counters->unparsable);
	add_int(out, "wire_wrong_icrc", counters->wrong_icrc);
	add_int(out, "wire_wrong_packet", counters->wrong_packet);
}

static json_object *describe_counters(const struct cma *cma)
{
	const struct cm_counters *cm = cm_counters(cma->cm);
	json_object *out = json_object_new_object();

	add_int(out, "requests", cma->counters.requests);
	add_int(out, "events", cma->counters.events);
	add_int(out, "events_lost", cma->counters.events_lost);
	add_int(out, "connect_requests", cma->counters.connect_requests);
	add_int(out, "backlog_drops", cma->counters.backlog_drops);
	add_int(out, "rejects_sent", cma->counters.rejects_sent);
	add_int(out, "established", cma->counters.established);
	add_int(out, "clients_gone", cma->counters.clients_gone);
	add_int(out, "ids", cma->ids.count);
	add_int(out, "channels", cma->channels.count);
	add_int(out, "cm_connections", cm_conn_count(cma->cm));
	json_object_object_add(out, "mads_sent", describe_mads(cm->sent));
	json_object_object_add(out, "mads_received", describe_mads(cm->received));
	add_int(out, "mads_resent", cm->resent);
	add_int(out, "mads_stray", cm->strays);
	add_int(out, "mads_malformed", cm->malformed);
	add_int(out, "mads_unsent", cm->unsent);
	add_int(out, "mads_looped", cma->gsi.looped);
	add_int(out, "mads_dropped", cma->gsi.dropped);
	if (cma->gsi.wire)
		report_wire(out, gsi_wire_counters(cma->gsi.wire));
	return out;
}

void cma_report(const struct cma *cma, json_object *report)
{
	json_object *listeners = json_object_new_array();
	json_object *connections = json_object_new_array();
	const struct cma_id *id;
	uint32_t cursor = 0;

	while ((id = id_table_next(&cma->ids, &cursor))) {
		if (id->state == CMA_LISTENING)
			json_object_array_add(listeners, describe_listener(id));
		else if (id->conn)
			json_object_array_add(connections, describe_connection(id));
	}
	json_object_object_add(report, "listeners", listeners);
	json_object_object_add(report, "connections", connections);
	json_object_object_add(report, "cm", describe_counters(cma));
}
