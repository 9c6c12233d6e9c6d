/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_TICK_H
#define USRDMA_DAEMON_FAULT_TICK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct server;
struct session;
struct user;

/*
 * The fault points device, process and connection. While the daemon has fault rules for one of
 * them, each device, each process with queue pairs and each established connection passes its point
 * every FAULT_TICK_MS, if rules for this point apply to it. A port is down and a process is stopped
 * while a rule fires. At the first pass without a firing, the port is active again and the process
 * continues.
 *
 * The passes of a user's objects are work of this user (turns.h): if they take longer than
 * FAULT_TICK_MS, the next ones begin after them. Part of struct server; one thread.
 */
#define FAULT_TICK_MS 10u

struct fault_tick {
	uv_timer_t timer;
	bool is_running;
};

int fault_tick_open(struct server *server, uv_loop_t *loop) __attribute__((warn_unused_result));

/* The rules of this user have changed; FAULT_EVERY_USER: those of the daemon. */
void fault_tick_update(struct server *server, uid_t uid);

/* A part of the passes of the user's objects (turns.h). Returns whether some are left. */
bool fault_tick_serve_user(struct server *server, struct user *user);

/* The session ends. */
void fault_tick_forget(struct session *session);

/* The daemon stops: stopped processes continue. */
void fault_tick_close(struct server *server);

#endif
