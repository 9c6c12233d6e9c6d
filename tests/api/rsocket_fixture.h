/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_RSOCKET_FIXTURE_H
#define USRDMA_TESTS_API_RSOCKET_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/uio.h>

#include "refusal.h"

/*
 * Shared by the tests of rsockets: two connected streams, or two datagram sockets, in one process.
 * Every helper asserts that its calls succeed.
 */
struct streams {
	int listener;
	int active;
	int passive;
	struct sockaddr_storage addr; /* address of the listener */
	socklen_t addr_bytes;
};

#define PATIENCE_MS 40000

/* The address given as text, with a port in host byte order. */
struct sockaddr_storage rs_addr(const char *text, uint16_t port);
socklen_t rs_addr_bytes(const struct sockaddr_storage *addr);
static inline struct sockaddr *rs_sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

int rs_stream(int domain);
/* A listener at this address with a free port, which is stored in the address. */
int rs_listen(struct sockaddr_storage *addr, int backlog);
/* Connects a stream to this address and waits for the connection. */
int rs_connect(struct sockaddr_storage *addr);
int rs_accept(int listener);

void streams_open(struct streams *streams);
/*
 * Opens both streams over this address; `prepare` is called on listener and client before they
 * connect.
 */
void streams_open_at(struct streams *streams, const char *text, void (*prepare)(int socket));
void streams_close(struct streams *streams);

void rs_set(int socket, int level, int name, int value);
int rs_get(int socket, int level, int name);
void rs_nonblocking(int socket);

/*
 * Waits for any of these events and returns all events that are set; 0 after the test's time limit.
 */
short rs_await(int socket, short events);
/* Returns the events that are set now. */
short rs_look(int socket, short events);

void rs_close(int socket);

/*
 * Sends all bytes with as many calls as necessary. The bytes are a pattern that begins at `seed`.
 */
void rs_send_pattern(int socket, size_t bytes, uint8_t seed);
void rs_receive_pattern(int socket, size_t bytes, uint8_t seed);
void pattern_fill(uint8_t *buffer, size_t bytes, uint8_t seed);
bool pattern_holds(const uint8_t *buffer, size_t bytes, uint8_t seed);

#endif
