/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/transport.h"

#include <errno.h>

#include "base/clock.h"
#include "link/udp.h"
#include "roce/roce.h"

extern const struct transport local_transport;

const struct transport *const transports[] = {
	&local_transport,
	&roce_transport,
	NULL,
};

static uint64_t monotonic(void *arg)
{
	(void)arg;
	return clock_now_ns();
}

int transports_take_socket(struct engine *engine, int fd)
{
	struct link *link = udp_link_open(fd);

	if (!link)
		return -errno;
	roce_set_link(engine, link, monotonic, NULL);
	return 0;
}
