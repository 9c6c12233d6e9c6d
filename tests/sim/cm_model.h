/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_CM_MODEL_H
#define TESTS_SIM_CM_MODEL_H

#include "cm_world.h"

/*
 * The reference: consumers of connections that do whatever they may, at any moment, and what a communication manager owes
 * them. Every message's private data says whose it is, in bytes that nobody else has, so that an answer to somebody else,
 * be it to an earlier incarnation of the same host under the same numbers, is seen at once.
 *
 * Each attempt to connect ends once, in time, in a connection or a reason that is true. What one side takes for established
 * the other side does, too, under the same QPNs and PSNs, unless it died or could not be reached. Each connection ends
 * once, its timewait is kept, nobody hears anything twice or after it let go, and in the end nothing is left over.
 */
#define CM_USERS_MAX 192

/* How far a consumer believes to be. */
enum cm_phase {
	PHASE_NEW,	  /* nothing was asked for yet */
	PHASE_REQUESTING, /* active: asked, no answer */
	PHASE_REPLIED,	  /* active: answered, not taken yet */
	PHASE_ASKED,	  /* passive: asked, no answer given */
	PHASE_ACCEPTED,	  /* passive: said yes */
	PHASE_ESTABLISHED,
	PHASE_ENDING, /* asked to disconnect */
	PHASE_OVER,   /* was connected; timewait */
	PHASE_ENDED,  /* heard the last */
	PHASE_COUNT
};

/* What a consumer does next, at a time of its own. */
enum cm_plan {
	PLAN_NOTHING,
	PLAN_CONNECT,
	PLAN_ACCEPT,
	PLAN_REJECT,
	PLAN_ESTABLISH,
	PLAN_NOTIFY,
	PLAN_DISCONNECT,
	PLAN_DESTROY,
};

/* One consumer of one connection; lives as long as its run. */
struct cm_user {
	uint32_t number; /* from 1; in all that it says */
	struct cm_node *node;
	unsigned incarnation;
	bool is_active;
	bool is_dead; /* its host died under it */
	bool has_let_go;
	struct cm_conn *conn; /* NULL: none yet, or no more */
	enum cm_phase phase;
	enum cm_plan plan;
	uint64_t plan_ns;

	struct cm_node *remote; /* NULL: nobody lives at that address */
	uint8_t remote_gid[GID_BYTES];
	struct cm_user *peer; /* as far as it was named */
	uint32_t comm_id;
	uint32_t qpn;
	uint32_t psn;
	uint64_t service_id;

	uint64_t patience_ns;
	uint8_t response_timeout;
	uint8_t max_retries;
	uint8_t ack_timeout;
	unsigned mras; /* that the other side was heard to send */
	uint64_t asked_ns;
	uint64_t over_ns; /* when its timewait began */
	bool has_been_established;
	bool wants_end;	 /* disconnected, rejected or let go: the peer may hear of it */
	bool must_end;	 /* somebody was told that this connection is stale */
	bool has_failed; /* an answer never came */
	bool has_refused;
	uint16_t reason;
	uint8_t said_bytes;
};

struct cm_model {
	struct cm_world *world;
	struct cm_sidr_model *sidr;
	struct cm_user users[CM_USERS_MAX];
	unsigned user_count;
	uint32_t next_qpn[CM_WORLD_NODES_MAX];

	/* what its consumers are like */
	uint64_t thinking_ns;	 /* at most, before they answer */
	unsigned ignore_percent; /* of requests without an answer */
	bool is_rough;	   /* hosts die, or links: the network may not be blamed for nothing else */
	bool is_talkative; /* tells all that happens */
	bool is_ending;	   /* nobody begins anything any more */

	bool is_moot;	   /* nothing more can be said of this run */
	const char *wrong; /* NULL: all as it must be */
	struct cm_user *wrong_user;

	uint64_t events[CM_EVENT_COUNT];
	uint64_t reasons[CM_REJ_VENDOR_OPTION + 1];
	uint64_t connects;
	uint64_t established;
	uint64_t half_open;
	uint64_t unreachable; /* of those that gave up: told so by the network */
};

extern const struct cm_world_hooks cm_model_hooks;

/* world->ctx must be the model. */
void cm_model_open(struct cm_model *model, struct cm_world *world);

/* A consumer that will connect to `to` (or to nobody's address), at that time; NULL: there are enough. */
struct cm_user *cm_model_connect(struct cm_model *model, struct cm_node *from, struct cm_node *to,
				 uint64_t at_ns);
/* What a host's death does to its consumers; before cm_world_kill(). */
void cm_model_died(struct cm_model *model, struct cm_node *node);

/* When somebody has something planned; TIMER_NEVER_NS: nobody. */
uint64_t cm_model_next(const struct cm_model *model);
void cm_model_act(struct cm_model *model);

/* Once everything has come to rest. */
void cm_model_check_rest(struct cm_model *model);
/* All let go. */
void cm_model_leave(struct cm_model *model);
/* After that came to rest, too, on a network that is well. */
void cm_model_check_end(struct cm_model *model);

void cm_model_describe(const struct cm_model *model);

/*
 * Inside: cm_model.c says what is wrong with what is heard, cm_rest.c what with what is left, cm_user.c is what
 * consumers do.
 */
void cm_complain(struct cm_user *user, const char *what);
struct cm_user *cm_user_new(struct cm_model *model, struct cm_node *node, bool is_active);
struct cm_model *cm_model_of(const struct cm_user *user);
void cm_user_plan(struct cm_user *user, enum cm_plan plan);
void cm_user_carry_out(struct cm_user *user);
/* The peer no longer has a part in this connection. */
bool cm_user_is_alone(const struct cm_user *user);
/* Bytes that only this consumer says to that one. */
void cm_user_fill(const struct cm_user *user, uint32_t to, void *bytes, size_t len);
bool cm_user_is_said(const struct cm_user *user, uint32_t to, const void *bytes, size_t len);

#endif
