/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/relay.h"

#include <errno.h>
#include <stdlib.h>

/* What home and owner of an XRC receive QP have in common: messages to other processes, and from them. */

/* A DETACH for which there was no room. The QP itself is gone by the time there is. */
struct owed_detach {
	struct list_head node; /* roce.relay.detaches */
	uint32_t slot;
	uint32_t qpn;
};

int relay_open(struct roce_relay *relay)
{
	list_init(&relay->homes);
	list_init(&relay->proxy_list);
	list_init(&relay->waiting);
	list_init(&relay->detaches);
	return hash_init(&relay->proxies);
}

static void detach_free(struct owed_detach *owed)
{
	list_del(&owed->node);
	free(owed);
}

void relay_close(struct roce_relay *relay)
{
	while (!list_is_empty(&relay->detaches))
		detach_free(list_first_entry(&relay->detaches, struct owed_detach, node));
	hash_fini(&relay->proxies);
}

int relay_say(struct roce_qp *rqp, struct relay_wait *wait, uint32_t slot,
	      const struct relay_msg *msg, const struct iovec *pieces, int count)
{
	struct roce *roce = rqp->roce;
	int ret = relay_send(roce->engine, slot, msg, pieces, count);

	if (ret != -EAGAIN)
		return ret;
	wait->rqp = rqp;
	wait->slot = slot;
	if (!list_is_linked(&wait->node))
		list_add_tail(&wait->node, &roce->relay.waiting);
	return ret;
}

static int send_detach(struct roce *roce, uint32_t slot, uint32_t qpn)
{
	const struct relay_msg msg = {.kind = RELAY_DETACH, .qpn = qpn};

	return relay_send(roce->engine, slot, &msg, NULL, 0);
}

void relay_say_detach(struct roce *roce, uint32_t slot, uint32_t qpn)
{
	struct owed_detach *owed;

	if (send_detach(roce, slot, qpn) != -EAGAIN)
		return;
	owed = calloc(1, sizeof(*owed));
	if (!owed)
		return;
	owed->slot = slot;
	owed->qpn = qpn;
	list_add_tail(&owed->node, &roce->relay.detaches);
}

void roce_relay_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const uint8_t *bytes, uint32_t len)
{
	struct roce *roce = engine->roce;

	if (!roce)
		return;
	roce_look_at_clock(roce);
	switch (msg->kind) {
	case RELAY_ATTACH:
		relay_proxy_attach(roce, slot, msg, bytes, len);
		break;
	case RELAY_REQUEST:
	case RELAY_REPLAY:
		relay_proxy_request(roce, slot, msg, bytes, len);
		break;
	case RELAY_DETACH:
		relay_proxy_detach(roce, slot, msg);
		break;
	case RELAY_REPORT:
		relay_home_report(roce, slot, msg);
		break;
	default:
		break;
	}
}

static void send_detaches(struct roce *roce, uint32_t slot)
{
	struct owed_detach *owed, *tmp;

	list_for_each_entry_safe(owed, tmp, &roce->relay.detaches, node) {
		if (owed->slot != slot)
			continue;
		if (send_detach(roce, slot, owed->qpn) == -EAGAIN)
			return;
		detach_free(owed);
	}
}

void roce_relay_room(struct engine *engine, uint32_t slot)
{
	struct roce *roce = engine->roce;
	struct list_head due;

	if (!roce)
		return;
	roce_look_at_clock(roce);
	send_detaches(roce, slot);
	list_init(&due);
	list_splice_tail(&roce->relay.waiting, &due);
	while (!list_is_empty(&due)) {
		struct relay_wait *wait = list_first_entry(&due, struct relay_wait, node);

		list_del(&wait->node);
		if (wait->slot != slot)
			list_add_tail(&wait->node, &roce->relay.waiting);
		else if (wait->rqp->proxy)
			answer_owe(wait->rqp);
		else
			relay_home_room(wait->rqp);
	}
	if (roce->link)
		batch_flush(roce);
}

void roce_relay_gone(struct engine *engine, uint32_t slot)
{
	struct roce *roce = engine->roce;
	struct owed_detach *owed, *tmp;

	if (!roce)
		return;
	roce_look_at_clock(roce);
	list_for_each_entry_safe(owed, tmp, &roce->relay.detaches, node) {
		if (owed->slot == slot)
			detach_free(owed);
	}
	relay_proxy_gone(roce, slot);
	relay_home_gone(roce, slot);
	/* What waited for room there has nothing to wait for. */
	roce_relay_room(engine, slot);
}

void roce_relay_publish(struct qp *qp)
{
	if (qp->transport == &roce_transport && roce_qp_of(qp) && roce_qp_of(qp)->rx.home)
		relay_home_changed(roce_qp_of(qp));
}
