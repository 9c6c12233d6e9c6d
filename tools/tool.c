/* SPDX-License-Identifier: BSD-2-Clause */
#include "tool.h"

#include <errno.h>
#include <netdb.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int tool_fail(const char *what)
{
	int error = errno;

	perror(what);
	errno = error;
	return -1;
}

int tool_address(const char *name, uint16_t port, struct sockaddr_storage *address)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char service[sizeof("65535")];
	int error;

	memset(address, 0, sizeof(*address));
	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(name ? name : "0.0.0.0", service, &hints, &found);
	if (error) {
		printf("getaddrinfo failed (%s) - invalid hostname or IP address\n",
		       gai_strerror(error));
		return error;
	}
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

void tool_address_format(const char *word, struct rdma_addrinfo *hints)
{
	static const struct {
		const char *word;
		int family;
	} formats[] = {{"ip", AF_INET}, {"ipv6", AF_INET6}, {"gid", AF_IB}};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcasecmp(word, formats[i].word) == 0) {
			hints->ai_flags = RAI_NUMERICHOST | RAI_FAMILY;
			hints->ai_family = formats[i].family;
			return;
		}
	}
	if (strcasecmp(word, "name") != 0)
		fprintf(stderr, "Warning: unknown address format\n");
}

int tool_endpoint(const char *server, const char *local, const char *port,
		  const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo wanted = *hints;
	struct rdma_addrinfo *source = NULL;
	int error;

	if (!server || local) {
		wanted.ai_flags |= RAI_PASSIVE;
		error = rdma_getaddrinfo(local, server ? NULL : port, &wanted, &source);
		if (error || !server) {
			*res = source;
			return error;
		}
		wanted.ai_flags &= ~RAI_PASSIVE;
		wanted.ai_src_addr = source->ai_src_addr;
		wanted.ai_src_len = source->ai_src_len;
	}
	error = rdma_getaddrinfo(server, port, &wanted, res);
	if (source)
		rdma_freeaddrinfo(source);
	return error;
}

int tool_create_endpoint(const char *node, const char *port, const struct rdma_addrinfo *hints,
			 struct ibv_qp_init_attr *attr, struct rdma_cm_id **id)
{
	struct rdma_addrinfo *address;
	int error = rdma_getaddrinfo(node, port, hints, &address);

	if (error) {
		printf("rdma_getaddrinfo: %s\n", gai_strerror(error));
		return error;
	}
	error = rdma_create_ep(id, address, NULL, attr);
	rdma_freeaddrinfo(address);
	return error ? tool_fail("rdma_create_ep") : 0;
}

int tool_completion(struct ibv_cq *cq, struct ibv_comp_channel *wakeups,
		    struct rdma_event_channel *events, struct ibv_wc *wc)
{
	struct pollfd fds[] = {{.fd = wakeups->fd, .events = POLLIN},
			       {.fd = events ? events->fd : -1, .events = POLLIN}};
	struct ibv_cq *woken;
	void *context;

	for (;;) {
		/*
		 * The CQ is armed before it is polled, so that no completion is missed in between.
		 */
		errno = ibv_req_notify_cq(cq, 0);
		if (errno)
			return tool_fail("ibv_req_notify_cq");
		if (ibv_poll_cq(cq, 1, wc))
			return 0;
		if (poll(fds, 2, -1) < 0)
			return tool_fail("poll");
		if (!fds[0].revents)
			return 1;
		if (ibv_get_cq_event(wakeups, &woken, &context))
			return tool_fail("ibv_get_cq_event");
		ibv_ack_cq_events(woken, 1);
	}
}

int tool_check_packet(const char *program, const struct rdma_cm_id *id, int size_bytes)
{
	struct ibv_port_attr port;
	int mtu_bytes;

	errno = ibv_query_port(id->verbs, id->port_num, &port);
	if (errno)
		return tool_fail("ibv_query_port");
	mtu_bytes = 128 << port.active_mtu;
	if (size_bytes <= mtu_bytes)
		return 0;
	printf("%s: message_size %d is larger than active mtu %d\n", program, size_bytes,
	       mtu_bytes);
	errno = EINVAL;
	return -1;
}

void tool_amount(char text[TOOL_AMOUNT_BYTES], uint64_t value, unsigned int base)
{
	static const char units[] = "\0kmgtpe";
	uint64_t tenths = 0;
	int unit = 0;

	for (; value >= base; unit++) {
		tenths = value * 10 / base % 10;
		value /= base;
	}
	if (unit == 0)
		snprintf(text, TOOL_AMOUNT_BYTES, "%llu", (unsigned long long)value);
	else if (value >= 10 || tenths == 0)
		snprintf(text, TOOL_AMOUNT_BYTES, "%llu%c", (unsigned long long)value, units[unit]);
	else
		snprintf(text, TOOL_AMOUNT_BYTES, "%llu.%llu%c", (unsigned long long)value,
			 (unsigned long long)tenths, units[unit]);
}

int tool_word(const char *typed, const char *const *words)
{
	size_t length = strlen(typed);

	for (int i = 0; length > 0 && words[i]; i++)
		if (strncasecmp(typed, words[i], length) == 0)
			return i;
	return -1;
}

uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
