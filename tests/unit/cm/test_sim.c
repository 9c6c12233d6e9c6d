/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two communication managers with consumers that make every permitted call at random times, over a
 * network that loses, repeats and reorders MADs. Each simulation must come to rest, and both sides
 * must have the same established connections. No consumer may get an event twice or after it
 * destroyed its connection, and no object may remain.
 *
 *	test-cm-sim [first seed [number of seeds]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/timer.h"
#include "net.h"

#define USERS_MAX 64
#define STEPS_MAX 200000

static uint64_t first_seed = 1;
static unsigned seed_count = 3000;

/* The next action of a consumer, at a time of its own. */
enum plan { PLAN_NOTHING, PLAN_ACCEPT, PLAN_REJECT, PLAN_ESTABLISH, PLAN_DISCONNECT, PLAN_DESTROY };

/* One consumer of one connection; freed with the simulation. */
struct user {
	struct net_node *node;
	struct cm_conn *conn; /* NULL: destroyed */
	bool is_active;
	uint32_t qpn;
	enum plan plan;
	uint64_t plan_ns;
	unsigned replies;
	unsigned ends;
	unsigned exits;
	bool is_established;
};

/* One resolution of a datagram service, of either side. */
struct seeker {
	struct net_node *node;
	struct cm_sidr *sidr; /* NULL: complete, answered or destroyed */
	uint64_t plan_ns;     /* when the passive side answers, or the active one gives up */
	unsigned ends;
	bool is_active;
	bool is_let_go;
};

static struct net net;
static struct seeker seekers[USERS_MAX];
static unsigned seeker_count;
static unsigned resolved;
static struct user users[USERS_MAX];
static unsigned user_count;
static uint64_t seed;
static unsigned established_pairs;

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			print_error("seed %llu: %s\n", (unsigned long long)seed, #what); \
			fail();                                                          \
		}                                                                        \
	} while (0)

static void plan(struct user *user, enum plan what)
{
	user->plan = what;
	user->plan_ns = net.now_ns + net_random(&net) % (200 * CLOCK_NS_PER_MS);
	if (net_chance(&net, 50))
		user->plan_ns = net.now_ns;
}

static struct user *new_user(struct net_node *node, bool is_active)
{
	struct user *user = &users[user_count];

	if (user_count == USERS_MAX)
		return NULL;
	memset(user, 0, sizeof(*user));
	user->node = node;
	user->is_active = is_active;
	user->qpn = 0x100 + user_count++;
	return user;
}

static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	struct user *user;
	unsigned dice = net_below(&net, 100);

	CHECK(req->service_id == NET_SERVICE);
	if (dice < 5) {
		*reason = CM_REJ_INVALID_SERVICE_ID;
		return NULL;
	}
	user = dice < 15 ? NULL : new_user(node, false);
	if (!user)
		return NULL;
	user->conn = conn;
	plan(user, dice < 25 ? PLAN_REJECT : dice < 30 ? PLAN_DESTROY : PLAN_ACCEPT);
	return user;
}

static struct seeker *new_seeker(struct net_node *node, bool is_active, unsigned ms)
{
	struct seeker *seeker = &seekers[seeker_count];

	if (seeker_count == USERS_MAX)
		return NULL;
	seeker_count++;
	*seeker = (struct seeker){.node = node, .is_active = is_active};
	seeker->plan_ns = net.now_ns + net_below(&net, ms) * CLOCK_NS_PER_MS;
	return seeker;
}

static void *on_sidr_request(struct net_node *node, struct cm_sidr *sidr,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	unsigned dice = net_below(&net, 100);
	struct seeker *seeker;

	CHECK(req->service_id == NET_SERVICE);
	if (dice < 10) {
		*status = CM_SIDR_NO_QP;
		return NULL;
	}
	seeker = dice < 20 ? NULL : new_seeker(node, false, 300);
	if (seeker)
		seeker->sidr = sidr;
	return seeker;
}

static void on_sidr_event(struct net_node *node, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep)
{
	struct seeker *seeker = owner;

	CHECK(seeker->node == node && seeker->sidr == sidr && seeker->is_active);
	CHECK(seeker->ends == 0 && !seeker->is_let_go);
	CHECK(!rep || rep->status == CM_SIDR_NO_QP || rep->status == CM_SIDR_REJECTED ||
	      rep->qpn == 0x77);
	resolved += rep && rep->qpn;
	seeker->ends++;
	seeker->sidr = NULL;
}

static void carry_on(struct seeker *seeker)
{
	struct cm_sidr_rep rep = {.qpn = 0x77};
	struct cm_sidr *sidr = seeker->sidr;

	seeker->sidr = NULL;
	seeker->is_let_go = true;
	if (!seeker->is_active && net_chance(&net, 80))
		CHECK(cm_sidr_reply(sidr, &rep, net.now_ns) == 0);
	else
		cm_sidr_destroy(sidr, net.now_ns);
}

static void on_end(struct user *user)
{
	user->ends++;
	plan(user, net_chance(&net, 50) ? PLAN_DISCONNECT : PLAN_DESTROY);
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct user *user = owner;

	CHECK(user->node == node && user->conn == conn);
	CHECK(user->exits == 0);
	switch (type) {
	case CM_EVENT_REP:
		CHECK(user->is_active && msg && user->replies++ == 0 && user->ends == 0);
		plan(user, net_chance(&net, 80) ?
				   PLAN_ESTABLISH :
				   (net_chance(&net, 50) ? PLAN_REJECT : PLAN_DESTROY));
		return;
	case CM_EVENT_RTU:
		CHECK(!user->is_active && !user->is_established && user->ends == 0);
		user->is_established = true;
		if (net_chance(&net, 40))
			plan(user, net_chance(&net, 50) ? PLAN_DISCONNECT : PLAN_DESTROY);
		return;
	case CM_EVENT_TIMEWAIT_EXIT:
		CHECK(user->ends == 1);
		user->exits++;
		return;
	case CM_EVENT_REJ:
	case CM_EVENT_REQ_ERROR:
	case CM_EVENT_REP_ERROR:
	case CM_EVENT_DREQ:
	case CM_EVENT_DREP:
	case CM_EVENT_DREQ_ERROR:
	case CM_EVENT_LOST:
		CHECK(user->ends == 0);
		on_end(user);
		return;
	case CM_EVENT_COUNT:
		break;
	}
	CHECK(type < CM_EVENT_COUNT);
}

static void destroy(struct user *user)
{
	struct cm_conn *conn = user->conn;

	user->conn = NULL;
	user->plan = PLAN_NOTHING;
	cm_destroy(conn, net.now_ns);
}

static void establish(struct user *user)
{
	/* Establishing fails only after the connection has ended. */
	if (cm_establish(user->conn, net.now_ns)) {
		CHECK(user->ends == 1);
		return;
	}
	user->is_established = true;
	if (net_chance(&net, 40) && user->ends == 0)
		plan(user, net_chance(&net, 50) ? PLAN_DISCONNECT : PLAN_DESTROY);
}

static void carry_out(struct user *user)
{
	enum plan what = user->plan;
	struct cm_rep rep;

	user->plan = PLAN_NOTHING;
	switch (what) {
	case PLAN_NOTHING:
		return;
	case PLAN_ACCEPT:
		net_rep(&rep, user->node, user->qpn);
		CHECK(cm_accept(user->conn, &rep, net.now_ns) == 0 || user->ends == 1);
		return;
	case PLAN_REJECT:
		CHECK(cm_reject(user->conn, CM_REJ_CONSUMER, "no", 2, net.now_ns) == 0 ||
		      user->ends == 1);
		plan(user, PLAN_DESTROY);
		return;
	case PLAN_ESTABLISH:
		establish(user);
		return;
	case PLAN_DISCONNECT:
		CHECK(cm_disconnect(user->conn, net.now_ns) == 0);
		return;
	case PLAN_DESTROY:
		destroy(user);
		return;
	}
}

static uint64_t next_plan(void)
{
	uint64_t next_ns = TIMER_NEVER_NS;

	for (unsigned i = 0; i < user_count; i++) {
		if (users[i].conn && users[i].plan != PLAN_NOTHING && users[i].plan_ns < next_ns)
			next_ns = users[i].plan_ns;
	}
	for (unsigned i = 0; i < seeker_count; i++) {
		if (seekers[i].sidr && seekers[i].plan_ns < next_ns)
			next_ns = seekers[i].plan_ns;
	}
	return next_ns;
}

static void carry_out_due(void)
{
	for (unsigned i = 0; i < user_count; i++) {
		if (users[i].conn && users[i].plan != PLAN_NOTHING &&
		    users[i].plan_ns <= net.now_ns)
			carry_out(&users[i]);
	}
	for (unsigned i = 0; i < seeker_count; i++) {
		if (seekers[i].sidr && seekers[i].plan_ns <= net.now_ns)
			carry_on(&seekers[i]);
	}
}

static void settle(void)
{
	unsigned steps = 0;

	for (;;) {
		uint64_t plan_ns = next_plan();
		uint64_t net_ns = net_next(&net);
		uint64_t next_ns = plan_ns < net_ns ? plan_ns : net_ns;

		if (next_ns == TIMER_NEVER_NS)
			return;
		CHECK(steps++ < STEPS_MAX);
		net_advance(&net, next_ns);
		carry_out_due();
	}
}

static struct user *peer_of(const struct user *user)
{
	for (unsigned i = 0; i < user_count; i++) {
		struct user *peer = &users[i];

		if (peer->node != user->node && peer->conn &&
		    cm_conn_local_id(peer->conn) == cm_conn_remote_id(user->conn))
			return peer;
	}
	return NULL;
}

/* At rest both sides have the same established connections. */
static void check_agreement(void)
{
	for (unsigned i = 0; i < user_count; i++) {
		struct user *user = &users[i], *peer;
		enum cm_state state;

		if (!user->conn)
			continue;
		state = cm_conn_state(user->conn);
		CHECK(state == CM_STATE_ESTABLISHED || state == CM_STATE_CLOSED);
		if (state == CM_STATE_CLOSED) {
			CHECK(user->ends == 1);
			continue;
		}
		peer = peer_of(user);
		CHECK(user->is_established && user->ends == 0 && peer);
		CHECK(cm_conn_state(peer->conn) == CM_STATE_ESTABLISHED);
		CHECK(cm_conn_remote_id(peer->conn) == cm_conn_local_id(user->conn));
		CHECK(peer->is_active != user->is_active);
		established_pairs++;
	}
}

static void simulate(void)
{
	unsigned connects;

	net_open(&net, seed);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_sidr_request = on_sidr_request;
	net.on_sidr_event = on_sidr_event;
	net.loss_percent = net_below(&net, 20);
	net.repeat_percent = net_below(&net, 30);
	net.delay_max_ns = (uint64_t)net_below(&net, 100) * CLOCK_NS_PER_MS;
	user_count = 0;
	seeker_count = 0;
	connects = 1 + net_below(&net, 10);
	for (unsigned i = 0; i < connects; i++) {
		struct user *user = new_user(&net.nodes[net_below(&net, 2)], true);

		user->conn = net_connect(user->node, user, user->qpn);
		if (net_chance(&net, 10))
			plan(user, PLAN_DESTROY);
	}
	for (unsigned i = net_below(&net, 6); i > 0; i--) {
		struct seeker *seeker = new_seeker(&net.nodes[net_below(&net, 2)], true, 20000);

		seeker->sidr = net_resolve(seeker->node, seeker);
	}
	settle();
	check_agreement();
	for (unsigned i = 0; i < seeker_count; i++)
		CHECK(!seekers[i].sidr && (seekers[i].ends == 1) != seekers[i].is_let_go);
	for (unsigned i = 0; i < user_count; i++) {
		if (users[i].conn)
			destroy(&users[i]);
	}
	settle();
	CHECK(cm_conn_count(net.nodes[0].cm) == 0);
	CHECK(cm_conn_count(net.nodes[1].cm) == 0);
	CHECK(cm_sidr_count(net.nodes[0].cm) + cm_sidr_count(net.nodes[1].cm) == 0);
	net_close(&net);
}

static void cm_step_random_network_ends_in_agreement(void **state)
{
	(void)state;
	established_pairs = 0;
	resolved = 0;
	for (seed = first_seed; seed < first_seed + seed_count; seed++)
		simulate();
	/* A simulation without any established connection would pass the other checks, too. */
	assert_true(seed_count < 100 || (established_pairs > seed_count && resolved > seed_count));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_step_random_network_ends_in_agreement),
	};

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	if (argc > 1)
		seed_count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
