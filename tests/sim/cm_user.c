/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/be.h"
#include "base/clock.h"
#include "cm_model.h"

/* The calls of the consumers and the private data of their messages. */

#define QPN_FIRST 0x10
/* The numbers of sender and receiver. */
#define SAID_HDR_BYTES 8

struct cm_model *cm_model_of(const struct cm_user *user)
{
	return user->node->world->ctx;
}

static uint64_t below(const struct cm_user *user, uint64_t n)
{
	return cm_world_below(user->node->world, n);
}

static uint64_t now_of(const struct cm_user *user)
{
	return user->node->world->now_ns;
}

void cm_user_fill(const struct cm_user *user, uint32_t to, void *bytes, size_t len)
{
	uint64_t word = (uint64_t)user->number << 32 | to;
	uint8_t *at = bytes;

	be_store32(at, user->number);
	be_store32(at + 4, to);
	for (size_t i = SAID_HDR_BYTES; i < len; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		at[i] = (uint8_t)(word >> 56);
	}
}

bool cm_user_is_said(const struct cm_user *user, uint32_t to, const void *bytes, size_t len)
{
	uint8_t wanted[CM_REP_PRIVATE_BYTES];

	cm_user_fill(user, to, wanted, len);
	return !memcmp(bytes, wanted, len);
}

struct cm_user *cm_user_new(struct cm_model *model, struct cm_node *node, bool is_active)
{
	struct cm_user *user = &model->users[model->user_count];

	if (model->user_count == CM_USERS_MAX)
		return NULL;
	memset(user, 0, sizeof(*user));
	user->number = ++model->user_count;
	user->node = node;
	user->incarnation = node->incarnation;
	user->is_active = is_active;
	/* A restarted host assigns QPNs from the first one again. */
	user->qpn = QPN_FIRST + model->next_qpn[node->index]++;
	return user;
}

void cm_user_plan(struct cm_user *user, enum cm_plan plan)
{
	user->plan = plan;
	user->plan_ns = now_of(user);
	if (below(user, 2))
		user->plan_ns += below(user, cm_model_of(user)->thinking_ns + 1);
}

/* Sets the CM timeout. If no host or link fails, it is the maximum, long enough for all retries. */
static void be_patient(struct cm_user *user)
{
	static const uint64_t timeouts_ns[] = {CLOCK_NS_PER_S, CM_TIMEOUT_NS, 60 * CLOCK_NS_PER_S};

	user->timeout_ns = CM_TIMEOUT_MAX_NS;
	if (cm_model_of(user)->is_rough)
		user->timeout_ns = timeouts_ns[below(user, 3)];
	cm_conn_set_timeout(user->conn, user->timeout_ns);
}

static void connect_to(struct cm_user *user)
{
	static const uint8_t response_timeouts[] = {14, 16, 18};
	struct cm_model *model = cm_model_of(user);
	struct cm_req req = {
		.service_id = user->service_id,
		.local_ca_guid = user->node->netdev.node_guid,
		.local_qpn = user->qpn,
		.path_mtu = 5,
		.max_cm_retries = 15,
		.primary.local_ack_timeout = (uint8_t)(1 + below(user, 18)),
	};
	struct cm_path path;

	req.remote_cm_response_timeout = response_timeouts[below(user, 3)];
	req.local_cm_response_timeout = response_timeouts[below(user, 3)];
	/* With few retries, half-open connections are more frequent. */
	if (model->is_rough)
		req.max_cm_retries = (uint8_t)(1 + below(user, 15));
	user->response_timeout = req.remote_cm_response_timeout;
	user->max_retries = req.max_cm_retries;
	user->ack_timeout = req.primary.local_ack_timeout;
	user->conn = cm_conn_new(user->node->cm, user);
	if (!user->conn) {
		cm_complain(user, "no connection to be had");
		return;
	}
	be_patient(user);
	user->comm_id = cm_conn_local_id(user->conn);
	user->psn = cm_conn_psn(user->conn);
	user->phase = PHASE_REQUESTING;
	user->asked_ns = now_of(user);
	cm_user_fill(user, 0, req.private_data, sizeof(req.private_data));
	cm_world_path(user->node, user->remote_gid, &path);
	model->connects++;
	if (cm_connect(user->conn, &path, &req, now_of(user)))
		cm_complain(user, "connecting was refused");
	/* The application gives up. */
	if (!below(user, 10) && user->plan == PLAN_NOTHING)
		cm_user_plan(user, PLAN_DESTROY);
}

/*
 * Whether the consumer is still in the phase in which it made its plan. In any other phase the call
 * must fail.
 */
static bool is_in(struct cm_user *user, enum cm_phase phase, int ret, const char *what)
{
	if (user->phase == phase) {
		if (ret)
			cm_complain(user, what);
		return !ret;
	}
	return false;
}

static void accept_it(struct cm_user *user)
{
	struct cm_rep rep = {
		.local_ca_guid = user->node->netdev.node_guid,
		.local_qpn = user->qpn,
	};
	int ret;

	cm_user_fill(user, user->peer->number, rep.private_data, sizeof(rep.private_data));
	user->asked_ns = now_of(user);
	if (user->phase == PHASE_ASKED)
		be_patient(user);
	ret = cm_accept(user->conn, &rep, now_of(user));
	if (is_in(user, PHASE_ASKED, ret, "accepting was refused"))
		user->phase = PHASE_ACCEPTED;
}

static void reject_it(struct cm_user *user)
{
	uint8_t words[CM_REJ_PRIVATE_BYTES];
	enum cm_phase was = user->phase;
	int ret;

	user->reason = below(user, 2) ? CM_REJ_CONSUMER : CM_REJ_VENDOR_OPTION;
	user->said_bytes =
		(uint8_t)(SAID_HDR_BYTES + below(user, sizeof(words) + 1 - SAID_HDR_BYTES));
	cm_user_fill(user, user->peer->number, words, user->said_bytes);
	user->has_refused = user->wants_end = true;
	ret = cm_reject(user->conn, user->reason, words, user->said_bytes, now_of(user));
	if ((was == PHASE_ASKED || was == PHASE_REPLIED) && ret)
		cm_complain(user, "rejecting was refused");
	if (!ret && user->phase == was)
		user->phase = PHASE_ENDED;
	cm_user_plan(user, PLAN_DESTROY);
}

static void maybe_leave(struct cm_user *user)
{
	if (below(user, 100) < 60)
		return;
	cm_user_plan(user, below(user, 2) ? PLAN_DISCONNECT : PLAN_DESTROY);
}

static void establish_it(struct cm_user *user)
{
	struct cm_user *peer = user->peer;
	int ret;

	if (user->phase == PHASE_REPLIED)
		user->has_been_established = true;
	ret = cm_establish(user->conn, now_of(user));
	if (!is_in(user, PHASE_REPLIED, ret, "establishing was refused"))
		return;
	user->phase = PHASE_ESTABLISHED;
	cm_model_of(user)->established++;
	maybe_leave(user);
	/* The passive side may receive data before the RTU. */
	if (!peer->is_dead && peer->conn && peer->phase == PHASE_ACCEPTED &&
	    peer->plan == PLAN_NOTHING && !below(user, 4))
		cm_user_plan(peer, PLAN_NOTIFY);
}

static void notify_it(struct cm_user *user)
{
	int ret = cm_notify(user->conn, now_of(user));

	(void)is_in(user, PHASE_ACCEPTED, ret, "notifying was refused");
}

static void disconnect_it(struct cm_user *user)
{
	enum cm_phase was = user->phase;

	user->wants_end = true;
	if (was == PHASE_ESTABLISHED || was == PHASE_ACCEPTED)
		user->phase = PHASE_ENDING;
	/* The peer sent a DREQ; the DREP starts timewait. */
	if (was == PHASE_OVER && !user->over_ns)
		user->over_ns = now_of(user);
	if (cm_disconnect(user->conn, now_of(user)))
		cm_complain(user, "disconnecting was refused");
}

static void destroy_it(struct cm_user *user)
{
	struct cm_conn *conn = user->conn;

	user->wants_end = true;
	user->has_let_go = true;
	user->conn = NULL;
	cm_destroy(conn, now_of(user));
}

void cm_user_carry_out(struct cm_user *user)
{
	enum cm_plan plan = user->plan;

	user->plan = PLAN_NOTHING;
	switch (plan) {
	case PLAN_NOTHING:
		break;
	case PLAN_CONNECT:
		connect_to(user);
		break;
	case PLAN_ACCEPT:
		accept_it(user);
		break;
	case PLAN_REJECT:
		reject_it(user);
		break;
	case PLAN_ESTABLISH:
		establish_it(user);
		break;
	case PLAN_NOTIFY:
		notify_it(user);
		break;
	case PLAN_DISCONNECT:
		disconnect_it(user);
		break;
	case PLAN_DESTROY:
		destroy_it(user);
		break;
	}
}
