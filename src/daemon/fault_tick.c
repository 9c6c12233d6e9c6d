/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_tick.h"

#include <signal.h>

#include "base/log.h"
#include "daemon/cma.h"
#include "daemon/fault_device.h"
#include "daemon/fault_process.h"
#include "daemon/fault_user.h"
#include "daemon/guardian.h"
#include "daemon/netdev.h"
#include "daemon/program_name.h"
#include "daemon/server.h"
#include "daemon/session.h"

/* The numbers of objects that pass their point in one piece of work. */
#define PROCESSES_AT_ONCE 8
#define SESSIONS_AT_ONCE  32
#define IDS_AT_ONCE	  64u

#define POINT(point) (1u << (point))

static void notify_device(void *ctx, uid_t uid, uint32_t dev_id, uint32_t what)
{
	server_notify_device(ctx, uid, dev_id, what);
}

struct device_pass {
	struct server *server;
	uid_t scope;
};

static void pass_device(void *ctx, const struct netdev *dev)
{
	const struct device_pass *pass = ctx;

	fault_device_pass(dev, pass->scope, notify_device, pass->server);
}

static void pass_devices(struct server *server, uid_t scope)
{
	struct device_pass pass = {server, scope};

	netdev_each(pass_device, &pass);
}

static int apply_to_process(struct fault_process *process, enum fault_action action)
{
	int error = 0;

	if (action == FAULT_KILL)
		return fault_process_signal(process, SIGKILL);
	if (action != FAULT_STOP) {
		fault_process_release(process);
	} else if (!process->is_stopped) {
		error = fault_process_signal(process, SIGSTOP);
		process->is_stopped = !error;
	}
	return error;
}

static void pass_process(struct fault_process *process)
{
	char program[PROGRAM_NAME_BYTES];
	const struct fault_subject subject = {.pid = process->pid, .program = program};
	struct fault fault = {.action = FAULT_ACTION_COUNT};
	int error;

	if (process->has_ended)
		return;
	program_name_read(process->pid, program);
	(void)fault_user_due(process->user->uid, FAULT_PROCESS, &subject, &fault);
	error = apply_to_process(process, fault.action);
	if (error)
		fault_failed(&fault, error);
}

static void pass_processes(struct user *user)
{
	for (int i = 0; i < PROCESSES_AT_ONCE; i++) {
		struct list_head *node = user_walk_next(&user->pass.processes, &user->processes);

		if (!node)
			return;
		pass_process(container_of(node, struct fault_process, node));
	}
}

/* Finds the next client with ids. */
static void find_client(struct user *user)
{
	struct fault_tick_pass *pass = &user->pass;

	for (int i = 0; i < SESSIONS_AT_ONCE && !pass->client; i++) {
		struct list_head *node = user_walk_next(&pass->clients, &user->sessions);
		struct session *session;

		if (!node)
			return;
		session = container_of(node, struct session, of_user);
		pass->ids_left = session->cm ? cma_client_ids(session->cm) : 0;
		pass->client = pass->ids_left ? session : NULL;
	}
}

static void pass_connections(struct user *user)
{
	struct fault_tick_pass *pass = &user->pass;
	uint32_t count;

	if (!pass->client)
		find_client(user);
	if (!pass->client)
		return;
	count = pass->ids_left < IDS_AT_ONCE ? pass->ids_left : IDS_AT_ONCE;
	cma_fault_connections(pass->client->cm, count);
	pass->ids_left -= count;
	if (!pass->ids_left)
		pass->client = NULL;
}

bool fault_tick_serve_user(struct server *server, struct user *user)
{
	struct fault_tick_pass *pass = &user->pass;

	if (pass->has_devices)
		pass_devices(server, user->uid);
	pass->has_devices = false;
	pass_processes(user);
	pass_connections(user);
	return pass->processes.next || pass->clients.next || pass->client;
}

/* Begins the passes of the user's objects, unless the previous ones are not over. */
static void user_begin(struct server *server, struct user *user, uint32_t points)
{
	struct fault_tick_pass *pass = &user->pass;

	if (points & POINT(FAULT_DEVICE))
		pass->has_devices = true;
	if ((points & POINT(FAULT_PROCESS)) && !pass->processes.next)
		user_walk_begin(&pass->processes, &user->processes);
	if ((points & POINT(FAULT_CONNECTION)) && !pass->clients.next && !pass->client)
		user_walk_begin(&pass->clients, &user->sessions);
	turns_add(server, user);
}

static void begin_own(void *ctx, uid_t uid, uint32_t points)
{
	struct server *server = ctx;
	struct user *user = users_find(&server->users, uid);

	if (user)
		user_begin(server, user, points);
}

/* The points of FAULT_TICK_POINTS that rules of the daemon name, which apply to all users. */
static uint32_t points_of_daemon(void)
{
	uint32_t points = 0;

	for (int point = 0; point < FAULT_POINT_COUNT; point++) {
		if ((FAULT_TICK_POINTS & POINT(point)) && fault_has_point((enum fault_point)point))
			points |= POINT(point);
	}
	return points;
}

static void release_processes(const struct user *user)
{
	struct fault_process *process;

	list_for_each_entry(process, &user->processes, node)
		fault_process_release(process);
}

static void release_all_processes(struct server *server)
{
	struct user *user;

	list_for_each_entry(user, &server->users.list, node)
		release_processes(user);
}

static void on_tick(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, fault_tick.timer);
	uint32_t points = points_of_daemon(), of_users = points & ~POINT(FAULT_DEVICE);
	struct user *user;

	if (!guardian_is_alive())
		release_all_processes(server);
	if (points & POINT(FAULT_DEVICE))
		pass_devices(server, FAULT_EVERY_USER);
	list_for_each_entry(user, &server->users.list, node) {
		if (!of_users)
			break;
		user_begin(server, user, of_users);
	}
	fault_user_each_periodic(begin_own, server);
}

int fault_tick_open(struct server *server, uv_loop_t *loop)
{
	server->fault_tick.is_running = false;
	return uv_timer_init(loop, &server->fault_tick.timer);
}

static bool is_process_point_of(uid_t uid, uint32_t points_of_all)
{
	return (points_of_all | fault_user_points(uid)) & POINT(FAULT_PROCESS);
}

void fault_tick_update(struct server *server, uid_t uid)
{
	struct fault_tick *tick = &server->fault_tick;
	uint32_t points = points_of_daemon();
	bool runs = points || fault_user_has_periodic();
	struct user *user;

	if (runs && !tick->is_running)
		uv_timer_start(&tick->timer, on_tick, FAULT_TICK_MS, FAULT_TICK_MS);
	if (!runs)
		uv_timer_stop(&tick->timer);
	tick->is_running = runs;
	list_for_each_entry(user, &server->users.list, node) {
		if ((uid == FAULT_EVERY_USER || uid == user->uid) &&
		    !is_process_point_of(user->uid, points))
			release_processes(user);
	}
	fault_device_release(!runs, notify_device, server);
}

void fault_tick_forget(struct session *session)
{
	struct fault_tick_pass *pass = &session->user->pass;

	user_walk_skip(&pass->clients, &session->of_user);
	if (pass->client == session)
		pass->client = NULL;
}

void fault_tick_close(struct server *server)
{
	release_all_processes(server);
	fault_device_release(true, notify_device, server);
	uv_close((uv_handle_t *)&server->fault_tick.timer, NULL);
}
