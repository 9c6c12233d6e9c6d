/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the pairs of QPs. A packet of a connected QP names only the destination QP, so all packets
 * of one sender to one QPN are a half connection. Two halves are joined by, in this order: the
 * messages of the communication manager, TRACE_QP_PATH events, the PSNs of responses, and, if one
 * half remains in each direction between two hosts, by that.
 */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "wire/cm_msg.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define CANDIDATES_MAX	4096 /* entries of one hash chain that are compared */
#define READ_PACKET_MIN 256
#define SIDR_KEY	(UINT64_C(1) << 40)

/* An interval of PSNs. */
struct psn_range {
	bool is_set;
	uint32_t start;
	int32_t low, high; /* from `start` */
};

/* The packets of one host to one QP of another host. */
struct half {
	struct hash_node node; /* by hosts and QPN */
	struct hash_node by_hosts;
	uint32_t src_host, dst_host, dst_qpn;
	uint8_t transport;
	struct psn_range requests, responses;
	uint32_t conn; /* current */
	uint8_t side;  /* of the sender */
	/* For the packets before the first message that assigned a connection. */
	uint32_t guess;
	uint8_t guess_side;
	bool has_unassigned;
	struct half *next;
};

/* A name of one side of a connection: a communication ID or a QPN of a host. */
struct side_name {
	struct hash_node node;
	uint64_t key;
	uint32_t host;
	uint32_t conn;
	uint8_t side;
	struct side_name *next;
};

struct pairing {
	struct model *model;
	struct hash halves, halves_by_hosts;
	struct half *half_list, **half_end;
	struct hash ids, ends, datagrams;
	struct side_name *name_list;
	int error;
};

static void name_add(struct pairing *pairing, struct hash *table, uint32_t host, uint64_t key,
		     uint32_t conn, uint8_t side)
{
	struct side_name *name = calloc(1, sizeof(*name));

	if (!name) {
		pairing->error = -ENOMEM;
		return;
	}
	name->host = host;
	name->key = key;
	name->conn = conn;
	name->side = side;
	name->next = pairing->name_list;
	pairing->name_list = name;
	hash_add(table, &name->node, hash_mix(host, key));
}

/* The last side that got this name, or NULL. */
static struct side_name *name_find(const struct hash *table, uint32_t host, uint64_t key)
{
	struct side_name *best = NULL;
	struct hash_node *pos;
	int visited = 0;

	hash_for_each(pos, table, hash_mix(host, key))
	{
		struct side_name *name =
			(struct side_name *)(void *)((char *)pos -
						     offsetof(struct side_name, node));

		if (visited++ == CANDIDATES_MAX)
			break;
		if (name->host == host && name->key == key && (!best || name->conn > best->conn))
			best = name;
	}
	return best;
}

static struct half *half_get(struct pairing *pairing, uint32_t src, uint32_t dst, uint32_t qpn)
{
	uint64_t hosts = (uint64_t)src << 32 | dst;
	uint64_t key = hash_mix(hosts, qpn);
	struct hash_node *pos;
	struct half *half;

	hash_for_each(pos, &pairing->halves, key)
	{
		half = (struct half *)(void *)((char *)pos - offsetof(struct half, node));
		if (half->src_host == src && half->dst_host == dst && half->dst_qpn == qpn)
			return half;
	}
	half = calloc(1, sizeof(*half));
	if (!half) {
		pairing->error = -ENOMEM;
		return NULL;
	}
	half->src_host = src;
	half->dst_host = dst;
	half->dst_qpn = qpn;
	half->conn = half->guess = MODEL_NONE;
	hash_add(&pairing->halves, &half->node, key);
	hash_add(&pairing->halves_by_hosts, &half->by_hosts, hash_mix(hosts, 0));
	*pairing->half_end = half;
	pairing->half_end = &half->next;
	return half;
}

/* The index of a new connection between two hosts; MODEL_NONE: no memory. */
static uint32_t conn_add(struct pairing *pairing, uint32_t host0, uint32_t host1, uint8_t transport)
{
	struct model *model = pairing->model;
	uint32_t size = model->conn_size ? model->conn_size * 2 : 16;
	struct conn *conns;

	if (model->conn_count == model->conn_size) {
		conns = realloc(model->conns, size * sizeof(*conns));
		if (!conns) {
			pairing->error = -ENOMEM;
			return MODEL_NONE;
		}
		model->conns = conns;
		model->conn_size = size;
	}
	model->conns[model->conn_count] = (struct conn){
		.side = {{.host = host0, .process = MODEL_NONE},
			 {.host = host1, .process = MODEL_NONE}},
		.transport = transport,
	};
	return model->conn_count++;
}

static void conn_set_qpn(struct pairing *pairing, uint32_t index, uint8_t side, uint32_t qpn)
{
	struct conn_side *end = &pairing->model->conns[index].side[side];

	if (!qpn || end->qpn == qpn)
		return;
	end->qpn = qpn;
	name_add(pairing, &pairing->ends, end->host, qpn, index, side);
}

/* Assigns the packets from now on, in both directions, to a connection with two known QPNs. */
static void conn_map_halves(struct pairing *pairing, uint32_t index)
{
	for (uint8_t side = 0; side < 2; side++) {
		const struct conn *conn = &pairing->model->conns[index];
		struct half *half;

		if (!conn->side[!side].qpn)
			continue;
		half = half_get(pairing, conn->side[side].host, conn->side[!side].host,
				conn->side[!side].qpn);
		if (half) {
			half->conn = index;
			half->side = side;
		}
	}
}

static void assign_item(struct item *item, uint32_t conn, uint8_t side)
{
	item->conn = conn;
	item->side = side;
}

static uint8_t transport_of_cm(uint8_t type)
{
	static const uint8_t transports[] = {
		[CM_TRANSPORT_RC] = OPCODE_TRANSPORT_RC,
		[CM_TRANSPORT_UC] = OPCODE_TRANSPORT_UC,
		[CM_TRANSPORT_RD] = OPCODE_TRANSPORT_RD,
		[CM_TRANSPORT_EXTENDED] = OPCODE_TRANSPORT_XRC,
	};

	return transports[type & 3];
}

static void pair_request(struct pairing *pairing, struct item *item)
{
	const struct item_cm *cm = &item->cm;
	bool is_sidr = cm->type == CM_MSG_SIDR_REQ;
	uint64_t key = cm->local_comm_id | (is_sidr ? SIDR_KEY : 0);
	struct side_name *name = name_find(&pairing->ids, item->src_host, key);
	struct conn *conn;
	uint32_t index;

	/*
	 * An address challenge and its response are shown, but belong to no connection or service.
	 */
	if (is_sidr && cm->service_id == CM_SERVICE_NONE)
		return;
	if (name) {
		conn = &pairing->model->conns[name->conn];
		if (name->side == 0 && conn->cm.service_id == cm->service_id &&
		    (!cm->qpn || conn->side[0].qpn == cm->qpn)) {
			assign_item(item, name->conn, 0);
			return;
		}
	}
	index = conn_add(pairing, item->src_host, item->dst_host,
			 is_sidr ? OPCODE_TRANSPORT_UD : transport_of_cm(cm->transport));
	if (index == MODEL_NONE)
		return;
	assign_item(item, index, 0);
	conn = &pairing->model->conns[index];
	conn->side[0].comm_id = cm->local_comm_id;
	conn->has_cm = true;
	conn->cm.is_sidr = is_sidr;
	conn->cm.service_id = cm->service_id;
	if (cm->mtu_code >= 1 && cm->mtu_code <= 5)
		conn->mtu_bytes = mtu_code_bytes(cm->mtu_code);
	name_add(pairing, &pairing->ids, item->src_host, key, index, 0);
	conn_set_qpn(pairing, index, 0, cm->qpn);
}

/* A message other than REQ and SIDR_REQ: the connection is that of one of its communication IDs. */
static void pair_message(struct pairing *pairing, struct item *item)
{
	const struct item_cm *cm = &item->cm;
	bool is_sidr = cm->type == CM_MSG_SIDR_REP;
	bool is_reply = cm->type == CM_MSG_REP || is_sidr;
	struct side_name *name = NULL;
	struct conn_side *own;

	if (!is_reply && cm->local_comm_id)
		name = name_find(&pairing->ids, item->src_host, cm->local_comm_id);
	if (name) {
		assign_item(item, name->conn, name->side);
		return;
	}
	name = name_find(&pairing->ids, item->dst_host,
			 cm->remote_comm_id | (is_sidr ? SIDR_KEY : 0));
	if (!name)
		return;
	assign_item(item, name->conn, !name->side);
	if (!is_reply)
		return;
	own = &pairing->model->conns[item->conn].side[item->side];
	if (cm->local_comm_id && own->comm_id != cm->local_comm_id) {
		own->comm_id = cm->local_comm_id;
		name_add(pairing, &pairing->ids, item->src_host, cm->local_comm_id, item->conn,
			 item->side);
	}
	conn_set_qpn(pairing, item->conn, item->side, cm->qpn);
	if (cm->type == CM_MSG_REP)
		conn_map_halves(pairing, item->conn);
}

/* A QP with its peer. The passive side reports its path before it sends the REP. */
static void pair_path(struct pairing *pairing, struct item *item)
{
	const struct item_note *note = &item->note;
	struct side_name *peer = name_find(&pairing->ends, item->dst_host, note->peer_qpn);
	struct conn_side *own = NULL;
	uint32_t index;

	if (!note->qpn || !note->peer_qpn || item->src_host == MODEL_NONE ||
	    item->dst_host == MODEL_NONE)
		return;
	if (peer)
		own = &pairing->model->conns[peer->conn].side[!peer->side];
	if (own && own->host == item->src_host && (!own->qpn || own->qpn == note->qpn)) {
		index = peer->conn;
		assign_item(item, index, !peer->side);
	} else {
		index = conn_add(pairing, item->src_host, item->dst_host, OPCODE_TRANSPORT_RC);
		if (index == MODEL_NONE)
			return;
		/* enum ibv_qp_type: 3 is UC, 9 and 10 are XRC. */
		if (note->opcode == 3)
			pairing->model->conns[index].transport = OPCODE_TRANSPORT_UC;
		else if (note->opcode == 9 || note->opcode == 10)
			pairing->model->conns[index].transport = OPCODE_TRANSPORT_XRC;
		assign_item(item, index, 0);
		conn_set_qpn(pairing, index, 1, note->peer_qpn);
	}
	if (note->bytes)
		pairing->model->conns[index].mtu_bytes = note->bytes;
	conn_set_qpn(pairing, index, item->side, note->qpn);
	conn_map_halves(pairing, index);
}

static uint64_t datagram_key(uint32_t src_qpn, uint32_t dst_qpn)
{
	return (uint64_t)src_qpn << 24 | dst_qpn;
}

/*
 * A pair of UD QPs, in either direction, or the pair of a service ID resolution whose first
 * datagram this is.
 */
static void pair_datagram(struct pairing *pairing, struct item *item)
{
	const struct item_packet *packet = &item->packet;
	uint64_t hosts = (uint64_t)item->dst_host << 48;
	struct side_name *name = name_find(&pairing->datagrams, item->src_host,
					   hosts ^ datagram_key(packet->src_qpn, packet->dst_qpn));
	uint32_t index;

	if (name) {
		assign_item(item, name->conn, name->side);
		return;
	}
	name = name_find(&pairing->ends, item->dst_host, packet->dst_qpn);
	if (name && pairing->model->conns[name->conn].cm.is_sidr && name->side == 1 &&
	    !pairing->model->conns[name->conn].side[0].qpn &&
	    pairing->model->conns[name->conn].side[0].host == item->src_host)
		index = name->conn;
	else
		index = conn_add(pairing, item->src_host, item->dst_host, OPCODE_TRANSPORT_UD);
	if (index == MODEL_NONE)
		return;
	conn_set_qpn(pairing, index, 0, packet->src_qpn);
	conn_set_qpn(pairing, index, 1, packet->dst_qpn);
	name_add(pairing, &pairing->datagrams, item->src_host,
		 hosts ^ datagram_key(packet->src_qpn, packet->dst_qpn), index, 0);
	name_add(pairing, &pairing->datagrams, item->dst_host,
		 (uint64_t)item->src_host << 48 ^ datagram_key(packet->dst_qpn, packet->src_qpn),
		 index, 1);
	assign_item(item, index, 0);
}

static void range_add(struct psn_range *range, uint32_t psn, uint32_t psns)
{
	int32_t at;

	if (!range->is_set)
		*range = (struct psn_range){.is_set = true, .start = psn};
	at = psn_diff(psn, range->start);
	if (at < range->low)
		range->low = at;
	if (at + (int32_t)psns - 1 > range->high)
		range->high = at + (int32_t)psns - 1;
}

static bool range_has(const struct psn_range *range, const struct psn_range *other)
{
	int32_t at = psn_diff(other->start, range->start);

	return range->is_set && other->is_set && at >= range->low && at <= range->high;
}

static void pair_connected(struct pairing *pairing, struct item *item)
{
	const struct item_packet *packet = &item->packet;
	const struct opcode_info *info = opcode_info(packet->opcode);
	struct half *half = half_get(pairing, item->src_host, item->dst_host, packet->dst_qpn);

	if (!half)
		return;
	if (half->conn != MODEL_NONE) {
		assign_item(item, half->conn, half->side);
		return;
	}
	half->transport = (uint8_t)info->transport;
	half->has_unassigned = true;
	if (info->is_request)
		range_add(&half->requests, packet->psn,
			  info->is_read ? min_u32(packet->dma_bytes / READ_PACKET_MIN, 65536) + 1 :
					  1);
	else if (info->is_response)
		range_add(&half->responses, packet->psn, 1);
}

static void pair_item(struct pairing *pairing, struct item *item)
{
	const struct opcode_info *info;

	switch (item->kind) {
	case ITEM_CM:
		if (item->cm.type == CM_MSG_REQ || item->cm.type == CM_MSG_SIDR_REQ)
			pair_request(pairing, item);
		else
			pair_message(pairing, item);
		return;
	case ITEM_PATH:
		pair_path(pairing, item);
		return;
	case ITEM_PACKET:
		info = opcode_info(item->packet.opcode);
		if (info->transport == OPCODE_TRANSPORT_UD)
			pair_datagram(pairing, item);
		else
			pair_connected(pairing, item);
		return;
	default:
		return;
	}
}

static void join_halves(struct pairing *pairing, struct half *half, struct half *other)
{
	uint32_t index = conn_add(pairing, half->src_host, half->dst_host, half->transport);

	if (index == MODEL_NONE)
		return;
	half->guess = index;
	half->guess_side = 0;
	conn_set_qpn(pairing, index, 1, half->dst_qpn);
	if (!other)
		return;
	other->guess = index;
	other->guess_side = 1;
	conn_set_qpn(pairing, index, 0, other->dst_qpn);
}

/* The other direction of a half: by PSNs, or the only one that remains. NULL: not found. */
static struct half *find_other_half(struct pairing *pairing, struct half *half, bool by_psn)
{
	uint64_t hosts = (uint64_t)half->dst_host << 32 | half->src_host;
	struct half *found = NULL;
	struct hash_node *pos;
	int visited = 0;

	hash_for_each(pos, &pairing->halves_by_hosts, hash_mix(hosts, 0))
	{
		struct half *other =
			(struct half *)(void *)((char *)pos - offsetof(struct half, by_hosts));

		if (visited++ == CANDIDATES_MAX)
			break;
		if (other == half || !other->has_unassigned || other->guess != MODEL_NONE ||
		    other->src_host != half->dst_host || other->dst_host != half->src_host)
			continue;
		if (by_psn && (range_has(&half->requests, &other->responses) ||
			       range_has(&other->requests, &half->responses)))
			return other;
		if (!by_psn && found)
			return NULL;
		if (!by_psn)
			found = other;
	}
	return found;
}

static void pair_halves(struct pairing *pairing)
{
	for (int pass = 0; pass < 3; pass++) {
		for (struct half *half = pairing->half_list; half; half = half->next) {
			struct half *other = NULL;

			if (!half->has_unassigned || half->guess != MODEL_NONE)
				continue;
			if (pass < 2)
				other = find_other_half(pairing, half, pass == 0);
			if (other || pass == 2)
				join_halves(pairing, half, other);
		}
	}
}

static void assign_guesses(struct pairing *pairing)
{
	struct model *model = pairing->model;

	for (uint32_t i = 0; i < model->item_count; i++) {
		struct item *item = &model->items[i];
		struct half *half;

		if (item->kind != ITEM_PACKET || item->conn != MODEL_NONE)
			continue;
		half = half_get(pairing, item->src_host, item->dst_host, item->packet.dst_qpn);
		if (half && half->guess != MODEL_NONE)
			assign_item(item, half->guess, half->guess_side);
	}
}

static void pairing_free(struct pairing *pairing)
{
	while (pairing->half_list) {
		struct half *half = pairing->half_list;

		pairing->half_list = half->next;
		free(half);
	}
	while (pairing->name_list) {
		struct side_name *name = pairing->name_list;

		pairing->name_list = name->next;
		free(name);
	}
	hash_fini(&pairing->halves);
	hash_fini(&pairing->halves_by_hosts);
	hash_fini(&pairing->ids);
	hash_fini(&pairing->ends);
	hash_fini(&pairing->datagrams);
}

int model_pair(struct model *model)
{
	struct pairing pairing = {.model = model, .half_end = &pairing.half_list};

	if (hash_init(&pairing.halves) || hash_init(&pairing.halves_by_hosts) ||
	    hash_init(&pairing.ids) || hash_init(&pairing.ends) || hash_init(&pairing.datagrams))
		pairing.error = -ENOMEM;
	for (uint32_t i = 0; i < model->item_count && !pairing.error; i++)
		pair_item(&pairing, &model->items[i]);
	if (!pairing.error)
		pair_halves(&pairing);
	if (!pairing.error)
		assign_guesses(&pairing);
	pairing_free(&pairing);
	return pairing.error;
}
