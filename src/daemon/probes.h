/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PROBES_H
#define USRDMA_DAEMON_PROBES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "ipc/msg.h"

/*
 * The daemon's part of tracing and fault injection: the probe page of each user, the trace rings of
 * the processes and of the daemon, the tracers, and the fault rules (docs/adr/0039). One thread.
 *
 * A tracer is a control client that sent TRACE_START. It receives the rings of its user's
 * processes, or of all processes if it is root's. A process gets its ring when the first tracer is
 * attached, and keeps it until no tracer is left. The ring of a process that has ended is kept
 * until the tracers have received it, at most PROBES_ENDED_MAX of them.
 */
#define PROBES_ENDED_MAX 64
/* The number of users with fault rules; root and the daemon's user may always have some. */
#define PROBES_RULE_USERS_MAX 1024

struct server;
struct session;
struct user;
struct probes_user;
struct probe_ring;

/* Part of struct server. */
struct probes {
	/* struct probes_user: users with a session, a ring of the daemon, or fault rules */
	struct list_head users;
	struct list_head rings; /* struct probe_ring, in ascending order of id */
	struct hash tracers;	/* struct tracer, by uid */
	uint64_t last_ring_id;
	unsigned int ended_count; /* rings of processes that have ended */
	unsigned int rule_users;  /* users with fault rules */
};

/* Part of struct session. */
struct session_probes {
	struct probes_user *user; /* NULL before HELLO */
	struct probe_ring *ring;  /* NULL: the client has none */
	struct tracer *tracer;	  /* NULL: not a tracer */
	uint32_t notice;	  /* probes_user.notice of the last notice */
};

/* 0 or -ENOMEM. probes_fini(): after a failure of the server's start. */
int probes_init(struct probes *probes) __attribute__((warn_unused_result));
void probes_fini(struct probes *probes);
void probes_close(struct server *server);

/*
 * The daemon accepts a HELLO. *page is a descriptor of its user's probe page, for the reply. 0 or
 * -errno.
 */
int probes_enter(struct session *session, int *page) __attribute__((warn_unused_result));

/* The session ends. */
void probes_leave(struct session *session);

/* The engine can receive pushes: passes it a ring if it is traced. */
void probes_published(struct session *session);

/*
 * Notifies some of the user's engines of changes of the page, and passes them their rings
 * (turns.h). Returns whether engines are left.
 */
bool probes_serve_user(struct server *server, struct user *user);

/* Handlers of the requests of these names (ipc/msg.h). */
int probes_trace_ring(struct session *session, int *ring);
int probes_trace_start(struct session *session, const struct ipc_trace_start *request);
int probes_trace_next(struct session *session, struct ipc_trace_next_reply *reply, int *ring);
int probes_fault_set(struct session *session, const struct ipc_fault_set *request, int fd);

/* Whether the daemon must not exit for idleness, because a user has set fault rules. */
bool probes_have_rules(const struct probes *probes);

#endif
