/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/be.h"
#include "base/util.h"
#include "cm/conn.h"

/*
 * The service timeouts of MRAs. For a REQ 4.096 us * 2^24 = 69 s: the time that the consumer has
 * before the peer repeats the REQ. For a REP much less: if the RTU is lost, only a repeated REP
 * shows that.
 */
#define MRA_SERVICE_TIMEOUT	24
#define MRA_REP_SERVICE_TIMEOUT 19

/* Messages of one exchange carry the transaction ID of the REQ that began it. */
static void message_start(struct cm_msg *msg, enum cm_msg_type type, uint64_t tid)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = type;
	msg->tid = tid;
}

void cm_make_mra(const struct cm_conn *conn, enum cm_about about, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_MRA, conn->tid);
	msg->mra.local_comm_id = conn->local_comm_id;
	msg->mra.remote_comm_id = conn->remote_comm_id;
	msg->mra.about = (uint8_t)about;
	msg->mra.service_timeout = about == CM_ABOUT_REP ? MRA_REP_SERVICE_TIMEOUT :
							   MRA_SERVICE_TIMEOUT;
}

void cm_make_rej(const struct cm_conn *conn, enum cm_about about, uint16_t reason,
		 struct cm_msg *msg)
{
	message_start(msg, CM_MSG_REJ, conn->tid);
	msg->rej.local_comm_id = conn->local_comm_id;
	msg->rej.remote_comm_id = conn->remote_comm_id;
	msg->rej.about = (uint8_t)about;
	msg->rej.reason = reason;
	/*
	 * After a timeout the sender does not know the peer's ID: its own ID and its GUID name the
	 * request (IBA 1.x §12.6.7.2).
	 */
	if (reason == CM_REJ_TIMEOUT) {
		be_store64(msg->rej.ari, conn->local_ca_guid);
		msg->rej.info_length = 8;
	}
}

void cm_make_rtu(const struct cm_conn *conn, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_RTU, conn->tid);
	msg->rtu.local_comm_id = conn->local_comm_id;
	msg->rtu.remote_comm_id = conn->remote_comm_id;
}

void cm_make_dreq(const struct cm_conn *conn, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_DREQ, conn->tid);
	msg->dreq.local_comm_id = conn->local_comm_id;
	msg->dreq.remote_comm_id = conn->remote_comm_id;
	msg->dreq.remote_qpn = conn->remote_qpn;
}

void cm_make_challenge(const struct cm_conn *conn, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_DREQ, conn->challenge_tid);
	msg->dreq.local_comm_id = conn->local_comm_id;
	msg->dreq.remote_comm_id = conn->remote_comm_id;
	msg->dreq.remote_qpn = ~conn->remote_qpn & MASK_24;
}

/*
 * The peer's CM rejects a request for an unknown service with a SIDR_REP, which repeats both IDs.
 */
void cm_make_address_challenge(const struct cm_conn *conn, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_SIDR_REQ, conn->validation.tid);
	msg->sidr_req.request_id = conn->local_comm_id;
	msg->sidr_req.pkey = MAD_PKEY;
	msg->sidr_req.service_id = CM_SERVICE_NONE;
}

void cm_make_drep(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_DREP, tid);
	msg->drep.local_comm_id = conn->local_comm_id;
	msg->drep.remote_comm_id = conn->remote_comm_id;
}

void cm_make_apr(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg)
{
	message_start(msg, CM_MSG_APR, tid);
	msg->apr.local_comm_id = conn->local_comm_id;
	msg->apr.remote_comm_id = conn->remote_comm_id;
	msg->apr.status = CM_APR_UNSUPPORTED;
}
