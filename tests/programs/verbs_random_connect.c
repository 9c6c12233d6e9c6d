/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "verbs_random.h"

#define QP_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/*
 * If the daemon has no port when a process connects to it, the process has no RoCE and is started
 * again.
 */
static void vr_path_failed(struct vr_round *r, const char *name, int err)
{
	vr.is_without_port = err == EOPNOTSUPP;
	vr_call_failed(r, name, err);
}

static void vr_modify(struct vr_round *r, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static const char *const names[] = {[IBV_QPS_INIT] = "ibv_modify_qp-INIT",
					    [IBV_QPS_RTR] = "ibv_modify_qp-RTR",
					    [IBV_QPS_RTS] = "ibv_modify_qp-RTS"};
	int err;

	if (r->is_broken)
		return;
	VR_CALL(err, names[attr->qp_state], ibv_modify_qp(qp, attr, mask));
	if (err)
		vr_path_failed(r, names[attr->qp_state], err);
}

static void vr_connect_qp(struct vr_round *r, struct ibv_qp *qp, uint32_t dest_qpn)
{
	bool is_ud = r->plan.service == VR_UD;
	bool is_rc = r->plan.service != VR_UC && !is_ud;
	enum ibv_mtu mtu = r->plan.mtu;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;

	if (is_ud)
		attr.qkey = r->plan.qkey;
	else
		attr.qp_access_flags = QP_ACCESS;
	vr_modify(r, qp, &attr, mask | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	for (uint32_t i = 0; i < r->plan.recv_wrs && qp == r->recv_qp && !r->is_broken; i++)
		vr_post_recv(r, i);

	if (mtu > (enum ibv_mtu)r->peer.hello.mtu)
		mtu = (enum ibv_mtu)r->peer.hello.mtu;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = dest_qpn,
		.rq_psn = r->peer.hello.psn,
		.max_dest_rd_atomic = r->plan.rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = r->peer.hello.gid,
				    .sgid_index = vr.gid_index,
				    .hop_limit = 64}},
	};
	mask = IBV_QP_STATE;
	if (!is_ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	vr_modify(r, qp, &attr,
		  mask | (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = (uint32_t)r->plan.key & 0xffffff,
		.timeout = r->plan.timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = r->plan.rd_atomic,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	vr_modify(r, qp, &attr, mask);
}

static void vr_hello(struct vr_round *r)
{
	struct vr_message message = {.type = VR_HELLO};
	struct ibv_port_attr port = {0};
	uint32_t srqn = 0;
	int err;

	VR_CALL(err, "ibv_query_port", ibv_query_port(vr.context, 1, &port));
	if (err)
		vr_call_failed(r, "ibv_query_port", err);
	VR_CALL(err, "ibv_query_gid",
		ibv_query_gid(vr.context, 1, vr.gid_index, &message.hello.gid));
	if (err)
		vr_call_failed(r, "ibv_query_gid", errno);
	if (r->plan.service == VR_XRC) {
		VR_CALL(err, "ibv_get_srq_num", ibv_get_srq_num(r->srq, &srqn));
		if (err)
			vr_call_failed(r, "ibv_get_srq_num", err);
	}
	message.hello.base = (uintptr_t)r->memory;
	message.hello.rkey = r->remote_mr->rkey;
	message.hello.send_qpn = r->send_qp->qp_num;
	message.hello.recv_qpn = r->recv_qp->qp_num;
	message.hello.srqn = srqn;
	message.hello.psn = (uint32_t)r->plan.key & 0xffffff;
	message.hello.mtu = port.active_mtu;
	if (r->plan.mtu > port.active_mtu)
		r->plan.mtu = port.active_mtu;
	if (!r->is_broken)
		vr_send_message(r, &message);
}

static void vr_create_ah(struct vr_round *r)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = r->peer.hello.gid, .sgid_index = vr.gid_index, .hop_limit = 64}};

	VR_CALL(r->ah, "ibv_create_ah", ibv_create_ah(r->pd, &attr));
	if (!r->ah)
		vr_path_failed(r, "ibv_create_ah", errno);
}

bool vr_connect(struct vr_round *r)
{
	vr_hello(r);
	while (!r->has_hello && vr_pump(r, true))
		;
	if (!r->has_hello || r->is_broken || r->is_ended)
		return false;
	/*
	 * A QP sends to the receiving one of the peer, which accepts packets from the sending one.
	 */
	vr_connect_qp(r, r->send_qp, r->peer.hello.recv_qpn);
	if (r->recv_qp != r->send_qp)
		vr_connect_qp(r, r->recv_qp, r->peer.hello.send_qpn);
	if (r->plan.service == VR_UD)
		vr_create_ah(r);
	if (r->is_broken)
		return false;
	vr_send(r, VR_READY, 0, 0);
	while (!r->is_peer_ready && vr_pump(r, true))
		;
	if (r->mw && r->is_peer_ready && !r->is_broken)
		vr_bind_window(r);
	return r->is_peer_ready && !r->is_broken && !r->is_ended;
}
