/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/cma.h"
#include "daemon/fault_device.h"
#include "daemon/fault_user.h"
#include "daemon/netdev.h"
#include "daemon/probes_user.h"
#include "daemon/reserve.h"
#include "daemon/session.h"
#include "ipc/msg.h"

#define BIND_ATTEMPTS 100000
/*
 * The kernel queues the connections of all users in the order of connect(). While one user connects
 * faster than the daemon accepts, each connection of another user waits for a full queue. It is
 * therefore short; connect() of the libraries waits for a free place. The loop accepts a full queue
 * at once.
 */
#define BACKLOG	       32
#define ACCEPT_AT_ONCE BACKLOG

/* The abstract socket name: a NUL byte and IPC_NAME, without a terminator. */
static socklen_t server_address(struct sockaddr_un *addr)
{
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path + 1, IPC_NAME, sizeof(IPC_NAME) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(IPC_NAME));
}

/* Whether a process listens on the socket name: 0; -ECONNREFUSED: none; or -errno. */
static int probe(void)
{
	struct sockaddr_un addr;
	socklen_t len = server_address(&addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	/* EAGAIN: a process listens and its backlog is full. */
	if (connect(fd, (struct sockaddr *)&addr, len) < 0 && errno != EAGAIN)
		error = -errno;
	close(fd);
	return error;
}

int server_bind(void)
{
	struct sockaddr_un addr;
	socklen_t len = server_address(&addr);
	int error = -EADDRINUSE;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;

	/*
	 * If several daemons start at the same time, only one of them binds the name. A client
	 * connects as soon as the daemon that it started has reported. Each other daemon therefore
	 * waits until the first one listens, which is its next system call, or until the first one
	 * has exited and the name is free again.
	 */
	for (int attempt = 0; attempt < BIND_ATTEMPTS; attempt++) {
		if (bind(fd, (struct sockaddr *)&addr, len) == 0) {
			if (listen(fd, BACKLOG) == 0)
				return fd;
			error = -errno;
			break;
		}
		error = -errno;
		if (error != -EADDRINUSE || probe() != -ECONNREFUSED)
			break;
		sched_yield();
	}
	close(fd);
	return error;
}

/* Whether the socket has the daemon's name, type and no peer. */
static bool server_owns_name(int fd)
{
	struct sockaddr_un addr, own;
	socklen_t own_len = server_address(&own), len = sizeof(addr), type_len = sizeof(int);
	int type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) || type != SOCK_SEQPACKET ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		return false;
	return len == own_len && !memcmp(&addr, &own, len);
}

int server_adopt(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !server_owns_name(fd))
		return -EINVAL;
	/*
	 * listen() makes this process the peer of later clients (SO_PEERCRED in unix(7)). Clients
	 * that have connected before see the service manager.
	 */
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC) ||
	    listen(fd, BACKLOG))
		return -errno;
	return 0;
}

static uid_t uid_of(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? (uid_t)-1 : cred.uid;
}

/*
 * The daemon has no free descriptor for accept(). Accepts and closes one connection with the spare
 * descriptor, so that the client does not wait indefinitely and the event loop does not spin. The
 * closer thread may have to close the socket first; until then the daemon does not accept
 * connections.
 */
static void server_turn_away(struct server *server)
{
	int fd;

	if (server->spare_fd >= 0)
		close(server->spare_fd);
	fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		closer_add_socket(&server->closer, uid_of(fd), fd);
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->counters.refused++;
	if (server->spare_fd < 0 && server->closer.pending > 0) {
		server->is_unresponsive = true;
		uv_poll_stop(&server->listen_poll);
	}
}

/* Accepts one client. -EAGAIN: no client waits. */
static int accept_one(struct server *server)
{
	int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error;

	if (fd < 0) {
		error = -errno;
		if (error == -EMFILE || error == -ENFILE)
			server_turn_away(server);
		return error;
	}
	error = session_open(server, fd);
	if (error)
		server->counters.refused++;
	return 0;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct server *server = container_of(poll, struct server, listen_poll);

	(void)events;
	for (int i = 0; status == 0 && i < ACCEPT_AT_ONCE; i++) {
		if (accept_one(server))
			return;
	}
}

static void on_closed(struct closer *closer)
{
	struct server *server = container_of(closer, struct server, closer);

	if (server->is_unresponsive &&
	    !uv_poll_start(&server->listen_poll, UV_READABLE, on_connection))
		server->is_unresponsive = false;
	session_resume_all(server);
}

static void server_on_idle(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, idle_timer);

	/*
	 * A client may have connected since the last poll. The connection of a later client is
	 * reset when the daemon exits, and the client starts the next daemon.
	 */
	on_connection(&server->listen_poll, 0, UV_READABLE);
	if (server->session_count == 0) {
		log_info("idle: the daemon exits");
		uv_stop(server->loop);
	}
}

/* The time for which the daemon serves no client before it exits. */
static uint64_t idle_wait_ms(const struct server *server)
{
	uint64_t age_ms;

	if (server->is_outdated)
		return 0;
	if (!server->keeps_failures || !server->failures.last_ns)
		return server->idle_ms;
	age_ms = (clock_now_ns() - server->failures.last_ns) / CLOCK_NS_PER_MS;
	return age_ms + server->idle_ms < SERVER_FAILURES_KEPT_MS ?
		       SERVER_FAILURES_KEPT_MS - age_ms :
		       server->idle_ms;
}

void server_count_changed(struct server *server)
{
	if (server->session_count > 0 || server->idle_ms == 0 || probes_have_rules(&server->probes))
		uv_timer_stop(&server->idle_timer);
	else
		uv_timer_start(&server->idle_timer, server_on_idle, idle_wait_ms(server), 0);
}

/*
 * Gives the communication manager its socket of UDP port 4791. Without it the CM connects only
 * processes of this host.
 */
static void attach_wire(struct server *server)
{
	int delegated = roce_port_delegate(&server->port, 0);
	int fd = delegated < 0 ? -1 : fcntl(delegated, F_DUPFD_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return;
	error = cma_attach_wire(server->cma, fd);
	if (error)
		log_warn("connections to other hosts are not available: %s", strerror(-error));
}

int server_open_port(struct server *server)
{
	if (!server->port.error)
		return 0;
	roce_port_open(&server->port);
	if (!server->port.error)
		attach_wire(server);
	return server->port.error;
}

static void server_init(struct server *server)
{
	server->uid = geteuid();
	server->next_pair_id = 1;
	list_init(&server->sessions);
	list_init(&server->xrc_domains);
	list_init(&server->av_waits);
	failures_init(&server->failures);
	device_ended_init(&server->device_ended);
}

/* The descriptor or -errno. */
static int spare_open(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int error = -errno;

	if (fd >= 0)
		return fd;
	log_user("cannot open /dev/null: %m; mount /dev in this root directory");
	return error;
}

int server_start(struct server *server, uv_loop_t *loop, int listen_fd, uint64_t idle_ms)
{
	/* As with failures, the user's time to wait applies to rules, too. */
	const uint64_t kept_ms = server->keeps_failures || !idle_ms ? RULES_KEPT_MS : idle_ms;
	int error;

	server->loop = loop;
	server->listen_fd = listen_fd;
	server->idle_ms = idle_ms;
	server_init(server);
	error = users_open(&server->users);
	if (error)
		return error;
	error = probes_init(&server->probes);
	if (error)
		goto err_users;
	error = -EIO;
	if (getrandom(&server->daemon_id, sizeof(server->daemon_id), 0) !=
	    (ssize_t)sizeof(server->daemon_id))
		goto err_probes;
	slots_init(&server->slots, server->daemon_id);
	error = spare_open();
	if (error < 0)
		goto err_probes;
	server->spare_fd = error;
	server->departed = json_object_new_object();
	reserve_init();
	error = closer_start(&server->closer, loop, on_closed);
	if (error)
		goto err_closer;
	error = uv_timer_init(loop, &server->idle_timer);
	if (error)
		goto err_timer;
	error = fault_tick_open(server, loop);
	if (error)
		goto err_tick;
	error = rule_expiry_open(&server->rule_expiry, loop, kept_ms, probes_rules_expire);
	if (error)
		goto err_expiry;
	error = turns_open(server, loop);
	if (error)
		goto err_turns;
	error = uv_poll_init(loop, &server->listen_poll, listen_fd);
	if (error)
		goto err_listen;
	error = uv_poll_start(&server->listen_poll, UV_READABLE, on_connection);
	if (error)
		goto err_start;
	roce_port_init(&server->port);
	roce_forward_init(&server->forward);
	roce_port_wait();
	if (server_open_port(server))
		log_warn("RoCE to other hosts is not available: UDP port 4791: %s",
			 strerror(-server->port.error));
	server_count_changed(server);
	fault_tick_update(server, FAULT_EVERY_USER);
	return 0;

err_start:
	uv_close((uv_handle_t *)&server->listen_poll, NULL);
err_listen:
	turns_close(server);
err_turns:
	rule_expiry_close(&server->rule_expiry);
err_expiry:
	uv_close((uv_handle_t *)&server->fault_tick.timer, NULL);
err_tick:
	uv_close((uv_handle_t *)&server->idle_timer, NULL);
err_timer:
	closer_stop(&server->closer);
err_closer:
	json_object_put(server->departed);
	close(server->spare_fd);
err_probes:
	probes_fini(&server->probes);
err_users:
	users_close(&server->users);
	return error;
}

void server_end_sessions(struct server *server)
{
	struct session *session, *next;

	uv_poll_stop(&server->listen_poll);
	list_for_each_entry_safe(session, next, &server->sessions, node)
		session_end(session);
}

void server_stop(struct server *server)
{
	uv_close((uv_handle_t *)&server->listen_poll, NULL);
	uv_close((uv_handle_t *)&server->idle_timer, NULL);
	roce_forward_close(&server->forward);
	roce_port_close(&server->port);
	fault_tick_close(server);
	probes_close(server);
	turns_close(server);
	rule_expiry_close(&server->rule_expiry);
	users_close(&server->users);
	closer_stop(&server->closer);
	json_object_put(server->departed);
	device_ended_free(&server->device_ended);
	failures_free(&server->failures);
	if (server->spare_fd >= 0)
		close(server->spare_fd);
}

/*
 * Whether the clients of a user must not observe the change, because a fault rule still removes the
 * device or takes its port down.
 */
static bool is_change_hidden(const struct netdev *dev, uid_t uid, uint32_t what)
{
	if (!dev || what == IPC_DEVICE_REMOVED)
		return false;
	return fault_device_is_removed(dev, uid) ||
	       (what == IPC_DEVICE_PORT_ACTIVE && !fault_device_is_active(dev, uid));
}

static void server_notify_session(struct session *session, const struct ipc_device_notice *notice,
				  const struct netdev *dev)
{
	struct push *push = &session->published.push;

	if (is_change_hidden(dev, session->cred.uid, notice->what))
		return;
	/*
	 * A process with hundreds of unread pushes may be idle. It can query a missed notice
	 * (DEVICE_GET), so the rest of the queue is reserved for messages about peers.
	 */
	if (!push->is_open || push->pending_count >= PUSH_PENDING_MAX / 2)
		return;
	if (push_send(push, notice, sizeof(*notice), NULL, 0, 0))
		session_end_later(session);
}

void server_notify_device(struct server *server, uid_t uid, uint32_t dev_id, uint32_t what)
{
	const struct netdev *dev = netdev_by_id(dev_id);
	const struct user *user = uid == FAULT_EVERY_USER ? NULL : users_find(&server->users, uid);
	const struct ipc_device_notice notice = {
		.hdr = {.type = IPC_DEVICE_NOTICE, .len = sizeof(notice)},
		.dev_id = dev_id,
		.what = what,
	};
	struct session *session;

	cma_netdev_changed_for(server->cma, uid, dev_id, what);
	if (uid != FAULT_EVERY_USER && !user)
		return;
	if (user) {
		list_for_each_entry(session, &user->sessions, of_user)
			server_notify_session(session, &notice, dev);
		return;
	}
	list_for_each_entry(session, &server->sessions, node)
		server_notify_session(session, &notice, dev);
}

int server_check_qpn(void *ctx, const struct cma_peer *peer, uint32_t qpn)
{
	const struct server *server = ctx;
	uint32_t slot = qpn >> IPC_SLOT_SHIFT;
	const struct session *owner = slots_owner(&server->slots, slot);

	if (qpn == 1)
		return -EPERM;
	if (slot == 0)
		return 0;
	return owner && owner->cred.uid == peer->uid ? 0 : -EPERM;
}

bool server_knows_qpn(void *ctx, uint32_t qpn)
{
	const struct server *server = ctx;

	return slots_owner(&server->slots, qpn >> IPC_SLOT_SHIFT) != NULL;
}

void server_store_failure(void *ctx, const struct cma_peer *peer, const struct ipc_failure *failure)
{
	struct server *server = ctx;

	if (failures_add(&server->failures, failure, peer->pid, peer->uid))
		log_debug("a failure of pid %ld is not stored", (long)peer->pid);
}
