/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/probes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace_ring.h"
#include "daemon/fault_user.h"
#include "daemon/probes_user.h"
#include "daemon/reserve.h"
#include "daemon/session.h"
#include "daemon/user_log.h"

/* The number of engines that are notified, or get a ring, in one piece of work. */
#define NOTICES_AT_ONCE 8

struct tracer {
	struct hash_node by_uid;
	const struct session *session;
	pid_t pid;	   /* 0: all processes */
	uint32_t flags;	   /* of struct ipc_trace_start */
	uint64_t received; /* id of the last ring that it received */
};

/*
 * In probes.rings until its process has ended and every tracer has received it, or no tracer wants
 * it.
 */
struct probe_ring {
	struct list_head node;
	uint64_t id;
	int fd;
	uid_t uid;
	pid_t pid;
	uint32_t role;		 /* enum ipc_role; 0: the daemon's */
	struct session *session; /* NULL: the process has ended, or the daemon's */
};

int probes_init(struct probes *probes)
{
	*probes = (struct probes){.last_ring_id = 0};
	list_init(&probes->users);
	list_init(&probes->rings);
	return hash_init(&probes->tracers);
}

void probes_fini(struct probes *probes)
{
	hash_fini(&probes->tracers);
}

static uint64_t tracers_hash(uid_t uid)
{
	return hash_mix(0, uid);
}

/* The first tracer of a user, and the next one; NULL: the end. */
static struct tracer *tracer_of(struct hash_node *node)
{
	return node ? container_of(node, struct tracer, by_uid) : NULL;
}

/* The first of the tracers that may receive rings of this user: its own, then those of root. */
static struct tracer *first_tracer(const struct probes *probes, uid_t uid)
{
	struct hash_node *own = hash_first(&probes->tracers, tracers_hash(uid));

	return tracer_of(own ? own : hash_first(&probes->tracers, tracers_hash(0)));
}

static struct tracer *next_tracer(const struct probes *probes, const struct tracer *tracer)
{
	struct hash_node *next = hash_next(&tracer->by_uid);

	if (!next && tracer->session->cred.uid != 0)
		next = hash_first(&probes->tracers, tracers_hash(0));
	return tracer_of(next);
}

static bool tracer_wants(const struct tracer *tracer, uid_t uid, pid_t pid, uint32_t role)
{
	uid_t own = tracer->session->cred.uid;

	if (own != 0 && own != uid)
		return false;
	/*
	 * The daemon's events belong to the connections of many processes; the tracer selects those
	 * of its process.
	 */
	return role == 0 || tracer->pid == 0 || tracer->pid == pid;
}

static bool is_traced_process(const struct probes *probes, uid_t uid, pid_t pid, uint32_t role)
{
	const struct tracer *tracer;

	for (tracer = first_tracer(probes, uid); tracer; tracer = next_tracer(probes, tracer)) {
		if (tracer_wants(tracer, uid, pid, role))
			return true;
	}
	return false;
}

/* Whether a tracer will still ask for this ring. */
static bool is_awaited(const struct probes *probes, const struct probe_ring *ring)
{
	const struct tracer *tracer;

	for (tracer = first_tracer(probes, ring->uid); tracer;
	     tracer = next_tracer(probes, tracer)) {
		if (tracer->received < ring->id &&
		    tracer_wants(tracer, ring->uid, ring->pid, ring->role))
			return true;
	}
	return false;
}

static void ring_free(struct server *server, struct probe_ring *ring)
{
	if (ring->session)
		ring->session->probes.ring = NULL;
	else if (ring->role != 0)
		server->probes.ended_count--;
	list_del(&ring->node);
	/* A closer thread frees the memory of a ring whose process has ended. */
	closer_add(&server->closer, ring->uid, ring->fd);
	free(ring);
}

/* Frees the rings that are not needed any more. */
static void collect_rings(struct server *server)
{
	struct probe_ring *ring, *next;

	list_for_each_entry_safe(ring, next, &server->probes.rings, node) {
		bool is_needed = ring->session || ring->role == 0 ?
					 is_traced_process(&server->probes, ring->uid, ring->pid,
							   ring->role) :
					 is_awaited(&server->probes, ring);

		if (!is_needed)
			ring_free(server, ring);
	}
}

static struct probe_ring *ring_new(struct server *server, uid_t uid, pid_t pid, uint32_t role)
{
	struct probe_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	ring->fd = trace_ring_create();
	if (ring->fd < 0 || reserve_holds(ring->fd)) {
		user_log(USER_LOG_TRACE, LOG_LEVEL_WARN, uid,
			 "no descriptor for the trace of pid %ld", (long)pid);
		if (ring->fd >= 0)
			close(ring->fd);
		free(ring);
		return NULL;
	}
	ring->id = ++server->probes.last_ring_id;
	ring->uid = uid;
	ring->pid = pid;
	ring->role = role;
	list_add_tail(&ring->node, &server->probes.rings);
	return ring;
}

/* Creates the ring of a traced client. false: it is not traced, or there is no memory. */
static bool session_ring(struct session *session)
{
	struct server *server = session->server;

	if (session->probes.ring)
		return true;
	if (!is_traced_process(&server->probes, session->cred.uid, session->cred.pid,
			       session->role))
		return false;
	session->probes.ring = ring_new(server, session->cred.uid, session->cred.pid,
					session->role);
	if (!session->probes.ring)
		return false;
	session->probes.ring->session = session;
	return true;
}

/* Notifies an engine of a change of its page, and passes its ring. */
static void probes_notify(struct session *session, bool with_ring)
{
	struct ipc_probes msg = {.hdr = {.type = IPC_PROBES, .len = sizeof(msg)}};
	int error;

	/* As for a device notice, the rest of the queue is reserved for messages about peers. */
	if (!session->published.push.is_open ||
	    session->published.push.pending_count >= PUSH_PENDING_MAX / 2)
		return;
	if (with_ring)
		error = push_send(&session->published.push, &msg, sizeof(msg),
				  &session->probes.ring->fd, 1, session->cred.uid);
	else
		error = push_send(&session->published.push, &msg, sizeof(msg), NULL, 0, 0);
	if (error)
		session_end_later(session);
}

/* The user's engines are notified, or those that need a ring get one, in the user's turns. */
static void begin_notices(struct server *server, struct user *user)
{
	user_walk_begin(&user->notices, &user->sessions);
	turns_add(server, user);
}

static void notify_all_of(struct server *server, struct probes_user *probes)
{
	probes->notice++;
	begin_notices(server, probes->user);
}

/*
 * Notifies the session of the last change, if it was not yet. An engine that begins to trace is
 * notified with its ring.
 */
static void serve_session(struct session *session)
{
	const struct probes_user *user = session->probes.user;
	bool is_engine = session->role == IPC_ROLE_VERBS && session->published.push.is_open;
	bool gets_ring = is_engine && !session->probes.ring && session_ring(session);

	if (!user || (!gets_ring && session->probes.notice == user->notice))
		return;
	session->probes.notice = user->notice;
	probes_notify(session, gets_ring);
}

bool probes_serve_user(struct server *server, struct user *user)
{
	(void)server;
	for (int i = 0; i < NOTICES_AT_ONCE; i++) {
		struct list_head *node = user_walk_next(&user->notices, &user->sessions);

		if (!node)
			return false;
		serve_session(container_of(node, struct session, of_user));
	}
	return true;
}

/* The flags of a user's page. */
static uint32_t page_flags(const struct probes *probes, const struct probes_user *user)
{
	const struct tracer *tracer;
	uint32_t flags = 0;

	for (tracer = first_tracer(probes, user->uid); tracer;
	     tracer = next_tracer(probes, tracer)) {
		flags |= PROBE_PAGE_TRACE;
		if (!(tracer->flags & IPC_TRACE_OPERATIONS))
			flags |= PROBE_PAGE_PACKETS;
	}
	return flags;
}

/* Sets the flags of a page, and notifies the engines of its user if they changed. */
static void update_flags(struct server *server, struct probes_user *user)
{
	uint32_t before = user->traced;

	if (probes_user_set_traced(user, page_flags(&server->probes, user)) && before)
		notify_all_of(server, user);
}

/* Calls fn for the page of each user whose processes a tracer of this user may trace. */
static void each_traced(struct server *server, uid_t uid,
			void (*fn)(struct server *server, struct probes_user *user))
{
	struct probes_user *user;

	if (uid != 0) {
		const struct user *own = users_find(&server->users, uid);

		if (own && own->probes)
			fn(server, own->probes);
		return;
	}
	list_for_each_entry(user, &server->probes.users, node)
		fn(server, user);
}

/* The daemon writes its own events while a tracer of its own user or of root is attached. */
static void trace_daemon(struct server *server)
{
	struct probe_ring *ring;

	list_for_each_entry(ring, &server->probes.rings, node) {
		if (ring->role == 0)
			return;
	}
	if (!is_traced_process(&server->probes, server->uid, getpid(), 0)) {
		trace_ring_detach();
		return;
	}
	ring = ring_new(server, server->uid, getpid(), 0);
	if (ring && trace_ring_attach(ring->fd))
		ring_free(server, ring);
}

static unsigned int tracers_of(const struct probes *probes, uid_t uid)
{
	const struct hash_node *node;
	unsigned int count = 0;

	hash_for_each(node, &probes->tracers, tracers_hash(uid)) count++;
	return count;
}

/*
 * Clients that were refused a ring, because earlier tracers did not want them, ask again. Engines
 * get their ring.
 */
static void begin_tracing(struct server *server, struct probes_user *user)
{
	update_flags(server, user);
	probes_user_touch(user);
	begin_notices(server, user->user);
}

int probes_trace_start(struct session *session, const struct ipc_trace_start *request)
{
	struct server *server = session->server;
	struct tracer *tracer;

	if (session->probes.tracer)
		return -EALREADY;
	if (request->pid < 0 || (request->flags & ~IPC_TRACE_OPERATIONS))
		return -EINVAL;
	if (tracers_of(&server->probes, session->cred.uid) >= IPC_TRACERS_MAX)
		return -EDQUOT;
	tracer = calloc(1, sizeof(*tracer));
	if (!tracer)
		return -ENOMEM;
	tracer->session = session;
	tracer->pid = request->pid;
	tracer->flags = request->flags;
	hash_add(&server->probes.tracers, &tracer->by_uid, tracers_hash(session->cred.uid));
	session->probes.tracer = tracer;
	user_log(USER_LOG_TRACE, LOG_LEVEL_INFO, session->cred.uid, "pid %ld uid %u traces",
		 (long)session->cred.pid, (unsigned int)session->cred.uid);
	trace_daemon(server);
	each_traced(server, session->cred.uid, begin_tracing);
	return 0;
}

int probes_trace_next(struct session *session, struct ipc_trace_next_reply *reply, int *fd)
{
	struct server *server = session->server;
	struct tracer *tracer = session->probes.tracer;
	struct probe_ring *ring;

	if (!tracer)
		return -EINVAL;
	list_for_each_entry(ring, &server->probes.rings, node) {
		if (ring->id <= tracer->received ||
		    !tracer_wants(tracer, ring->uid, ring->pid, ring->role))
			continue;
		*fd = fcntl(ring->fd, F_DUPFD_CLOEXEC, 0);
		if (*fd < 0)
			return -errno;
		tracer->received = ring->id;
		reply->pid = ring->pid;
		reply->uid = ring->uid;
		reply->role = ring->role;
		collect_rings(server);
		return 0;
	}
	return -EAGAIN;
}

int probes_trace_ring(struct session *session, int *fd)
{
	if (!session_ring(session))
		return -ENOENT;
	*fd = fcntl(session->probes.ring->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

void probes_published(struct session *session)
{
	if (session_ring(session))
		probes_notify(session, true);
}

int probes_enter(struct session *session, int *page)
{
	struct server *server = session->server;
	struct probes_user *user = probes_user_get(server, session->user);

	if (!user)
		return -errno;
	*page = fcntl(user->fd, F_DUPFD_CLOEXEC, 0);
	if (*page < 0) {
		int error = -errno;

		probes_user_put(server, user);
		return error;
	}
	session->probes.user = user;
	session->probes.notice = user->notice;
	update_flags(server, user);
	return 0;
}

static void end_tracer(struct server *server, struct tracer *tracer)
{
	uid_t uid = tracer->session->cred.uid;

	hash_del(&server->probes.tracers, &tracer->by_uid);
	free(tracer);
	collect_rings(server);
	trace_daemon(server);
	each_traced(server, uid, update_flags);
}

/* Removes the oldest ring of an ended process. */
static void forget_oldest(struct server *server)
{
	struct probe_ring *ring;

	list_for_each_entry(ring, &server->probes.rings, node) {
		if (!ring->session && ring->role != 0) {
			ring_free(server, ring);
			return;
		}
	}
}

static void end_ring(struct server *server, struct probe_ring *ring)
{
	ring->session->probes.ring = NULL;
	ring->session = NULL;
	if (++server->probes.ended_count > PROBES_ENDED_MAX)
		forget_oldest(server);
	collect_rings(server);
}

void probes_leave(struct session *session)
{
	struct server *server = session->server;
	struct session_probes *own = &session->probes;

	if (own->tracer)
		end_tracer(server, own->tracer);
	own->tracer = NULL;
	if (own->ring)
		end_ring(server, own->ring);
	if (own->user)
		probes_user_put(server, own->user);
	own->user = NULL;
}

static int set_rules_of(struct server *server, struct user *user, int fd)
{
	struct probes_user *probes = probes_user_get(server, user);
	int error;

	if (!probes)
		return -errno;
	error = probes_user_set_rules(server, probes, fd);
	if (!error)
		notify_all_of(server, probes);
	probes_user_put(server, probes);
	return error;
}

int probes_fault_set(struct session *session, const struct ipc_fault_set *request, int fd)
{
	struct server *server = session->server;
	struct user *user;
	int error;

	if (session->cred.uid != 0 && session->cred.uid != request->uid)
		return -EPERM;
	user = users_get(&server->users, request->uid);
	if (!user)
		return -ENOMEM;
	error = set_rules_of(server, user, fd);
	users_put(&server->users, user);
	fault_tick_update(server, request->uid == server->uid ? FAULT_EVERY_USER : request->uid);
	server_count_changed(server);
	return error;
}

bool probes_have_rules(const struct probes *probes)
{
	return probes->rule_users > 0;
}

void probes_close(struct server *server)
{
	struct probe_ring *ring, *next;

	trace_ring_detach();
	list_for_each_entry_safe(ring, next, &server->probes.rings, node)
		ring_free(server, ring);
	probes_user_free_all(server);
	probes_fini(&server->probes);
}
