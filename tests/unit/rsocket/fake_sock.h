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
 * An rsocket with nothing behind it but an eventfd: what is written to it is what has come, and
 * progress takes it. It counts what happens to it.
 */
struct fake_sock {
	struct rsock sock;
	int event_fd;
	unsigned available; /* taken from event_fd, not yet by a test */
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
/* Something has come. */
void fake_sock_post(struct fake_sock *fake);
bool fake_sock_has_something(struct rsock *sock);

#endif
