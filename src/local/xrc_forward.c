/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/xrc_forward.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "local/local.h"
#include "local/peer.h"
#include "local/peer_connect.h"
#include "local/ring.h"
#include "local/run.h"

/*
 * The carrier of XRC forwarding (core/qp/xrc_forward.h): one message is the payload of one FIFO
 * element.
 */

static_assert(XRC_FORWARD_BYTES_MAX <= RING_FRAGMENT_BYTES,
	      "xrc_forward_space() is called when there is space for a fragment");

static int carrier_find_peer(struct engine *engine, uint32_t slot, bool may_connect,
			     struct peer **peer)
{
	if (may_connect)
		return peer_get(engine, slot, peer);
	*peer = slot < IPC_SLOTS ? local_of(engine)->by_slot[slot] : NULL;
	return *peer ? 0 : -ENOENT;
}

static int carrier_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
			bool may_connect)
{
	size_t bytes = 0;
	struct peer *peer;
	struct cell *cell;
	uint8_t *to;
	int ret;

	if (slot == engine->slot)
		return -ENOENT;
	ret = carrier_find_peer(engine, slot, may_connect, &peer);
	if (ret)
		return ret;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	assert(bytes <= XRC_FORWARD_BYTES_MAX);
	cell = peer_reserve(peer, (uint32_t)bytes, &to);
	if (!cell) {
		peer->xrc_forward_waits = true;
		local_finish_turn(peer);
		return -EAGAIN;
	}
	for (int i = 0; i < count; i++) {
		if (!pieces[i].iov_len)
			continue;
		memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
		to += pieces[i].iov_len;
	}
	cell->type = CELL_XRC_FORWARD;
	cell->bytes = (uint16_t)bytes;
	cell->dst_qpn = 0;
	cell->src_qpn = 0;
	ring_commit(&peer->tx, cell);
	peer->has_sent = true;
	local_finish_turn(peer);
	return 0;
}

const struct xrc_forward_carrier local_xrc_forward = {.send = carrier_send};

/*
 * The payload is copied before it is checked, because the peer can still write to the shared
 * memory.
 */
void local_xrc_forward_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload)
{
	_Alignas(16) uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	uint32_t len = cell->bytes;

	if (len > sizeof(bytes)) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	memcpy(bytes, payload, len);
	if (xrc_forward_receive(peer->engine, peer->slot, bytes, len))
		local_count(peer->engine, LOCAL_BAD_CELLS);
}

unsigned int local_xrc_forward_resume(struct peer *peer)
{
	if (!peer->xrc_forward_waits || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	peer->xrc_forward_waits = false;
	xrc_forward_space(peer->engine, peer->slot);
	return 1;
}
