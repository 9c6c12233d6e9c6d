/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_sock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

unsigned fake_socks_freed;

static bool progress(struct rsock *sock, bool heard)
{
	struct fake_sock *fake = fake_sock_of(sock);
	eventfd_t count;

	if (!heard || eventfd_read(fake->event_fd, &count))
		return false;
	fake->available += (unsigned)count;
	return true;
}

static void arm(struct rsock *sock)
{
	fake_sock_of(sock)->armed++;
}

static short events(struct rsock *sock)
{
	return fake_sock_of(sock)->available ? POLLIN : 0;
}

static int set_option(struct rsock *sock, enum rsock_option option, const void *value,
		      socklen_t bytes)
{
	struct fake_sock *fake = fake_sock_of(sock);

	fake->set_option = option;
	fake->set_value = 0;
	memcpy(&fake->set_value, value, bytes < sizeof(int) ? bytes : sizeof(int));
	return fake->set_ret;
}

static int get_option(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes)
{
	(void)sock;
	(void)option;
	(void)value;
	(void)bytes;
	return -ENOTSUP;
}

static int pass_set(struct rsock *sock, int level, int name, const void *value, socklen_t bytes)
{
	(void)level;
	(void)name;
	(void)value;
	(void)bytes;
	fake_sock_of(sock)->passed++;
	return fake_sock_of(sock)->passes_options ? 0 : -EDOM;
}

static int pass_get(struct rsock *sock, int level, int name, void *value, socklen_t *bytes)
{
	int response = 4711;

	(void)level;
	(void)name;
	fake_sock_of(sock)->passed++;
	option_reply(value, bytes, &response, sizeof(response));
	return fake_sock_of(sock)->passes_options ? 0 : -EDOM;
}

static void close_sock(struct rsock *sock)
{
	rsock_lock(sock);
	sock->is_closed = true;
	rsock_wake(sock);
	rsock_unlock(sock);
}

static void free_sock(struct rsock *sock)
{
	struct fake_sock *fake = fake_sock_of(sock);

	close(fake->event_fd);
	rsock_fini(sock);
	free(fake);
	fake_socks_freed++;
}

static const struct rsock_ops stream_ops = {
	.progress = progress,
	.arm = arm,
	.events = events,
	.set_option = set_option,
	.get_option = get_option,
	.close = close_sock,
	.free = free_sock,
};

static const struct rsock_ops dgram_ops = {
	.progress = progress,
	.arm = arm,
	.events = events,
	.set_option = set_option,
	.get_option = get_option,
	.pass_set = pass_set,
	.pass_get = pass_get,
	.close = close_sock,
	.free = free_sock,
};

struct fake_sock *fake_sock_new(int type)
{
	struct fake_sock *fake = calloc(1, sizeof(*fake));

	assert_non_null(fake);
	assert_int_equal(rsock_init(&fake->sock, type == SOCK_STREAM ? &stream_ops : &dgram_ops,
				    AF_INET, type),
			 0);
	fake->event_fd = eventfd(0, EFD_NONBLOCK);
	assert_true(fake->event_fd >= 0);
	assert_int_equal(rsock_watch(&fake->sock, fake->event_fd), 0);
	return fake;
}

void fake_sock_post(struct fake_sock *fake)
{
	assert_int_equal(eventfd_write(fake->event_fd, 1), 0);
}

bool fake_sock_has_something(struct rsock *sock)
{
	return fake_sock_of(sock)->available;
}
