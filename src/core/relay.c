/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/relay.h"

#include <errno.h>

#include "core/engine.h"
#include "core/transport.h"
#include "core/xrc_far.h"

int relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
	       const struct iovec *pieces, int count)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->relay_send)
			return transports[i]->relay_send(engine, slot, msg, pieces, count);
	}
	return -EOPNOTSUPP;
}

void relay_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		const uint8_t *bytes, uint32_t len)
{
	switch (msg->kind) {
	case RELAY_ASK:
		xrc_held_ask(engine, slot, msg, bytes, len);
		return;
	case RELAY_ANSWER:
	case RELAY_EVENT:
		xrc_far_take(engine, slot, msg, bytes, len);
		return;
	default:
		break;
	}
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->relay_take)
			transports[i]->relay_take(engine, slot, msg, bytes, len);
	}
}

void relay_room(struct engine *engine, uint32_t slot)
{
	xrc_far_room(engine, slot);
	xrc_held_room(engine, slot);
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->relay_room)
			transports[i]->relay_room(engine, slot);
	}
}

void relay_gone(struct engine *engine, uint32_t slot)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->relay_gone)
			transports[i]->relay_gone(engine, slot);
	}
	xrc_held_gone(engine, slot);
	xrc_far_gone(engine, slot);
}

void relay_domain_closed(struct engine *engine, const struct xrc_domain *domain)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->relay_domain_closed)
			transports[i]->relay_domain_closed(engine, domain);
	}
}
