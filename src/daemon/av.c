/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/av.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/list.h"
#include "daemon/fair_share.h"
#include "daemon/neigh_wait.h"
#include "daemon/netdev.h"

/*
 * A resolution that waits for the kernel. Owned by its session; freed when AV_RESOLVED was sent or
 * the session ends.
 */
struct av_wait {
	struct neigh_wait neigh;
	struct list_head node;	 /* session.av_waits */
	struct list_head of_all; /* server.av_waits */
	struct session *session;
	uint32_t serial;
};

void av_session_init(struct session *session)
{
	list_init(&session->av_waits);
}

static void av_wait_free(struct av_wait *wait)
{
	list_del(&wait->node);
	list_del(&wait->of_all);
	wait->session->av_wait_count--;
	wait->session->server->av_wait_count--;
	free(wait);
}

/* A client that receives no result would wait for it indefinitely, so its session ends. */
static void av_on_done(struct neigh_wait *neigh, int status)
{
	struct av_wait *wait = container_of(neigh, struct av_wait, neigh);
	struct session *session = wait->session;
	struct ipc_av_resolved msg = {
		.hdr = {.type = IPC_AV_RESOLVED, .len = sizeof(msg)},
		.serial = wait->serial,
		.error = status,
	};

	av_wait_free(wait);
	if (push_send(&session->published.push, &msg, sizeof(msg), NULL, 0, session->cred.uid))
		session_end_later(session);
}

static bool av_may_wait(const struct session *session)
{
	static const struct fair_share share = {AV_WAITS_RESERVED, AV_WAITS_UID_MIN};
	const struct server *server = session->server;
	const struct av_wait *wait;
	uint32_t held = 0;

	if (session->av_wait_count >= IPC_AV_WAITS_MAX || server->av_wait_count >= AV_WAITS_MAX)
		return false;
	if (fair_share_is_exempt(session->cred.uid, server->uid))
		return true;
	list_for_each_entry(wait, &server->av_waits, of_all)
		held += wait->session->cred.uid == session->cred.uid;
	return fair_share_allows(&share, held, AV_WAITS_MAX - server->av_wait_count);
}

/* Link-local addresses are those of the interface of the source GID. */
static void av_sockaddr(const uint8_t gid[GID_BYTES], uint32_t ifindex,
			struct sockaddr_storage *addr)
{
	gid_to_sockaddr(gid, addr);
	if (gid_is_link_local(gid))
		((struct sockaddr_in6 *)addr)->sin6_scope_id = ifindex;
}

static int av_wait_begin(struct session *session, uint32_t serial, const struct sockaddr *dst,
			 const struct sockaddr *src)
{
	struct av_wait *wait = calloc(1, sizeof(*wait));
	int ret;

	if (!wait)
		return -ENOMEM;
	ret = neigh_wait_begin(&wait->neigh, dst, src, AV_TIMEOUT_MS, av_on_done);
	if (ret != -EINPROGRESS) {
		free(wait);
		return ret;
	}
	if (!av_may_wait(session)) {
		neigh_wait_cancel(&wait->neigh);
		free(wait);
		return -EDQUOT;
	}
	wait->session = session;
	wait->serial = serial;
	list_add_tail(&wait->node, &session->av_waits);
	list_add_tail(&wait->of_all, &session->server->av_waits);
	session->av_wait_count++;
	session->server->av_wait_count++;
	return ret;
}

int av_resolve(struct session *session, const struct ipc_av_resolve *req,
	       struct ipc_av_resolve_reply *reply)
{
	struct sockaddr_storage dst, src, route_src;
	const struct netdev *dev;
	uint8_t hop_limit = 0;
	int ret;

	if (!session->published.push.is_open || (req->flags & ~(uint32_t)IPC_AV_ROUTE_ONLY))
		return -EINVAL;
	if (netdev_by_gid(req->dgid, NULL)) {
		reply->flags = IPC_AV_IS_LOCAL;
		return 0;
	}
	if (gid_is_multicast(req->dgid))
		return 0;
	av_sockaddr(req->sgid, req->ifindex, &src);
	av_sockaddr(req->dgid, req->ifindex, &dst);
	ret = netdev_route((const struct sockaddr *)&dst, (const struct sockaddr *)&src, &route_src,
			   &dev, &hop_limit);
	if (!ret && !(req->flags & IPC_AV_ROUTE_ONLY))
		ret = av_wait_begin(session, req->serial, (const struct sockaddr *)&dst,
				    (const struct sockaddr *)&src);
	reply->hop_limit = hop_limit;
	if (ret != -EINPROGRESS)
		return ret;
	reply->flags = IPC_AV_WAITS;
	return 0;
}

void av_leave(struct session *session)
{
	while (!list_is_empty(&session->av_waits)) {
		struct av_wait *wait = list_first_entry(&session->av_waits, struct av_wait, node);

		neigh_wait_cancel(&wait->neigh);
		av_wait_free(wait);
	}
}
