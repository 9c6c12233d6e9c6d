/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether another host can be reached: with messages of the communication manager, and with packets
 * of full size.
 */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "places.h"
#include "report.h"

#define ATTEMPTS      10
#define ATTEMPTS_TEXT "10"

/* Seconds that an attempt waits for an answer; the requests are repeated. */
#define ATTEMPT_SECONDS "2"

/* No program has this port in general, so a datagram that arrives is answered by ICMP. */
#define DISCARD_PORT "9"

#define MTU_ATTEMPTS 4
/*
 * Linux sends one ICMP message a second to a host that has received several before
 * (icmp_ratelimit).
 */
#define MTU_ANSWER_MS  1200
#define DATAGRAM_BYTES 65507
#define IPV4_UDP_BYTES (20 + 8)
#define IPV6_UDP_BYTES (40 + 8)

/* What the attempts of cm-reach gave. */
struct reach {
	unsigned int answers;
	unsigned long us[ATTEMPTS];
	char cause[160]; /* of the last attempt without an answer */
};

static int compare_us(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

static void reach_read(struct reach *reach, FILE *lines)
{
	char line[160];

	while (fgets(line, sizeof(line), lines)) {
		unsigned long us;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "answer %lu", &us) == 1 && reach->answers < ATTEMPTS)
			reach->us[reach->answers++] = us;
		else
			snprintf(reach->cause, sizeof(reach->cause), "%s", line);
	}
	qsort(reach->us, reach->answers, sizeof(reach->us[0]), compare_us);
}

/* Runs cm-reach, which writes to the descriptor. Does not return. */
static void reach_exec(const char *host, int out)
{
	char dir[PATH_MAX];
	char *path;

	if (place_find(PLACE_TOOLS, dir) && asprintf(&path, "%s/cm-reach", dir) > 0 &&
	    dup2(out, STDOUT_FILENO) >= 0 && !setenv("USRDMA_CM_TIMEOUT", ATTEMPT_SECONDS, 1))
		execl(path, "cm-reach", host, ATTEMPTS_TEXT, (char *)NULL);
	dprintf(out, "cannot run cm-reach: %s\n", strerror(errno));
	_exit(EXIT_FAILURE);
}

static int reach_run(struct reach *reach, const char *host)
{
	int ends[2], status;
	FILE *lines;
	pid_t child;

	if (pipe(ends))
		return -errno;
	child = fork();
	if (child == 0)
		reach_exec(host, ends[1]);
	close(ends[1]);
	lines = child < 0 ? NULL : fdopen(ends[0], "r");
	if (!lines) {
		close(ends[0]);
		return -EAGAIN;
	}
	reach_read(reach, lines);
	fclose(lines);
	return waitpid(child, &status, 0) == child ? 0 : -errno;
}

/* How often the daemon has repeated messages of connection management. */
static uint64_t messages_resent(void)
{
	json_object *report = report_ask();
	json_object *counters = report ? json_object_object_get(report, "counters") : NULL;
	uint64_t count =
		counters ? number_of(json_object_object_get(counters, "cm"), "messages_resent") : 0;

	json_object_put(report);
	return count;
}

static void check_exchanges(struct doctor *doctor, const char *host)
{
	struct reach reach = {.cause = "no answer"};
	uint64_t resent = messages_resent();
	int error = reach_run(&reach, host);

	if (error) {
		doctor_say(doctor, DOCTOR_PROBLEM, NULL, "%s: %s", host, strerror(-error));
		return;
	}
	resent = messages_resent() - resent;
	if (reach.answers == 0) {
		doctor_say(
			doctor, DOCTOR_PROBLEM, "usrdma doctor, on that host",
			"%s does not answer messages of connection management on UDP port 4791 (%s). Its RDMA "
			"software does not run, a packet filter drops the port, or it has no route back to this host",
			host, reach.cause);
		return;
	}
	doctor_say(
		doctor, reach.answers < ATTEMPTS || resent ? DOCTOR_WARNING : DOCTOR_OK,
		reach.answers < ATTEMPTS || resent ? "ip -s link, on both hosts" : NULL,
		"%s answers on UDP port 4791: %u of %d connection requests, median %lu us, at most %lu us; %llu "
		"messages were repeated",
		host, reach.answers, ATTEMPTS, reach.us[reach.answers / 2],
		reach.us[reach.answers - 1], (unsigned long long)resent);
}

/* The MTU of the path that the kernel assumes; -errno on failure. */
static int path_mtu(int fd, bool is_ipv6)
{
	int mtu = 0;
	socklen_t len = sizeof(mtu);

	if (getsockopt(fd, is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, is_ipv6 ? IPV6_MTU : IP_MTU, &mtu,
		       &len))
		return -errno;
	return mtu;
}

/*
 * Sends a datagram of this size, which routers must not fragment. 1: it arrived, since the host
 * answered that no program has the port; 0: no answer; -EMSGSIZE: too large for a link of the path;
 * other -errno.
 */
static int full_size_arrives(int fd, size_t bytes)
{
	static const uint8_t zeros[DATAGRAM_BYTES];
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	uint8_t byte;

	if (send(fd, zeros, bytes, 0) < 0)
		return errno == ECONNREFUSED ? 1 : -errno;
	if (poll(&readable, 1, MTU_ANSWER_MS) <= 0)
		return 0;
	if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED)
		return 1;
	return -errno;
}

static void check_path_mtu(struct doctor *doctor, const char *host, int fd, bool is_ipv6)
{
	int do_not_fragment = is_ipv6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
	int arrives = -EMSGSIZE, mtu = 0;
	char mend[NI_MAXHOST + sizeof("tracepath ")];

	if (setsockopt(fd, is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
		       is_ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &do_not_fragment,
		       sizeof(do_not_fragment)))
		return;
	/*
	 * A router that cannot forward the datagram reports the MTU of its link, which the kernel
	 * then assumes. A missing answer may only exceed the rate of ICMP messages of the host.
	 */
	for (int i = 0; i < MTU_ATTEMPTS && (arrives == -EMSGSIZE || arrives == 0); i++) {
		size_t headers = is_ipv6 ? IPV6_UDP_BYTES : IPV4_UDP_BYTES;
		size_t bytes;

		mtu = path_mtu(fd, is_ipv6);
		if (mtu <= (int)headers)
			return;
		bytes = (size_t)mtu - headers;
		arrives = full_size_arrives(fd, bytes < DATAGRAM_BYTES ? bytes : DATAGRAM_BYTES);
	}
	if (arrives == 1) {
		doctor_say(doctor, DOCTOR_OK, NULL,
			   "path MTU to %s: %d, packets of this size arrive", host, mtu);
	} else {
		snprintf(mend, sizeof(mend), "tracepath %s", host);
		doctor_say(
			doctor, DOCTOR_WARNING, mend,
			"path MTU to %s: %d by the route, but no answer to a packet of this size (%s): a packet "
			"filter drops the answer, or a link of the path has a smaller MTU",
			host, mtu, arrives < 0 ? strerror(-arrives) : "no ICMP message");
	}
}

void doctor_check_host(struct doctor *doctor, const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *address;
	int error = getaddrinfo(host, DISCARD_PORT, &hints, &address);
	int fd;

	if (error) {
		doctor_say(doctor, DOCTOR_PROBLEM, NULL, "%s: %s", host, gai_strerror(error));
		return;
	}
	fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, address->ai_addr, address->ai_addrlen)) {
		char mend[NI_MAXHOST + sizeof("ip route get ")];

		snprintf(mend, sizeof(mend), "ip route get %s", host);
		doctor_say(doctor, DOCTOR_PROBLEM, mend, "%s: %s", host, strerror(errno));
	} else {
		check_exchanges(doctor, host);
		check_path_mtu(doctor, host, fd, address->ai_family == AF_INET6);
	}
	if (fd >= 0)
		close(fd);
	freeaddrinfo(address);
}
