/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/relay.h"

#include <errno.h>
#include <stdlib.h>

/* What home and owner of an XRC receive QP have in common: messages to other processes, and from them. */

/* A word for which there was no room. The QP that it is about may be gone by the time there is. */
struct owed_word {
	struct list_head node; /* roce.relay.owed */
	uint32_t slot;
	struct relay_msg msg;
};

int relay_open(struct roce_relay *relay)
{
	list_init(&relay->homes);
	list_init(&relay->proxy_list);
	list_init(&relay->waiting);
	list_init(&relay->owed);
	return hash_init(&relay->proxies);
}

static void owed_free(struct owed_word *owed)
{
	list_del(&owed->node);
	free(owed);
}

void relay_close(struct roce_relay *relay)
{
	while (!list_is_empty(&relay->owed))
		owed_free(list_first_entry(&relay->owed, struct owed_word, node));
	hash_fini(&relay->proxies);
}

int relay_say(struct roce_qp *rqp, struct relay_wait *wait, uint32_t slot,
	      const struct relay_msg *msg, const struct iovec *pieces, int count)
{
	struct roce *roce = rqp->roce;
	int ret = relay_send(roce->engine, slot, msg, pieces, count);

	if (ret == -EAGAIN)
		relay_wait_for(rqp, wait, slot);
	return ret;
}

void relay_wait_for(struct roce_qp *rqp, struct relay_wait *wait, uint32_t slot)
{
	wait->rqp = rqp;
	wait->slot = slot;
	if (!list_is_linked(&wait->node))
		list_add_tail(&wait->node, &rqp->roce->relay.waiting);
}

bool relay_pay(struct roce *roce, uint32_t slot)
{
	struct owed_word *owed, *tmp;

	list_for_each_entry_safe(owed, tmp, &roce->relay.owed, node) {
		if (owed->slot != slot)
			continue;
		if (relay_send(roce->engine, slot, &owed->msg, NULL, 0) == -EAGAIN)
			return false;
		owed_free(owed);
	}
	return true;
}

/*
 * Whether it may be owed as well: an end, which is of a queue pair that the other process knew, always; a refusal, which
 * anybody can bring about as often as he likes, once for each queue pair, and of the first ones.
 */
static bool may_owe(struct roce *roce, uint32_t slot, const struct relay_msg *msg)
{
	struct owed_word *owed, *tmp;
	unsigned int refusals = 0;

	if (msg->kind == RELAY_DETACH)
		return true;
	list_for_each_entry_safe(owed, tmp, &roce->relay.owed, node) {
		if (owed->slot != slot || owed->msg.kind != msg->kind)
			continue;
		if (owed->msg.qpn == msg->qpn)
			owed_free(owed);
		else
			refusals++;
	}
	return refusals < RELAY_REFUSALS_MAX;
}

void relay_say_surely(struct roce *roce, uint32_t slot, const struct relay_msg *msg)
{
	struct owed_word *owed;

	if (relay_pay(roce, slot) && relay_send(roce->engine, slot, msg, NULL, 0) != -EAGAIN)
		return;
	owed = may_owe(roce, slot, msg) ? calloc(1, sizeof(*owed)) : NULL;
	if (!owed)
		return;
	owed->slot = slot;
	owed->msg = *msg;
	list_add_tail(&owed->node, &roce->relay.owed);
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

void roce_relay_room(struct engine *engine, uint32_t slot)
{
	struct roce *roce = engine->roce;
	struct list_head due;

	if (!roce)
		return;
	roce_look_at_clock(roce);
	(void)relay_pay(roce, slot);
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
	struct owed_word *owed, *tmp;

	if (!roce)
		return;
	roce_look_at_clock(roce);
	list_for_each_entry_safe(owed, tmp, &roce->relay.owed, node) {
		if (owed->slot == slot)
			owed_free(owed);
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
