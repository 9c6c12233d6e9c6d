/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_CM_MODEL_H
#define TESTS_SIM_CM_MODEL_H

#include "cm_world.h"

/*
 * The reference model of the communication manager (CM): its consumers make any permitted call at
 * any time, and the model checks the results. The private data of each message identifies its
 * sender by a unique pattern. A message for another consumer is thus detected, also one for an
 * earlier incarnation of the same host with the same numbers.
 *
 * The model checks the following. Each connection attempt ends exactly once and in time, in a
 * connection or with a correct reject reason. If one side is established, the other side is
 * established, too, with the same QPNs and PSNs, unless its host crashed or was unreachable. Each
 * connection ends once and its timewait is observed. No event is reported twice or after
 * cm_destroy(). At the end the CM holds no state.
 */
#define CM_USERS_MAX 192

/* The state of a connection from the consumer's view. */
enum cm_phase {
	PHASE_NEW,	  /* no call was made yet */
	PHASE_REQUESTING, /* active side: REQ sent, no response */
	PHASE_REPLIED,	  /* active side: REP received, RTU not sent */
	PHASE_ASKED,	  /* passive side: REQ received, not answered */
	PHASE_ACCEPTED,	  /* passive side: REP sent */
	PHASE_ESTABLISHED,
	PHASE_ENDING, /* DREQ sent */
	PHASE_OVER,   /* was connected; in timewait */
	PHASE_ENDED,  /* received the last event */
	PHASE_COUNT
};

/* The next call of a consumer, at plan_ns. */
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

/* One consumer of one connection; valid until the end of the run. */
struct cm_user {
	uint32_t number; /* from 1; contained in the private data of its messages */
	struct cm_node *node;
	unsigned incarnation;
	bool is_active;
	bool is_dead; /* its host crashed */
	bool has_let_go;
	struct cm_conn *conn; /* NULL: not created yet, or destroyed */
	enum cm_phase phase;
	enum cm_plan plan;
	uint64_t plan_ns;

	struct cm_node *remote; /* NULL: no host has this address */
	uint8_t remote_gid[GID_BYTES];
	struct cm_user *peer; /* as far as it is known */
	uint32_t comm_id;
	uint32_t qpn;
	uint32_t psn;
	uint64_t service_id;

	uint64_t timeout_ns;
	uint8_t response_timeout;
	uint8_t max_retries;
	uint8_t ack_timeout;
	unsigned mras; /* MRAs that the peer sent */
	uint64_t asked_ns;
	uint64_t over_ns; /* start of its timewait */
	bool has_been_established;
	bool wants_end;	 /* disconnected, rejected or destroyed: the peer may be notified */
	bool has_failed; /* a response was not received */
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

	/* Behaviour of the consumers. */
	uint64_t thinking_ns;	 /* maximum time before a consumer responds */
	unsigned ignore_percent; /* share of REQs without a response */
	bool is_rough; /* hosts crash or links fail: connections may end without another cause */
	bool is_talkative; /* prints all events */
	bool is_ending;	   /* no new connection is started */

	bool is_moot;	   /* the rest of this run is not checked */
	const char *wrong; /* NULL: no error was found */
	struct cm_user *wrong_user;

	uint64_t events[CM_EVENT_COUNT];
	uint64_t reasons[CM_REJ_VENDOR_OPTION + 1];
	uint64_t connects;
	uint64_t established;
	uint64_t half_open;
	uint64_t unreachable; /* number of attempts that failed with an ICMP error */
};

extern const struct cm_world_hooks cm_model_hooks;

/* world->ctx must be the model. */
void cm_model_open(struct cm_model *model, struct cm_world *world);

/*
 * Creates a consumer that connects to `to` at at_ns; NULL: to an address without a host. Returns
 * NULL if CM_USERS_MAX is reached.
 */
struct cm_user *cm_model_connect(struct cm_model *model, struct cm_node *from, struct cm_node *to,
				 uint64_t at_ns);
/* Marks the consumers of a host that crashes; to be called before cm_world_kill(). */
void cm_model_died(struct cm_model *model, struct cm_node *node);

/* The time of the next planned call; TIMER_NEVER_NS: none. */
uint64_t cm_model_next(const struct cm_model *model);
void cm_model_act(struct cm_model *model);

/* Checks the state when no timer, packet or plan is left. */
void cm_model_check_rest(struct cm_model *model);
/* All consumers destroy or disconnect their connections. */
void cm_model_leave(struct cm_model *model);
/*
 * Checks the state after cm_model_leave() when no timer or packet is left. The network must be free
 * of faults.
 */
void cm_model_check_end(struct cm_model *model);

void cm_model_describe(const struct cm_model *model);

/*
 * Internal: cm_model.c checks events, cm_rest.c checks the remaining state, cm_user.c implements
 * the consumers.
 */
void cm_complain(struct cm_user *user, const char *what);
struct cm_user *cm_user_new(struct cm_model *model, struct cm_node *node, bool is_active);
struct cm_model *cm_model_of(const struct cm_user *user);
void cm_user_plan(struct cm_user *user, enum cm_plan plan);
void cm_user_carry_out(struct cm_user *user);
/* Whether the peer no longer takes part in this connection. */
bool cm_user_is_alone(const struct cm_user *user);
/* Private data that is unique for this sender and receiver. */
void cm_user_fill(const struct cm_user *user, uint32_t to, void *bytes, size_t len);
bool cm_user_is_said(const struct cm_user *user, uint32_t to, const void *bytes, size_t len);

#endif
