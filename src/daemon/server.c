/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/cma.h"
#include "daemon/session.h"
#include "ipc/msg.h"

#define BIND_ATTEMPTS  100000
#define ACCEPT_AT_ONCE 64

/* The abstract name: a NUL, then IPC_NAME, no terminator. */
static socklen_t server_address(struct sockaddr_un *addr)
{
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path + 1, IPC_NAME, sizeof(IPC_NAME) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(IPC_NAME));
}

/* Whether somebody listens behind the name: 0, -ECONNREFUSED or -errno. */
static int probe(void)
{
	struct sockaddr_un addr;
	socklen_t len = server_address(&addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	/* EAGAIN: so many are waiting to be let in that one more would have to wait. */
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
	 * Of many starters one gets the name. The others' clients connect next, so these wait until it listens, which is
	 * the winner's very next system call; or until it has died and the name is free again.
	 */
	for (int attempt = 0; attempt < BIND_ATTEMPTS; attempt++) {
		if (bind(fd, (struct sockaddr *)&addr, len) == 0) {
			if (listen(fd, SOMAXCONN) == 0)
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

/* No descriptor left to accept with: turns one client away, so that it does not wait for ever and we do not spin. */
static void turn_away(struct server *server)
{
	int fd;

	close(server->spare_fd);
	fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->counters.refused++;
}

/* Lets one waiting client in. -EAGAIN: none waits. */
static int accept_one(struct server *server)
{
	int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error;

	if (fd < 0) {
		error = -errno;
		if (error == -EMFILE || error == -ENFILE)
			turn_away(server);
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

static void on_idle(uv_timer_t *timer)
{
	struct server *server = container_of(timer, struct server, idle_timer);

	/* A client may have connected since the loop looked. Any later one is hung up on and starts the next daemon. */
	on_connection(&server->listen_poll, 0, UV_READABLE);
	if (server->session_count == 0) {
		log_info("idle, leaving");
		uv_stop(server->loop);
	}
}

void server_count_changed(struct server *server)
{
	if (server->session_count > 0 || server->idle_ms == 0)
		uv_timer_stop(&server->idle_timer);
	else
		uv_timer_start(&server->idle_timer, on_idle, server->idle_ms, 0);
}

/* The communication manager's own socket of the port; without it, it connects within this host. */
static void attach_wire(struct server *server)
{
	int lent = roce_port_lend(&server->port, 0);
	int fd = lent < 0 ? -1 : fcntl(lent, F_DUPFD_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return;
	error = cma_attach_wire(server->cma, fd);
	if (error)
		log_warn("no connections to other hosts: %s", strerror(-error));
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

int server_start(struct server *server, uv_loop_t *loop, int listen_fd, uint64_t idle_ms)
{
	int error;

	server->loop = loop;
	server->listen_fd = listen_fd;
	server->idle_ms = idle_ms;
	server->uid = geteuid();
	server->next_pair_id = 1;
	list_init(&server->sessions);
	list_init(&server->xrc_domains);
	if (getrandom(&server->daemon_id, sizeof(server->daemon_id), 0) !=
	    (ssize_t)sizeof(server->daemon_id))
		return -EIO;
	slots_init(&server->slots, server->daemon_id);
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (server->spare_fd < 0)
		return -errno;
	server->departed = json_object_new_object();
	error = uv_timer_init(loop, &server->idle_timer);
	if (error)
		goto err_timer;
	error = uv_poll_init(loop, &server->listen_poll, listen_fd);
	if (error)
		goto err_poll;
	error = uv_poll_start(&server->listen_poll, UV_READABLE, on_connection);
	if (error)
		goto err_start;
	roce_port_init(&server->port);
	if (server_open_port(server))
		log_warn("no RoCE to other hosts: UDP port 4791: %s",
			 strerror(-server->port.error));
	server_count_changed(server);
	return 0;

err_start:
	uv_close((uv_handle_t *)&server->listen_poll, NULL);
err_poll:
	uv_close((uv_handle_t *)&server->idle_timer, NULL);
err_timer:
	json_object_put(server->departed);
	close(server->spare_fd);
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
	roce_port_close(&server->port);
	json_object_put(server->departed);
	close(server->spare_fd);
}

void server_notify_device(struct server *server, uint32_t dev_id, uint32_t what)
{
	struct ipc_device_notice notice = {
		.hdr = {.type = IPC_DEVICE_NOTICE, .len = sizeof(notice)},
		.dev_id = dev_id,
		.what = what,
	};
	struct session *session;

	list_for_each_entry(session, &server->sessions, node) {
		int error;

		/* A process that has not looked for hundreds of messages may just have no work: what it misses it can
		 * ask for, and the room left is for peers. */
		if (!session->deposit.push.is_open ||
		    session->deposit.push.pending_count >= PUSH_PENDING_MAX / 2)
			continue;
		error = push_send(&session->deposit.push, &notice, sizeof(notice), NULL, 0);
		if (error)
			session_doom(session);
	}
}

int server_check_qpn(void *ctx, const struct cma_peer *peer, uint32_t qpn)
{
	const struct server *server = ctx;
	const struct session *owner = slots_owner(&server->slots, qpn >> IPC_SLOT_SHIFT);

	if (qpn == 1)
		return -EPERM;
	return owner && owner->cred.uid != peer->uid ? -EPERM : 0;
}
