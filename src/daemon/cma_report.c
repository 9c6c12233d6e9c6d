/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>

#include "daemon/cma_priv.h"

/* The rdma_cm part of the report of `usrdma status`. */

#define ADDR_TEXT_BYTES (INET6_ADDRSTRLEN + 16)

/* Number of ids that one piece of a list covers. */
#define IDS_AT_ONCE 128

static const char *host_text(const struct sockaddr_storage *addr, char text[ADDR_TEXT_BYTES])
{
	const void *bytes = addr->ss_family == AF_INET6 ?
				    (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr :
				    (const void *)&((const struct sockaddr_in *)addr)->sin_addr;

	if (!inet_ntop(addr->ss_family, bytes, text, ADDR_TEXT_BYTES))
		snprintf(text, ADDR_TEXT_BYTES, "-");
	return text;
}

static const char *addr_text(const struct sockaddr_storage *addr, char text[ADDR_TEXT_BYTES])
{
	char host[ADDR_TEXT_BYTES];
	uint16_t port = cma_addr_port((const struct sockaddr *)addr);

	host_text(addr, host);
	if (addr->ss_family == AF_INET)
		snprintf(text, ADDR_TEXT_BYTES, "%.*s:%u", INET6_ADDRSTRLEN, host, port);
	else if (addr->ss_family == AF_INET6)
		snprintf(text, ADDR_TEXT_BYTES, "[%.*s]:%u", INET6_ADDRSTRLEN, host, port);
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

static bool cma_report_may_see(uid_t asker, const struct cma_id *id)
{
	return asker == 0 || asker == id->client->peer.uid;
}

static json_object *describe(const struct cma_id *id, bool is_public)
{
	json_object *out = json_object_new_object();
	const struct netdev *dev = id->route.dev_id ? netdev_by_id(id->route.dev_id) : NULL;
	char text[ADDR_TEXT_BYTES];

	add_int(out, "uid", id->client->peer.uid);
	if (!is_public) {
		add_int(out, "pid", (uint64_t)id->client->peer.pid);
		add_int(out, "id", id->handle);
	}
	add_text(out, "port_space", ps_name(id->ps));
	add_text(out, "device", dev ? dev->name : "*");
	add_text(out, "local", addr_text(&id->route.src, text));
	return out;
}

static json_object *describe_listener(const struct cma_id *id, uid_t asker)
{
	json_object *out = describe(id, !cma_report_may_see(asker, id));

	add_int(out, "backlog", id->backlog);
	return out;
}

static const char *state_name(const struct cma_id *id)
{
	return id->conn ? id->cm->ops->state_name(id) : cma_state_name(id->state);
}

/*
 * Whether an id is listed as a connection. Datagram ids have none, but the peer of a resolution is
 * as useful.
 */
static bool has_peer(const struct cma_id *id)
{
	return id->conn || (cma_is_datagram(id) && id->state == CMA_CONNECTED);
}

static json_object *describe_connection(const struct cma_id *id)
{
	json_object *out = describe(id, false);
	char text[ADDR_TEXT_BYTES];

	add_text(out, "remote", addr_text(&id->route.dst, text));
	add_text(out, "state", state_name(id));
	add_int(out, "qp", id->qp_num);
	add_int(out, "remote_qp", id->qp.remote_qpn);
	return out;
}

static json_object *describe_membership(const struct cma_id *id,
					const struct cma_membership *membership)
{
	json_object *out = describe(id, false);
	struct sockaddr_storage group;
	char text[ADDR_TEXT_BYTES];

	gid_to_sockaddr(membership->group, &group);
	add_text(out, "group", host_text(&group, text));
	add_text(out, "role", membership->sends_only ? "sender" : "member");
	return out;
}

static void describe_memberships(const struct cma_id *id, json_object *to)
{
	const struct cma_membership *membership;

	list_for_each_entry(membership, &id->memberships, node)
		json_object_array_add(to, describe_membership(id, membership));
}

static json_object *describe_counters(const struct cma *cma)
{
	json_object *out = json_object_new_object();

	add_int(out, "requests", cma->counters.requests);
	add_int(out, "events", cma->counters.events);
	add_int(out, "events_lost", cma->counters.events_lost);
	add_int(out, "connect_requests", cma->counters.connect_requests);
	add_int(out, "backlog_drops", cma->counters.backlog_drops);
	add_int(out, "misaddressed", cma->counters.misaddressed);
	add_int(out, "rejects_sent", cma->counters.rejects_sent);
	add_int(out, "established", cma->counters.established);
	add_int(out, "clients_gone", cma->counters.clients_gone);
	add_int(out, "clients_evicted", cma->counters.clients_evicted);
	add_int(out, "ids", cma->ids.count);
	add_int(out, "channels", cma->channels.count);
	return out;
}

json_object *cma_report_counters(const struct cma *cma, json_object *counters)
{
	json_object *out = describe_counters(cma);

	cma_cms_report(&cma->cms, out, counters);
	return out;
}

static void describe_as(const struct cma_id *id, enum cma_listed listed, uid_t asker,
			json_object *to)
{
	bool is_listener = id->state == CMA_LISTENING;

	switch (listed) {
	case CMA_LISTENERS:
		if (is_listener)
			json_object_array_add(to, describe_listener(id, asker));
		break;
	case CMA_CONNECTIONS:
		if (!is_listener && has_peer(id) && cma_report_may_see(asker, id))
			json_object_array_add(to, describe_connection(id));
		break;
	case CMA_JOINS:
		if (cma_report_may_see(asker, id))
			describe_memberships(id, to);
		break;
	}
}

json_object *cma_report_ids(const struct cma *cma, enum cma_listed listed, uid_t asker,
			    uint32_t *cursor)
{
	const struct cma_id *id = id_table_next(&cma->ids, cursor);
	json_object *list = id ? json_object_new_array() : NULL;

	for (int looked_at = 1; id; looked_at++) {
		describe_as(id, listed, asker, list);
		id = looked_at < IDS_AT_ONCE ? id_table_next(&cma->ids, cursor) : NULL;
	}
	return list;
}
