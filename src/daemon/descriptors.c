/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/descriptors.h"

#include "daemon/cma.h"
#include "daemon/fair_share.h"
#include "daemon/reserve.h"
#include "daemon/session.h"

/*
 * Descriptors that do not belong to a session: the sockets of UDP port 4791 (roce_port.h), timers,
 * rings of ended processes.
 */
#define OWN_DESCRIPTORS (IPC_SLOTS + 128u)
/*
 * Descriptors of a forwarding ring (udp_feed.h), which a process of another user than the daemon's
 * has.
 */
#define RING_DESCRIPTORS 3u
/* Part of the descriptors that is reserved for root and the daemon's user. */
#define RESERVED_PART 16u
#define UID_LEAST     32u

/*
 * The number of descriptors that the daemon keeps for a session. One is for the probe page, which
 * the sessions of a user share, and one for the process, which its sessions share.
 */
static uint32_t session_descriptors(const struct session *session)
{
	const struct published *published = &session->published;
	uint32_t count = 2;

	if (session->slot && session->cred.uid != session->server->uid)
		count += RING_DESCRIPTORS;
	count += session->process != NULL;
	count += session->probes.ring != NULL;
	count += published->segment_fd >= 0;
	count += published->push.is_open;
	count += published->push.fd_count;
	count += published->doorbell_count;
	if (session->cm)
		count += cma_client_channels(session->cm);
	return count;
}

static void descriptors_change(struct session *session, uint32_t count)
{
	session->user->descriptor_count += count - session->descriptor_count;
	session->server->descriptor_count += count - session->descriptor_count;
	session->descriptor_count = count;
}

void descriptors_count(struct session *session)
{
	descriptors_change(session, session_descriptors(session));
}

void descriptors_release(struct session *session)
{
	descriptors_change(session, 0);
}

static bool has_share(const struct session *session)
{
	struct server *server = session->server;
	const uint32_t limit = (uint32_t)reserve_first();
	const struct fair_share share = {limit / RESERVED_PART, UID_LEAST};
	uint32_t held = session->user->descriptor_count +
			closer_pending(&server->closer, session->cred.uid);
	uint32_t used = server->descriptor_count + OWN_DESCRIPTORS + server->closer.pending;

	return fair_share_allows(&share, held, used < limit ? limit - used : 0);
}

/*
 * Descriptors of queued pushes that were sent since the sessions were counted are not in use any
 * more.
 */
static void count_all_of(struct user *user)
{
	struct session *session;

	list_for_each_entry(session, &user->sessions, of_user)
		descriptors_count(session);
}

bool descriptors_may_keep(struct session *session, int fd)
{
	if (reserve_holds(fd))
		return false;
	if (fair_share_is_exempt(session->cred.uid, session->server->uid))
		return true;
	descriptors_count(session);
	if (has_share(session))
		return true;
	count_all_of(session->user);
	return has_share(session);
}
