/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

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

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* Sets them all, but for those of IPv6 where the socket has none. 0 or -errno. */
static int set_options(int fd, const struct option *options, size_t count)
{
	bool is_ipv4 = udp_socket_is_ipv4(fd);

	for (size_t i = 0; i < count; i++) {
		int ret;

		if (is_ipv4 && options[i].level == IPPROTO_IPV6)
			continue;
		ret = set_int(fd, options[i].level, options[i].name, options[i].value);
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
	ret = udp_socket_is_ipv4(fd) ? 0 : set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!ret)
		return fd;
	close(fd);
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

/* As much as the system allows; beyond its limit for everybody only the privileged may go. */
static void enlarge(int fd, int forced, int permitted)
{
	if (set_int(fd, SOL_SOCKET, forced, SOCKET_BUFFER_BYTES))
		(void)set_int(fd, SOL_SOCKET, permitted, SOCKET_BUFFER_BYTES);
}

/*
 * Never fragmented: with that an unconnected socket's packets travel under the IPv4 identification 0, which the ICRC
 * covers, or under 0, 1, 2, … in a train (ADR 0010).
 */
int udp_socket_prepare_tx(int fd)
{
	static const struct option options[] = {
		{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
		{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO},
	};
	int ret = SET_OPTIONS(fd, options);

	/* Less only means back-pressure earlier. */
	enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	return ret;
}

int udp_socket_prepare_rx(int fd)
{
	static const struct option options[] = {
		{IPPROTO_IPV6, IPV6_RECVPKTINFO, 1},
		{IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
		{IPPROTO_IP, IP_RECVTOS, 1},
		/* What datagrams have in their GRH. */
		{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
		{IPPROTO_IP, IP_RECVTTL, 1},
		{IPPROTO_IPV6, IPV6_FLOWINFO, 1},
	};
	bool is_ipv4 = udp_socket_is_ipv4(fd);
	int ret = SET_OPTIONS(fd, options);

	if (!ret && is_ipv4)
		ret = set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!ret)
		ret = udp_group_hear_all(fd, false);
	/*
	 * RoCEv2 senders may leave the UDP checksum 0, over IPv6 too, and Linux's does: the ICRC is what counts (IBA
	 * A17).
	 */
	if (!ret && !is_ipv4)
		ret = set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	/* Trains are a matter of speed: kernels before 5.0 deliver datagrams one by one. */
	(void)set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
	enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	return ret;
}

/* The kernel reckons twice what was asked for, for what it needs itself. */
uint32_t udp_socket_rx_bytes(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) || bytes < 0)
		return 0;
	return (uint32_t)bytes / 2;
}
