/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "link/udp_group.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

#define SOCKET_TYPE	    (SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK)
#define SOCKET_BUFFER_BYTES (4 * 1024 * 1024)

struct option {
	int level;
	int name;
	int value;
};

static int udp_socket_set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* Sets all options; those of IPv6 only if the socket has it. 0 or -errno. */
static int set_options(int fd, const struct option *options, size_t count)
{
	bool is_ipv4 = udp_socket_is_ipv4(fd);

	for (size_t i = 0; i < count; i++) {
		int ret;

		if (is_ipv4 && options[i].level == IPPROTO_IPV6)
			continue;
		ret = udp_socket_set_int(fd, options[i].level, options[i].name, options[i].value);
		if (ret)
			return ret;
	}
	return 0;
}

#define SET_OPTIONS(fd, options) set_options(fd, options, sizeof(options) / sizeof((options)[0]))

int udp_socket_open(void)
{
	int fd = socket(AF_INET6, SOCKET_TYPE, 0);
	int ret;

	if (fd < 0 && errno == EAFNOSUPPORT)
		fd = socket(AF_INET, SOCKET_TYPE, 0);
	if (fd < 0)
		return -errno;
	ret = udp_socket_is_ipv4(fd) ? 0 : udp_socket_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!ret)
		return fd;
	sys_close(fd);
	return ret;
}

bool udp_socket_is_ipv4(int fd)
{
	int domain;
	socklen_t len = sizeof(domain);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_INET;
}

int udp_socket_bind(int fd, uint16_t port)
{
	const struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr_in6 both = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int ret = udp_socket_is_ipv4(fd) ? bind(fd, (const struct sockaddr *)&ipv4, sizeof(ipv4)) :
					   bind(fd, (const struct sockaddr *)&both, sizeof(both));

	return ret ? -errno : 0;
}

bool udp_socket_has_address(const uint8_t gid[GID_BYTES], uint32_t ifindex)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_scope_id = ifindex};
	int fd = socket(AF_INET6, SOCKET_TYPE, 0);
	bool has_address;

	if (fd < 0)
		return false;
	memcpy(&addr.sin6_addr, gid, GID_BYTES);
	has_address = !bind(fd, (const struct sockaddr *)&addr, sizeof(addr));
	sys_close(fd);
	return has_address;
}

/*
 * Sets the largest buffer that is permitted; only privileged processes may exceed the system's
 * limit.
 */
static void enlarge(int fd, int forced, int permitted)
{
	if (udp_socket_set_int(fd, SOL_SOCKET, forced, SOCKET_BUFFER_BYTES))
		(void)udp_socket_set_int(fd, SOL_SOCKET, permitted, SOCKET_BUFFER_BYTES);
}

/*
 * Packets are never fragmented. Then the kernel gives the packets of an unconnected socket the IPv4
 * identification 0, which the ICRC covers, and those of a burst 0, 1, 2, …
 */
int udp_socket_prepare_tx(int fd)
{
	static const struct option options[] = {
		{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
		{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO},
	};
	int ret = SET_OPTIONS(fd, options);

	/* A smaller send buffer only causes back-pressure earlier. */
	enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	return ret;
}

int udp_socket_prepare_rx(int fd)
{
	static const struct option options[] = {
		{IPPROTO_IPV6, IPV6_RECVPKTINFO, 1},
		{IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
		{IPPROTO_IP, IP_RECVTOS, 1},
		/* The fields of the GRH of a received datagram. */
		{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
		{IPPROTO_IP, IP_RECVTTL, 1},
		{IPPROTO_IPV6, IPV6_FLOWINFO, 1},
	};
	bool is_ipv4 = udp_socket_is_ipv4(fd);
	int ret = SET_OPTIONS(fd, options);

	if (!ret && is_ipv4)
		ret = udp_socket_set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!ret)
		ret = udp_group_receive_all(fd, false);
	/*
	 * A RoCEv2 sender may set the UDP checksum to 0, also over IPv6, and Linux does: the ICRC
	 * protects the packet (IBA A17).
	 */
	if (!ret && !is_ipv4)
		ret = udp_socket_set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	/* UDP_GRO is optional: kernels before 5.0 deliver datagrams one by one. */
	(void)udp_socket_set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
	enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	return ret;
}

/* The kernel reports twice the requested size, since it counts its own overhead. */
uint32_t udp_socket_rx_bytes(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) || bytes < 0)
		return 0;
	return (uint32_t)bytes / 2;
}

void udp_socket_replace(int fd)
{
	int unused = socket(AF_UNIX, SOCKET_TYPE, 0);

	if (unused < 0 || dup3(unused, fd, O_CLOEXEC) < 0)
		log_warn("cannot replace the former daemon's socket of port 4791: %m");
	if (unused >= 0)
		sys_close(unused);
}
