/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SESSION_H
#define USRDMA_DAEMON_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/list.h"
#include "daemon/probes.h"
#include "daemon/push.h"
#include "daemon/server.h"
#include "daemon/users.h"
#include "ipc/msg.h"

struct cma_client;
struct control_report;
struct fault_process;

/*
 * The segment that an engine published for its peers. Part of a session of role VERBS; segment_fd
 * is -1 until SEGMENT.
 */
struct published {
	int segment_fd;
	uint64_t segment_bytes;
	struct push push;
	struct list_head pairs; /* struct pair_end: the pairs with connected peers */
	uint32_t pair_count;	/* of these, the ones that are not over */
	uint32_t over_count;
	uint32_t doorbell_count; /* doorbells that the daemon keeps (peers.c) */
};

/*
 * One client's connection. Created on accept. Ends when the socket is closed, when the client
 * violates the protocol, or with the daemon. All that it owns is released then; the memory is freed
 * when its libuv handles are closed. One thread.
 *
 * A session whose socket may have messages is in the list `ready` of its user until the user's turn
 * (turns.h). The loop watches the socket from the first time that it had no message.
 */
struct session {
	struct list_head node; /* server.sessions; removed when the session ends, as the next two */
	struct list_head of_user; /* user.sessions */
	struct list_head ready;	  /* user.ready */
	struct server *server;
	struct user *user;
	uv_poll_t poll;
	bool has_poll;
	bool is_watched; /* the poll is active */
	int fd;
	/* libuv handles not yet closed, and calls that use the session */
	unsigned int handle_count;
	bool has_ended;
	/* no messages are read while too many of its user's descriptors wait to be closed */
	bool is_paused;
	struct ucred cred;
	uint32_t role; /* enum ipc_role; 0 before HELLO */
	uint32_t slot; /* VERBS: never 0 */
	uint64_t request_count;
	uint32_t descriptor_count; /* of session_descriptors() when it was counted last */
	struct fault_process
		*process; /* VERBS: the process that connected; NULL: it cannot be referred to */
	struct published published;
	struct cma_client *cm;
	struct control_report *report; /* CONTROL: the report that the client is reading, or NULL */
	struct device_sum device_sum;  /* CONTROL: that the client is reading */
	struct list_head xrcds;	       /* VERBS: the XRC domains that it has open (xrcds.c) */
	unsigned int xrcd_count;
	struct list_head av_waits; /* VERBS: address vectors that the kernel resolves (av.c) */
	uint32_t av_wait_count;
	struct session_probes probes;
};

/*
 * Creates a session and takes ownership of fd, also if it fails. -EDQUOT, -EACCES: the client was
 * refused.
 */
int session_open(struct server *server, int fd) __attribute__((warn_unused_result));

/*
 * Ends the session now. While iterating over server.sessions, only with list_for_each_entry_safe().
 */
void session_end(struct session *session);

/* Ends the session in the loop's next iteration, for callers that still use it. */
void session_end_later(struct session *session);

/*
 * Serves messages of one session of the user (turns.h). Returns whether another session, or the
 * same one, may have messages.
 */
bool session_serve_user(struct server *server, struct user *user);

/*
 * To be called after descriptors were closed: resumes reading from the paused sessions whose users
 * are below the limit.
 */
void session_resume_all(struct server *server);

/*
 * To be called when one of its libuv handles is closed, or by a user of the session. The last one
 * frees it.
 */
void session_handle_closed(struct session *session);

#endif
