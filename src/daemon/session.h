/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SESSION_H
#define USRDMA_DAEMON_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/list.h"
#include "daemon/push.h"
#include "daemon/server.h"
#include "ipc/msg.h"

struct cma_client;
struct control_report;

/* What an engine deposited for its peers; part of a session of role VERBS, empty (segment_fd -1) until SEGMENT. */
struct deposit {
	int segment_fd;
	uint64_t segment_bytes;
	struct push push;
	struct list_head pairs; /* struct pair_end: everyone this engine was introduced to */
	uint32_t pair_count;
};

/*
 * One client's connection. Made by accept; ends when its socket does, when it breaks the protocol, or with the daemon:
 * all it held goes at once, the memory when libuv has let go of its handles. One thread.
 */
struct session {
	struct list_head node; /* server.sessions; off it once ended */
	struct server *server;
	uv_poll_t poll;
	int fd;
	unsigned int handle_count; /* libuv handles not yet closed */
	bool has_ended;
	struct ucred cred;
	uint32_t role; /* enum ipc_role; 0 before HELLO */
	uint32_t slot; /* VERBS: never 0 */
	uint64_t request_count;
	struct deposit deposit;
	struct cma_client *cm;
	struct control_report *report; /* being written; until then no more requests are read */
	uint32_t report_seq;
	struct list_head xrcds; /* VERBS: the XRC domains it has open (xrcds.c) */
	unsigned int xrcd_count;
};

/* Takes fd over, whatever the answer. -EDQUOT, -EACCES: the client was not let in. */
int session_open(struct server *server, int fd) __attribute__((warn_unused_result));

/* Ends it now. Not while walking server.sessions with anything but the safe macro. */
void session_end(struct session *session);

/* Ends it in the loop's next turn: for callers that still hold on to it. */
void session_doom(struct session *session);

/* The report that it asked for is written, or not: it is told, and served again. */
void session_report_ends(struct session *session, int status);

/* One of its libuv handles is closed for good; the last one frees it. */
void session_handle_closed(struct session *session);

#endif
