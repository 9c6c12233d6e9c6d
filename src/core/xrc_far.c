/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc_far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "core/async.h"
#include "core/context.h"

/* A process that is stopped answers nothing; whoever asks it does not wait for ever. */
#define PATIENCE_NS (UINT64_C(5) * CLOCK_NS_PER_S)
#define LOOK_NS	    (UINT64_C(100) * CLOCK_NS_PER_MS)

/* A question, on its asker's stack. */
struct asking {
	struct list_head node; /* engine.xrc_fars.asking */
	uint32_t slot;
	uint32_t serial;
	bool is_done;
	int ret;
	struct far_answer answer;
};

/* A word for which there was no room. */
struct owed_word {
	struct list_head node; /* engine.xrc_fars.owed */
	uint32_t slot;
	bool has_answer;
	struct relay_msg msg;
	struct far_answer answer;
};

void xrc_fars_init(struct xrc_fars *fars)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fars->news, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&fars->names);
	list_init(&fars->holders);
	list_init(&fars->asking);
	list_init(&fars->owed);
}

void xrc_fars_end(struct xrc_fars *fars)
{
	pthread_cond_broadcast(&fars->news);
}

static int send_word(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const struct far_answer *answer)
{
	struct iovec piece = {.iov_base = (void *)(uintptr_t)answer, .iov_len = sizeof(*answer)};

	return relay_send(engine, slot, msg, &piece, answer ? 1 : 0);
}

void xrc_far_say(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		 const struct far_answer *answer)
{
	struct owed_word *owed;

	if (send_word(engine, slot, msg, answer) != -EAGAIN)
		return;
	owed = calloc(1, sizeof(*owed));
	if (!owed)
		return;
	owed->slot = slot;
	owed->msg = *msg;
	owed->has_answer = answer;
	if (answer)
		owed->answer = *answer;
	list_add_tail(&owed->node, &engine->xrc_fars.owed);
}

static void owed_free(struct owed_word *owed)
{
	list_del(&owed->node);
	free(owed);
}

void xrc_far_room(struct engine *engine, uint32_t slot)
{
	struct owed_word *owed, *tmp;

	pthread_cond_broadcast(&engine->xrc_fars.news);
	list_for_each_entry_safe(owed, tmp, &engine->xrc_fars.owed, node) {
		if (owed->slot != slot)
			continue;
		if (send_word(engine, slot, &owed->msg, owed->has_answer ? &owed->answer : NULL) ==
		    -EAGAIN)
			return;
		owed_free(owed);
	}
}

bool xrc_far_may_be(const struct engine *engine, const struct xrc_domain *domain, uint32_t qpn)
{
	uint32_t slot = relay_slot_of(qpn);

	return domain->id && slot && slot != engine->slot && qpn < IPC_SLOTS * IPC_SLOT_QPNS;
}

/*
 * Waits for news, and lets others have the lock: the engine's thread takes what comes. But who is between ibv_wr_start() and
 * ibv_wr_complete() keeps the lock while it waits, and so has to look for itself now and then.
 */
static int wait_for_news(struct engine *engine, uint64_t until_ns)
{
	uint64_t look_ns = clock_now_ns() + LOOK_NS;
	uint64_t wake_ns = look_ns < until_ns ? look_ns : until_ns;
	const struct timespec wake = {
		.tv_sec = (time_t)(wake_ns / CLOCK_NS_PER_S),
		.tv_nsec = (long)(wake_ns % CLOCK_NS_PER_S),
	};

	if (pthread_cond_timedwait(&engine->xrc_fars.news, &engine->lock, &wake)) {
		engine_catch_up(engine);
		engine_take_notices(engine);
	}
	return engine_usable(engine);
}

static int send_question(struct engine *engine, const struct asking *asking,
			 const struct relay_msg *msg, const struct far_ask *ask, uint64_t until_ns)
{
	struct iovec piece = {.iov_base = (void *)(uintptr_t)ask, .iov_len = sizeof(*ask)};
	int ret = relay_send(engine, asking->slot, msg, &piece, 1);

	while (ret == -EAGAIN && clock_now_ns() < until_ns) {
		ret = wait_for_news(engine, until_ns);
		if (!ret)
			ret = relay_send(engine, asking->slot, msg, &piece, 1);
	}
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

/* 0 with the answer, or what the other process or the way to it says. */
static int ask(struct engine *engine, uint32_t slot, uint32_t qpn, enum far_question what,
	       const struct far_ask *question, struct far_answer *answer)
{
	struct asking asking = {.slot = slot, .serial = ++engine->xrc_fars.serial};
	const struct relay_msg msg = {
		.kind = RELAY_ASK, .qpn = qpn, .run = what, .serial = asking.serial};
	uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
	int ret;

	list_add_tail(&asking.node, &engine->xrc_fars.asking);
	engine_will_block(engine);
	ret = send_question(engine, &asking, &msg, question, until_ns);
	if (ret && ret != -ETIMEDOUT)
		ret = -EIO;
	while (!ret && !asking.is_done) {
		ret = wait_for_news(engine, until_ns);
		if (!ret && !asking.is_done && clock_now_ns() > until_ns)
			ret = -ETIMEDOUT;
	}
	list_del(&asking.node);
	if (!ret)
		ret = asking.ret;
	if (!ret && answer)
		*answer = asking.answer;
	return ret;
}

int xrc_far_open(struct qp *name, uint32_t qpn)
{
	struct engine *engine = name->context->engine;
	const struct far_ask question = {.domain_id = name->xrcd->domain->id};
	uint32_t slot = relay_slot_of(qpn);
	struct far_answer answer;
	struct xrc_far *far;
	int ret = engine_introduce(engine, slot);

	if (ret)
		return ret == -ENOENT ? -EINVAL : ret == -ENODEV ? -EIO : ret;
	far = calloc(1, sizeof(*far));
	if (!far)
		return -ENOMEM;
	ret = ask(engine, slot, qpn, FAR_OPEN, &question, &answer);
	if (ret) {
		free(far);
		return ret;
	}
	far->slot = slot;
	far->name = name;
	list_add_tail(&far->node, &engine->xrc_fars.names);
	name->far = far;
	name->pub.state = answer.attr.qp_state;
	return 0;
}

static int ask_of_name(const struct qp *name, enum far_question what,
		       const struct far_ask *question, struct far_answer *answer)
{
	struct engine *engine = name->context->engine;
	int ret = engine_usable(engine);

	if (ret || name->far->is_gone)
		return -EIO;
	return ask(engine, name->far->slot, name->qpn, what, question, answer);
}

int xrc_far_query(struct qp *name, struct ibv_qp_attr *attr)
{
	const struct far_ask question = {0};
	struct far_answer answer;
	int ret = ask_of_name(name, FAR_QUERY, &question, &answer);

	if (!ret)
		*attr = answer.attr;
	return ret;
}

int xrc_far_modify(struct qp *name, const struct ibv_qp_attr *attr, int mask)
{
	const struct far_ask question = {.mask = mask, .attr = *attr};

	return ask_of_name(name, FAR_MODIFY, &question, NULL);
}

void xrc_far_close(struct qp *name)
{
	const struct far_ask question = {0};

	list_del(&name->far->node);
	/* Where nobody answers the name is over there too, or will be with this process. */
	(void)!ask_of_name(name, FAR_CLOSE, &question, NULL);
	free(name->far);
}

static void take_answer(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
			const uint8_t *bytes, uint32_t len)
{
	struct asking *asking;

	if (len != sizeof(asking->answer) || msg->verdict > INT16_MAX)
		return;
	list_for_each_entry(asking, &engine->xrc_fars.asking, node) {
		if (asking->slot != slot || asking->serial != msg->serial)
			continue;
		memcpy(&asking->answer, bytes, len);
		asking->ret = -(int)msg->verdict;
		asking->is_done = true;
		pthread_cond_broadcast(&engine->xrc_fars.news);
	}
}

static bool is_qp_event(uint32_t event)
{
	switch (event) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

static void take_event(struct engine *engine, uint32_t slot, const struct relay_msg *msg)
{
	struct xrc_far *far;

	if (!is_qp_event(msg->verdict))
		return;
	list_for_each_entry(far, &engine->xrc_fars.names, node) {
		if (far->slot == slot && far->name->qpn == msg->qpn)
			async_qp_event(far->name, (enum ibv_event_type)msg->verdict);
	}
}

void xrc_far_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		  const uint8_t *bytes, uint32_t len)
{
	if (msg->kind == RELAY_ANSWER)
		take_answer(engine, slot, msg, bytes, len);
	else if (msg->kind == RELAY_EVENT)
		take_event(engine, slot, msg);
}

void xrc_far_gone(struct engine *engine, uint32_t slot)
{
	struct owed_word *owed, *tmp;
	struct asking *asking;
	struct xrc_far *far;

	pthread_cond_broadcast(&engine->xrc_fars.news);
	list_for_each_entry_safe(owed, tmp, &engine->xrc_fars.owed, node) {
		if (owed->slot == slot)
			owed_free(owed);
	}
	list_for_each_entry(asking, &engine->xrc_fars.asking, node) {
		if (asking->slot == slot && !asking->is_done) {
			asking->ret = -EIO;
			asking->is_done = true;
		}
	}
	list_for_each_entry(far, &engine->xrc_fars.names, node) {
		if (far->slot == slot && !far->is_gone) {
			far->is_gone = true;
			async_qp_event(far->name, IBV_EVENT_QP_FATAL);
		}
	}
}
