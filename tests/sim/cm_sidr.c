/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_sidr.h"

#include <errno.h>
#include <string.h>

#include "base/be.h"
#include "base/clock.h"
#include "base/timer.h"

/* Minimum time for which the CM stores the response to a request. */
#define REMEMBERED_NS (10 * CLOCK_NS_PER_S)

#define MARK_BYTES 4

static void complain(struct cm_sidr_model *sidr, const char *what)
{
	if (!sidr->model->wrong && !sidr->model->is_moot)
		sidr->model->wrong = what;
}

static uint64_t now_of(const struct cm_sidr_model *sidr)
{
	return sidr->model->world->now_ns;
}

static uint64_t below(struct cm_sidr_model *sidr, uint64_t n)
{
	return cm_world_below(sidr->model->world, n);
}

static bool chance(struct cm_sidr_model *sidr, unsigned percent)
{
	return cm_world_chance(sidr->model->world, percent);
}

void cm_sidr_model_open(struct cm_sidr_model *sidr, struct cm_model *model)
{
	memset(sidr, 0, sizeof(*sidr));
	sidr->model = model;
}

/* A unique pattern for this number and salt. */
static void fill(uint32_t number, uint32_t salt, uint8_t *at, size_t len)
{
	uint64_t word = (uint64_t)number << 32 | salt;

	be_store32(at, number);
	for (size_t i = MARK_BYTES; i < len; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		at[i] = (uint8_t)(word >> 56);
	}
}

void cm_sidr_model_ask(struct cm_sidr_model *sidr, struct cm_node *from, struct cm_node *to,
		       uint64_t at_ns)
{
	struct cm_asker *asker = &sidr->askers[sidr->asker_count];

	if (sidr->asker_count == CM_ASKERS_MAX)
		return;
	*asker = (struct cm_asker){
		.number = ++sidr->asker_count,
		.node = from,
		.remote = to,
		.plan_ns = at_ns,
		.service_id = CM_WORLD_SERVICE + chance(sidr, 5),
	};
	memcpy(asker->remote_gid, to ? to->gid : from->gid, GID_BYTES);
	if (!to)
		asker->remote_gid[GID_BYTES - 1] = 0xee;
}

void cm_sidr_model_died(struct cm_sidr_model *sidr, const struct cm_node *node)
{
	for (unsigned i = 0; i < sidr->asker_count; i++) {
		struct cm_asker *asker = &sidr->askers[i];

		if (asker->node != node)
			continue;
		asker->is_dead = true;
		asker->sidr = NULL;
		asker->plan_ns = asker->leave_ns = 0;
	}
	for (unsigned i = 0; i < sidr->answerer_count; i++) {
		if (sidr->answerers[i].node == node)
			sidr->answerers[i].sidr = NULL;
	}
}

static void ask(struct cm_sidr_model *sidr, struct cm_asker *asker)
{
	static const uint64_t timeouts_ns[] = {CLOCK_NS_PER_S, CM_TIMEOUT_NS, 60 * CLOCK_NS_PER_S};
	struct cm_sidr_req req = {.service_id = asker->service_id, .pkey = MAD_PKEY};
	struct cm_path path;

	asker->plan_ns = 0;
	asker->asked_ns = now_of(sidr);
	asker->timeout_ns = sidr->model->is_rough ? timeouts_ns[below(sidr, 3)] : CM_TIMEOUT_MAX_NS;
	fill(asker->number, 0, req.private_data, sizeof(req.private_data));
	cm_world_path(asker->node, asker->remote_gid, &path);
	asker->sidr = cm_sidr_new(asker->node->cm, asker);
	if (!asker->sidr ||
	    cm_sidr_resolve(asker->sidr, &path, &req, asker->timeout_ns, now_of(sidr))) {
		complain(sidr, "a question was refused");
		return;
	}
	if (chance(sidr, 10))
		asker->leave_ns = now_of(sidr) + 1 + below(sidr, CLOCK_NS_PER_S);
}

static void leave(struct cm_sidr_model *sidr, struct cm_asker *asker)
{
	struct cm_sidr *resolution = asker->sidr;

	asker->leave_ns = 0;
	asker->sidr = NULL;
	asker->is_over = true;
	cm_sidr_destroy(resolution, now_of(sidr));
}

static void response(struct cm_sidr_model *sidr, struct cm_answerer *answerer)
{
	struct cm_sidr *resolution = answerer->sidr;
	struct cm_sidr_rep rep = {0};

	answerer->sidr = NULL;
	answerer->has_answered = true;
	answerer->answered_ns = now_of(sidr);
	if (chance(sidr, 10)) {
		answerer->status = CM_SIDR_REJECTED;
		cm_sidr_destroy(resolution, now_of(sidr));
		return;
	}
	answerer->status = chance(sidr, 20) ? CM_SIDR_NO_QP : CM_SIDR_VALID;
	answerer->qpn = 2 + (uint32_t)below(sidr, 1000);
	answerer->qkey = (uint32_t)below(sidr, 1u << 31);
	rep.status = answerer->status;
	rep.qpn = answerer->qpn;
	rep.qkey = answerer->qkey;
	fill((uint32_t)(answerer - sidr->answerers) + 1, answerer->asker->number, rep.private_data,
	     sizeof(rep.private_data));
	if (cm_sidr_reply(resolution, &rep, now_of(sidr)))
		complain(sidr, "an answer was refused");
}

/* A request must not be reported again while the CM stores its response. */
static void check_is_new(struct cm_sidr_model *sidr, const struct cm_node *node,
			 const struct cm_asker *asker)
{
	for (unsigned i = 0; i < sidr->answerer_count; i++) {
		const struct cm_answerer *other = &sidr->answerers[i];

		if (other->node != node || other->incarnation != node->incarnation ||
		    other->asker != asker)
			continue;
		if (!other->has_answered || now_of(sidr) < other->answered_ns + REMEMBERED_NS)
			complain(sidr, "a question was asked twice");
	}
}

void *cm_sidr_model_request(struct cm_node *node, struct cm_sidr *resolution,
			    const struct cm_path *path, const struct cm_sidr_req *req,
			    uint8_t *status)
{
	struct cm_model *model = node->world->ctx;
	struct cm_sidr_model *sidr = model->sidr;
	uint32_t number = be_load32(req->private_data);
	uint8_t wanted[CM_SIDR_REQ_PRIVATE_BYTES];
	struct cm_answerer *answerer;
	struct cm_asker *asker;

	fill(number, 0, wanted, sizeof(wanted));
	if (number < 1 || number > sidr->asker_count ||
	    memcmp(req->private_data, wanted, sizeof(wanted)) != 0) {
		complain(sidr, "a request that was not sent");
		return NULL;
	}
	asker = &sidr->askers[number - 1];
	if (asker->remote != node || req->service_id != CM_WORLD_SERVICE ||
	    memcmp(path->dgid, asker->node->gid, GID_BYTES) != 0)
		complain(sidr, "a question in another form");
	if (chance(sidr, model->ignore_percent))
		return NULL;
	check_is_new(sidr, node, asker);
	if (model->is_ending || sidr->answerer_count == 2 * CM_ASKERS_MAX) {
		*status = CM_SIDR_UNSUPPORTED;
		return NULL;
	}
	answerer = &sidr->answerers[sidr->answerer_count++];
	*answerer = (struct cm_answerer){
		.node = node,
		.incarnation = node->incarnation,
		.asker = asker,
		.sidr = resolution,
		.plan_ns = now_of(sidr) + 1 + below(sidr, model->thinking_ns + 1),
	};
	return answerer;
}

static bool is_answer_of(const struct cm_sidr_model *sidr, const struct cm_asker *asker,
			 const struct cm_sidr_rep *rep)
{
	static const uint8_t zeros[CM_SIDR_REP_PRIVATE_BYTES];
	uint32_t number = be_load32(rep->private_data);
	uint8_t wanted[CM_SIDR_REP_PRIVATE_BYTES];
	const struct cm_answerer *answerer;

	if (!memcmp(rep->private_data, zeros, sizeof(zeros))) {
		/* The CM generated this response. */
		if (rep->status == CM_SIDR_UNSUPPORTED)
			return asker->service_id != CM_WORLD_SERVICE || sidr->model->is_ending ||
			       sidr->answerer_count == 2 * CM_ASKERS_MAX;
		return rep->status == CM_SIDR_REJECTED;
	}
	fill(number, asker->number, wanted, sizeof(wanted));
	if (number < 1 || number > sidr->answerer_count ||
	    memcmp(rep->private_data, wanted, sizeof(wanted)) != 0)
		return false;
	answerer = &sidr->answerers[number - 1];
	return answerer->has_answered && rep->status == answerer->status &&
	       rep->qpn == answerer->qpn && rep->qkey == answerer->qkey;
}

/* Checks a timeout or an ICMP error: it must be in time, and it must be expected. */
static void check_silence(struct cm_sidr_model *sidr, struct cm_asker *asker, int error)
{
	const struct cm_model *model = sidr->model;

	sidr->silences++;
	if (error != -ETIMEDOUT) {
		if (error != (asker->remote ? -ECONNREFUSED : -EHOSTUNREACH) ||
		    (asker->remote && !model->is_rough))
			complain(sidr,
				 "a request got UNREACHABLE although its peer can be reached");
		return;
	}
	if (asker->remote && !model->is_rough && !model->ignore_percent &&
	    now_of(sidr) < asker->asked_ns + model->thinking_ns)
		complain(sidr, "a request timed out although a responder exists");
}

void cm_sidr_model_event(struct cm_node *node, struct cm_sidr *resolution, void *owner,
			 const struct cm_sidr_rep *rep)
{
	struct cm_model *model = node->world->ctx;
	struct cm_sidr_model *sidr = model->sidr;
	struct cm_asker *asker = owner;

	if (asker->node != node || asker->sidr != resolution || asker->is_dead || asker->is_over) {
		complain(sidr, "a reply for another requester");
		return;
	}
	asker->sidr = NULL;
	asker->is_over = true;
	asker->leave_ns = 0;
	if (now_of(sidr) > asker->asked_ns + asker->timeout_ns)
		complain(sidr, "a question waited too long");
	if (!rep) {
		check_silence(sidr, asker, cm_sidr_error(resolution));
		return;
	}
	sidr->responses++;
	if (!is_answer_of(sidr, asker, rep))
		complain(sidr, "a reply to another requester");
}

static uint64_t earlier(uint64_t next_ns, uint64_t at_ns)
{
	return at_ns && at_ns < next_ns ? at_ns : next_ns;
}

uint64_t cm_sidr_model_next(const struct cm_sidr_model *sidr)
{
	uint64_t next_ns = TIMER_NEVER_NS;

	for (unsigned i = 0; i < sidr->asker_count; i++) {
		next_ns = earlier(next_ns, sidr->askers[i].plan_ns);
		next_ns = earlier(next_ns, sidr->askers[i].leave_ns);
	}
	for (unsigned i = 0; i < sidr->answerer_count; i++) {
		if (sidr->answerers[i].sidr)
			next_ns = earlier(next_ns, sidr->answerers[i].plan_ns);
	}
	return next_ns;
}

static bool is_due(const struct cm_sidr_model *sidr, uint64_t at_ns)
{
	return at_ns && at_ns <= now_of(sidr);
}

void cm_sidr_model_act(struct cm_sidr_model *sidr)
{
	for (unsigned i = 0; i < sidr->asker_count; i++) {
		struct cm_asker *asker = &sidr->askers[i];

		if (is_due(sidr, asker->plan_ns))
			ask(sidr, asker);
		else if (is_due(sidr, asker->leave_ns))
			leave(sidr, asker);
	}
	for (unsigned i = 0; i < sidr->answerer_count; i++) {
		struct cm_answerer *answerer = &sidr->answerers[i];

		if (answerer->sidr && is_due(sidr, answerer->plan_ns))
			response(sidr, answerer);
	}
}

void cm_sidr_model_check_rest(struct cm_sidr_model *sidr)
{
	for (unsigned i = 0; i < sidr->asker_count; i++) {
		if (!sidr->askers[i].is_over && !sidr->askers[i].is_dead)
			complain(sidr, "a question never ended");
	}
}

void cm_sidr_model_leave(struct cm_sidr_model *sidr)
{
	for (unsigned i = 0; i < sidr->asker_count; i++)
		sidr->askers[i].plan_ns = 0;
}
