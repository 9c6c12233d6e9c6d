/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/be.h"
#include "cm/conn.h"

/*
 * From a MAD to the connection it is about. Nothing in a MAD is believed before the address it came from and both
 * communication IDs agree with what the connection knows; a stranger can neither reset nor confirm anything. What
 * belongs to the making of a connection also carries the transaction ID of its REQ: without that, it is about an
 * earlier one under the same numbers, which a host that came back may use again.
 */
static void stray(struct cm *cm)
{
	cm->counters.strays++;
}

/* Whether a message names this connection rightly; before the REP we do not know the peer's ID. */
static bool is_from_peer(const struct cm_conn *conn, const struct cm_path *path,
			 uint32_t sender_comm_id)
{
	if (memcmp(conn->path.dgid, path->dgid, GID_BYTES) != 0)
		return false;
	return conn->remote_comm_id == 0 || conn->remote_comm_id == sender_comm_id;
}

static struct cm_conn *find(struct cm *cm, const struct cm_path *path, uint32_t remote_comm_id,
			    uint32_t local_comm_id)
{
	struct cm_conn *conn = cm_find_local(cm, remote_comm_id);

	return conn && is_from_peer(conn, path, local_comm_id) ? conn : NULL;
}

/* The same for a message that answers the REQ, or what answered that. */
static struct cm_conn *find_in_making(struct cm *cm, const struct cm_path *path, uint64_t tid,
				      uint32_t remote_comm_id, uint32_t local_comm_id)
{
	struct cm_conn *conn = find(cm, path, remote_comm_id, local_comm_id);

	return conn && conn->tid == tid ? conn : NULL;
}

static void step_msg(struct cm_conn *conn, enum cm_input input, const struct cm_path *path,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	struct cm_step step = {.input = input, .now_ns = now_ns, .msg = msg, .path = path};

	(void)cm_step(conn, &step);
}

/* A REJ from nobody in particular: no connection of ours is behind it. */
static void refuse(struct cm *cm, const struct cm_path *path, uint64_t tid, uint32_t local_comm_id,
		   uint32_t remote_comm_id, enum cm_about about, uint16_t reason)
{
	struct cm_msg msg = {
		.type = CM_MSG_REJ,
		.tid = tid,
		.rej =
			{
				.local_comm_id = local_comm_id,
				.remote_comm_id = remote_comm_id,
				.about = (uint8_t)about,
				.reason = reason,
			},
	};

	(void)cm_send(cm, path, &msg);
}

/*
 * The peer no longer knows of `old` (IBA 1.x §12.9.8.3.1): what it says now is refused until the old connection is
 * over, and that is taken down.
 */
static void take_down(struct cm_conn *old, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_DISCONNECT, .now_ns = now_ns};

	if (old && old->state == CM_STATE_ESTABLISHED)
		(void)cm_step(old, &step);
}

/* The consumer is asked about a request that was let in. */
static void ask(struct cm *cm, struct cm_service *service, const struct cm_asker *asker,
		struct cm_conn *conn, const struct cm_path *path, const struct cm_msg *msg,
		uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_FORGET, .now_ns = now_ns};

	step_msg(conn, CM_IN_REQ, path, msg, now_ns);
	conn->owner = cm->ops->request(cm->ctx, conn, path, &msg->req, &step.reason);
	if (conn->owner)
		return;
	if (step.reason)
		step.input = CM_IN_REJECT;
	else
		cm_turn_away(cm, service, asker, now_ns);
	(void)cm_step(conn, &step);
}

static void receive_new_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			    uint64_t now_ns)
{
	const struct cm_req *req = &msg->req;
	const struct cm_asker asker = {
		.gid = path->dgid,
		.is_local = path->is_local,
		.name = hash_mix(hash_mix(hash_mix(cm->secret, req->local_ca_guid),
					  req->local_comm_id),
				 msg->tid),
	};
	struct cm_service *service = cm_find_service(cm, req->service_id);
	struct cm_source *source;
	struct cm_conn *conn;

	if (!service) {
		refuse(cm, path, msg->tid, 0, req->local_comm_id, CM_ABOUT_REQ,
		       CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (!cm_admit(cm, service, &asker, now_ns, &source))
		return;
	/* Out of memory: the peer repeats its REQ. */
	conn = cm_conn_new(cm, NULL);
	if (!conn) {
		cm_close_half(cm, &source);
		return;
	}
	conn->source = source;
	ask(cm, service, &asker, conn, path, msg, now_ns);
}

static void receive_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_req *req = &msg->req;
	struct cm_conn *conn = cm_find_request(cm, req->local_comm_id, req->local_ca_guid, path);
	struct cm_conn *holder; /* of the peer's QP */

	if (conn && conn->tid == msg->tid) {
		step_msg(conn, CM_IN_REQ, path, msg, now_ns);
		return;
	}
	if (req->local_comm_id == 0) {
		stray(cm);
		return;
	}
	holder = cm_find_qpn(cm, req->local_qpn, req->local_ca_guid, path);
	if (!conn && !holder) {
		receive_new_req(cm, path, msg, now_ns);
		return;
	}
	refuse(cm, path, msg->tid, 0, req->local_comm_id, CM_ABOUT_REQ, CM_REJ_STALE_CONN);
	take_down(conn, now_ns);
	take_down(holder, now_ns);
}

static void receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_rep *rep = &msg->rep;
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, rep->remote_comm_id,
					      rep->local_comm_id);
	struct cm_conn *other;

	if (!conn) {
		refuse(cm, path, msg->tid, rep->remote_comm_id, rep->local_comm_id, CM_ABOUT_REP,
		       CM_REJ_INVALID_COMM_ID);
		return;
	}
	other = cm_find_qpn(cm, cm_rep_qpn(conn, rep), rep->local_ca_guid, path);
	if (conn->remote_comm_id == 0 && other) {
		refuse(cm, path, msg->tid, conn->local_comm_id, rep->local_comm_id, CM_ABOUT_REP,
		       CM_REJ_STALE_CONN);
		take_down(other, now_ns);
		return;
	}
	if (rep->local_comm_id == 0) {
		stray(cm);
		return;
	}
	step_msg(conn, CM_IN_REP, path, msg, now_ns);
}

/* Whoever gave up on its REQ never learned our ID; its GUID and its own ID name the request. */
static struct cm_conn *find_withdrawn(struct cm *cm, const struct cm_path *path,
				      const struct cm_msg *msg)
{
	const struct cm_rej *rej = &msg->rej;
	struct cm_conn *conn;

	if (rej->reason != CM_REJ_TIMEOUT || rej->remote_comm_id != 0)
		return NULL;
	conn = cm_find_request(cm, rej->local_comm_id, be_load64(rej->ari), path);
	return conn && conn->tid == msg->tid ? conn : NULL;
}

static void receive_rej(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_rej *rej = &msg->rej;
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, rej->remote_comm_id,
					      rej->local_comm_id);

	if (!conn)
		conn = find_withdrawn(cm, path, msg);
	if (conn)
		step_msg(conn, CM_IN_REJ, path, msg, now_ns);
	else
		stray(cm);
}

static void receive_mra(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_mra *mra = &msg->mra;
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, mra->remote_comm_id,
					      mra->local_comm_id);

	if (conn && mra->about == CM_ABOUT_REQ)
		step_msg(conn, CM_IN_MRA_REQ, path, msg, now_ns);
	else if (conn && mra->about == CM_ABOUT_REP)
		step_msg(conn, CM_IN_MRA_REP, path, msg, now_ns);
	else
		stray(cm);
}

static void receive_rtu(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, msg->rtu.remote_comm_id,
					      msg->rtu.local_comm_id);

	if (conn)
		step_msg(conn, CM_IN_RTU, path, msg, now_ns);
	else
		stray(cm);
}

/* Answered also when nothing is known of the connection, or the peer would repeat itself in vain. */
static void receive_dreq(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	const struct cm_dreq *dreq = &msg->dreq;
	struct cm_conn *conn = find(cm, path, dreq->remote_comm_id, dreq->local_comm_id);
	struct cm_msg reply = {
		.type = CM_MSG_DREP,
		.tid = msg->tid,
		.drep =
			{
				.local_comm_id = dreq->remote_comm_id,
				.remote_comm_id = dreq->local_comm_id,
			},
	};

	if (!conn)
		(void)cm_send(cm, path, &reply);
	else if (conn->local_qpn != dreq->remote_qpn)
		stray(cm);
	else
		step_msg(conn, CM_IN_DREQ, path, msg, now_ns);
}

static void receive_drep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	struct cm_conn *conn = find(cm, path, msg->drep.remote_comm_id, msg->drep.local_comm_id);

	if (conn)
		step_msg(conn, CM_IN_DREP, path, msg, now_ns);
	else
		stray(cm);
}

static void receive_lap(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	struct cm_conn *conn = find(cm, path, msg->lap.remote_comm_id, msg->lap.local_comm_id);

	if (conn)
		step_msg(conn, CM_IN_LAP, path, msg, now_ns);
	else
		stray(cm);
}

/* We never ask for an alternate path. */
static void receive_unasked(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			    uint64_t now_ns)
{
	(void)path;
	(void)msg;
	(void)now_ns;
	stray(cm);
}

typedef void receive_fn(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns);

static receive_fn *const receivers[CM_MSG_COUNT] = {
	[CM_MSG_REQ] = receive_req,
	[CM_MSG_MRA] = receive_mra,
	[CM_MSG_REJ] = receive_rej,
	[CM_MSG_REP] = receive_rep,
	[CM_MSG_RTU] = receive_rtu,
	[CM_MSG_DREQ] = receive_dreq,
	[CM_MSG_DREP] = receive_drep,
	[CM_MSG_SIDR_REQ] = cm_sidr_receive_req,
	[CM_MSG_SIDR_REP] = cm_sidr_receive_rep,
	[CM_MSG_LAP] = receive_lap,
	[CM_MSG_APR] = receive_unasked,
};

void cm_receive(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		uint64_t now_ns)
{
	struct cm_msg msg;
	enum cm_msg_fault fault = cm_msg_parse(&msg, mad, len);

	if (fault != CM_FAULT_NONE) {
		cm->counters.malformed[fault]++;
		return;
	}
	cm->counters.received[msg.type]++;
	receivers[msg.type](cm, path, &msg, now_ns);
}

static void req_unreachable(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			    int error, uint64_t now_ns)
{
	struct cm_conn *conn = cm_find_local(cm, msg->req.local_comm_id);
	struct cm_step step = {
		.input = CM_IN_UNREACHABLE,
		.now_ns = now_ns,
		.error = error,
	};

	if (conn && conn->tid == msg->tid && !memcmp(conn->path.dgid, path->dgid, GID_BYTES))
		(void)cm_step(conn, &step);
	else
		stray(cm);
}

/* Of a quotation that was cut short only the transaction ID and what follows the header have to be there. */
#define QUOTED_BYTES_MIN (MAD_HDR_BYTES + 4)

void cm_unreachable(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		    int error, uint64_t now_ns)
{
	uint8_t whole[MAD_BYTES] = {0};
	enum cm_msg_fault fault;
	struct cm_msg msg;

	if (len < QUOTED_BYTES_MIN || len > sizeof(whole)) {
		stray(cm);
		return;
	}
	memcpy(whole, mad, len);
	fault = cm_msg_parse(&msg, whole, sizeof(whole));
	if (fault != CM_FAULT_NONE)
		cm->counters.malformed[fault]++;
	else if (msg.type == CM_MSG_REQ)
		req_unreachable(cm, path, &msg, error, now_ns);
	else if (msg.type == CM_MSG_SIDR_REQ)
		cm_sidr_unreachable(cm, path, &msg, error, now_ns);
	else
		stray(cm);
}
