/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/dgram.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/addr.h"
#include "rsocket/wait.h"

/* Maximum time for which a close waits for posted sends to complete. */
#define SHUTDOWN_WAIT_NS CLOCK_NS_PER_S

int dgram_bind_any(struct dgram *dgram)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)dgram->sock.domain};
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof(bound);

	if (dgram->is_bound)
		return 0;
	/* connect() may have assigned a port already. */
	memset(&bound, 0, sizeof(bound));
	if (getsockname(dgram->udp_fd, (struct sockaddr *)&bound, &bytes))
		return -errno;
	if (!((struct sockaddr_in *)&bound)->sin_port &&
	    bind(dgram->udp_fd, (struct sockaddr *)&any, addr_bytes(any.ss_family)))
		return -errno;
	dgram->is_bound = true;
	return 0;
}

static int dgram_bind(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes)
{
	struct dgram *dgram = dgram_of(sock);
	int ret = 0;

	rsock_lock(sock);
	if (bind(dgram->udp_fd, addr, bytes))
		ret = -errno;
	else
		dgram->is_bound = true;
	rsock_unlock(sock);
	return ret;
}

static int dgram_listen(struct rsock *sock, int backlog)
{
	(void)sock;
	(void)backlog;
	return -EOPNOTSUPP;
}

static int dgram_accept(struct rsock *sock, struct rsock **accepted)
{
	(void)sock;
	(void)accepted;
	return -EOPNOTSUPP;
}

/* AF_UNSPEC dissolves the association with the peer (connect(2)). */
static int dgram_connect_locked(struct dgram *dgram, const struct sockaddr *addr, socklen_t bytes)
{
	struct sockaddr_storage peer;
	int ret;

	if (!addr || bytes < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family == AF_UNSPEC) {
		dgram->connected = NULL;
		/* The kernel releases a port that it selected itself. */
		dgram->is_bound = false;
		return sys_connect(dgram->udp_fd, addr, bytes) ? -errno : 0;
	}
	ret = addr_take(&peer, addr, bytes, dgram->sock.domain);
	if (ret)
		return ret;
	if (sys_connect(dgram->udp_fd, addr, bytes))
		return -errno;
	return dgram_peer_get(dgram, &peer, &dgram->connected);
}

static int dgram_connect(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes)
{
	int ret;

	rsock_lock(sock);
	ret = dgram_connect_locked(dgram_of(sock), addr, bytes);
	rsock_unlock(sock);
	return ret;
}

static int dgram_shutdown(struct rsock *sock, int how)
{
	struct dgram *dgram = dgram_of(sock);
	int ret = 0;

	rsock_lock(sock);
	if (shutdown(dgram->udp_fd, how))
		ret = -errno;
	if (!ret && how != SHUT_RD)
		dgram->can_write = false;
	if (!ret && how != SHUT_WR)
		dgram->can_read = false;
	rsock_wake(sock);
	rsock_unlock(sock);
	return ret;
}

static int dgram_name(struct rsock *sock, bool is_peer, struct sockaddr_storage *addr)
{
	struct sockaddr *to = (struct sockaddr *)addr;
	socklen_t bytes = sizeof(*addr);
	int fd = dgram_of(sock)->udp_fd;

	memset(addr, 0, sizeof(*addr));
	return (is_peer ? getpeername(fd, to, &bytes) : getsockname(fd, to, &bytes)) ? -errno : 0;
}

/*
 * The UDP socket handles the socket options. The options of SOL_RDMA apply to queue pairs that are
 * created later.
 */
static int dgram_set_option(struct rsock *sock, enum rsock_option option, const void *value,
			    socklen_t bytes)
{
	const struct dgram *dgram = dgram_of(sock);

	(void)value;
	(void)bytes;
	if (option == OPTION_ROUTE)
		return -ENOTSUP;
	return option >= OPTION_SQSIZE && !list_is_empty(&dgram->qps) ? -EINVAL : 0;
}

static int dgram_get_option(struct rsock *sock, enum rsock_option option, void *value,
			    socklen_t *bytes)
{
	(void)sock;
	(void)option;
	(void)value;
	(void)bytes;
	return -ENOTSUP;
}

static int dgram_pass_set(struct rsock *sock, int level, int name, const void *value,
			  socklen_t bytes)
{
	return setsockopt(dgram_of(sock)->udp_fd, level, name, value, bytes) ? -errno : 0;
}

static int dgram_pass_get(struct rsock *sock, int level, int name, void *value, socklen_t *bytes)
{
	if (level == SOL_SOCKET && name == SO_ERROR && sock->error)
		return 1;
	return getsockopt(dgram_of(sock)->udp_fd, level, name, value, bytes) ? -errno : 0;
}

static bool dgram_progress(struct rsock *sock, bool is_readable)
{
	struct dgram *dgram = dgram_of(sock);
	struct dgram_qp *qp;
	bool has_changes = false;

	if (is_readable) {
		has_changes = dgram_udp_progress(dgram);
		has_changes = dgram_peer_progress(dgram) || has_changes;
	}
	list_for_each_entry(qp, &dgram->qps, node)
		has_changes = dgram_qp_progress(dgram, qp, is_readable) || has_changes;
	sock->changes += has_changes;
	return has_changes;
}

static void dgram_arm(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);
	struct dgram_qp *qp;

	list_for_each_entry(qp, &dgram->qps, node)
		dgram_qp_arm(dgram, qp);
}

static short dgram_events(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);
	int events = 0;

	if (!list_is_empty(&dgram->inbox) || !dgram->can_read)
		events |= POLLIN | POLLRDNORM;
	if (dgram_can_send(dgram))
		events |= POLLOUT | POLLWRNORM;
	if (sock->error)
		events |= POLLERR;
	return (short)events;
}

static bool has_sent_all(struct rsock *sock)
{
	const struct dgram *dgram = dgram_of(sock);
	const struct dgram_qp *qp;

	list_for_each_entry(qp, &dgram->qps, node)
		if (qp->free_count < qp->send_slots)
			return false;
	return true;
}

static void dgram_leave(struct rsock *sock, uint64_t deadline_ns)
{
	if (rsock_wait(sock, has_sent_all, false, deadline_ns))
		log_debug("rsocket %d is closed before all data are sent", sock->fd);
}

static void dgram_close(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);

	rsock_lock(sock);
	dgram->can_write = false;
	dgram->can_read = false;
	rsock_wake(sock);
	dgram_leave(sock, clock_now_ns() + SHUTDOWN_WAIT_NS);
	sock->is_closed = true;
	rsock_wake(sock);
	rsock_unlock(sock);
}

static void dgram_free(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);
	struct dgram_message *message, *next_message;
	struct dgram_peer *peer, *next_peer;
	struct dgram_qp *qp, *next_qp;

	list_for_each_entry_safe(message, next_message, &dgram->inbox, node)
		if (!message->qp)
			dgram_drop(dgram, message);
	list_for_each_entry_safe(peer, next_peer, &dgram->peers_used, node)
		dgram_peer_free(dgram, peer);
	list_for_each_entry_safe(qp, next_qp, &dgram->qps, node)
		dgram_qp_free(dgram, qp);
	rdma_destroy_event_channel(dgram->channel);
	hash_fini(&dgram->peers);
	sys_close(dgram->udp_fd);
	rsock_fini(sock);
	free(dgram);
}

static void dgram_disown(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);
	struct dgram_qp *qp;

	sys_close(dgram->udp_fd);
	if (dgram->channel)
		sys_close(dgram->channel->fd);
	list_for_each_entry(qp, &dgram->qps, node)
		sys_close(qp->comp_channel->fd);
}

static const struct rsock_ops dgram_ops = {
	.bind = dgram_bind,
	.listen = dgram_listen,
	.accept = dgram_accept,
	.connect = dgram_connect,
	.shutdown = dgram_shutdown,
	.send = dgram_send,
	.receive = dgram_receive,
	.name = dgram_name,
	.set_option = dgram_set_option,
	.get_option = dgram_get_option,
	.pass_set = dgram_pass_set,
	.pass_get = dgram_pass_get,
	.progress = dgram_progress,
	.arm = dgram_arm,
	.events = dgram_events,
	.leave = dgram_leave,
	.close = dgram_close,
	.free = dgram_free,
	.disown = dgram_disown,
};

int dgram_create(int domain, struct rsock **sock)
{
	struct dgram *dgram = calloc(1, sizeof(*dgram));
	int ret;

	if (!dgram)
		return -ENOMEM;
	ret = rsock_init(&dgram->sock, &dgram_ops, domain, SOCK_DGRAM);
	if (ret)
		goto err_init;
	ret = hash_init(&dgram->peers);
	if (ret)
		goto err_hash;
	dgram->udp_fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = dgram->udp_fd < 0 ? -errno : 0;
	if (ret)
		goto err_socket;
	ret = rsock_watch(&dgram->sock, dgram->udp_fd);
	if (ret)
		goto err_watch;
	list_init(&dgram->qps);
	list_init(&dgram->peers_used);
	list_init(&dgram->inbox);
	dgram->can_read = true;
	dgram->can_write = true;
	*sock = &dgram->sock;
	return 0;

err_watch:
	sys_close(dgram->udp_fd);
err_socket:
	hash_fini(&dgram->peers);
err_hash:
	rsock_fini(&dgram->sock);
err_init:
	free(dgram);
	return ret;
}
