/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/qp.h"
#include "core/xrc_far.h"

/* The process that made an XRC receive QP, which others have names of: it does what they ask, and tells them its events. */

/* A process with names of a QP of this one, which keeps the QP and its domain. Dies with the last name or the process. */
struct xrc_holder {
	struct list_head node;	  /* engine.xrc_fars.holders */
	struct list_head qp_node; /* qp.holders */
	struct qp *qp;
	uint32_t slot;
	uint32_t names;
	uint32_t owed_events; /* each as a bit: there was no room to tell of it */
};

static struct xrc_holder *holder_find(const struct qp *qp, uint32_t slot)
{
	struct xrc_holder *holder;

	list_for_each_entry(holder, &qp->holders, qp_node) {
		if (holder->slot == slot)
			return holder;
	}
	return NULL;
}

static int hold(struct engine *engine, struct qp *qp, uint32_t slot)
{
	struct xrc_holder *holder = holder_find(qp, slot);

	if (!holder) {
		holder = calloc(1, sizeof(*holder));
		if (!holder)
			return -ENOMEM;
		holder->qp = qp;
		holder->slot = slot;
		list_add_tail(&holder->node, &engine->xrc_fars.holders);
		list_add_tail(&holder->qp_node, &qp->holders);
		qp->xrc_domain->xrcds++;
	}
	holder->names++;
	return 0;
}

/* All its names are over. What only they kept goes. */
static void holder_free(struct engine *engine, struct xrc_holder *holder)
{
	struct qp *qp = holder->qp;
	struct xrc_domain *domain = qp->xrc_domain;

	list_del(&holder->node);
	list_del(&holder->qp_node);
	free(holder);
	if (xrc_qp_is_forsaken(qp))
		qp_end_forsaken(qp);
	xrc_domain_put(engine, domain);
}

static int do_as_asked(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		       const struct far_ask *question, struct far_answer *answer)
{
	struct qp *qp = qp_find(engine, msg->qpn);
	struct xrc_holder *holder;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (!qp || qp->type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	if (msg->run == FAR_OPEN) {
		if (!question->domain_id || qp->xrc_domain->id != question->domain_id)
			return -EINVAL;
		qp_fill_attr(qp, &answer->attr);
		return hold(engine, qp, slot);
	}
	holder = holder_find(qp, slot);
	if (!holder)
		return -EINVAL;
	switch (msg->run) {
	case FAR_CLOSE:
		if (!--holder->names)
			holder_free(engine, holder);
		return 0;
	case FAR_QUERY:
		qp_fill_attr(qp, &answer->attr);
		return 0;
	case FAR_MODIFY:
		return qp_modify_of_name(qp, &question->attr, question->mask);
	default:
		return -EINVAL;
	}
}

void xrc_held_ask(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		  const uint8_t *bytes, uint32_t len)
{
	struct relay_msg reply = {.kind = RELAY_ANSWER, .qpn = msg->qpn, .serial = msg->serial};
	struct far_answer answer;
	struct far_ask question;
	int ret = -EINVAL;

	memset(&answer, 0, sizeof(answer));
	if (len == sizeof(question)) {
		memcpy(&question, bytes, len);
		ret = do_as_asked(engine, slot, msg, &question, &answer);
	}
	reply.verdict = (uint32_t)-ret;
	xrc_far_say(engine, slot, &reply, &answer, sizeof(answer));
}

/* Not before what else waits for room there: the answer that makes the name may be among it. */
static bool say_event(struct engine *engine, const struct xrc_holder *holder, uint32_t event)
{
	const struct relay_msg msg = {
		.kind = RELAY_EVENT, .qpn = holder->qp->qpn, .verdict = event};

	return !xrc_far_owes(&engine->xrc_fars, holder->slot) &&
	       relay_send(engine, holder->slot, &msg, NULL, 0) != -EAGAIN;
}

void xrc_held_event(struct qp *qp, enum ibv_event_type event)
{
	struct xrc_holder *holder;

	list_for_each_entry(holder, &qp->holders, qp_node) {
		if (holder->owed_events || !say_event(qp->context->engine, holder, event))
			holder->owed_events |= 1u << event;
	}
}

/* That the QP came to life before what ended it: the numbers are that way round. */
static void pay_events(struct engine *engine, struct xrc_holder *holder)
{
	for (uint32_t event = 32; event-- && holder->owed_events;) {
		if (!(holder->owed_events >> event & 1))
			continue;
		if (!say_event(engine, holder, event))
			return;
		holder->owed_events &= ~(1u << event);
	}
}

void xrc_held_room(struct engine *engine, uint32_t slot)
{
	struct xrc_holder *holder;

	list_for_each_entry(holder, &engine->xrc_fars.holders, node) {
		if (holder->slot == slot && holder->owed_events)
			pay_events(engine, holder);
	}
}

void xrc_held_gone(struct engine *engine, uint32_t slot)
{
	struct xrc_holder *holder, *tmp;

	list_for_each_entry_safe(holder, tmp, &engine->xrc_fars.holders, node) {
		if (holder->slot == slot)
			holder_free(engine, holder);
	}
}
