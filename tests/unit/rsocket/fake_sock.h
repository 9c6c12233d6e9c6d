/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_RSOCKET_FAKE_SOCK_H
#define USRDMA_TESTS_UNIT_RSOCKET_FAKE_SOCK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rsocket/socket.h"

/*
 * An rsocket with only an eventfd: a write to the eventfd is an arrival, and progress consumes it.
 * Its calls are counted.
 */
struct fake_sock {
	struct rsock sock;
	int event_fd;
	unsigned available; /* read from event_fd, not yet consumed by a test */
	unsigned armed;
	int set_ret;
	enum rsock_option set_option;
	int set_value;
	bool passes_options;
	unsigned passed;
};

extern unsigned fake_socks_freed;

struct fake_sock *fake_sock_new(int type);
static inline struct fake_sock *fake_sock_of(struct rsock *sock)
{
	return container_of(sock, struct fake_sock, sock);
}
/* Reports an arrival. */
void fake_sock_post(struct fake_sock *fake);
bool fake_sock_has_something(struct rsock *sock);

#endif
