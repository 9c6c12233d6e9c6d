/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/session.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "config.h"
#include "daemon/av.h"
#include "daemon/cma.h"
#include "daemon/control.h"
#include "daemon/descriptors.h"
#include "daemon/fair_share.h"
#include "daemon/fault_process.h"
#include "daemon/netdev.h"
#include "daemon/peers.h"
#include "daemon/probes_user.h"
#include "daemon/request.h"
#include "daemon/user_log.h"
#include "daemon/xrcds.h"
#include "ipc/client.h"
#include "ipc/known_uid.h"

/*
 * Requests of one client that are served before the next client is served. Events are pushed
 * between these batches. On a machine with few CPUs, a client that sends requests continuously thus
 * gets its events in batches, which saves wake-ups of its other threads and of its peers. A larger
 * number would delay the events.
 */
#define REQUESTS_AT_ONCE 16

/* The user to whom the closing of a socket is accounted if its peer's uid is unknown. */
#define NO_UID ((uid_t)-1)

static bool client_may_keep(void *ctx, int fd)
{
	return descriptors_may_keep(ctx, fd);
}

static void end_client(void *ctx)
{
	struct session *session = ctx;

	user_log(USER_LOG_UNREAD, LOG_LEVEL_INFO, session->cred.uid,
		 "pid %ld uid %u exceeds the limit of unread events", (long)session->cred.pid,
		 (unsigned int)session->cred.uid);
	session->server->counters.unresponsive++;
	session_end_later(session);
}

/* Whether the session's user may have one more slot. */
static bool may_have_slot(const struct session *session)
{
	static const struct fair_share share = {SERVER_ROOT_SLOTS, SERVER_UID_SLOTS_MIN};
	const struct server *server = session->server;

	return fair_share_is_exempt(session->cred.uid, server->uid) ||
	       fair_share_allows(&share, session->user->slot_count, server->slots.free_count);
}

/* Whether the user of a new session, which is not in the list, may have one more session. */
static bool may_have_session(const struct session *session)
{
	static const struct fair_share share = {SERVER_ROOT_SESSIONS, SERVER_UID_SESSIONS_MIN};
	struct server *server = session->server;
	uint32_t sessions;

	if (fair_share_is_exempt(session->cred.uid, server->uid))
		return true;
	/* Sockets of ended sessions that are not closed yet are counted, too. */
	sessions = session->user->session_count +
		   closer_pending(&server->closer, session->cred.uid);
	return sessions < SERVER_UID_SESSIONS_MAX &&
	       fair_share_allows(&share, sessions, SERVER_SESSIONS_MAX - server->session_count);
}

/* Allocates the resources that the role of a new session requires. */
static int role_take(struct session *session, uint32_t role)
{
	struct server *server = session->server;
	struct cma_peer peer = {.uid = session->cred.uid,
				.pid = session->cred.pid,
				.end = end_client,
				.may_keep = client_may_keep,
				.ctx = session};
	int slot;

	switch (role) {
	case IPC_ROLE_VERBS:
		if (!may_have_slot(session))
			return -EDQUOT;
		slot = slots_assign(&server->slots, session);
		if (slot < 0)
			return slot;
		session->slot = (uint32_t)slot;
		session->user->slot_count++;
		cma_claim_qpns(server->cma, session->cred.uid, session->slot);
		session->process = fault_process_get(session->user, session->fd, session->cred.pid);
		break;
	case IPC_ROLE_CM:
		session->cm = cma_client_new(server->cma, &peer);
		if (!session->cm)
			return -ENOMEM;
		break;
	case IPC_ROLE_CONTROL:
		break;
	default:
		return -EINVAL;
	}
	session->role = role;
	return 0;
}

/*
 * Handles the first message. The offsets of magic and version are the same in all protocol
 * versions, so that a client of another version gets an error reply, struct ipc_version_reply.
 * Returns the status of the reply, or 1: the message is not a HELLO.
 */
static int daemon_session_hello(struct session *session, struct request *request, size_t len)
{
	const struct ipc_hello *hello = &request->msg->hello;
	struct ipc_hello_reply *reply = &request->reply->hello_reply;
	struct ipc_version_reply *other = &request->reply->version_reply;
	int error;

	if (len < offsetof(struct ipc_hello, role) || hello->hdr.type != IPC_HELLO ||
	    hello->hdr.len != len || hello->magic != IPC_MAGIC || request->nfds != 0)
		return 1;
	if (hello->version != IPC_VERSION) {
		user_log(USER_LOG_VERSION, LOG_LEVEL_INFO, session->cred.uid,
			 "pid %ld uses protocol version %u instead of %d", (long)session->cred.pid,
			 hello->version, IPC_VERSION);
		/* A daemon of an older installation must not outlive the programs that use it. */
		if (session->cred.uid == session->server->uid || session->cred.uid == 0)
			session->server->is_outdated = true;
		other->version = IPC_VERSION;
		snprintf(other->release, sizeof(other->release), "%s", USRDMA_VERSION);
		return -EPROTO;
	}
	if (ipc_request_check(request->msg, len, request->nfds))
		return 1;
	error = role_take(session, hello->role);
	if (!error)
		error = probes_enter(session, &request->reply_fd);
	if (error)
		return error;
	reply->version = IPC_VERSION;
	reply->daemon_pid = (uint32_t)getpid();
	reply->daemon_id = session->server->daemon_id;
	reply->slot = session->slot;
	reply->wire_errno = (uint32_t)-server_open_port(session->server);
	log_debug("pid %ld uid %u: role %u slot %u", (long)session->cred.pid,
		  (unsigned int)session->cred.uid, hello->role, session->slot);
	return 0;
}

/*
 * Whether the client has unread replies, that is more than one outstanding request. Such a client
 * gets no reply with a descriptor; its session ends instead.
 */
static bool has_unread(const struct session *session)
{
	int unread_bytes;

	return ioctl(session->fd, SIOCOUTQ, &unread_bytes) || unread_bytes > 0;
}

/*
 * Sends the reply. The socket of a client with only one outstanding request always has buffer space
 * for it.
 */
static void reply_send(struct session *session, const struct request *request)
{
	const union message *reply = request->reply;
	int error = -EAGAIN;

	if (request->reply_fd < 0)
		error = ipc_send(session->fd, reply, reply->hdr.len, NULL, 0);
	else if (!has_unread(session))
		error = ipc_send(session->fd, reply, reply->hdr.len, &request->reply_fd, 1);
	if (!error)
		return;
	if (error == -EAGAIN)
		session->server->counters.unresponsive++;
	session_end(session);
}

static void reply_status(struct session *session, struct request *request, int status)
{
	struct ipc_hdr *hdr = &request->reply->hdr;
	bool has_body = !status || (request->msg->hdr.type == IPC_HELLO && status == -EPROTO);

	if (status && request->reply_fd >= 0) {
		close(request->reply_fd);
		request->reply_fd = -1;
	}

	hdr->type = request->msg->hdr.type;
	hdr->seq = request->msg->hdr.seq;
	hdr->status = status;
	hdr->len = has_body ? ipc_type_info(hdr->type)->reply_bytes : (uint32_t)sizeof(*hdr);
	reply_send(session, request);
}

static void end_malformed(struct session *session)
{
	user_log(USER_LOG_INVALID, LOG_LEVEL_WARN, session->cred.uid,
		 "pid %ld uid %u sent an invalid message", (long)session->cred.pid,
		 (unsigned int)session->cred.uid);
	session->server->counters.malformed++;
	session_end(session);
}

static void serve_hello(struct session *session, struct request *request, size_t len)
{
	int status = daemon_session_hello(session, request, len);

	if (status > 0) {
		end_malformed(session);
		return;
	}
	reply_status(session, request, status);
	if (status && !session->has_ended) {
		session->server->counters.refused++;
		session_end(session);
	}
}

static void daemon_session_serve(struct session *session, struct request *request, size_t len)
{
	const struct ipc_hdr *hdr = &request->msg->hdr;
	const struct ipc_type_info *info = ipc_type_info(hdr->type);
	request_handler *handler;
	int nfds = request->is_cut && info ? info->request_fds : request->nfds;

	if (session->role == 0) {
		serve_hello(session, request, len);
		return;
	}
	if (ipc_request_check(request->msg, len, nfds) || hdr->type == IPC_HELLO ||
	    !(info->roles & IPC_ROLE_BIT(session->role))) {
		end_malformed(session);
		return;
	}
	session->request_count++;
	session->server->counters.requests++;
	if (request->is_cut) {
		reply_status(session, request, -EMFILE);
		return;
	}
	handler = request_handler_of(hdr->type);
	if (handler) {
		int status = handler(session, request);

		if (!(hdr->flags & IPC_UNANSWERED))
			reply_status(session, request, status);
		return;
	}
	request->reply->hdr.len = cma_request(session->cm, hdr, request->reply, &request->reply_fd);
	if (!(hdr->flags & IPC_UNANSWERED))
		reply_send(session, request);
}

/*
 * The number of bytes of the reply to clear: all that may be sent, also if the request is
 * malformed.
 */
static size_t reply_bytes(const struct ipc_hdr *hdr)
{
	const struct ipc_type_info *info = ipc_type_info(hdr->type);

	return info && info->reply_bytes > sizeof(*hdr) ? info->reply_bytes : sizeof(*hdr);
}

static void serve_message(struct session *session, struct request *request, size_t len)
{
	/*
	 * If the message is shorter than a header, the rest of the preceding message must not be
	 * used as its fields.
	 */
	if (len < sizeof(request->msg->hello))
		memset(request->msg->bytes + len, 0, sizeof(request->msg->hello) - len);
	memset(request->reply, 0, reply_bytes(&request->msg->hdr));
	daemon_session_serve(session, request, len);
	/*
	 * Closed without the closer thread: the daemon created this socket, and clients cannot send
	 * descriptors into it.
	 */
	if (request->reply_fd >= 0)
		close(request->reply_fd);
}

/* Receives and serves one message. false: no message is left, or the session has ended. */
static bool serve_next(struct session *session)
{
	static union message msg, reply;
	int fds[FDPASS_MAX];
	struct request request = {.msg = &msg, .fds = fds, .reply = &reply, .reply_fd = -1};
	ssize_t len = fdpass_recv_all(session->fd, msg.bytes, sizeof(msg.bytes), fds, &request.nfds,
				      &request.is_cut, MSG_DONTWAIT);

	if (len == -EAGAIN || len == -EINTR)
		return false;
	if (len == -EPROTO || len == -EMSGSIZE)
		end_malformed(session);
	else if (len <= 0)
		session_end(session);
	else
		serve_message(session, &request, (size_t)len);
	for (int i = 0; i < request.nfds; i++)
		closer_add(&session->server->closer, session->cred.uid, fds[i]);
	return !session->has_ended;
}

static void session_queue(struct session *session)
{
	list_add_tail(&session->ready, &session->user->ready);
	turns_add(session->server, session->user);
}

static void daemon_session_on_readable(uv_poll_t *poll, int status, int events)
{
	struct session *session = container_of(poll, struct session, poll);

	(void)events;
	if (status < 0) {
		session_end(session);
		return;
	}
	if (!list_is_linked(&session->ready)) {
		session_queue(session);
		return;
	}
	/*
	 * Its turn has not come since the last iteration of the loop, which would report it in each
	 * further iteration.
	 */
	session->is_watched = false;
	uv_poll_stop(poll);
}

/* Makes the loop report these events of the session's socket. If that fails, the session ends. */
static void session_watch(struct session *session, int events)
{
	if (!session->has_poll) {
		if (uv_poll_init(session->server->loop, &session->poll, session->fd)) {
			session_end(session);
			return;
		}
		session->has_poll = true;
		session->handle_count++;
	}
	session->is_watched = true;
	if (uv_poll_start(&session->poll, events, daemon_session_on_readable))
		session_end(session);
}

/* Serves a batch of messages. Returns whether more of them may be in the socket. */
static bool session_serve(struct session *session)
{
	/*
	 * Not CPU time, which takes a system call: if other programs preempt the daemon, the batch
	 * ends early.
	 */
	uint64_t start_ns = clock_now_ns();

	for (int i = 0; i < REQUESTS_AT_ONCE; i++) {
		if (closer_is_full(&session->server->closer, session->cred.uid)) {
			session->is_paused = true;
			session_watch(session, UV_DISCONNECT);
			return false;
		}
		if (!serve_next(session))
			return false;
		if (clock_now_ns() - start_ns >= FAIR_QUANTUM_NS)
			break;
	}
	return true;
}

bool session_serve_user(struct server *server, struct user *user)
{
	struct session *session;
	bool has_more = false;

	(void)server;
	if (list_is_empty(&user->ready))
		return false;
	session = list_first_entry(&user->ready, struct session, ready);
	list_del(&session->ready);
	session->handle_count++;
	/* While the session is paused, the poll only reports the disconnect. */
	if (session->is_paused)
		session_end(session);
	else
		has_more = session_serve(session);
	if (!session->has_ended) {
		descriptors_count(session);
		if (has_more)
			list_add_tail(&session->ready, &user->ready);
		else if (!session->is_watched)
			session_watch(session, UV_READABLE | UV_DISCONNECT);
	}
	session_handle_closed(session);
	return !list_is_empty(&user->ready);
}

void session_resume_all(struct server *server)
{
	struct session *session, *next;

	list_for_each_entry_safe(session, next, &server->sessions, node) {
		if (!session->is_paused || closer_is_full(&server->closer, session->cred.uid))
			continue;
		session->is_paused = false;
		session_watch(session, UV_READABLE | UV_DISCONNECT);
	}
}

/*
 * Checks uid and limits of a new client. The daemon of root serves all users; another daemon serves
 * its own user and root. 0 or -errno.
 */
static int client_check(struct session *session)
{
	struct server *server = session->server;
	socklen_t len = sizeof(session->cred);

	if (getsockopt(session->fd, SOL_SOCKET, SO_PEERCRED, &session->cred, &len) < 0)
		return -errno;
	if (server->uid != 0 && session->cred.uid != server->uid && session->cred.uid != 0) {
		user_log(USER_LOG_REFUSED, LOG_LEVEL_INFO, session->cred.uid,
			 "uid %u is rejected: this daemon serves uid %u",
			 (unsigned int)session->cred.uid, (unsigned int)server->uid);
		return -EACCES;
	}
	/*
	 * Several users may be shown as this uid; the daemon cannot distinguish them from each
	 * other or from its own user.
	 */
	if (!known_uid(session->cred.uid)) {
		user_log(
			USER_LOG_REFUSED, LOG_LEVEL_INFO, session->cred.uid,
			"uid %u is rejected: all users that this user namespace does not map have this uid",
			(unsigned int)session->cred.uid);
		return -EACCES;
	}
	session->user = users_get(&server->users, session->cred.uid);
	if (!session->user)
		return -ENOMEM;
	if (server->session_count >= SERVER_SESSIONS_MAX || !may_have_session(session))
		return -EDQUOT;
	return descriptors_may_keep(session, session->fd) ? 0 : -EMFILE;
}

/*
 * Sends an error reply to the client's HELLO, which may not have arrived yet. The first request of
 * a client has seq 1.
 */
static void daemon_session_refuse(int fd, int status)
{
	struct ipc_hdr hdr = {.type = IPC_HELLO, .seq = 1, .status = status, .len = sizeof(hdr)};
	int error = ipc_send(fd, &hdr, sizeof(hdr), NULL, 0);

	if (error)
		log_debug("a rejected client had already closed its connection");
}

static struct session *session_new(struct server *server, int fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->server = server;
	session->fd = fd;
	session->cred.uid = NO_UID;
	session->handle_count = 1;
	list_init(&session->ready);
	list_init(&session->of_user);
	list_init(&session->xrcds);
	av_session_init(session);
	peers_session_init(session);
	return session;
}

int session_open(struct server *server, int fd)
{
	struct session *session = session_new(server, fd);
	uid_t uid = NO_UID;
	int error;

	if (!session) {
		error = -ENOMEM;
		goto err_alloc;
	}
	error = client_check(session);
	if (error)
		goto err_check;
	list_add_tail(&session->node, &server->sessions);
	list_add_tail(&session->of_user, &session->user->sessions);
	server->session_count++;
	session->user->session_count++;
	server->counters.sessions++;
	descriptors_count(session);
	probes_user_check_use(server, session->user);
	server_count_changed(server);
	session_queue(session);
	return 0;

err_check:
	daemon_session_refuse(fd, error);
	uid = session->cred.uid;
	if (session->user) {
		descriptors_release(session);
		users_put(&server->users, session->user);
	}
	free(session);
err_alloc:
	closer_add_socket(&server->closer, uid, fd);
	return error;
}

void session_handle_closed(struct session *session)
{
	if (--session->handle_count == 0)
		free(session);
}

static void daemon_session_on_poll_closed(uv_handle_t *handle)
{
	session_handle_closed(container_of(handle, struct session, poll));
}

/* Removes the session from its user, who may have no other session. */
static void session_leave_user(struct session *session)
{
	struct server *server = session->server;
	struct user *user = session->user;

	user_walk_skip(&user->notices, &session->of_user);
	fault_tick_forget(session);
	descriptors_release(session);
	list_del(&session->ready);
	list_del(&session->of_user);
	user->session_count--;
	user->slot_count -= session->slot > 0;
	fault_process_put(session->process);
	session->process = NULL;
	probes_user_check_use(server, user);
	users_put(&server->users, user);
	session->user = NULL;
}

void session_end(struct session *session)
{
	struct server *server = session->server;

	if (session->has_ended)
		return;
	session->has_ended = true;
	list_del(&session->node);
	server->session_count--;
	if (session->cm)
		cma_client_gone(session->cm);
	session->cm = NULL;
	control_report_drop(session);
	device_sum_end(&session->device_sum);
	xrcds_leave(session);
	av_leave(session);
	probes_leave(session);
	peers_leave(session);
	session_leave_user(session);
	if (session->slot) {
		roce_forward_remove(&server->forward, session->slot);
		roce_port_return(&server->port, session->slot);
		slots_return(&server->slots, session->slot);
	}
	session->slot = 0;
	if (session->has_poll)
		uv_close((uv_handle_t *)&session->poll, daemon_session_on_poll_closed);
	closer_add_socket(&server->closer, session->cred.uid, session->fd);
	session->fd = -1;
	server_count_changed(server);
	session_handle_closed(session);
}

void session_end_later(struct session *session)
{
	if (!session->has_ended)
		shutdown(session->fd, SHUT_RDWR);
}
