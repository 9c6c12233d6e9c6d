/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/session.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "daemon/cma.h"
#include "daemon/control.h"
#include "daemon/netdev.h"
#include "daemon/peers.h"
#include "daemon/xrcds.h"
#include "ipc/client.h"

/*
 * How many requests of one client are served before the others have their turn. Events are pushed between turns: where
 * processors are few, a client that asks as fast as it is answered gets its events together, and its other threads and its
 * peers are woken once for many. Not more, or they fall behind.
 */
#define REQUESTS_AT_ONCE 16

/* A message and the room for its answer, both as aligned as the structs read from them want. */
union message {
	struct ipc_hdr hdr;
	struct ipc_hello hello;
	struct ipc_segment segment;
	struct ipc_device_get device_get;
	struct ipc_introduce introduce;
	struct ipc_xrcd_open xrcd_open;
	struct ipc_xrcd_close xrcd_close;
	struct ipc_hello_reply hello_reply;
	struct ipc_device_reply device_reply;
	struct ipc_xrcd_open_reply xrcd_open_reply;
	alignas(16) uint8_t bytes[IPC_MSG_MAX];
};

/* A request being served: the handler replaces by -1 each descriptor it keeps. */
struct request {
	union message *msg;
	int *fds;
	int nfds;
	union message *reply; /* zeroed */
};

static int handle_segment(struct session *session, struct request *request)
{
	return peers_deposit(session, &request->msg->segment, request->fds);
}

static int handle_introduce(struct session *session, struct request *request)
{
	return peers_introduce(session, request->msg->introduce.slot);
}

static int handle_device_get(struct session *session, struct request *request)
{
	struct ipc_device_reply *reply = &request->reply->device_reply;
	const struct netdev *dev = netdev_from_cursor(request->msg->device_get.cursor,
						      &reply->next_cursor);

	(void)session;
	if (!dev)
		return -ENOENT;
	reply->dev_id = dev->dev_id;
	reply->node_guid = dev->node_guid;
	reply->netdev_mtu_bytes = dev->mtu_bytes;
	reply->speed_mbps = dev->speed_mbps;
	reply->flags = (dev->is_up ? IPC_DEVICE_UP : 0u) |
		       (dev->is_loopback ? IPC_DEVICE_LOOPBACK : 0u);
	reply->gid_count = dev->gid_count;
	memcpy(reply->name, dev->name, sizeof(reply->name));
	memcpy(reply->gids, dev->gids, sizeof(reply->gids));
	return 0;
}

static void on_readable(uv_poll_t *poll, int status, int events);

/* Answered by session_report_ends(). */
#define LATER 1

static int handle_status(struct session *session, struct request *request)
{
	int error = control_report_begin(session, request->fds[0], &session->report);

	if (error)
		return error;
	request->fds[0] = -1;
	session->report_seq = request->msg->hdr.seq;
	/* Its poll is running: this only changes what for, which cannot fail. */
	(void)uv_poll_start(&session->poll, UV_DISCONNECT, on_readable);
	return LATER;
}

static int handle_xrcd_open(struct session *session, struct request *request)
{
	return xrcds_open(session, &request->msg->xrcd_open, request->fds[0],
			  &request->reply->xrcd_open_reply.domain_id);
}

static int handle_xrcd_close(struct session *session, struct request *request)
{
	return xrcds_close(session, request->msg->xrcd_close.domain_id);
}

/* Requests that are answered here; those of the communication manager go to cma_request as they are. */
static int (*const handlers[IPC_TYPE_COUNT])(struct session *, struct request *) = {
	[IPC_SEGMENT] = handle_segment,	    [IPC_DEVICE_GET] = handle_device_get,
	[IPC_INTRODUCE] = handle_introduce, [IPC_STATUS] = handle_status,
	[IPC_XRCD_OPEN] = handle_xrcd_open, [IPC_XRCD_CLOSE] = handle_xrcd_close,
};

static void uid_usage(const struct session *session, uint32_t *sessions, uint32_t *slots)
{
	struct session *other;

	*sessions = 0;
	*slots = 0;
	list_for_each_entry(other, &session->server->sessions, node) {
		if (other->cred.uid != session->cred.uid)
			continue;
		*sessions += 1;
		*slots += other->slot > 0;
	}
}

/* Gives a new session what its role needs. */
static int role_take(struct session *session, uint32_t role)
{
	struct server *server = session->server;
	struct cma_peer peer = {.uid = session->cred.uid, .pid = session->cred.pid};
	uint32_t sessions, slots;
	int slot;

	switch (role) {
	case IPC_ROLE_VERBS:
		uid_usage(session, &sessions, &slots);
		if (session->cred.uid != 0 && session->cred.uid != server->uid &&
		    slots >= SERVER_UID_SLOTS_MAX)
			return -EDQUOT;
		slot = slots_lend(&server->slots, session);
		if (slot < 0)
			return slot;
		session->slot = (uint32_t)slot;
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
 * The first message. Its magic and version stand where they do in every version, so that a client of another one is told
 * so rather than hung up on. Returns the status to answer, or 1 for what is not a HELLO at all.
 */
static int hello(struct session *session, const struct request *request, size_t len)
{
	const struct ipc_hello *hello = &request->msg->hello;
	struct ipc_hello_reply *reply = &request->reply->hello_reply;
	int error;

	if (len < offsetof(struct ipc_hello, role) || hello->hdr.type != IPC_HELLO ||
	    hello->hdr.len != len || hello->magic != IPC_MAGIC || request->nfds != 0)
		return 1;
	if (hello->version != IPC_VERSION) {
		log_info("pid %ld speaks protocol version %u, not %d", (long)session->cred.pid,
			 hello->version, IPC_VERSION);
		return -EPROTO;
	}
	if (ipc_request_check(request->msg, len, request->nfds))
		return 1;
	error = role_take(session, hello->role);
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

/* Sends the answer; a client with one request at a time always has room for it, unless it was killed meanwhile. */
static void reply_send(struct session *session, const union message *reply)
{
	int error = ipc_send(session->fd, reply, reply->hdr.len, NULL, 0);

	if (!error)
		return;
	if (error == -EAGAIN)
		session->server->counters.unresponsive++;
	session_end(session);
}

static void reply_status(struct session *session, const struct request *request, int status)
{
	struct ipc_hdr *hdr = &request->reply->hdr;

	hdr->type = request->msg->hdr.type;
	hdr->seq = request->msg->hdr.seq;
	hdr->status = status;
	hdr->len = status ? (uint32_t)sizeof(*hdr) : ipc_type_info(hdr->type)->reply_bytes;
	reply_send(session, request->reply);
}

static void end_malformed(struct session *session)
{
	log_warn("pid %ld uid %u broke the protocol", (long)session->cred.pid,
		 (unsigned int)session->cred.uid);
	session->server->counters.malformed++;
	session_end(session);
}

static void serve_hello(struct session *session, const struct request *request, size_t len)
{
	int status = hello(session, request, len);

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

static void serve(struct session *session, struct request *request, size_t len)
{
	const struct ipc_hdr *hdr = &request->msg->hdr;
	int (*handler)(struct session *, struct request *);

	if (session->role == 0) {
		serve_hello(session, request, len);
		return;
	}
	if (ipc_request_check(request->msg, len, request->nfds) || hdr->type == IPC_HELLO ||
	    !(ipc_type_info(hdr->type)->roles & IPC_ROLE_BIT(session->role))) {
		end_malformed(session);
		return;
	}
	session->request_count++;
	session->server->counters.requests++;
	handler = handlers[hdr->type];
	if (handler) {
		int status = handler(session, request);

		if (status != LATER)
			reply_status(session, request, status);
		return;
	}
	request->reply->hdr.len = cma_request(session->cm, hdr, request->fds, request->nfds,
					      request->reply);
	if (!(hdr->flags & IPC_UNANSWERED))
		reply_send(session, request->reply);
}

/* How much of the answer has to be zero: all of what is sent, whether the request is in order or not. */
static size_t reply_bytes(const struct ipc_hdr *hdr)
{
	const struct ipc_type_info *info = ipc_type_info(hdr->type);

	return info && info->reply_bytes > sizeof(*hdr) ? info->reply_bytes : sizeof(*hdr);
}

/* Receives and serves one message; false when there is none left, or no session. */
static bool serve_next(struct session *session)
{
	static union message msg, reply;
	int fds[IPC_FDS_MAX];
	struct request request = {.msg = &msg, .fds = fds, .reply = &reply};
	ssize_t len = fdpass_recv(session->fd, msg.bytes, sizeof(msg.bytes), fds, IPC_FDS_MAX,
				  &request.nfds, MSG_DONTWAIT);

	if (len == -EAGAIN || len == -EINTR)
		return false;
	if (len == -EPROTO || len == -EMSGSIZE) {
		end_malformed(session);
		return false;
	}
	if (len <= 0) {
		session_end(session);
		return false;
	}
	/* A header cut short must not be read together with the last message's rest. */
	if ((size_t)len < sizeof(msg.hello))
		memset(msg.bytes + len, 0, sizeof(msg.hello) - (size_t)len);
	memset(&reply, 0, reply_bytes(&msg.hdr));
	serve(session, &request, (size_t)len);
	fdpass_close(fds, request.nfds);
	return !session->has_ended && !session->report;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct session *session = container_of(poll, struct session, poll);

	(void)events;
	/* While a report is written only the asker's end is listened for. */
	if (status < 0 || session->report) {
		session_end(session);
		return;
	}
	for (int i = 0; i < REQUESTS_AT_ONCE; i++) {
		if (!serve_next(session))
			return;
	}
}

/* Whether this client may be served at all: root's daemon serves everyone, a user's that user and root. */
static int client_check(struct session *session)
{
	const struct server *server = session->server;
	socklen_t len = sizeof(session->cred);
	uint32_t sessions, slots;

	if (getsockopt(session->fd, SOL_SOCKET, SO_PEERCRED, &session->cred, &len) < 0)
		return -errno;
	if (server->uid != 0 && session->cred.uid != server->uid && session->cred.uid != 0) {
		log_info("uid %u turned away: this daemon serves uid %u",
			 (unsigned int)session->cred.uid, (unsigned int)server->uid);
		return -EACCES;
	}
	uid_usage(session, &sessions, &slots);
	if (server->session_count >= SERVER_SESSIONS_MAX)
		return -EDQUOT;
	if (session->cred.uid != 0 && sessions >= SERVER_UID_SESSIONS_MAX)
		return -EDQUOT;
	return 0;
}

/* Leaves the answer to a HELLO that may not have come yet, which is what a client's first request is numbered for. */
static void refuse(int fd, int status)
{
	struct ipc_hdr hdr = {.type = IPC_HELLO, .seq = 1, .status = status, .len = sizeof(hdr)};
	int error = ipc_send(fd, &hdr, sizeof(hdr), NULL, 0);

	if (error)
		log_debug("a client that was turned away had left");
}

int session_open(struct server *server, int fd)
{
	struct session *session = calloc(1, sizeof(*session));
	int error;

	if (!session) {
		error = -ENOMEM;
		goto err_alloc;
	}
	session->server = server;
	session->fd = fd;
	list_init(&session->xrcds);
	peers_session_init(session);
	error = client_check(session);
	if (error)
		goto err_check;
	error = uv_poll_init(server->loop, &session->poll, fd);
	if (error)
		goto err_check;
	session->handle_count = 1;
	list_add_tail(&session->node, &server->sessions);
	server->session_count++;
	server->counters.sessions++;
	server_count_changed(server);
	error = uv_poll_start(&session->poll, UV_READABLE | UV_DISCONNECT, on_readable);
	if (error)
		session_end(session);
	return error;

err_check:
	refuse(fd, error);
	free(session);
err_alloc:
	close(fd);
	return error;
}

void session_handle_closed(struct session *session)
{
	if (--session->handle_count == 0)
		free(session);
}

static void on_poll_closed(uv_handle_t *handle)
{
	session_handle_closed(container_of(handle, struct session, poll));
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
	if (session->report)
		control_report_drop(session->report);
	session->report = NULL;
	xrcds_leave(session);
	peers_leave(session);
	if (session->slot) {
		roce_port_return(&server->port, session->slot);
		slots_return(&server->slots, session->slot);
	}
	session->slot = 0;
	uv_close((uv_handle_t *)&session->poll, on_poll_closed);
	close(session->fd);
	session->fd = -1;
	server_count_changed(server);
}

void session_report_ends(struct session *session, int status)
{
	union message reply = {.hdr = {
				       .type = IPC_STATUS,
				       .seq = session->report_seq,
				       .status = status,
				       .len = sizeof(struct ipc_reply),
			       }};

	session->report = NULL;
	reply_send(session, &reply);
	if (!session->has_ended)
		(void)uv_poll_start(&session->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

void session_doom(struct session *session)
{
	if (!session->has_ended)
		shutdown(session->fd, SHUT_RDWR);
}
