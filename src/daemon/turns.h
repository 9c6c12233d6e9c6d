/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_TURNS_H
#define USRDMA_DAEMON_TURNS_H

#include <uv.h>

#include "daemon/fair_queue.h"

struct server;
struct user;

/*
 * The daemon's thread is shared by its users in turns (fair_queue.h, ADR 0069). A turn executes a
 * piece of each kind of work that the user has: messages of one session, notices of probe pages,
 * and passes of periodic fault points. Each piece is bounded. The turns of one iteration of the
 * loop end after TURNS_SLICE_NS, so that the loop also accepts connections and receives packets.
 *
 * Part of struct server.
 */
#define TURNS_SLICE_NS 500000

struct turns {
	struct fair_queue queue;
	uv_check_t check; /* runs the turns after the loop has polled */
	uv_idle_t idle;	  /* active while work is left: the loop polls without waiting */
};

int turns_open(struct server *server, uv_loop_t *loop) __attribute__((warn_unused_result));
void turns_close(struct server *server);

/* The user has work. */
void turns_add(struct server *server, struct user *user);

#endif
