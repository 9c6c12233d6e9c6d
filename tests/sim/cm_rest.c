/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "cm_model.h"
#include "cm_sidr.h"

/* Checks when no event is left, and after all consumers have destroyed their connections. */

static const char *const phase_names[PHASE_COUNT] = {
	"new",	       "requesting", "replied", "asked", "accepted",
	"established", "ending",     "over",	"ended",
};

bool cm_user_is_alone(const struct cm_user *user)
{
	const struct cm_user *peer = user->peer;

	return !peer || peer->peer != user || peer->is_dead || peer->wants_end ||
	       peer->has_failed || peer->phase == PHASE_ENDED;
}

static void check_pair(struct cm_user *user)
{
	struct cm_model *model = cm_model_of(user);
	struct cm_user *peer = user->peer;

	if (cm_user_is_alone(user) || !peer->conn ||
	    cm_conn_state(peer->conn) != CM_STATE_ESTABLISHED) {
		/*
		 * The CM detects a half-open connection only when it sends a message or the peer
		 * responds to a challenge; both may be lost.
		 */
		model->half_open++;
		if (!model->is_rough)
			cm_complain(user, "established alone");
		return;
	}
	if (cm_conn_local_id(peer->conn) != cm_conn_remote_id(user->conn) ||
	    cm_conn_remote_id(peer->conn) != cm_conn_local_id(user->conn) ||
	    user->is_active == peer->is_active)
		cm_complain(user, "established with another peer");
}

/* All timewaits and pending DREQs are over: the CM holds only connections that a consumer holds. */
static void check_memory(struct cm_model *model, const struct cm_node *node)
{
	size_t held = 0;

	for (unsigned i = 0; i < model->user_count; i++)
		held += model->users[i].node == node && model->users[i].conn;
	if (!model->wrong && (cm_conn_count(node->cm) != held || cm_sidr_count(node->cm)))
		model->wrong = "memory remains without an owner";
}

void cm_model_check_rest(struct cm_model *model)
{
	for (int i = 0; i < model->world->node_count; i++)
		check_memory(model, &model->world->nodes[i]);
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];
		enum cm_state state;

		if (!user->conn)
			continue;
		state = cm_conn_state(user->conn);
		if (state == CM_STATE_ESTABLISHED) {
			if (user->phase != PHASE_ESTABLISHED)
				cm_complain(user, "established without an event");
			else
				check_pair(user);
		} else if (state != CM_STATE_CLOSED || user->phase != PHASE_ENDED) {
			cm_complain(user, "never ended");
		}
	}
	cm_sidr_model_check_rest(model->sidr);
}

void cm_model_leave(struct cm_model *model)
{
	model->is_ending = true;
	model->ignore_percent = 0;
	model->is_rough = false;
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];

		if (!user->conn)
			continue;
		/* Consumers that disconnect still receive the last events. */
		user->plan = cm_world_chance(model->world, 50) ? PLAN_DESTROY : PLAN_DISCONNECT;
		user->plan_ns = model->world->now_ns;
	}
	cm_sidr_model_leave(model->sidr);
}

void cm_model_check_end(struct cm_model *model)
{
	for (unsigned i = 0; i < model->user_count; i++) {
		struct cm_user *user = &model->users[i];

		if (user->conn && cm_conn_state(user->conn) == CM_STATE_CLOSED) {
			cm_destroy(user->conn, model->world->now_ns);
			user->conn = NULL;
		} else if (user->conn) {
			cm_complain(user, "is left over");
		}
	}
	for (int i = 0; i < model->world->node_count && !model->wrong; i++) {
		const struct cm *cm = model->world->nodes[i].cm;

		if (cm_conn_count(cm) || cm_sidr_count(cm))
			model->wrong = "something is left over";
	}
}

void cm_model_describe(const struct cm_model *model)
{
	printf("#   %s", model->wrong ? model->wrong : "right");
	if (model->wrong_user)
		printf(", consumer %u", model->wrong_user->number);
	printf(", at %llu us\n", (unsigned long long)(model->world->now_ns / 1000));
	for (unsigned i = 0; i < model->user_count; i++) {
		const struct cm_user *user = &model->users[i];

		printf("#   %u: host %d.%u %s, id %08x qpn %x, %s%s, cm %s, peer %u on host %d\n",
		       user->number, user->node->index, user->incarnation,
		       user->is_active ? "active" : "passive", user->comm_id, user->qpn,
		       phase_names[user->phase], user->is_dead ? ", dead" : "",
		       user->conn ? cm_state_name(cm_conn_state(user->conn)) : "none",
		       user->peer ? user->peer->number : 0,
		       user->remote ? user->remote->index : -1);
	}
}
