/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/turns.h"

#include <time.h>

#include "base/clock.h"
#include "daemon/fault_tick.h"
#include "daemon/probes.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/users.h"

/* CPU time of the thread: users do not pay for preemption by other programs. */
static uint64_t turns_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The kinds of work. Each returns whether work is left. */
static bool (*const works[])(struct server *server, struct user *user) = {
	session_serve_user,
	probes_serve_user,
	fault_tick_serve_user,
};

static bool turns_serve(struct server *server, struct user *user)
{
	bool has_more = false;

	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		has_more |= works[i](server, user);
	return has_more;
}

/* The loop only has to poll without waiting. */
static void turns_on_idle(uv_idle_t *idle)
{
	(void)idle;
}

static void turns_on_check(uv_check_t *check)
{
	struct server *server = container_of(check, struct server, turns.check);
	struct turns *turns = &server->turns;
	struct fair_flow *flow = fair_queue_next(&turns->queue);
	uint64_t start_ns, now_ns;

	if (!flow) {
		uv_idle_stop(&turns->idle);
		return;
	}
	start_ns = now_ns = turns_now_ns();
	while (flow && now_ns - start_ns < TURNS_SLICE_NS) {
		struct user *user = container_of(flow, struct user, flow);
		uint64_t before_ns = now_ns;
		bool has_more;

		user->refs++;
		fair_queue_begin(flow);
		has_more = turns_serve(server, user);
		now_ns = turns_now_ns();
		fair_queue_charge(flow, now_ns - before_ns, has_more);
		users_put(&server->users, user);
		flow = fair_queue_next(&turns->queue);
	}
	if (!flow)
		uv_idle_stop(&turns->idle);
}

int turns_open(struct server *server, uv_loop_t *loop)
{
	struct turns *turns = &server->turns;
	int error;

	fair_queue_init(&turns->queue);
	error = uv_idle_init(loop, &turns->idle);
	if (error)
		return error;
	error = uv_check_init(loop, &turns->check);
	if (!error)
		error = uv_check_start(&turns->check, turns_on_check);
	if (error)
		uv_close((uv_handle_t *)&turns->idle, NULL);
	return error;
}

void turns_close(struct server *server)
{
	uv_close((uv_handle_t *)&server->turns.check, NULL);
	uv_close((uv_handle_t *)&server->turns.idle, NULL);
}

void turns_add(struct server *server, struct user *user)
{
	fair_queue_add(&server->turns.queue, &user->flow);
	/*
	 * A timer may have added the work: the loop would wait for an event before the turns. Fails
	 * only without a callback.
	 */
	(void)uv_idle_start(&server->turns.idle, turns_on_idle);
}
