/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_error.h"

/* linux/errqueue.h uses struct timespec. */
#include <time.h>

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syscalls.h"

/* The control message with which the kernel returns a datagram, for either family. */
#define CONTROL_BYTES 128

/*
 * epoll reports ready sockets in turn: with two results, the receiving socket cannot hide one that
 * has an error.
 */
#define EVENTS 4

/* The maximum number of other reports that one call discards. */
#define SKIP_MAX 64

void udp_errors_init(struct udp_errors *errors)
{
	errors->epoll_fd = -1;
	errors->rx_fd = -1;
}

static int udp_error_add(const struct udp_errors *errors, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(errors->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int udp_errors_open(struct udp_errors *errors, int rx_fd)
{
	int ret;

	errors->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (errors->epoll_fd < 0)
		return -errno;
	errors->rx_fd = rx_fd;
	ret = udp_error_add(errors, rx_fd, EPOLLIN);
	if (ret)
		udp_errors_close(errors);
	return ret;
}

void udp_errors_close(struct udp_errors *errors)
{
	if (errors->epoll_fd >= 0)
		sys_close(errors->epoll_fd);
	udp_errors_init(errors);
}

int udp_errors_watch(struct udp_errors *errors, int fd, bool is_ipv4)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)))
		return -errno;
	if (!is_ipv4 && setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on)))
		return -errno;
	/* EPOLLERR is always reported. Received datagrams of a sending socket are ignored. */
	return udp_error_add(errors, fd, 0);
}

/* Destination unreachable, except "fragmentation needed". */
static bool is_unreachable(const struct sock_extended_err *error)
{
	switch (error->ee_origin) {
	case SO_EE_ORIGIN_ICMP:
		return error->ee_type == ICMP_DEST_UNREACH && error->ee_code != ICMP_FRAG_NEEDED;
	case SO_EE_ORIGIN_ICMP6:
		return error->ee_type == ICMP6_DST_UNREACH;
	default:
		return false;
	}
}

/* The -errno of the report in the control messages; 0: a report of another kind. */
static int find_error(struct msghdr *msg)
{
	struct sock_extended_err error;
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		bool is_report =
			(cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
			(cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);

		if (!is_report || cmsg->cmsg_len < CMSG_LEN(sizeof(error)))
			continue;
		memcpy(&error, CMSG_DATA(cmsg), sizeof(error));
		return is_unreachable(&error) ? -(int)error.ee_errno : 0;
	}
	return 0;
}

/* 1: a report; 0: one of another kind; -EAGAIN: no more. */
static int read_one(struct udp_errors *errors, int fd, struct link_error *error)
{
	struct iovec iov = {errors->bytes, sizeof(errors->bytes)};
	_Alignas(struct cmsghdr) uint8_t control[CONTROL_BYTES];
	struct sockaddr_storage to = {0};
	struct msghdr msg = {
		.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len = sys_recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (len < 0)
		return -EAGAIN;
	error->error = find_error(&msg);
	if (!error->error || !gid_from_sockaddr(error->remote_gid, (struct sockaddr *)&to))
		return 0;
	error->bytes = errors->bytes;
	error->len = (size_t)len;
	return 1;
}

/* A socket that has a report, or -1. The receiving socket is skipped. */
static int ready(const struct udp_errors *errors)
{
	struct epoll_event events[EVENTS];
	int n = sys_epoll_look(errors->epoll_fd, events, EVENTS);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd != errors->rx_fd)
			return events[i].data.fd;
	}
	return -1;
}

bool udp_errors_read(struct udp_errors *errors, struct link_error *error)
{
	if (errors->epoll_fd < 0)
		return false;
	for (int i = 0; i < SKIP_MAX; i++) {
		int fd = ready(errors);
		int ret, pending;
		socklen_t len = sizeof(pending);

		if (fd < 0)
			return false;
		ret = read_one(errors, fd, error);
		if (ret > 0)
			return true;
		/* The socket's pending error may be that of the report just read. */
		if (ret < 0)
			(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &len);
	}
	return false;
}

bool udp_errors_may_be_old(const struct udp_errors *errors, int error)
{
	return errors->epoll_fd >= 0 && (error == ECONNREFUSED || error == EHOSTUNREACH ||
					 error == ENETUNREACH || error == ENOPROTOOPT);
}
