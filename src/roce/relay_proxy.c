/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/qp.h"
#include "core/xrc.h"
#include "roce/relay.h"
#include "wire/grh.h"

/*
 * The process that has the SRQ: what it executes for queue pairs of others. Whoever attaches one knows the id of a domain
 * that is open here, so it has opened the inode; beyond that nothing it says is believed.
 */

/* More than a process has queue pairs; they cost memory here. */
#define PROXIES_MAX 16384u

static struct relay_proxy *proxy_find(const struct roce *roce, uint32_t qpn)
{
	struct hash_node *node;

	hash_for_each(node, &roce->relay.proxies, hash_mix(0, qpn))
	{
		struct relay_proxy *proxy = container_of(node, struct relay_proxy, hash_node);

		if (proxy->qp.qpn == qpn)
			return proxy;
	}
	return NULL;
}

/* What the QP was receiving is over, and what it promised its requester goes out. */
static void proxy_free(struct relay_proxy *proxy)
{
	struct roce_qp *rqp = roce_qp_of(&proxy->qp);
	struct roce *roce = rqp->roce;

	roce_responder_abandon(rqp);
	proxy->owes_report = false;
	list_del(&proxy->wait.node);
	list_del(&proxy->node);
	hash_del(&roce->relay.proxies, &proxy->hash_node);
	roce->relay.proxies_of[relay_slot_of(proxy->qp.qpn)]--;
	roce_transport.unbind(&proxy->qp);
	free(proxy);
}

/* The device's own name for that GID, or -1. */
static int find_gid(struct device *device, const uint8_t raw[GID_BYTES])
{
	struct ipc_gid gid;

	for (int i = 0; i < GID_TABLE_LEN; i++) {
		if (!device_gid(device, (uint32_t)i, &gid) && !memcmp(gid.raw, raw, GID_BYTES))
			return i;
	}
	return -1;
}

/* The attributes of a QP that was not modified here: checked as ibv_modify_qp() does. */
static bool set_attributes(struct qp *qp, const struct relay_attach *attach)
{
	struct device *device = qp->context->device;
	struct ibv_global_route *route = &qp->attr.ah_attr.grh;
	int sgid_index = find_gid(device, attach->local_gid);

	if (sgid_index < 0 || attach->path_mtu < IBV_MTU_256 || attach->path_mtu > IBV_MTU_4096 ||
	    attach->remote_qpn > PSN_MASK || attach->max_dest_rd_atomic > MAX_RD_ATOMIC ||
	    attach->min_rnr_timer > RNR_TIMER_MAX)
		return false;
	qp->attr.path_mtu = (enum ibv_mtu)attach->path_mtu;
	qp->attr.dest_qp_num = attach->remote_qpn;
	qp->attr.max_dest_rd_atomic = (uint8_t)attach->max_dest_rd_atomic;
	qp->attr.ah_attr.is_global = 1;
	route->sgid_index = (uint8_t)sgid_index;
	route->flow_label = attach->flow_label & GRH_FLOW_LABEL_MAX;
	route->traffic_class = attach->traffic_class;
	route->hop_limit = attach->hop_limit;
	memcpy(route->dgid.raw, attach->remote_gid, sizeof(route->dgid.raw));
	return true;
}

/* What may change while the QP receives. */
static void update(struct relay_proxy *proxy, const struct relay_attach *attach)
{
	proxy->qp.attr.qp_access_flags = attach->access;
	proxy->qp.attr.min_rnr_timer = (uint8_t)attach->min_rnr_timer;
}

static void init_qp(struct relay_proxy *proxy, uint32_t qpn, struct xrc_domain *domain)
{
	struct qp *qp = &proxy->qp;

	qp->context = &proxy->context;
	qp->type = IBV_QPT_XRC_RECV;
	qp->state = IBV_QPS_RTR;
	qp->qpn = qpn;
	qp->xrc_domain = domain;
	list_init(&qp->names);
	list_init(&qp->holders);
	list_init(&qp->name_node);
	list_init(&qp->starved_node);
	list_init(&qp->datagram_node);
	list_init(&qp->memberships);
}

static struct relay_proxy *proxy_new(struct roce *roce, uint32_t qpn, struct xrc_domain *domain,
				     const struct relay_attach *attach)
{
	struct relay_proxy *proxy = calloc(1, sizeof(*proxy));

	if (!proxy)
		return NULL;
	proxy->context.engine = roce->engine;
	proxy->context.device = domain->device;
	list_init(&proxy->wait.node);
	init_qp(proxy, qpn, domain);
	if (!set_attributes(&proxy->qp, attach) || roce_transport.bind(&proxy->qp)) {
		free(proxy);
		return NULL;
	}
	proxy->qp.transport = &roce_transport;
	roce_qp_of(&proxy->qp)->proxy = proxy;
	hash_add(&roce->relay.proxies, &proxy->hash_node, hash_mix(0, qpn));
	roce->relay.proxies_of[relay_slot_of(qpn)]++;
	list_add_tail(&proxy->node, &roce->relay.proxy_list);
	return proxy;
}

/* Each process may have as many as are left then, so that there is always room for those of another. */
static bool has_room(const struct roce *roce, uint32_t slot)
{
	uint32_t left = PROXIES_MAX - roce->relay.proxies.count;

	return roce->relay.proxies_of[slot] < left;
}

/* One that cannot be made is missed by the next request, which is refused. */
void relay_proxy_attach(struct roce *roce, uint32_t slot, const struct relay_msg *msg,
			const uint8_t *bytes, uint32_t len)
{
	struct relay_proxy *proxy = proxy_find(roce, msg->qpn);
	struct relay_attach attach;
	struct xrc_domain *domain;

	if (len != sizeof(attach) || relay_slot_of(msg->qpn) != slot || msg->qpn > PSN_MASK)
		return;
	memcpy(&attach, bytes, sizeof(attach));
	domain = xrc_domain_of_id(roce->engine, attach.domain_id);
	if (proxy &&
	    (proxy->qp.xrc_domain != domain || proxy->qp.attr.dest_qp_num != attach.remote_qpn)) {
		proxy_free(proxy);
		proxy = NULL;
	}
	if (!domain || domain->device->info.dev_id != attach.dev_id)
		return;
	if (!proxy && has_room(roce, slot))
		proxy = proxy_new(roce, msg->qpn, domain, &attach);
	if (proxy)
		update(proxy, &attach);
}

void relay_proxy_detach(struct roce *roce, uint32_t slot, const struct relay_msg *msg)
{
	struct relay_proxy *proxy = proxy_find(roce, msg->qpn);

	if (proxy && relay_slot_of(proxy->qp.qpn) == slot)
		proxy_free(proxy);
}

void relay_proxy_gone(struct roce *roce, uint32_t slot)
{
	struct relay_proxy *proxy, *tmp;

	list_for_each_entry_safe(proxy, tmp, &roce->relay.proxy_list, node) {
		if (relay_slot_of(proxy->qp.qpn) == slot)
			proxy_free(proxy);
	}
}

void roce_relay_domain_closed(struct engine *engine, const struct xrc_domain *domain)
{
	struct relay_proxy *proxy, *tmp;

	if (!engine->roce)
		return;
	list_for_each_entry_safe(proxy, tmp, &engine->roce->relay.proxy_list, node) {
		if (proxy->qp.xrc_domain == domain)
			proxy_free(proxy);
	}
}

/* There is no proxy: the home says no to the requester. It would wait for a word for ever. */
static void refuse_stranger(struct roce *roce, uint32_t slot, const struct relay_msg *request)
{
	struct relay_msg msg = *request;

	if (request->kind != RELAY_REQUEST)
		return;
	msg.kind = RELAY_REPORT;
	msg.verdict = VERDICT_SRQ;
	msg.is_inside = false;
	relay_say_surely(roce, slot, &msg);
}

/* Sends what became of the run; false: there is no room now. */
static bool say_report(struct roce_qp *rqp)
{
	struct relay_proxy *proxy = rqp->proxy;
	const struct relay_msg msg = {
		.kind = RELAY_REPORT,
		.qpn = proxy->qp.qpn,
		.run = proxy->run,
		.serial = proxy->serial,
		.psn = rqp->rx.psn,
		.msn = rqp->rx.msn,
		.verdict = proxy->verdict,
		.is_inside = rqp->rx.is_inside,
	};

	if (relay_say(rqp, &proxy->wait, relay_slot_of(proxy->qp.qpn), &msg, NULL, 0) == -EAGAIN)
		return false;
	proxy->owes_report = false;
	return true;
}

void relay_proxy_report(struct roce_qp *rqp)
{
	if (!rqp->proxy->owes_report)
		return;
	batch_flush(rqp->roce);
	(void)!say_report(rqp);
}

void relay_proxy_refuse(struct roce_qp *rqp, enum verdict verdict)
{
	rqp->proxy->verdict = verdict;
	rqp->proxy->is_over = true;
	rqp->proxy->owes_report = true;
}

/*
 * A run begins where the home says. The message under way goes on in it, if that is where it stopped; else it was given up.
 */
static void begin_run(struct roce_qp *rqp, const struct relay_msg *msg)
{
	struct relay_proxy *proxy = rqp->proxy;

	proxy->run = msg->run;
	proxy->is_over = false;
	proxy->verdict = VERDICT_ACCEPTED;
	if (rqp->rx.is_inside && rqp->rx.psn != msg->psn)
		roce_responder_abandon(rqp);
	rqp->rx.psn = msg->psn & PSN_MASK;
	rqp->rx.msn = msg->msn & PSN_MASK;
	rqp->rx.fatal = VERDICT_ACCEPTED;
}

static void take_request(struct roce_qp *rqp, const struct relay_msg *msg,
			 const struct packet *packet)
{
	struct relay_proxy *proxy = rqp->proxy;

	if (proxy->run != msg->run || !proxy->has_begun)
		begin_run(rqp, msg);
	proxy->has_begun = true;
	if (proxy->is_over || packet->psn != rqp->rx.psn)
		return;
	proxy->serial = msg->serial;
	proxy->owes_report = true;
	proxy->verdict = roce_responder_relayed(rqp, packet);
	answer_owe(rqp);
	roce_count(rqp->roce, ROCE_RELAYS_TAKEN);
	if (proxy->verdict != VERDICT_RNR)
		return;
	/* The home knows it before the requester does, and so before that one comes again. */
	proxy->is_over = true;
	(void)!say_report(rqp);
}

void relay_proxy_request(struct roce *roce, uint32_t slot, const struct relay_msg *msg,
			 const uint8_t *bytes, uint32_t len)
{
	struct relay_proxy *proxy = proxy_find(roce, msg->qpn);
	struct packet packet;
	struct roce_qp *rqp;

	if (!proxy || relay_slot_of(proxy->qp.qpn) != slot) {
		refuse_stranger(roce, slot, msg);
		return;
	}
	if (packet_parse(&packet, bytes, len) != PACKET_OK ||
	    packet.info->transport != OPCODE_TRANSPORT_XRC || !packet.info->is_request ||
	    !packet.info->has_xrceth)
		return;
	rqp = roce_qp_of(&proxy->qp);
	if (msg->kind == RELAY_REQUEST) {
		take_request(rqp, msg, &packet);
		return;
	}
	if (proxy->run != msg->run)
		rqp->rx.msn = msg->msn & PSN_MASK;
	roce_responder_replay(rqp, &packet);
}
