/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mcast_daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine.h"

int mcast_daemon_init(struct mcast_daemon *membership)
{
	membership->leave = malloc(sizeof(*membership->leave));
	if (!membership->leave)
		return -ENOMEM;
	pthread_mutex_init(&membership->lock, NULL);
	membership->is_joined = false;
	return 0;
}

void mcast_daemon_fini(struct mcast_daemon *membership)
{
	free(membership->leave);
	pthread_mutex_destroy(&membership->lock);
}

static struct ipc_group group_request(uint16_t type, uint32_t ifindex, const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = {.hdr.type = type, .ifindex = ifindex};

	memcpy(request.gid, gid, GID_BYTES);
	return request;
}

int mcast_daemon_join(struct engine *engine, struct mcast_daemon *membership, uint32_t ifindex,
		      const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = group_request(IPC_GROUP_JOIN, ifindex, gid);
	struct ipc_reply reply;
	int ret = 0;

	pthread_mutex_lock(&membership->lock);
	if (!membership->is_joined)
		ret = ipc_call(&engine->client, &request, sizeof(request), NULL, 0, &reply,
			       sizeof(reply));
	membership->is_joined = !ret;
	pthread_mutex_unlock(&membership->lock);
	return ret;
}

void mcast_daemon_leave(struct engine *engine, struct mcast_daemon *membership, uint32_t ifindex,
			const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = group_request(IPC_GROUP_LEAVE, ifindex, gid);

	engine_send_in_order(engine, &request, sizeof(request), membership->leave);
	membership->leave = NULL;
}
