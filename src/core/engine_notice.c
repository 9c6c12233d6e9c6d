/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "core/async.h"
#include "core/device.h"
#include "core/engine.h"
#include "core/lent_socket.h"
#include "core/qp.h"
#include "core/transport.h"

/* What the daemon tells an engine without being asked, and what follows from its silence. All with engine.lock held. */

/* The daemon died: nothing will be introduced or watched any more, so every object of this engine is over. */
static void engine_die(struct engine *engine)
{
	struct context *context;

	if (engine->is_fatal)
		return;
	log_warn("the daemon is gone: every device of this process fails");
	engine->is_fatal = true;
	lent_socket_leave(engine->lent_fd);
	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++) {
		if (engine->qps[i])
			qp_enter_error(engine->qps[i], QP_NO_EVENT);
	}
	list_for_each_entry(context, &engine->contexts, node)
		async_device_fatal(context);
	xrc_fars_end(&engine->xrc_fars);
}

/* Datagrams from other hosts; without the socket there is none of them to talk to, and bind() says so. */
static void take_socket(struct engine *engine, int fd)
{
	if (transports_take_socket(engine, fd)) {
		log_warn("no RoCE to other hosts: %m");
		close(fd);
		return;
	}
	engine->lent_fd = fd;
	if (engine_watch(engine, fd))
		log_warn("RoCE socket: %m");
}

static void take_notice(struct engine *engine, const struct ipc_hdr *hdr, uint32_t len,
			const int *fds, int nfds)
{
	if (hdr->type == IPC_LEND && len == sizeof(struct ipc_lend) && nfds == 1 &&
	    engine->lent_fd < 0) {
		take_socket(engine, fds[0]);
		return;
	}
	if (hdr->type == IPC_DEVICE_NOTICE && len == sizeof(struct ipc_device_notice) && !nfds) {
		device_notice(engine, (const struct ipc_device_notice *)(const void *)hdr);
		return;
	}
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->notice) {
			transports[i]->notice(engine, hdr, fds, nfds);
			return;
		}
	}
	fdpass_close(fds, nfds);
}

void engine_take_notices(struct engine *engine)
{
	union {
		struct ipc_hdr hdr;
		struct ipc_peer peer;
		struct ipc_peer_gone gone;
		struct ipc_device_notice device;
		struct ipc_lend lend;
	} msg;
	int fds[IPC_FDS_MAX];
	int nfds, ret;

	while (!engine->is_fatal && engine->notice_fd >= 0) {
		ret = ipc_recv(engine->notice_fd, true, &msg, sizeof(msg), fds, &nfds);
		if (ret == -EAGAIN)
			return;
		if (ret == -EINTR)
			continue;
		if (ret < 0) {
			engine_die(engine);
			return;
		}
		take_notice(engine, &msg.hdr, (uint32_t)ret, fds, nfds);
	}
}

int engine_introduce(struct engine *engine, uint32_t slot)
{
	struct ipc_introduce req = {.hdr.type = IPC_INTRODUCE, .slot = slot};
	struct ipc_reply reply;
	int ret = ipc_call(&engine->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));

	if (ret)
		return ret;
	engine_take_notices(engine);
	return 0;
}
