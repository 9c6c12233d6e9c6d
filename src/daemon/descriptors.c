/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/descriptors.h"

#include "daemon/cma.h"
#include "daemon/fair_share.h"
#include "daemon/reserve.h"
#include "daemon/session.h"

/* Descriptors that do not belong to a session: the sockets of UDP port 4791 (roce_port.h), timers, rings of ended processes. */
#define OWN_DESCRIPTORS (IPC_SLOTS + 128u)
/* Descriptors of a forwarding ring (udp_feed.h), which a process of another user than the daemon's has. */
#define RING_DESCRIPTORS 3u
/* Part of the descriptors that is reserved for root and the daemon's user. */
#define RESERVED_PART 16u
#define UID_LEAST     32u

/* The number of descriptors that the daemon keeps for a session. One is for the probe page, which the sessions of a user share. */
static uint32_t session_descriptors(const struct session *session)
{
	const struct published *published = &session->published;
	uint32_t count = 2;

	if (session->slot && session->cred.uid != session->server->uid)
		count += RING_DESCRIPTORS;
	count += session->pidfd >= 0;
	count += session->probes.ring != NULL;
	count += published->segment_fd >= 0;
	count += published->push.is_open;
	count += published->push.fd_count;
	count += published->doorbell_count;
	if (session->cm)
		count += cma_client_channels(session->cm);
	return count;
}

bool descriptors_may_keep(const struct session *session, int fd)
{
	struct server *server = session->server;
	const uint32_t limit = (uint32_t)reserve_first();
	const struct fair_share share = {limit / RESERVED_PART, UID_LEAST};
	const uid_t uid = session->cred.uid;
	uint32_t held = closer_pending(&server->closer, uid);
	uint32_t used = OWN_DESCRIPTORS + server->closer.pending;
	const struct session *other;

	if (reserve_holds(fd))
		return false;
	if (fair_share_is_exempt(uid, server->uid))
		return true;
	list_for_each_entry(other, &server->sessions, node) {
		uint32_t count = session_descriptors(other);

		used += count;
		if (other->cred.uid == uid)
			held += count;
	}
	return fair_share_allows(&share, held, used < limit ? limit - used : 0);
}
