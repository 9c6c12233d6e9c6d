/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_tick.h"

#include <signal.h>

#include "daemon/cma.h"
#include "daemon/fault_device.h"
#include "daemon/fault_signal.h"
#include "daemon/fault_user.h"
#include "daemon/netdev.h"
#include "daemon/program_name.h"
#include "daemon/server.h"
#include "daemon/session.h"

static void notify_device(void *ctx, uid_t uid, uint32_t dev_id, uint32_t what)
{
	server_notify_device(ctx, uid, dev_id, what);
}

static void pass_devices(struct server *server, uid_t scope)
{
	uint32_t cursor = 0;
	const struct netdev *dev;

	while ((dev = netdev_from_cursor(cursor, &cursor)))
		fault_device_pass(dev, scope, notify_device, server);
}

static void pass_devices_of_users(struct server *server)
{
	unsigned int cursor = 0;
	uid_t uid;

	pass_devices(server, FAULT_EVERY_USER);
	while (fault_user_next(&cursor, &uid))
		pass_devices(server, uid);
}

static void pass_process(struct session *session)
{
	char program[PROGRAM_NAME_BYTES];
	const struct fault_subject subject = {.pid = session->cred.pid, .program = program};
	struct fault fault = {.action = FAULT_ACTION_COUNT};
	bool stops;

	program_name_read(session->cred.pid, program);
	(void)fault_user_due(session->cred.uid, FAULT_PROCESS, &subject, &fault);
	stops = fault.action == FAULT_STOP;
	if (fault.action == FAULT_KILL)
		fault_signal_send(session, program, SIGKILL);
	else if (stops != session->is_stopped)
		fault_signal_send(session, program, stops ? SIGSTOP : SIGCONT);
	session->is_stopped = stops;
}

static void pass_processes(struct server *server)
{
	struct session *session;

	list_for_each_entry(session, &server->sessions, node) {
		if (session->role == IPC_ROLE_VERBS && session->cred.pid > 0)
			pass_process(session);
	}
}

void fault_tick_forget(struct session *session)
{
	if (session->is_stopped)
		fault_signal_send(session, "a program", SIGCONT);
	session->is_stopped = false;
}

static void release_processes(struct server *server)
{
	struct session *session;

	list_for_each_entry(session, &server->sessions, node)
		fault_tick_forget(session);
}

static void on_tick(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, fault_tick.timer);

	pass_devices_of_users(server);
	pass_processes(server);
	cma_fault_connections(server->cma);
}

int fault_tick_open(struct server *server, uv_loop_t *loop)
{
	server->fault_tick.is_running = false;
	return uv_timer_init(loop, &server->fault_tick.timer);
}

void fault_tick_update(struct server *server)
{
	struct fault_tick *tick = &server->fault_tick;
	bool runs = fault_user_has_point(FAULT_DEVICE) || fault_user_has_point(FAULT_PROCESS) ||
		    fault_user_has_point(FAULT_CONNECTION);

	if (runs && !tick->is_running)
		uv_timer_start(&tick->timer, on_tick, FAULT_TICK_MS, FAULT_TICK_MS);
	if (!runs && tick->is_running) {
		uv_timer_stop(&tick->timer);
		release_processes(server);
	}
	tick->is_running = runs;
	fault_device_release(!runs, notify_device, server);
}

void fault_tick_close(struct server *server)
{
	release_processes(server);
	fault_device_release(true, notify_device, server);
	uv_close((uv_handle_t *)&server->fault_tick.timer, NULL);
}
