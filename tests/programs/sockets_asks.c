/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: options, ioctls and other calls that do not transfer data. */

#include "sockets.h"

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * nfds may exceed the size of the sets: select() accesses only the bits of possible descriptors.
 * Timeouts are normalized and checked.
 */
void sets_and_times_of_programs(void)
{
	struct timeval time = {.tv_usec = 20 * 1000000};
	struct timespec never = {.tv_sec = -1};
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd_set *out = (fd_set *)(void *)(pages + page - sizeof(fd_set));

	MUST(pages != MAP_FAILED && !mprotect(pages + page, (size_t)page, PROT_NONE));
	FD_ZERO(out);
	FD_SET(client, out);
	MUST(select(INT_MAX, NULL, out, NULL, &time) == 1 && FD_ISSET(client, out));
	MUST(time.tv_sec > 0 && time.tv_sec < 20 && time.tv_usec < 1000000);
	time = (struct timeval){.tv_sec = -1};
	MUST(select(client + 1, NULL, out, NULL, &time) == -1 && errno == EINVAL);
	MUST(pselect(client + 1, NULL, out, NULL, &never, NULL) == -1 && errno == EINVAL);
	MUST(!munmap(pages, 2 * (size_t)page));
}

/* Interface ioctls work on any socket. */
void interfaces_are_asked_for(void)
{
	int fds[] = {client, socket(AF_INET, SOCK_DGRAM, 0)};
	int pid = getpid(), owner;

	for (int i = 0; i < 2; i++) {
		struct ifreq request = {.ifr_name = "lo"};
		struct ifconf all = {0};

		MUST(!ioctl(fds[i], SIOCGIFADDR, &request));
		MUST(((struct sockaddr_in *)&request.ifr_addr)->sin_addr.s_addr ==
		     htonl(INADDR_LOOPBACK));
		MUST(!ioctl(fds[i], SIOCGIFCONF, &all) && all.ifc_len > 0);
		strcpy(request.ifr_name, "none-such");
		MUST(ioctl(fds[i], SIOCGIFINDEX, &request) == -1 && errno == ENODEV);
		MUST(!ioctl(fds[i], FIOSETOWN, &pid));
		MUST(!ioctl(fds[i], SIOCGPGRP, &owner) && owner == pid);
	}
	MUST(!ioctl(client, SIOCATMARK, &owner) && owner == 0);
	close(fds[1]);
}

/* Options and addresses that TCP ignores, and an unknown option, which it rejects. */
void what_programs_say_for_nothing(void)
{
	static const struct {
		int level;
		int name;
	} hints[] = {{SOL_SOCKET, SO_BROADCAST},
		     {SOL_SOCKET, SO_DONTROUTE},
		     {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
		     {IPPROTO_TCP, TCP_LINGER2},
		     {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT}};
	struct sockaddr_in elsewhere = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct iovec iov = {"b", 1};
	struct msghdr msg = {.msg_name = &elsewhere,
			     .msg_namelen = sizeof(elsewhere),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	int value = 1;

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		socklen_t bytes = sizeof(value);

		value = 1;
		MUST(!setsockopt(client, hints[i].level, hints[i].name, &value, bytes));
		MUST(!getsockopt(client, hints[i].level, hints[i].name, &value, &bytes));
		MUST(value == 1);
	}
	MUST(setsockopt(client, SOL_SOCKET, 4711, &value, sizeof(value)) == -1 &&
	     errno == ENOPROTOOPT);
	MUST(sendto(client, "a", 1, 0, (struct sockaddr *)&elsewhere, sizeof(elsewhere)) == 1);
	MUST(sendmsg(client, &msg, 0) == 1);
	get("ab");
}
