/* SPDX-License-Identifier: BSD-2-Clause */
/* Assigns events that are not packets to the connections that model_pair() found. */
#include "model.h"

#include <errno.h>
#include <stdlib.h>

#define NOTE_SIDES_MAX 4096 /* sides of connections that are compared for one event */

/* One side of a connection by its QPN. */
struct note_side {
	struct hash_node node; /* the first member */
	uint32_t qpn;
	uint32_t conn;
	uint8_t side;
};

struct note_sides {
	struct hash table;
	struct note_side *sides;
};

/*
 * The processes of the sides, and the times of the connections, from all items that are assigned.
 */
static void describe_conns(struct model *model)
{
	for (uint32_t i = 0; i < model->item_count; i++) {
		struct item *item = &model->items[i];
		struct conn_side *own, *peer;
		struct conn *conn;

		if (item->conn == MODEL_NONE)
			continue;
		conn = &model->conns[item->conn];
		own = &conn->side[item->side];
		peer = &conn->side[!item->side];
		if (!conn->item_count++)
			conn->first_ns = item->time_ns;
		conn->last_ns = item->time_ns;
		if (item->src_process != MODEL_NONE &&
		    (item->kind != ITEM_CM || own->process == MODEL_NONE))
			own->process = item->src_process;
		if (item->dst_process != MODEL_NONE &&
		    (item->kind != ITEM_CM || peer->process == MODEL_NONE))
			peer->process = item->dst_process;
		if (item->kind == ITEM_PACKET && item->is_received)
			peer->has_receives = true;
	}
}

static int note_sides_open(struct note_sides *index, const struct model *model)
{
	size_t count = 0;

	index->sides = calloc((size_t)model->conn_count * 2 + 1, sizeof(*index->sides));
	if (!index->sides || hash_init(&index->table))
		return -ENOMEM;
	for (uint32_t i = 0; i < model->conn_count; i++) {
		for (uint8_t side = 0; side < 2; side++) {
			struct note_side *entry = &index->sides[count];

			entry->qpn = model->conns[i].side[side].qpn;
			entry->conn = i;
			entry->side = side;
			if (!entry->qpn)
				continue;
			hash_add(&index->table, &entry->node, hash_mix(0, entry->qpn));
			count++;
		}
	}
	return 0;
}

static void note_sides_close(struct note_sides *index)
{
	hash_fini(&index->table);
	free(index->sides);
}

/*
 * The connection of a note: that of its QPN and process which was the last to begin before it, or
 * the first.
 */
static const struct note_side *
find_note_side(const struct model *model, const struct note_sides *index, const struct item *item)
{
	const struct note_side *best = NULL;
	struct hash_node *pos;
	int visited = 0;

	hash_for_each(pos, &index->table, hash_mix(0, item->note.qpn))
	{
		const struct note_side *name = (const struct note_side *)(const void *)pos;
		const struct conn *conn = &model->conns[name->conn];
		uint32_t process = conn->side[name->side].process;

		if (visited++ == NOTE_SIDES_MAX)
			break;
		if (name->qpn != item->note.qpn ||
		    (process != MODEL_NONE && item->src_process != MODEL_NONE &&
		     process != item->src_process))
			continue;
		if (!best ||
		    (conn->first_ns <= item->time_ns &&
		     conn->first_ns > model->conns[best->conn].first_ns) ||
		    (model->conns[best->conn].first_ns > item->time_ns &&
		     conn->first_ns < model->conns[best->conn].first_ns))
			best = name;
	}
	return best;
}

static void note_assign(struct model *model, struct item *item, uint32_t conn, uint8_t side)
{
	struct conn_side *own = &model->conns[conn].side[side];

	item->conn = conn;
	item->side = side;
	if (own->process == MODEL_NONE)
		own->process = item->src_process;
}

/* An event without QPN belongs to the last connection of its process that began before it. */
static void assign_by_process(struct model *model, struct item *item)
{
	uint32_t visited = 0;

	for (uint32_t i = model->conn_count; i > 0 && visited < NOTE_SIDES_MAX; i--, visited++) {
		const struct conn *conn = &model->conns[i - 1];

		if (item->src_process == MODEL_NONE || conn->first_ns > item->time_ns)
			continue;
		for (uint8_t side = 0; side < 2; side++) {
			if (conn->side[side].process == item->src_process) {
				note_assign(model, item, i - 1, side);
				return;
			}
		}
	}
}

/* Without CM messages the first side is the one that sent the first packet. */
static int order_sides(struct model *model)
{
	uint8_t *first = calloc((size_t)model->conn_count + 1,
				1); /* side + 1 of the first packet */

	if (!first)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->item_count; i++) {
		struct item *item = &model->items[i];

		if (item->kind == ITEM_PACKET && item->conn != MODEL_NONE && !first[item->conn])
			first[item->conn] = (uint8_t)(item->side + 1);
	}
	for (uint32_t i = 0; i < model->conn_count; i++) {
		struct conn *conn = &model->conns[i];
		struct conn_side side = conn->side[0];

		if (first[i] != 2 || conn->has_cm) {
			first[i] = 0;
			continue;
		}
		conn->side[0] = conn->side[1];
		conn->side[1] = side;
	}
	for (uint32_t i = 0; i < model->item_count; i++) {
		struct item *item = &model->items[i];

		if (item->conn != MODEL_NONE && first[item->conn] == 2)
			item->side = !item->side;
	}
	free(first);
	return 0;
}

int model_assign_notes(struct model *model)
{
	struct note_sides index = {0};
	int error = note_sides_open(&index, model);

	describe_conns(model);
	for (uint32_t i = 0; i < model->item_count && !error; i++) {
		struct item *item = &model->items[i];
		const struct note_side *name = NULL;

		if (item->kind == ITEM_PACKET || item->kind == ITEM_CM || item->conn != MODEL_NONE)
			continue;
		if (item->note.qpn)
			name = find_note_side(model, &index, item);
		if (name)
			note_assign(model, item, name->conn, name->side);
		else if (!item->note.qpn && item->kind != ITEM_POST &&
			 item->kind != ITEM_COMPLETION)
			assign_by_process(model, item);
	}
	note_sides_close(&index);
	return error ? error : order_sides(model);
}
