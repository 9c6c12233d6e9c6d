/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/be.h"
#include "cm/conn.h"

/*
 * Finds the connection of a received MAD. A MAD is accepted only if its source address and both
 * communication IDs match the connection's, so that an unknown peer cannot reset or confirm a
 * connection. Messages that establish a connection must also carry the transaction ID of its REQ.
 * Otherwise they belong to an earlier connection with the same IDs: a host may use IDs again after
 * a restart.
 */
static void stray(struct cm *cm)
{
	cm->counters.strays++;
}

/*
 * Whether the address and IDs of a message match this connection. Before the REP the peer's ID is
 * unknown: the caller then compares the transaction ID, which only the receiver of the REQ knows.
 */
static bool receive_is_from_peer(const struct cm_conn *conn, const struct cm_path *path,
				 uint32_t sender_comm_id)
{
	if (memcmp(conn->path.dgid, path->dgid, GID_BYTES) != 0)
		return false;
	return conn->remote_comm_id == 0 || conn->remote_comm_id == sender_comm_id;
}

static struct cm_conn *conn_of_response(struct cm *cm, const struct cm_path *path,
					uint32_t remote_comm_id, uint32_t local_comm_id)
{
	struct cm_conn *conn = cm_find_local(cm, remote_comm_id);

	return conn && receive_is_from_peer(conn, path, local_comm_id) ? conn : NULL;
}

/*
 * The same for a REP, an RTU, or an MRA or REJ about a REQ or REP: the transaction ID must match,
 * too.
 */
static struct cm_conn *find_in_making(struct cm *cm, const struct cm_path *path, uint64_t tid,
				      uint32_t remote_comm_id, uint32_t local_comm_id)
{
	struct cm_conn *conn = conn_of_response(cm, path, remote_comm_id, local_comm_id);

	return conn && conn->tid == tid ? conn : NULL;
}

static void step_msg(struct cm_conn *conn, enum cm_input input, const struct cm_path *path,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	struct cm_step step = {.input = input, .now_ns = now_ns, .msg = msg, .path = path};

	(void)cm_step(conn, &step);
}

/*
 * Runs the step of a message that names the random ID of this connection. The ID was sent only to
 * the peer's address, so the message also validates this address.
 */
static void step_valid(struct cm_conn *conn, enum cm_input input, const struct cm_path *path,
		       const struct cm_msg *msg, uint64_t now_ns)
{
	cm_validation_done(conn->cm, &conn->validation, path, now_ns);
	step_msg(conn, input, path, msg, now_ns);
}

/* Sends a REJ without a connection. */
static void receive_refuse(struct cm *cm, const struct cm_path *path, uint64_t tid,
			   uint32_t local_comm_id, uint32_t remote_comm_id, enum cm_about about,
			   uint16_t reason)
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
 * A message from the address of `old`'s peer names the peer's QP or its ID as if `old` did not
 * exist. If the peer was restarted, `old` is stale and has to end (IBA 1.x §12.9.8.3.1). But any
 * process on the peer's host can send such a message, so the message is rejected and the peer is
 * challenged about `old`.
 */
static void doubt(struct cm_conn *old, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_STALE, .now_ns = now_ns};

	if (old)
		(void)cm_step(old, &step);
}

/* Reports an admitted REQ to the consumer. */
static void receive_ask(struct cm *cm, struct cm_service *service,
			const struct cm_requester *requester, struct cm_conn *conn,
			const struct cm_path *path, const struct cm_msg *msg, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_DROP, .now_ns = now_ns};

	step_msg(conn, CM_IN_REQ, path, msg, now_ns);
	conn->owner = cm->callbacks->request(cm->ctx, conn, path, &msg->req, &step.reason);
	if (conn->owner)
		return;
	if (step.reason)
		step.input = CM_IN_REJECT;
	else
		cm_half_open_deny(cm, service, requester, now_ns);
	(void)cm_step(conn, &step);
}

static void receive_new_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			    uint64_t now_ns)
{
	const struct cm_req *req = &msg->req;
	const struct cm_requester requester = {
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
		receive_refuse(cm, path, msg->tid, 0, req->local_comm_id, CM_ABOUT_REQ,
			       CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (!cm_half_open_admit(cm, service, &requester, now_ns, &source))
		return;
	/* Out of memory: the peer repeats its REQ. */
	conn = cm_conn_new(cm, NULL);
	if (!conn) {
		cm_half_open_close(cm, &source);
		return;
	}
	conn->source = source;
	cm_validation_credit(&conn->validation);
	receive_ask(cm, service, &requester, conn, path, msg, now_ns);
}

static void receive_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_req *req = &msg->req;
	struct cm_conn *conn = cm_find_request(cm, req->local_comm_id, req->local_ca_guid, path);
	struct cm_conn *holder; /* of the peer's QP */

	if (conn && conn->tid == msg->tid) {
		cm_validation_credit(&conn->validation);
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
	receive_refuse(cm, path, msg->tid, 0, req->local_comm_id, CM_ABOUT_REQ, CM_REJ_STALE_CONN);
	doubt(conn, now_ns);
	if (holder != conn)
		doubt(holder, now_ns);
}

static void receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	const struct cm_rep *rep = &msg->rep;
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, rep->remote_comm_id,
					      rep->local_comm_id);
	struct cm_conn *other;

	if (!conn) {
		receive_refuse(cm, path, msg->tid, rep->remote_comm_id, rep->local_comm_id,
			       CM_ABOUT_REP, CM_REJ_INVALID_COMM_ID);
		return;
	}
	other = cm_find_qpn(cm, cm_rep_qpn(conn, rep), rep->local_ca_guid, path);
	if (conn->remote_comm_id == 0 && other) {
		receive_refuse(cm, path, msg->tid, conn->local_comm_id, rep->local_comm_id,
			       CM_ABOUT_REP, CM_REJ_STALE_CONN);
		doubt(other, now_ns);
		return;
	}
	if (rep->local_comm_id == 0) {
		stray(cm);
		return;
	}
	step_valid(conn, CM_IN_REP, path, msg, now_ns);
}

/* A sender whose REQ timed out does not know our ID: its GUID and its own ID name the request. */
static struct cm_conn *find_unpublished(struct cm *cm, const struct cm_path *path,
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

	if (conn) {
		step_valid(conn, CM_IN_REJ, path, msg, now_ns);
		return;
	}
	conn = find_unpublished(cm, path, msg);
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
		step_valid(conn, CM_IN_MRA_REQ, path, msg, now_ns);
	else if (conn && mra->about == CM_ABOUT_REP)
		step_valid(conn, CM_IN_MRA_REP, path, msg, now_ns);
	else
		stray(cm);
}

static void receive_rtu(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	struct cm_conn *conn = find_in_making(cm, path, msg->tid, msg->rtu.remote_comm_id,
					      msg->rtu.local_comm_id);

	if (conn)
		step_valid(conn, CM_IN_RTU, path, msg, now_ns);
	else
		stray(cm);
}

/*
 * Sends the DREP also if the connection is unknown: otherwise the peer would repeat the DREQ until
 * its timeout.
 */
static void receive_dreq(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	const struct cm_dreq *dreq = &msg->dreq;
	struct cm_conn *conn = conn_of_response(cm, path, dreq->remote_comm_id,
						dreq->local_comm_id);
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
		step_valid(conn, CM_IN_DREQ, path, msg, now_ns);
}

static void receive_drep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	struct cm_conn *conn = conn_of_response(cm, path, msg->drep.remote_comm_id,
						msg->drep.local_comm_id);

	if (conn && conn->challenge_tid && msg->tid == conn->challenge_tid)
		step_valid(conn, CM_IN_CHALLENGE_DREP, path, msg, now_ns);
	else if (conn && msg->tid == conn->tid)
		step_valid(conn, CM_IN_DREP, path, msg, now_ns);
	else
		stray(cm);
}

static void receive_lap(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			uint64_t now_ns)
{
	struct cm_conn *conn = conn_of_response(cm, path, msg->lap.remote_comm_id,
						msg->lap.local_comm_id);

	if (conn)
		step_valid(conn, CM_IN_LAP, path, msg, now_ns);
	else
		stray(cm);
}

/*
 * The response to an address challenge, which is part of a connection, or to a SIDR_REQ of sidr.c.
 */
static void receive_sidr_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			     uint64_t now_ns)
{
	struct cm_conn *conn = cm_find_local(cm, msg->sidr_rep.request_id);

	if (conn && conn->validation.tid && conn->validation.tid == msg->tid &&
	    !memcmp(conn->path.dgid, path->dgid, GID_BYTES))
		step_valid(conn, CM_IN_ADDRESS_REP, path, msg, now_ns);
	else
		cm_sidr_receive_rep(cm, path, msg, now_ns);
}

/* This CM never sends a LAP, so each APR is a stray. */
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
	[CM_MSG_REQ] = receive_req,	      [CM_MSG_MRA] = receive_mra,
	[CM_MSG_REJ] = receive_rej,	      [CM_MSG_REP] = receive_rep,
	[CM_MSG_RTU] = receive_rtu,	      [CM_MSG_DREQ] = receive_dreq,
	[CM_MSG_DREP] = receive_drep,	      [CM_MSG_SIDR_REQ] = cm_sidr_receive_req,
	[CM_MSG_SIDR_REP] = receive_sidr_rep, [CM_MSG_LAP] = receive_lap,
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

/*
 * The quotation may be truncated: it must contain the MAD header and the communication ID behind
 * it.
 */
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
