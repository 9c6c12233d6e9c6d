/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/tag.h"

#include <string.h>

#include "cm/conn.h"

void cm_conn_set_tag(struct cm_conn *conn, const struct cm_tag *tag)
{
	conn->tag = *tag;
}

/* The communication IDs in a message. false: the message has none. */
static bool tag_ids(const struct cm_msg *msg, uint32_t *sender, uint32_t *recipient)
{
	*recipient = 0;
	switch (msg->type) {
	case CM_MSG_REQ:
		*sender = msg->req.local_comm_id;
		return true;
	case CM_MSG_MRA:
		*sender = msg->mra.local_comm_id;
		*recipient = msg->mra.remote_comm_id;
		return true;
	case CM_MSG_REJ:
		*sender = msg->rej.local_comm_id;
		*recipient = msg->rej.remote_comm_id;
		return true;
	case CM_MSG_REP:
		*sender = msg->rep.local_comm_id;
		*recipient = msg->rep.remote_comm_id;
		return true;
	case CM_MSG_RTU:
		*sender = msg->rtu.local_comm_id;
		*recipient = msg->rtu.remote_comm_id;
		return true;
	case CM_MSG_DREQ:
		*sender = msg->dreq.local_comm_id;
		*recipient = msg->dreq.remote_comm_id;
		return true;
	case CM_MSG_DREP:
		*sender = msg->drep.local_comm_id;
		*recipient = msg->drep.remote_comm_id;
		return true;
	case CM_MSG_LAP:
		*sender = msg->lap.local_comm_id;
		*recipient = msg->lap.remote_comm_id;
		return true;
	case CM_MSG_APR:
		*sender = msg->apr.local_comm_id;
		*recipient = msg->apr.remote_comm_id;
		return true;
	default:
		return false;
	}
}

/* Finds the connection by this CM's ID, or, if the message does not have it, by the peer's. */
static const struct cm_conn *tag_conn(const struct cm *cm, const struct cm_path *path,
				      const struct cm_msg *msg, bool is_received)
{
	uint32_t sender, recipient, own, peers;
	const struct cm_conn *conn;

	if (!tag_ids(msg, &sender, &recipient))
		return NULL;
	own = is_received ? recipient : sender;
	peers = is_received ? sender : recipient;
	if (is_received && msg->type == CM_MSG_REQ)
		return cm_find_request(cm, peers, msg->req.local_ca_guid, path);
	conn = own ? cm_find_local(cm, own) : NULL;
	if (!conn || memcmp(conn->path.dgid, path->dgid, GID_BYTES) != 0)
		return NULL;
	/* Before the REP, the peer's ID is unknown. */
	return !conn->remote_comm_id || !peers || conn->remote_comm_id == peers ? conn : NULL;
}

const struct cm_tag *cm_tag_of(const struct cm *cm, const struct cm_path *path,
			       const struct cm_msg *msg, bool is_received)
{
	const struct cm_conn *conn = tag_conn(cm, path, msg, is_received);
	const struct cm_tag *tag = conn ? &conn->tag : cm_sidr_tag_of(cm, path, msg, is_received);

	return tag && tag->pid ? tag : NULL;
}
