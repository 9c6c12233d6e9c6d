/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/transport.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "core/engine/engine_watch.h"
#include "link/udp.h"
#include "local/local.h"
#include "roce/roce.h"

const struct transport *const transports[TRANSPORTS_MAX + 1] = {
	[LOCAL_TRANSPORT] = &local_transport,
	[ROCE_TRANSPORT] = &roce_transport,
	[TRANSPORTS_MAX] = NULL,
};

static uint64_t monotonic(void *arg)
{
	(void)arg;
	return clock_now_ns();
}

#define CC_NAMES_BYTES 64

/*
 * USRDMA_ROCE_CC is for experiments: it selects the congestion control of RoCE. Not supported for
 * production use.
 */
static void transports_choose_cc(struct engine *engine)
{
	const char *name = secure_getenv("USRDMA_ROCE_CC");
	char names[CC_NAMES_BYTES];

	if (!name || !*name || !roce_set_cc(engine, name))
		return;
	cc_list_names(names, sizeof(names));
	log_user("invalid USRDMA_ROCE_CC '%s' (one of %s); using %s", name, names,
		 roce_of(engine)->cc->name);
}

static_assert(IPC_RING_FDS == UDP_RING_FDS, "every descriptor of a ring travels");

static void link_became_readable(struct engine *engine, void *arg)
{
	(void)arg;
	roce_link_is_readable(engine);
}

/* The link and its watch exist until the process ends. */
static void use_link(struct engine *engine, struct link *link)
{
	uint64_t watch;
	int ret;

	roce_set_link(engine, link, monotonic, NULL);
	transports_choose_cc(engine);
	ret = engine_watch(engine, link_fd(link), WATCH_BY_ANY, link_became_readable, NULL, &watch);
	if (ret)
		log_warn("cannot use the RoCE socket: %s", strerror(-ret));
}

/* Receives the delegated receive socket. Without it, bind() fails for QPs on other hosts. */
static void take_socket(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			int nfds)
{
	struct link *link = NULL;

	(void)notice;
	if (nfds == 1 && !roce_of(engine)->link) {
		link = udp_link_open(fds[0]);
		if (!link)
			log_warn("RoCE to other hosts is not available: %m");
	}
	if (link)
		use_link(engine, link);
	else
		fdpass_close(fds, nfds);
}

/* Receives the forwarding ring of a daemon that runs as another user. */
static void take_ring(struct engine *engine, const struct ipc_hdr *notice, const int *fds, int nfds)
{
	const struct ipc_ring *msg = (const void *)notice;
	struct link *link = NULL;

	if (nfds == IPC_RING_FDS && !roce_of(engine)->link) {
		link = udp_link_open_ring(fds, msg->rx_bytes);
		if (!link)
			log_warn("RoCE to other hosts is not available: ring: %m");
	}
	if (link)
		use_link(engine, link);
	else
		fdpass_close(fds, nfds);
}

int transports_register_notices(struct engine *engine)
{
	static const char what[] = "RoCE to other hosts";
	int ret = engine_on_notice(engine, IPC_DELEGATE, take_socket, what);

	return ret ? ret : engine_on_notice(engine, IPC_RING, take_ring, what);
}
