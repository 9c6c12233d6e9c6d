/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <stdlib.h>

struct sockaddr_storage rs_addr(const char *text, uint16_t port)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;

	if (strchr(text, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		assert_int_equal(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
	return addr;
}

socklen_t rs_addr_bytes(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

int rs_stream(int domain)
{
	int fd = rsocket(domain, SOCK_STREAM, 0);

	if (fd < 0)
		fail_msg("no rsocket: %s", strerror(errno));
	return fd;
}

static int listen_prepared(struct sockaddr_storage *addr, int backlog, void (*prepare)(int socket))
{
	int fd = rs_stream(addr->ss_family);
	socklen_t bytes = sizeof(*addr);

	if (prepare)
		prepare(fd);
	assert_int_equal(rbind(fd, rs_sa(addr), rs_addr_bytes(addr)), 0);
	assert_int_equal(rlisten(fd, backlog), 0);
	assert_int_equal(rgetsockname(fd, rs_sa(addr), &bytes), 0);
	return fd;
}

int rs_listen(struct sockaddr_storage *addr, int backlog)
{
	return listen_prepared(addr, backlog, NULL);
}

static int connect_prepared(struct sockaddr_storage *addr, void (*prepare)(int socket))
{
	int fd = rs_stream(addr->ss_family);

	if (prepare)
		prepare(fd);
	if (rconnect(fd, rs_sa(addr), rs_addr_bytes(addr)))
		fail_msg("rconnect: %s", strerror(errno));
	return fd;
}

int rs_connect(struct sockaddr_storage *addr)
{
	return connect_prepared(addr, NULL);
}

int rs_accept(int listener)
{
	int fd;

	assert_true(rs_await(listener, POLLIN) & POLLIN);
	fd = raccept(listener, NULL, NULL);
	if (fd < 0)
		fail_msg("raccept: %s", strerror(errno));
	return fd;
}

void streams_open_at(struct streams *streams, const char *text, void (*prepare)(int socket))
{
	streams->addr = rs_addr(text, 0);
	streams->addr_bytes = rs_addr_bytes(&streams->addr);
	streams->listener = listen_prepared(&streams->addr, 8, prepare);
	streams->active = connect_prepared(&streams->addr, prepare);
	streams->passive = rs_accept(streams->listener);
}

void streams_open(struct streams *streams)
{
	streams_open_at(streams, "127.0.0.1", NULL);
}

void rs_close(int socket)
{
	assert_int_equal(rclose(socket), 0);
}

void streams_close(struct streams *streams)
{
	rs_close(streams->active);
	rs_close(streams->passive);
	rs_close(streams->listener);
}

void rs_set(int socket, int level, int name, int value)
{
	assert_int_equal(rsetsockopt(socket, level, name, &value, sizeof(value)), 0);
}

int rs_get(int socket, int level, int name)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	assert_int_equal(rgetsockopt(socket, level, name, &value, &bytes), 0);
	assert_int_equal(bytes, sizeof(int));
	return value;
}

void rs_nonblocking(int socket)
{
	assert_int_equal(rfcntl(socket, F_SETFL, rfcntl(socket, F_GETFL) | O_NONBLOCK), 0);
}

static short poll_one(int socket, short events, int timeout)
{
	struct pollfd pollfd = {.fd = socket, .events = events};

	assert_true(rpoll(&pollfd, 1, timeout) >= 0);
	return pollfd.revents;
}

short rs_await(int socket, short events)
{
	return poll_one(socket, events, PATIENCE_MS);
}

short rs_look(int socket, short events)
{
	return poll_one(socket, events, 0);
}

void pattern_fill(uint8_t *buffer, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		buffer[i] = (uint8_t)(seed + i + i / 251);
}

bool pattern_holds(const uint8_t *buffer, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (buffer[i] != (uint8_t)(seed + i + i / 251))
			return false;
	return true;
}

void rs_send_pattern(int socket, size_t bytes, uint8_t seed)
{
	uint8_t *buffer = malloc(bytes);
	size_t sent = 0;

	assert_non_null(buffer);
	pattern_fill(buffer, bytes, seed);
	while (sent < bytes) {
		ssize_t count = rsend(socket, buffer + sent, bytes - sent, 0);

		if (count <= 0)
			fail_msg("rsend: %s", strerror(errno));
		sent += (size_t)count;
	}
	free(buffer);
}

void rs_receive_pattern(int socket, size_t bytes, uint8_t seed)
{
	uint8_t *buffer = malloc(bytes);
	size_t received = 0;

	assert_non_null(buffer);
	while (received < bytes) {
		ssize_t count = rrecv(socket, buffer + received, bytes - received, 0);

		if (count <= 0)
			fail_msg("rrecv: %zd after %zu: %s", count, received, strerror(errno));
		received += (size_t)count;
	}
	assert_true(pattern_holds(buffer, bytes, seed));
	free(buffer);
}
