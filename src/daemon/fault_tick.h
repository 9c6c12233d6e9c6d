/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_TICK_H
#define USRDMA_DAEMON_FAULT_TICK_H

#include <stdbool.h>
#include <uv.h>

struct server;
struct session;

/*
 * The fault points device, process and connection. While the daemon has fault rules, each device, each process with queue pairs
 * and each established connection passes its point every FAULT_TICK_MS. A port is down and a process is stopped while a rule fires.
 * At the first pass without a firing, the port is active again and the process continues. Part of struct server; one thread.
 */
#define FAULT_TICK_MS 10u

struct fault_tick {
	uv_timer_t timer;
	bool is_running;
};

int fault_tick_open(struct server *server, uv_loop_t *loop) __attribute__((warn_unused_result));

/* The rules have changed. */
void fault_tick_update(struct server *server);

/* The session ends: its process continues if a rule has stopped it. */
void fault_tick_forget(struct session *session);

/* The daemon stops: stopped processes continue. */
void fault_tick_close(struct server *server);

#endif
