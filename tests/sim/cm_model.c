/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_model.h"
#include "cm_sidr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/timer.h"
#include "cm/conn.h"

#define EXPONENT_NS(exponent) (UINT64_C(4096) << (exponent))

/* Upper limit of the time that an MRA requests: 4.096 us * 2^24 = 68.7 s. */
#define MRA_NS UINT64_C(70000000000)

#define MAY(event) (1u << CM_EVENT_##event)

/* The events that are permitted in each phase. */
static const unsigned may_hear[PHASE_COUNT] = {
	[PHASE_REQUESTING] = MAY(REP) | MAY(REJ) | MAY(REQ_ERROR),
	[PHASE_REPLIED] = MAY(REJ) | MAY(DREQ),
	[PHASE_ASKED] = MAY(REJ),
	[PHASE_ACCEPTED] = MAY(RTU) | MAY(REJ) | MAY(REP_ERROR) | MAY(DREQ),
	[PHASE_ESTABLISHED] = MAY(DREQ) | MAY(DREP) | MAY(DREQ_ERROR) | MAY(LOST),
	[PHASE_ENDING] = MAY(DREQ) | MAY(DREP) | MAY(DREQ_ERROR) | MAY(LOST),
	[PHASE_OVER] = MAY(TIMEWAIT_EXIT),
};

void cm_complain(struct cm_user *user, const char *what)
{
	struct cm_model *model = cm_model_of(user);

	if (model->wrong || model->is_moot)
		return;
	model->wrong = what;
	model->wrong_user = user;
}

static uint64_t now_of(const struct cm_user *user)
{
	return user->node->world->now_ns;
}

void cm_model_open(struct cm_model *model, struct cm_world *world)
{
	memset(model, 0, sizeof(*model));
	model->world = world;
}

static struct cm_user *user_at(struct cm_model *model, uint32_t number)
{
	return number >= 1 && number <= model->user_count ? &model->users[number - 1] : NULL;
}

/* The sender of a message; NULL: no such consumer. */
static struct cm_user *speaker(struct cm_model *model, const uint8_t *private_data)
{
	return user_at(model, be_load32(private_data));
}

/*
 * Whether the CM may take `user` for the peer of `known`: a QP is in one connection, and a REQ has
 * one communication ID.
 */
static bool looks_like_peer(const struct cm_user *known, const struct cm_user *user)
{
	const struct cm_user *peer = known->peer;

	if (!peer || peer == user || peer->node != user->node)
		return false;
	return peer->qpn == user->qpn ||
	       (!known->is_active && user->is_active && peer->comm_id == user->comm_id);
}

/* Whether the host ever had a connection with a peer that looks like this one. */
static bool was_known_at(const struct cm_model *model, const struct cm_user *user,
			 const struct cm_node *node)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		if (model->users[i].node == node && looks_like_peer(&model->users[i], user))
			return true;
	}
	return false;
}

/*
 * A REQ names a QP that the peer cannot use in another connection: no other connection of this host
 * may still hold it (IBA 1.x §12.9.8.3.1). The same REQ must not be reported twice while the first
 * one is pending.
 */
static void check_request_is_new(struct cm_model *model, struct cm_node *node, struct cm_user *from)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *other = &model->users[i];

		if (other->node != node || !other->conn || !other->peer ||
		    cm_conn_state(other->conn) == CM_STATE_CLOSED)
			continue;
		if (other->peer != from && cm_conn_state(other->conn) == CM_STATE_TIMEWAIT)
			continue;
		if (other->is_active && other->phase == PHASE_REQUESTING)
			continue;
		if (other->peer == from && !other->is_active)
			cm_complain(other, "its request came a second time");
		else if (other->peer->node == from->node && other->peer->qpn == from->qpn)
			cm_complain(other, "its peer's queue pair is in another request");
	}
}

/*
 * The host crashed while this REQ was pending, restarted, and the CM assigned the same
 * communication ID to the repeated REQ: no message distinguishes the two connections. For this
 * reason communication IDs start at a random number. The run is not checked further.
 */
static bool has_twin(const struct cm_model *model, const struct cm_user *user)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		const struct cm_user *other = &model->users[i];

		if (other != user && other->node == user->node && other->peer == user->peer &&
		    other->comm_id == user->comm_id)
			return true;
	}
	return false;
}

static void *on_request(struct cm_node *node, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	struct cm_model *model = node->world->ctx;
	struct cm_user *from = speaker(model, req->private_data);
	struct cm_user *user;

	if (!from || !from->is_active ||
	    !cm_user_is_said(from, 0, req->private_data, sizeof(req->private_data))) {
		model->wrong = "a request that was not sent";
		return NULL;
	}
	if (memcmp(path->dgid, from->node->gid, GID_BYTES) != 0 || from->remote != node ||
	    req->local_qpn != from->qpn || req->starting_psn != from->psn ||
	    req->service_id != CM_WORLD_SERVICE)
		cm_complain(from, "its request came in another form");
	check_request_is_new(model, node, from);
	if (cm_world_chance(node->world, model->ignore_percent))
		return NULL;
	user = model->is_ending ? NULL : cm_user_new(model, node, false);
	if (!user) {
		*reason = CM_REJ_NO_RESOURCES;
		return NULL;
	}
	user->conn = conn;
	user->phase = PHASE_ASKED;
	user->remote = from->node;
	memcpy(user->remote_gid, path->dgid, GID_BYTES);
	user->peer = from;
	user->comm_id = cm_conn_local_id(conn);
	user->psn = cm_conn_psn(conn);
	model->is_moot |= has_twin(model, user);
	user->response_timeout = req->local_cm_response_timeout;
	user->max_retries = req->max_cm_retries;
	user->ack_timeout = req->primary.local_ack_timeout;
	/* be_patient() sets the timeout when the consumer accepts. */
	user->timeout_ns = CM_TIMEOUT_NS;
	if (cm_world_chance(node->world, 15))
		cm_user_plan(user, PLAN_REJECT);
	else
		cm_user_plan(user, cm_world_chance(node->world, 6) ? PLAN_DESTROY : PLAN_ACCEPT);
	return user;
}

/*
 * A response or a timeout must be reported within this time. Each MRA restarts the timeout and the
 * retries.
 */
static void check_timeout(struct cm_user *user)
{
	uint64_t response_ns = EXPONENT_NS(user->response_timeout);
	uint64_t tries_ns = (user->max_retries + 2u) * response_ns * (user->mras + 1) +
			    user->mras * (MRA_NS + response_ns);
	uint64_t timeout_ns = user->timeout_ns +
			      user->mras * (MRA_NS + response_ns + user->timeout_ns);
	/* While the REP is withheld, no try is used up. */
	uint64_t most_ns = tries_ns < timeout_ns && !user->conn->validation.tid ? tries_ns :
										  timeout_ns;

	if (now_of(user) > user->asked_ns + most_ns)
		cm_complain(user, "waited too long");
}

/* The error comes from an ICMP message, which is permitted for unreachable hosts only. */
static void check_unreachable(struct cm_user *user, int error)
{
	struct cm_model *model = cm_model_of(user);

	model->unreachable++;
	if (error != (user->remote ? -ECONNREFUSED : -EHOSTUNREACH) ||
	    (user->remote && !model->is_rough))
		cm_complain(user, "got UNREACHABLE although its peer can be reached");
}

/* A timeout must not be reported before the peer had time to respond. */
static void check_gave_up(struct cm_user *user)
{
	const struct cm_model *model = cm_model_of(user);
	uint64_t least_ns = EXPONENT_NS(user->response_timeout);
	int error = cm_conn_error(user->conn);

	user->has_failed = true;
	if (error != -ETIMEDOUT) {
		check_unreachable(user, error);
		return;
	}
	if (least_ns > user->timeout_ns)
		least_ns = user->timeout_ns;
	if (now_of(user) < user->asked_ns + least_ns)
		cm_complain(user, "gave up at once");
	if (!user->remote || model->is_rough)
		return;
	/*
	 * One REQ permits one MAD. If this was an address challenge and is lost, only a repeated
	 * REQ permits another one.
	 */
	if (!user->is_active && cm_user_is_alone(user) && !user->conn->validation.is_done)
		return;
	if (!user->is_active || !model->ignore_percent)
		cm_complain(user, "gave up on a peer that answers");
}

static void on_rep(struct cm_user *user, const struct cm_rep *rep)
{
	struct cm_user *peer = speaker(cm_model_of(user), rep->private_data);

	check_timeout(user);
	if (!peer || peer->is_active || peer->peer != user ||
	    !cm_user_is_said(peer, user->number, rep->private_data, sizeof(rep->private_data))) {
		cm_complain(user, "got a reply to another consumer");
		return;
	}
	if (rep->local_qpn != peer->qpn || rep->starting_psn != peer->psn ||
	    rep->local_comm_id != peer->comm_id)
		cm_complain(user, "got a reply with other contents");
	user->peer = peer;
	user->phase = PHASE_REPLIED;
	if (cm_world_chance(user->node->world, 80))
		cm_user_plan(user, PLAN_ESTABLISH);
	else
		cm_user_plan(user,
			     cm_world_chance(user->node->world, 50) ? PLAN_REJECT : PLAN_DESTROY);
}

static void on_rtu(struct cm_user *user)
{
	if (user->peer->peer != user || !user->peer->has_been_established)
		cm_complain(user, "established with a peer that is not established");
	user->phase = PHASE_ESTABLISHED;
	user->has_been_established = true;
	if (user->plan == PLAN_NOTIFY)
		user->plan = PLAN_NOTHING;
	if (cm_world_chance(user->node->world, 40))
		cm_user_plan(user, cm_world_chance(user->node->world, 50) ? PLAN_DISCONNECT :
									    PLAN_DESTROY);
}

/* Whether a peer timed out waiting for a response of this consumer. */
static bool has_given_up(const struct cm_model *model, const struct cm_user *user)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		if (model->users[i].peer == user && model->users[i].has_failed)
			return true;
	}
	return false;
}

/* Whether the peer of this consumer destroyed its connection. */
static bool has_left(const struct cm_model *model, const struct cm_user *user)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		if (model->users[i].peer == user && model->users[i].has_let_go)
			return true;
	}
	return false;
}

/* A reject reason that the CM chose must match the state of the model. */
static bool is_true(struct cm_user *user, uint16_t reason)
{
	struct cm_model *model = cm_model_of(user);

	switch (reason) {
	case CM_REJ_INVALID_SERVICE_ID:
		return user->is_active && user->service_id != CM_WORLD_SERVICE;
	case CM_REJ_NO_RESOURCES:
		return user->is_active && (model->is_ending || model->user_count == CM_USERS_MAX);
	case CM_REJ_STALE_CONN:
		return user->remote && was_known_at(model, user, user->remote);
	case CM_REJ_INVALID_COMM_ID:
		return !user->is_active && cm_user_is_alone(user);
	case CM_REJ_CONSUMER:
		return has_left(model, user);
	case CM_REJ_TIMEOUT:
		return (user->peer && cm_user_is_alone(user)) || has_given_up(model, user);
	default:
		return false;
	}
}

static void on_rej(struct cm_user *user, const struct cm_rej *rej)
{
	struct cm_model *model = cm_model_of(user);
	struct cm_user *peer = speaker(model, rej->private_data);
	static const uint8_t zeros[CM_REJ_PRIVATE_BYTES];

	if (user->phase == PHASE_REQUESTING)
		check_timeout(user);
	if (rej->reason < sizeof(model->reasons) / sizeof(model->reasons[0]))
		model->reasons[rej->reason]++;
	user->phase = PHASE_ENDED;
	if (!peer) {
		if (!is_true(user, rej->reason))
			cm_complain(user, "rejected for a reason that is not true");
	} else if (!peer->has_refused || peer->peer != user ||
		   !cm_user_is_said(peer, user->number, rej->private_data, peer->said_bytes)) {
		cm_complain(user, "got the rejection of another consumer");
	} else if ((rej->reason != peer->reason && rej->reason != CM_REJ_TIMEOUT) ||
		   memcmp(rej->private_data + peer->said_bytes, zeros,
			  sizeof(zeros) - peer->said_bytes) != 0) {
		cm_complain(user, "rejected in another form");
	}
}

/* A connection must not end unless a side ended it, or hosts or links fail. */
static void check_cause(struct cm_user *user)
{
	if (user->phase == PHASE_ENDING || cm_user_is_alone(user))
		return;
	if (!cm_model_of(user)->is_rough)
		cm_complain(user, "ended without a cause");
}

static void on_end(struct cm_user *user, enum cm_event_type type)
{
	check_cause(user);
	user->phase = PHASE_OVER;
	if (type == CM_EVENT_DREQ_ERROR) {
		user->has_failed = true;
		/*
		 * A consumer that responds later than the last retry of the DREQ disconnects too
		 * late.
		 */
		if (!cm_model_of(user)->is_rough && !cm_model_of(user)->ignore_percent)
			cm_complain(user, "its DREQ got no reply");
	}
	/* A host that no longer has the connection also sends a DREP. */
	if (type == CM_EVENT_DREP && !cm_user_is_alone(user))
		cm_complain(user, "the peer's consumer has not disconnected");
	/* After a DREQ, timewait starts when the consumer calls cm_disconnect(). */
	if (type != CM_EVENT_DREQ)
		user->over_ns = now_of(user);
	cm_user_plan(user, cm_world_chance(user->node->world, 60) ? PLAN_DISCONNECT : PLAN_DESTROY);
}

static void on_timewait_exit(struct cm_user *user)
{
	uint64_t wanted_ns = user->over_ns + EXPONENT_NS(user->ack_timeout);

	if (!user->over_ns || now_of(user) < wanted_ns)
		cm_complain(user, "timewait was not kept");
	if (now_of(user) > wanted_ns + EXPONENT_NS(user->ack_timeout))
		cm_complain(user, "timewait lasts too long");
	user->phase = PHASE_ENDED;
}

static void on_event(struct cm_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct cm_user *user = owner;

	cm_model_of(user)->events[type]++;
	if (cm_model_of(user)->is_talkative)
		printf("# %9llu us: consumer %u receives %s\n",
		       (unsigned long long)(now_of(user) / 1000), user->number,
		       cm_event_name(type));
	if (user->node != node || user->conn != conn || user->is_dead || user->has_let_go) {
		cm_complain(user, "got an event of another consumer");
		return;
	}
	if (!(may_hear[user->phase] & 1u << type)) {
		cm_complain(user, cm_event_name(type));
		return;
	}
	switch (type) {
	case CM_EVENT_REP:
		on_rep(user, &msg->rep);
		break;
	case CM_EVENT_RTU:
		on_rtu(user);
		break;
	case CM_EVENT_REJ:
		on_rej(user, &msg->rej);
		break;
	case CM_EVENT_REQ_ERROR:
	case CM_EVENT_REP_ERROR:
		check_gave_up(user);
		check_timeout(user);
		user->phase = PHASE_ENDED;
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		on_timewait_exit(user);
		break;
	default:
		on_end(user, type);
		break;
	}
}

static void on_sent(struct cm_node *node, const struct cm_path *path, const struct cm_msg *msg)
{
	struct cm_model *model = node->world->ctx;
	struct cm_node *to = cm_world_find(node->world, path->dgid);
	/* All these messages begin with the same two communication IDs. */
	uint32_t comm_id = msg->rej.remote_comm_id;

	if (model->is_talkative)
		printf("# %9llu us: host %d to %d: %s %08x %08x\n",
		       (unsigned long long)(model->world->now_ns / 1000), node->index,
		       to ? to->index : -1, cm_msg_name(msg->type), msg->rej.local_comm_id,
		       msg->type == CM_MSG_REQ ? 0 : comm_id);
	if (msg->type != CM_MSG_MRA)
		return;
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];

		if (user->node != to || user->comm_id != comm_id ||
		    user->incarnation != to->incarnation)
			continue;
		user->mras++;
	}
}

const struct cm_world_hooks cm_model_hooks = {
	.request = on_request,
	.event = on_event,
	.sidr_request = cm_sidr_model_request,
	.sidr_event = cm_sidr_model_event,
	.sent = on_sent,
};

struct cm_user *cm_model_connect(struct cm_model *model, struct cm_node *from, struct cm_node *to,
				 uint64_t at_ns)
{
	struct cm_user *user = cm_user_new(model, from, true);

	if (!user)
		return NULL;
	user->remote = to;
	memcpy(user->remote_gid, from->gid, GID_BYTES);
	user->remote_gid[GID_BYTES - 1] = 0xee;
	if (to)
		memcpy(user->remote_gid, to->gid, GID_BYTES);
	user->service_id = CM_WORLD_SERVICE + cm_world_chance(model->world, 5);
	user->plan = PLAN_CONNECT;
	user->plan_ns = at_ns;
	return user;
}

void cm_model_died(struct cm_model *model, struct cm_node *node)
{
	model->next_qpn[node->index] = 0;
	cm_sidr_model_died(model->sidr, node);
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];

		if (user->node != node || user->is_dead || user->incarnation != node->incarnation)
			continue;
		user->is_dead = true;
		user->conn = NULL;
		user->plan = PLAN_NOTHING;
	}
}

static bool has_plan(const struct cm_user *user)
{
	return user->plan != PLAN_NOTHING && (user->conn || user->plan == PLAN_CONNECT);
}

uint64_t cm_model_next(const struct cm_model *model)
{
	uint64_t next_ns = cm_sidr_model_next(model->sidr);
	for (unsigned i = 0; i < model->user_count; i++) {
		const struct cm_user *user = &model->users[i];

		if (has_plan(user) && user->plan_ns < next_ns)
			next_ns = user->plan_ns;
	}
	return next_ns;
}

void cm_model_act(struct cm_model *model)
{
	cm_sidr_model_act(model->sidr);
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];

		if (has_plan(user) && user->plan_ns <= model->world->now_ns)
			cm_user_carry_out(user);
	}
}
