/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "cm/conn.h"

static uint64_t hash_id(const struct cm *cm, uint32_t id)
{
	return hash_mix(cm->secret, id);
}

uint64_t cm_hash_gid(const struct cm *cm, const uint8_t gid[GID_BYTES])
{
	uint64_t words[2];

	memcpy(words, gid, GID_BYTES);
	return hash_mix(hash_mix(cm->secret, words[0]), words[1]);
}

/* The hash of a peer's object: the GUID of its CA and its number there. */
static uint64_t hash_remote(const struct cm *cm, uint32_t number, uint64_t guid)
{
	return hash_mix(hash_mix(cm->secret, guid), number);
}

/*
 * A peer can claim any GUID: two messages are from the same host only if their addresses are equal,
 * too.
 */
static bool table_same_peer(const struct cm_conn *conn, const struct cm_path *path)
{
	return memcmp(conn->path.dgid, path->dgid, GID_BYTES) == 0;
}

struct cm_conn *cm_find_local(const struct cm *cm, uint32_t local_comm_id)
{
	struct hash_node *node;

	hash_for_each(node, &cm->by_local_id, hash_id(cm, local_comm_id))
	{
		struct cm_conn *conn = container_of(node, struct cm_conn, by_local_id);

		if (conn->local_comm_id == local_comm_id)
			return conn;
	}
	return NULL;
}

struct cm_conn *cm_find_request(const struct cm *cm, uint32_t remote_comm_id, uint64_t guid,
				const struct cm_path *path)
{
	struct hash_node *node;

	hash_for_each(node, &cm->by_remote_id, hash_remote(cm, remote_comm_id, guid))
	{
		struct cm_conn *conn = container_of(node, struct cm_conn, by_remote_id);

		if (conn->remote_comm_id == remote_comm_id && conn->remote_ca_guid == guid &&
		    table_same_peer(conn, path))
			return conn;
	}
	return NULL;
}

struct cm_conn *cm_find_qpn(const struct cm *cm, uint32_t qpn, uint64_t guid,
			    const struct cm_path *path)
{
	struct hash_node *node;

	hash_for_each(node, &cm->by_remote_qpn, hash_remote(cm, qpn, guid))
	{
		struct cm_conn *conn = container_of(node, struct cm_conn, by_remote_qpn);

		if (conn->remote_qpn == qpn && conn->remote_ca_guid == guid &&
		    table_same_peer(conn, path))
			return conn;
	}
	return NULL;
}

/*
 * Chooses a random ID. A message about an established connection must name both IDs, so a sender
 * that is not the peer has to guess them. The loop ends: there are more IDs than connections that
 * fit into memory.
 */
void cm_name_local(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;

	do {
		conn->local_comm_id = random_u32(cm->id_random);
	} while (conn->local_comm_id == 0 || cm_find_local(cm, conn->local_comm_id));
	hash_add(&cm->by_local_id, &conn->by_local_id, hash_id(cm, conn->local_comm_id));
}

void cm_name_remote(struct cm_conn *conn)
{
	hash_add(&conn->cm->by_remote_id, &conn->by_remote_id,
		 hash_remote(conn->cm, conn->remote_comm_id, conn->remote_ca_guid));
}

/*
 * Whether a QPN can be the peer's QP. QPNs 0 and 1 are never RC or UC QPs, and
 * cm_callbacks.is_local_qp knows the QPNs of this host. Connections without a QP may all name the
 * same QPN.
 */
static bool is_qp(const struct cm_conn *conn)
{
	const struct cm *cm = conn->cm;

	if (conn->remote_qpn <= MAD_QPN)
		return false;
	return !conn->path.is_local || !cm->callbacks->is_local_qp ||
	       cm->callbacks->is_local_qp(cm->ctx, conn->remote_qpn);
}

void cm_name_qpn(struct cm_conn *conn)
{
	if (!is_qp(conn))
		return;
	hash_add(&conn->cm->by_remote_qpn, &conn->by_remote_qpn,
		 hash_remote(conn->cm, conn->remote_qpn, conn->remote_ca_guid));
}

void cm_unname_qpn(struct cm_conn *conn)
{
	hash_del(&conn->cm->by_remote_qpn, &conn->by_remote_qpn);
}

void cm_unname(struct cm_conn *conn)
{
	hash_del(&conn->cm->by_local_id, &conn->by_local_id);
	hash_del(&conn->cm->by_remote_id, &conn->by_remote_id);
	cm_unname_qpn(conn);
}

struct cm_service *cm_find_service(const struct cm *cm, uint64_t service_id)
{
	struct hash_node *node;

	hash_for_each(node, &cm->services, hash_mix(cm->secret, service_id))
	{
		struct cm_service *service = container_of(node, struct cm_service, node);

		if (service->service_id == service_id)
			return service;
	}
	return NULL;
}
