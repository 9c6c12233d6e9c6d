/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "local/local.h"

/* XRC requests on their way from the process that has the queue pair to the one that has the SRQ, and its reports. */

static_assert(RELAY_BYTES_MAX <= RING_FRAGMENT_BYTES, "who waits for space waits for a fragment");

static uint8_t *append(uint8_t *to, const void *from, size_t bytes)
{
	return (uint8_t *)memcpy(to, from, bytes) + bytes;
}

/*
 * An introduction blocks, and takes whatever else the daemon has to say: peers may be gone after it. So it waits for a
 * moment when nobody is in the midst of anything.
 */
static int meet_later(struct local *local, uint32_t slot)
{
	if (slot == 0 || slot >= IPC_SLOTS || slot == local->absent_slot)
		return -ENOENT;
	local->is_stranger[slot] = true;
	local->has_strangers = true;
	engine_wake(local->engine);
	return -EAGAIN;
}

void local_relay_introduce(struct local *local)
{
	local->has_strangers = false;
	for (uint32_t slot = 1; slot < IPC_SLOTS; slot++) {
		if (!local->is_stranger[slot])
			continue;
		local->is_stranger[slot] = false;
		/* Whoever asked tries again, and hears now if it is in vain. */
		local->absent_slot = peer_get(local->engine, slot) ? 0 : slot;
		relay_room(local->engine, slot);
		local->absent_slot = 0;
	}
}

int local_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const struct iovec *pieces, int count)
{
	struct local *local = local_of(engine);
	struct peer *peer = slot < IPC_SLOTS ? local->by_slot[slot] : NULL;
	size_t bytes = sizeof(*msg);
	struct cell *cell;
	uint8_t *to;

	if (slot == engine->slot)
		return -ENOENT;
	if (!peer)
		return msg->kind == RELAY_ATTACH ? meet_later(local, slot) : -ENOENT;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	assert(bytes <= RELAY_BYTES_MAX);
	cell = peer_reserve(peer, (uint32_t)bytes, &to);
	if (!cell) {
		peer->relay_waits = true;
		local_finish_turn(peer);
		return -EAGAIN;
	}
	to = append(to, msg, sizeof(*msg));
	for (int i = 0; i < count; i++) {
		if (pieces[i].iov_len)
			to = append(to, pieces[i].iov_base, pieces[i].iov_len);
	}
	cell->type = CELL_RELAY;
	cell->bytes = (uint16_t)bytes;
	cell->dst_qpn = 0;
	cell->src_qpn = 0;
	ring_commit(&peer->tx, cell);
	peer->has_sent = true;
	local_finish_turn(peer);
	return 0;
}

/* The payload is copied before it is looked at: the peer may write there still. */
void local_relay_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload)
{
	_Alignas(16) uint8_t bytes[RELAY_BYTES_MAX];
	struct relay_msg msg;

	if (cell->bytes < sizeof(msg) || cell->bytes > sizeof(bytes)) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	memcpy(bytes, payload, cell->bytes);
	memcpy(&msg, bytes, sizeof(msg));
	relay_take(peer->engine, peer->slot, &msg, bytes + sizeof(msg),
		   (uint32_t)(cell->bytes - sizeof(msg)));
}

unsigned int local_relay_resume(struct peer *peer)
{
	if (!peer->relay_waits || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	peer->relay_waits = false;
	relay_room(peer->engine, peer->slot);
	return 1;
}
