/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc_far.h"

#include <assert.h>
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
	struct xrc_far *opens; /* becomes a name's with the answer; NULL: it is no OPEN */
	bool is_sent;
	bool is_done;
	int ret;
	struct far_answer answer;
};

/* A word for which there was no room. */
struct owed_word {
	struct list_head node; /* engine.xrc_fars.owed */
	uint32_t slot;
	struct relay_msg msg;
	uint32_t len;
	union {
		struct far_ask ask;
		struct far_answer answer;
	} more;
};

void xrc_fars_init(struct xrc_fars *fars)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fars->news, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&fars->names);
	list_init(&fars->lost);
	list_init(&fars->holders);
	list_init(&fars->asking);
	list_init(&fars->owed);
}

void xrc_fars_end(struct xrc_fars *fars)
{
	pthread_cond_broadcast(&fars->news);
}

static int send_word(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const void *more, uint32_t len)
{
	struct iovec piece = {.iov_base = (void *)(uintptr_t)more, .iov_len = len};

	return relay_send(engine, slot, msg, &piece, len ? 1 : 0);
}

void xrc_far_say(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		 const void *more, uint32_t len)
{
	struct xrc_fars *fars = &engine->xrc_fars;
	struct owed_word *owed;

	if (!xrc_far_owes(fars, slot) && send_word(engine, slot, msg, more, len) != -EAGAIN)
		return;
	if (msg->kind == RELAY_ANSWER && fars->owed_to[slot] >= FAR_ANSWERS_MAX)
		return;
	owed = calloc(1, sizeof(*owed));
	if (!owed)
		return;
	assert(len <= sizeof(owed->more));
	owed->slot = slot;
	owed->msg = *msg;
	owed->len = len;
	memcpy(&owed->more, more, len);
	list_add_tail(&owed->node, &fars->owed);
	fars->owed_to[slot]++;
}

static void owed_free(struct xrc_fars *fars, struct owed_word *owed)
{
	fars->owed_to[owed->slot]--;
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
		if (send_word(engine, slot, &owed->msg, &owed->more, owed->len) == -EAGAIN)
			return;
		owed_free(&engine->xrc_fars, owed);
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

static int send_question(struct engine *engine, struct asking *asking, const struct relay_msg *msg,
			 const struct far_ask *ask, uint64_t until_ns)
{
	struct iovec piece = {.iov_base = (void *)(uintptr_t)ask, .iov_len = sizeof(*ask)};
	int ret = relay_send(engine, asking->slot, msg, &piece, 1);

	while (ret == -EAGAIN && clock_now_ns() < until_ns) {
		ret = wait_for_news(engine, until_ns);
		if (!ret)
			ret = relay_send(engine, asking->slot, msg, &piece, 1);
	}
	asking->is_sent = !ret;
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

/* 0 with the answer, or what the other process or the way to it says. */
static int ask(struct engine *engine, struct asking *asking, uint32_t qpn, enum far_question what,
	       const struct far_ask *question)
{
	uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
	struct relay_msg msg = {.kind = RELAY_ASK, .qpn = qpn, .run = what};
	int ret;

	asking->serial = ++engine->xrc_fars.serial;
	msg.serial = asking->serial;
	list_add_tail(&asking->node, &engine->xrc_fars.asking);
	engine_will_block(engine);
	ret = send_question(engine, asking, &msg, question, until_ns);
	if (ret && ret != -ETIMEDOUT)
		ret = -EIO;
	while (!ret && !asking->is_done) {
		ret = wait_for_news(engine, until_ns);
		if (!ret && !asking->is_done && clock_now_ns() > until_ns)
			ret = -ETIMEDOUT;
	}
	list_del(&asking->node);
	return asking->is_done ? asking->ret : ret;
}

/* Nobody waits for the answer. */
static void say_close(struct engine *engine, uint32_t slot, uint32_t qpn)
{
	const struct relay_msg msg = {.kind = RELAY_ASK,
				      .qpn = qpn,
				      .run = FAR_CLOSE,
				      .serial = ++engine->xrc_fars.serial};
	const struct far_ask question = {0};

	xrc_far_say(engine, slot, &msg, &question, sizeof(question));
}

/* The process may say yes still, and would count a name that is none. */
static void lose(struct engine *engine, struct xrc_far *far, uint32_t serial)
{
	far->name = NULL;
	far->serial = serial;
	list_add_tail(&far->node, &engine->xrc_fars.lost);
}

int xrc_far_open(struct qp *name, uint32_t qpn)
{
	struct engine *engine = name->context->engine;
	const struct far_ask question = {.domain_id = name->xrcd->domain->id};
	uint32_t slot = relay_slot_of(qpn);
	struct asking asking = {.slot = slot};
	struct xrc_far *far;
	int ret = engine_introduce(engine, slot);

	if (ret)
		return ret == -ENOENT ? -EINVAL : ret == -ENODEV ? -EIO : ret;
	far = calloc(1, sizeof(*far));
	if (!far)
		return -ENOMEM;
	far->slot = slot;
	far->qpn = qpn;
	far->name = name;
	name->far = far;
	asking.opens = far;
	ret = ask(engine, &asking, qpn, FAR_OPEN, &question);
	if (!ret) {
		name->pub.state = asking.answer.attr.qp_state;
		return 0;
	}
	name->far = NULL;
	if (ret == -ETIMEDOUT && asking.is_sent)
		lose(engine, far, asking.serial);
	else
		free(far);
	return ret;
}

static int ask_of_name(const struct qp *name, struct asking *asking, enum far_question what,
		       const struct far_ask *question)
{
	struct engine *engine = name->context->engine;
	int ret = engine_usable(engine);

	if (ret || name->far->is_gone)
		return -EIO;
	asking->slot = name->far->slot;
	return ask(engine, asking, name->qpn, what, question);
}

int xrc_far_query(struct qp *name, struct ibv_qp_attr *attr)
{
	const struct far_ask question = {0};
	struct asking asking = {0};
	int ret = ask_of_name(name, &asking, FAR_QUERY, &question);

	if (!ret)
		*attr = asking.answer.attr;
	return ret;
}

int xrc_far_modify(struct qp *name, const struct ibv_qp_attr *attr, int mask)
{
	const struct far_ask question = {.mask = mask, .attr = *attr};
	struct asking asking = {0};

	return ask_of_name(name, &asking, FAR_MODIFY, &question);
}

void xrc_far_close(struct qp *name)
{
	const struct far_ask question = {0};
	struct asking asking = {0};

	list_del(&name->far->node);
	/* Where nobody answers the name is over there too, or will be when that process reads it. */
	if (ask_of_name(name, &asking, FAR_CLOSE, &question) == -ETIMEDOUT && !asking.is_sent)
		say_close(name->context->engine, name->far->slot, name->qpn);
	free(name->far);
}

static void take_late_answer(struct engine *engine, uint32_t slot, const struct relay_msg *msg)
{
	struct xrc_far *far, *tmp;

	list_for_each_entry_safe(far, tmp, &engine->xrc_fars.lost, node) {
		if (far->slot != slot || far->serial != msg->serial)
			continue;
		list_del(&far->node);
		if (!msg->verdict)
			say_close(engine, slot, far->qpn);
		free(far);
	}
}

/* An event may follow at once: the name is there to hear it. */
static void take_answer_of(struct engine *engine, struct asking *asking,
			   const struct relay_msg *msg, const uint8_t *bytes)
{
	memcpy(&asking->answer, bytes, sizeof(asking->answer));
	asking->ret = -(int)msg->verdict;
	asking->is_done = true;
	if (!asking->ret && asking->opens)
		list_add_tail(&asking->opens->node, &engine->xrc_fars.names);
	pthread_cond_broadcast(&engine->xrc_fars.news);
}

static void take_answer(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
			const uint8_t *bytes, uint32_t len)
{
	struct asking *asking;

	if (len != sizeof(asking->answer) || msg->verdict > INT16_MAX)
		return;
	list_for_each_entry(asking, &engine->xrc_fars.asking, node) {
		if (asking->slot == slot && asking->serial == msg->serial && !asking->is_done)
			take_answer_of(engine, asking, msg, bytes);
	}
	take_late_answer(engine, slot, msg);
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
	struct xrc_far *far, *next;
	struct asking *asking;

	pthread_cond_broadcast(&engine->xrc_fars.news);
	list_for_each_entry_safe(owed, tmp, &engine->xrc_fars.owed, node) {
		if (owed->slot == slot)
			owed_free(&engine->xrc_fars, owed);
	}
	list_for_each_entry(asking, &engine->xrc_fars.asking, node) {
		if (asking->slot == slot && !asking->is_done) {
			asking->ret = -EIO;
			asking->is_done = true;
		}
	}
	list_for_each_entry_safe(far, next, &engine->xrc_fars.lost, node) {
		if (far->slot == slot) {
			list_del(&far->node);
			free(far);
		}
	}
	list_for_each_entry(far, &engine->xrc_fars.names, node) {
		if (far->slot == slot && !far->is_gone) {
			far->is_gone = true;
			async_qp_event(far->name, IBV_EVENT_QP_FATAL);
		}
	}
}
