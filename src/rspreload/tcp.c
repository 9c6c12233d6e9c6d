/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/tcp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/util.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

/*
 * The mark is stored in TCP_KEEPINTVL, which has no effect on a socket that will be closed soon: an
 * unusual number of seconds plus the kind of the socket. A socket that stays TCP gets the default
 * of Linux again.
 */
#define MARK	     32700
#define MARK_DEFAULT 75

/* Another process may listen on the RDMA port for its own connection, for about a millisecond. */
#define PORT_NS	      (6 * CLOCK_NS_PER_S)
#define PORT_PAUSE_MS 2

/*
 * Maximum time for which a call on an accepted socket waits for the peer's RDMA connection, unless
 * it is a read of a blocking socket. A TCP client that sends nothing delays an event loop for this
 * time.
 */
#define ACCEPT_NS CLOCK_NS_PER_S

/*
 * Maximum time for which the first write on a connected socket waits for the request to connect by
 * RDMA. Longer than ACCEPT_NS, because a process that accepts connections one by one may wait for
 * another client first.
 */
#define REQUEST_NS (3 * CLOCK_NS_PER_S)

#define TCP_FOR_EVER UINT64_MAX

/* Maximum time from the end of the peer's TCP connection to its RDMA connection. */
#define LATE_MS 1000

static void set_mark(int fd, int value)
{
	real.setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &value, sizeof(value));
}

static ino_t inode_of(int fd)
{
	struct stat64 stat;

	return real.fstat64(fd, &stat) ? 0 : stat.st_ino;
}

static void become(struct sock *sock, int fd, enum sock_kind kind)
{
	atomic_store(&sock->kind, kind);
	set_mark(fd, MARK + (int)kind);
}

/* Creates a sock for an existing descriptor. */
static int adopt(int fd, int domain, enum sock_kind kind)
{
	struct sock *sock = sock_new(kind, domain, SOCK_STREAM);
	int ret;

	if (!sock)
		return -ENOMEM;
	sock->inode = inode_of(fd);
	set_mark(fd, MARK + (int)kind);
	ret = sock_name(sock, fd);
	if (ret)
		sock_put(sock);
	return ret;
}

int tcp_open(int domain, int type, int protocol)
{
	int fd = real.socket(domain, type, protocol);
	int ret;

	if (fd < 0)
		return fd;
	ret = adopt(fd, domain, SOCK_TCP_FRESH);
	if (ret)
		log_warn("socket %d falls back to TCP: %s", fd, strerror(-ret));
	return fd;
}

void tcp_listens(struct sock *sock, int fd)
{
	if (sock_kind_of(sock) == SOCK_TCP_FRESH)
		become(sock, fd, SOCK_TCP_LISTENS);
}

void tcp_connects(struct sock *sock, int fd)
{
	if (sock_kind_of(sock) == SOCK_TCP_FRESH)
		become(sock, fd, SOCK_TCP_ACTIVE);
}

int tcp_accepted(const struct sock *listener, int fd)
{
	int ret = adopt(fd, listener->domain, SOCK_TCP_PASSIVE);

	if (ret)
		log_warn("socket %d falls back to TCP: %s", fd, strerror(-ret));
	return fd;
}

static void stay(struct sock *sock, const char *why)
{
	log_debug("socket %d falls back to TCP: %s", sock->numbers[0], why);
	set_mark(sock->numbers[0], MARK_DEFAULT);
	sock_stay_plain(sock);
}

/* Copies the options that rsockets support from the TCP socket to the rsocket. */
static void tcp_copy_options(int from, int to)
{
	static const struct {
		int level;
		int name;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY}, {SOL_SOCKET, SO_KEEPALIVE}};

	for (size_t i = 0; i < COUNT(options); i++) {
		int value = 0;
		socklen_t bytes = sizeof(value);

		if (!real.getsockopt(from, options[i].level, options[i].name, &value, &bytes) &&
		    value)
			rsetsockopt(to, options[i].level, options[i].name, &value, bytes);
	}
	rfcntl(to, F_SETFL, real.fcntl(from, F_GETFL) & O_NONBLOCK);
}

static void use(struct sock *sock, int fd, int rsocket)
{
	tcp_copy_options(fd, rsocket);
	sock_become_rdma(sock, rsocket);
}

/* Whether the peer has already sent data or closed: it then does not use this protocol. */
static bool has_spoken(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN | POLLRDHUP};

	return real.poll(&pollfd, 1, 0) > 0;
}

static int listen_at(int domain, const struct sockaddr_storage *addr)
{
	int listener = preload_rsocket(domain, SOCK_STREAM, 0);
	int ret;

	if (listener < 0)
		return -errno;
	if (!rbind(listener, (const struct sockaddr *)addr,
		   domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) &&
	    !rlisten(listener, 1))
		return listener;
	ret = -errno;
	rclose(listener);
	return ret;
}

/* Milliseconds until the deadline for poll(2). */
static int tcp_left_ms(uint64_t deadline_ns)
{
	return deadline_ns == TCP_FOR_EVER ? -1 : clock_left_ms(clock_now_ns(), deadline_ns);
}

/*
 * Listens by RDMA on all addresses and the number of the TCP port. Waits while another process uses
 * the port.
 */
static int take_port(int fd, uint64_t deadline_ns)
{
	struct sockaddr_storage addr = {0};
	socklen_t bytes = sizeof(addr);
	int listener;
	uint16_t port;

	if (real.getsockname(fd, (struct sockaddr *)&addr, &bytes))
		return -errno;
	port = ((struct sockaddr_in *)&addr)->sin_port;
	bytes = sizeof(addr.ss_family);
	memset((char *)&addr + bytes, 0, sizeof(addr) - bytes);
	/* sin_port and sin6_port have the same offset. */
	((struct sockaddr_in *)&addr)->sin_port = port;
	while ((listener = listen_at(addr.ss_family, &addr)) == -EADDRINUSE &&
	       clock_now_ns() < deadline_ns)
		real.poll(NULL, 0, PORT_PAUSE_MS);
	return listener;
}

/* Asks the peer to connect to this rsocket. False: sending failed. */
static bool tcp_ask_peer(struct sock *sock, int fd, int listener)
{
	const uint32_t go = 0;

	sock->listener = listener;
	return sys_send(fd, &go, sizeof(go), MSG_NOSIGNAL) == sizeof(go);
}

/*
 * Waits until the peer connects by RDMA. -1: it sent data by TCP or closed without an RDMA
 * connection, or did nothing.
 */
static int await_rdma_peer(int fd, int listener, uint64_t deadline_ns)
{
	struct pollfd fds[] = {{.fd = listener, .events = POLLIN},
			       {.fd = fd, .events = POLLIN | POLLRDHUP}};
	char byte;
	int ret;

	do {
		ret = preload_rpoll(fds, 2, tcp_left_ms(deadline_ns), NULL);
	} while (ret < 0 && errno == EINTR);
	if (ret <= 0)
		return -1;
	/* A peer that has connected by RDMA closes its TCP socket; the close may arrive first. */
	if (!fds[0].revents && (sys_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0 ||
				preload_rpoll(fds, 1, LATE_MS, NULL) <= 0))
		return -1;
	return raccept(listener, NULL, NULL);
}

/*
 * The first part of the procedure; not repeated if the thread is cancelled later. False: the socket
 * stays TCP.
 */
static bool listen_for_peer(struct sock *sock, int fd, uint64_t deadline_ns)
{
	int listener;

	if (has_spoken(fd)) {
		stay(sock, "the peer speaks plain TCP");
		return false;
	}
	listener = take_port(fd, deadline_ns);
	if (listener < 0) {
		stay(sock, strerror(-listener));
		return false;
	}
	if (tcp_ask_peer(sock, fd, listener))
		return true;
	rclose(listener);
	sock->listener = -1;
	stay(sock, "the peer is gone");
	return false;
}

static bool may_block(int fd, enum tcp_call call)
{
	return call == TCP_CALL_READ && !(real.fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/*
 * A peer that connects by RDMA after the deadline is refused, and then uses TCP, too. Its read
 * removes the four zero bytes from the stream.
 */
static void settle_passive(struct sock *sock, int fd, enum tcp_call call)
{
	bool is_bounded = !may_block(fd, call);
	uint64_t now_ns = clock_now_ns();
	int rsocket;

	if (sock->listener < 0 &&
	    !listen_for_peer(sock, fd, now_ns + (is_bounded ? ACCEPT_NS : PORT_NS)))
		return;
	rsocket = await_rdma_peer(fd, sock->listener,
				  is_bounded ? now_ns + ACCEPT_NS : TCP_FOR_EVER);
	rclose(sock->listener);
	sock->listener = -1;
	if (rsocket < 0)
		stay(sock, "the peer does not come by RDMA");
	else
		use(sock, fd, rsocket);
}

enum tcp_first {
	TCP_FIRST_NONE,
	TCP_FIRST_REQUEST, /* the four zero bytes */
	TCP_FIRST_OTHER,   /* other data, the end of the connection, or an error */
};

/* What the peer has sent first. Waits for it until the deadline. */
static enum tcp_first await_first(int fd, uint64_t deadline_ns)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	for (;;) {
		uint32_t go;
		ssize_t count = sys_recv(fd, &go, sizeof(go), MSG_PEEK | MSG_DONTWAIT);

		if (count >= 0 || errno != EAGAIN)
			return count == sizeof(go) && !go ? TCP_FIRST_REQUEST : TCP_FIRST_OTHER;
		if (clock_now_ns() >= deadline_ns)
			return TCP_FIRST_NONE;
		real.poll(&pollfd, 1, tcp_left_ms(deadline_ns));
	}
}

static int go_to(const struct sockaddr_storage *addr, socklen_t bytes)
{
	int rsocket = preload_rsocket(addr->ss_family, SOCK_STREAM, 0);
	int cancel_state, ret;

	if (rsocket < 0)
		return -errno;
	/*
	 * The peer accepts only one connection: an interrupted connection attempt could not be
	 * repeated.
	 */
	cancel_state = cancel_disable();
	ret = rconnect(rsocket, (const struct sockaddr *)addr, bytes) ? -errno : 0;
	cancel_restore(cancel_state);
	if (!ret)
		return rsocket;
	rclose(rsocket);
	return ret;
}

/* The peer has sent the four zero bytes. */
static void follow_request(struct sock *sock, int fd, const struct sockaddr_storage *addr,
			   socklen_t bytes)
{
	/* The peer stays with TCP when it receives data by TCP. */
	int rsocket = sock->writes_tcp ? -ETIMEDOUT : go_to(addr, bytes);
	uint32_t go;

	if (rsocket >= 0) {
		use(sock, fd, rsocket);
		return;
	}
	sys_recv(fd, &go, sizeof(go), 0);
	stay(sock, strerror(-rsocket));
}

/*
 * If the peer sends nothing, only writes use TCP: the four zero bytes may still arrive, and a read
 * must remove them. 0, or -EAGAIN as tcp_settle().
 */
static int settle_active(struct sock *sock, int fd, enum tcp_call call)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	/* Not connected: the caller's read or write on the TCP socket reports the error. */
	if (real.getpeername(fd, (struct sockaddr *)&addr, &bytes))
		return 0;
	if (call == TCP_CALL_WRITE && sock->writes_tcp)
		return 0;
	switch (await_first(fd, call == TCP_CALL_WRITE ? clock_now_ns() + REQUEST_NS : 0)) {
	case TCP_FIRST_REQUEST:
		follow_request(sock, fd, &addr, bytes);
		return 0;
	case TCP_FIRST_OTHER:
		stay(sock, "the peer speaks plain TCP");
		return 0;
	case TCP_FIRST_NONE:
		break;
	}
	if (call != TCP_CALL_WRITE)
		return -EAGAIN;
	log_debug("socket %d is written by TCP: the peer has sent nothing", fd);
	sock->writes_tcp = true;
	return 0;
}

static void settle_cancelled(void *arg)
{
	struct sock *sock = arg;

	pthread_mutex_unlock(&sock->lock);
}

/* *fd: a number of the socket, if the result is -EAGAIN. */
static int settle_once(struct sock *sock, enum tcp_call call, int *fd)
{
	int ret = 0;

	pthread_mutex_lock(&sock->lock);
	pthread_cleanup_push(settle_cancelled, sock);
	*fd = sock->number_count ? sock->numbers[0] : -1;
	if (*fd >= 0 && sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		settle_passive(sock, *fd, call);
	else if (*fd >= 0 && sock_kind_of(sock) == SOCK_TCP_ACTIVE)
		ret = settle_active(sock, *fd, call);
	pthread_cleanup_pop(0);
	pthread_mutex_unlock(&sock->lock);
	return ret;
}

int tcp_settle(struct sock *sock, enum tcp_call call)
{
	char byte;
	int fd, ret;

	pthread_cleanup_push(wrap_cancelled, sock);
	ret = settle_once(sock, call, &fd);
	while (ret == -EAGAIN && may_block(fd, call)) {
		/*
		 * Without the lock, so that another thread can write. SO_RCVTIMEO and signals end
		 * the wait.
		 */
		if (real.recv(fd, &byte, 1, MSG_PEEK) < 0) {
			ret = -errno;
			break;
		}
		ret = settle_once(sock, call, &fd);
	}
	pthread_cleanup_pop(0);
	return ret;
}

void tcp_settle_uncancelled(struct sock *sock)
{
	int cancel_state = cancel_disable();

	/* Returns 0 for this call. */
	(void)!tcp_settle(sock, TCP_CALL_POLL);
	cancel_restore(cancel_state);
}

/* The kind in a descriptor's mark, or -1. */
static int kind_of(int fd)
{
	socklen_t bytes = sizeof(int);
	int value = 0;

	if (real.getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &value, &bytes))
		return -1;
	value -= MARK;
	return value >= SOCK_TCP_FRESH && value <= SOCK_TCP_PASSIVE ? value : -1;
}

static struct sock *tcp_find_inode(ino_t inode, int below)
{
	for (int fd = 0; fd < below; fd++) {
		struct sock *sock = sock_find(fd);

		if (sock && sock->inode == inode)
			return sock;
		if (sock)
			sock_put(sock);
	}
	return NULL;
}

/* Creates a sock for an inherited socket. Numbers of the same socket get the same sock. */
static void inherit(int fd, enum sock_kind kind)
{
	struct sock *same = tcp_find_inode(inode_of(fd), fd);
	socklen_t bytes = sizeof(int);
	int domain = AF_INET;
	int ret;

	real.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
	ret = same ? sock_name(same, fd) : adopt(fd, domain, kind);
	if (same)
		sock_put(same);
	if (ret)
		log_warn("socket %d falls back to TCP: %s", fd, strerror(-ret));
}

void tcp_inherit(void)
{
	int most = (int)sysconf(_SC_OPEN_MAX);
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		int kind = entry->d_name[0] == '.' || fd >= most ? -1 : kind_of(fd);

		if (kind >= 0)
			inherit(fd, (enum sock_kind)kind);
	}
	closedir(dir);
}
