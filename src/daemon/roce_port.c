/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/roce_port.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/netdev.h"
#include "link/udp_group.h"
#include "link/udp_socket.h"
#include "wire/packet.h"

#define IDLE_BUFFER 1 /* the kernel raises it to its minimum */

/*
 * More datagrams than the receive buffer of an idle socket can hold. The limit ends the loop if
 * datagrams keep arriving.
 */
#define DRAIN_DATAGRAMS 64

/* For this time a new daemon waits until the processes of a preceding one have left the port. */
#define LEFT_WAIT_NS CLOCK_NS_PER_S
#define LEFT_POLL_NS (5 * CLOCK_NS_PER_MS)

/*
 * A socket leaves the reuseport group by connecting to the discard port of this host, which only
 * root can bind.
 */
#define DISCARD_PORT 9

static int roce_port_set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static int prepare_and_bind(int fd)
{
	int ret = roce_port_set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (!ret)
		ret = roce_port_set_int(fd, SOL_SOCKET, SO_RCVBUF, IDLE_BUFFER);
	/*
	 * The BPF program selects the socket for unicast datagrams only. Multicast datagrams are
	 * delivered to every socket that accepts the group, so a socket must only accept the groups
	 * that it joined.
	 */
	if (!ret)
		ret = udp_group_receive_all(fd, false);
	return ret ? ret : udp_socket_bind(fd, PACKET_UDP_PORT);
}

/* Whether the port can be bound; `is_shared`: by a further socket of this user. 0 or -errno. */
static int try_bind(bool is_shared)
{
	int fd = udp_socket_open();
	int ret;

	if (fd < 0)
		return fd;
	ret = is_shared ? roce_port_set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1) : 0;
	if (!ret)
		ret = udp_socket_bind(fd, PACKET_UDP_PORT);
	close(fd);
	return ret;
}

/* Opens the next socket of the reuseport group. Returns the descriptor or -errno. */
static int open_member(void)
{
	int fd = udp_socket_open();
	int ret;

	if (fd < 0)
		return fd;
	ret = prepare_and_bind(fd);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

/*
 * The first socket (slot 0) creates the reuseport group. The BPF program belongs to the group and
 * is attached through this socket. SO_LOCK_FILTER prevents a process with a delegated socket of
 * another slot from replacing the program.
 */
static int open_slot(struct roce_port *port, uint32_t slot)
{
	int fd = open_member();

	if (fd < 0)
		return fd;
	port->fds[slot] = fd;
	return slot == 0 ? roce_steer_attach(&port->steer, fd) :
			   roce_port_set_int(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

/* Opens the socket of forged datagrams, which the kernel drops and counts. */
static int open_sink(struct roce_port *port)
{
	int fd = open_member();

	if (fd < 0)
		return fd;
	port->sink = fd;
	return roce_steer_block(fd);
}

static int open_spare(struct roce_port *port)
{
	int fd = open_member();

	if (fd < 0)
		return fd;
	port->spare = fd;
	return roce_port_set_int(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

void roce_port_init(struct roce_port *port)
{
	memset(port->fds, -1, sizeof(port->fds));
	port->sink = -1;
	port->spare = -1;
	port->error = -ENOTCONN;
	roce_port_set_sources(port);
}

void roce_port_wait(void)
{
	const struct timespec pause = {.tv_nsec = LEFT_POLL_NS};
	uint64_t end_ns = clock_now_ns() + LEFT_WAIT_NS;

	/* A socket of another RoCE implementation or user does not permit the second call. */
	while (try_bind(false) == -EADDRINUSE && !try_bind(true) && clock_now_ns() < end_ns)
		nanosleep(&pause, NULL);
}

void roce_port_open(struct roce_port *port)
{
	/* In a group with other sockets, the BPF program would select wrong ones. */
	port->error = try_bind(false);
	for (uint32_t slot = 0; slot < IPC_SLOTS && !port->error; slot++)
		port->error = open_slot(port, slot);
	if (!port->error)
		port->error = open_sink(port);
	if (!port->error)
		port->error = open_spare(port);
	if (port->error)
		roce_port_close(port);
}

void roce_port_close(struct roce_port *port)
{
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		if (port->fds[slot] >= 0)
			close(port->fds[slot]);
		port->fds[slot] = -1;
	}
	if (port->sink >= 0)
		close(port->sink);
	port->sink = -1;
	if (port->spare >= 0)
		close(port->spare);
	port->spare = -1;
}

/* Adds the addresses of a device to the program. false: not all of them fit. */
static bool add_sources_of(struct roce_steer *steer, const struct netdev *dev)
{
	for (uint32_t i = 0; i < dev->gid_count; i++) {
		if (dev->gids[i].is_valid && !roce_steer_add_source(steer, dev->gids[i].raw))
			return false;
	}
	return true;
}

void roce_port_set_sources(struct roce_port *port)
{
	uint32_t cursor = 0;
	const struct netdev *dev;
	bool are_all = true;

	roce_steer_begin(&port->steer);
	while (are_all && (dev = netdev_from_cursor(cursor, &cursor)))
		are_all = add_sources_of(&port->steer, dev);
	roce_steer_end(&port->steer);
	if (!are_all)
		log_warn("more than %d IPv6 addresses: RoCE packets that processes of this host "
			 "send to each other from the other addresses are dropped",
			 ROCE_STEER_SOURCES_MAX);
	/* roce_port_delegate() attaches the program again before it delegates a socket. */
	if (port->fds[0] >= 0 && roce_steer_attach(&port->steer, port->fds[0]))
		log_warn("cannot update the addresses of this host at UDP port 4791: %m");
}

uint64_t roce_port_forged(const struct roce_port *port)
{
	uint32_t memory[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(memory);

	/* Fails if the port is not open: no datagram was dropped. */
	(void)getsockopt(port->sink, SOL_SOCKET, SO_MEMINFO, memory, &len);
	return memory[SK_MEMINFO_DROPS];
}

static void drain(int fd)
{
	uint8_t byte;

	for (int i = 0; i < DRAIN_DATAGRAMS; i++) {
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 &&
		    errno != ECONNREFUSED)
			return;
	}
}

/* Removes a socket from the reuseport group. 0 or -errno. */
static int leave_group(int fd)
{
	const struct sockaddr_in ipv4 = {.sin_family = AF_INET,
					 .sin_port = htons(DISCARD_PORT),
					 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const struct sockaddr_in6 mapped = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(DISCARD_PORT),
		.sin6_addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}}};
	const struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6,
					  .sin6_port = htons(DISCARD_PORT),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	if (udp_socket_is_ipv4(fd))
		return connect(fd, (const struct sockaddr *)&ipv4, sizeof(ipv4)) ? -errno : 0;
	if (!connect(fd, (const struct sockaddr *)&mapped, sizeof(mapped)) ||
	    !connect(fd, (const struct sockaddr *)&ipv6, sizeof(ipv6)))
		return 0;
	return -errno;
}

/*
 * Replaces the slot's socket by one that was never delegated. On failure (-errno) the slot keeps
 * its socket.
 */
static int replace(struct roce_port *port, uint32_t slot)
{
	int error = port->spare >= 0 ? 0 : open_spare(port);

	if (!error)
		error = leave_group(port->fds[slot]);
	if (error)
		return error;
	close(port->fds[slot]);
	port->fds[slot] = port->spare;
	port->is_used[slot] = false;
	port->spare = -1;
	error = open_spare(port);
	if (error)
		log_warn("cannot create a spare socket of UDP port 4791: %s", strerror(-error));
	return 0;
}

int roce_port_delegate(struct roce_port *port, uint32_t slot)
{
	int fd;

	if (port->fds[slot] < 0 || (port->is_used[slot] && replace(port, slot)))
		return -1;
	fd = port->fds[slot];
	drain(fd);
	/*
	 * A process with a delegated socket cannot replace the BPF program, but it can detach it.
	 */
	if (roce_steer_attach(&port->steer, port->fds[0]))
		return -1;
	port->is_used[slot] = true;
	return udp_socket_prepare_rx(fd) ? -1 : fd;
}

void roce_port_return(struct roce_port *port, uint32_t slot)
{
	int error;

	if (port->fds[slot] < 0 || !port->is_used[slot])
		return;
	error = replace(port, slot);
	if (!error)
		return;
	/*
	 * For example, lo is down. roce_port_delegate() retries before it delegates the socket
	 * again.
	 */
	log_debug("cannot replace the socket of slot %u: %s", slot, strerror(-error));
	(void)roce_port_set_int(port->fds[slot], SOL_SOCKET, SO_RCVBUF, IDLE_BUFFER);
}
