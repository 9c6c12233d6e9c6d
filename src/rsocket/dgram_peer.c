/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/addr.h"
#include "rsocket/dgram.h"
#include "rsocket/take_event.h"

#define RESOLVE_MS 2000

/*
 * Any host can send a UDP datagram. Above this number of peers, the least recently used peer is
 * freed.
 */
#define PEERS_MAX 4096

static uint64_t hash_of(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	uint64_t words[2];

	if (addr->ss_family == AF_INET)
		return hash_mix(in->sin_port, in->sin_addr.s_addr);
	memcpy(words, &in6->sin6_addr, sizeof(words));
	return hash_mix(hash_mix(in6->sin6_port, words[0]), words[1]);
}

static struct dgram_peer *lookup(struct dgram *dgram, const struct sockaddr_storage *addr)
{
	struct hash_node *node;

	hash_for_each(node, &dgram->peers, hash_of(addr))
	{
		struct dgram_peer *peer = container_of(node, struct dgram_peer, hash_node);

		if (addr_is_equal(&peer->addr, addr))
			return peer;
	}
	return NULL;
}

struct dgram_peer *dgram_peer_find(struct dgram *dgram, const struct sockaddr_storage *addr)
{
	struct dgram_peer *peer = lookup(dgram, addr);

	if (peer)
		list_move_tail(&peer->node, &dgram->peers_used);
	return peer;
}

static bool is_wildcard(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	return addr->ss_family == AF_INET ? in->sin_addr.s_addr == htonl(INADDR_ANY) :
					    IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

/* Finds the source address that the kernel selects for a destination. No packet is sent. */
static int ask_route(const struct sockaddr_storage *addr, struct sockaddr_storage *local)
{
	socklen_t bytes = sizeof(*local);
	int fd = socket(addr->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	memset(local, 0, sizeof(*local));
	if (sys_connect(fd, (const struct sockaddr *)addr, addr_bytes(addr->ss_family)) ||
	    getsockname(fd, (struct sockaddr *)local, &bytes))
		ret = -errno;
	sys_close(fd);
	return ret;
}

/* The local address and port from which this socket sends to a destination. */
static int local_for(struct dgram *dgram, const struct sockaddr_storage *addr,
		     struct sockaddr_storage *local)
{
	struct sockaddr_storage bound;
	int ret = dgram_bind_any(dgram);

	if (!ret)
		ret = dgram->sock.ops->name(&dgram->sock, false, &bound);
	if (!ret)
		ret = addr_take(local, (struct sockaddr *)&bound, sizeof(bound),
				dgram->sock.domain);
	if (ret || (!is_wildcard(local) && local->ss_family == addr->ss_family))
		return ret;
	ret = ask_route(addr, local);
	/* The port is at the same offset in sockaddr_in and sockaddr_in6. */
	((struct sockaddr_in *)local)->sin_port = ((struct sockaddr_in *)&bound)->sin_port;
	return ret;
}

static void forget_path(struct dgram_peer *peer)
{
	if (peer->id)
		rdma_destroy_id(peer->id);
	peer->id = NULL;
}

void dgram_peer_free(struct dgram *dgram, struct dgram_peer *peer)
{
	hash_del(&dgram->peers, &peer->hash_node);
	list_del(&peer->node);
	dgram->peer_count--;
	forget_path(peer);
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	free(peer);
}

static void dgram_peer_make_room(struct dgram *dgram)
{
	struct dgram_peer *peer;

	if (dgram->peer_count < PEERS_MAX)
		return;
	list_for_each_entry(peer, &dgram->peers_used, node) {
		if (peer == dgram->connected)
			continue;
		dgram_peer_free(dgram, peer);
		return;
	}
}

static int open_channel(struct dgram *dgram)
{
	int ret;

	if (dgram->has_lost_cm)
		return -ENETDOWN;
	if (dgram->channel)
		return 0;
	dgram->channel = rdma_create_event_channel();
	if (!dgram->channel)
		return -errno;
	ret = fcntl(dgram->channel->fd, F_SETFL, O_NONBLOCK) ? -errno : 0;
	if (!ret)
		ret = rsock_watch(&dgram->sock, dgram->channel->fd);
	if (!ret)
		return 0;
	rdma_destroy_event_channel(dgram->channel);
	dgram->channel = NULL;
	return ret;
}

int dgram_peer_get(struct dgram *dgram, const struct sockaddr_storage *addr,
		   struct dgram_peer **found)
{
	struct dgram_peer *peer = dgram_peer_find(dgram, addr);
	struct sockaddr_storage local;
	struct dgram_qp *qp;
	int ret;

	*found = peer;
	if (peer)
		return 0;
	ret = open_channel(dgram);
	if (!ret)
		ret = local_for(dgram, addr, &local);
	if (!ret)
		ret = dgram_qp_get(dgram, &local, &qp);
	if (ret)
		return ret;
	dgram_peer_make_room(dgram);
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	peer->addr = *addr;
	peer->qp = qp;
	hash_add(&dgram->peers, &peer->hash_node, hash_of(addr));
	list_init(&peer->node);
	list_add_tail(&peer->node, &dgram->peers_used);
	dgram->peer_count++;
	*found = peer;
	return 0;
}

/* Starts the resolution of the path to a peer. Until it completes, datagrams use UDP. */
static void dgram_peer_find_path(struct dgram *dgram, struct dgram_peer *peer)
{
	struct sockaddr_storage from = peer->qp->local;

	if (rdma_create_id(dgram->channel, &peer->id, peer, RDMA_PS_UDP)) {
		log_debug("rsocket %d: cannot create an id for a peer: %m", dgram->sock.fd);
		peer->id = NULL;
		return;
	}
	((struct sockaddr_in *)&from)->sin_port = 0;
	if (!rdma_resolve_addr(peer->id, (struct sockaddr *)&from, (struct sockaddr *)&peer->addr,
			       RESOLVE_MS))
		return;
	log_debug("rsocket %d: cannot resolve the address of a peer: %m", dgram->sock.fd);
	forget_path(peer);
}

void dgram_peer_learn(struct dgram *dgram, struct dgram_peer *peer, uint32_t qpn)
{
	peer->received_ns = clock_now_ns();
	peer->qpn = qpn;
	if (!peer->ah && !peer->id)
		dgram_peer_find_path(dgram, peer);
}

static int sgid_index_of(const struct rdma_cm_id *id, const union ibv_gid *gid)
{
	struct ibv_port_attr port;
	union ibv_gid entry;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len && i <= UINT8_MAX; i++)
		if (!ibv_query_gid(id->verbs, id->port_num, i, &entry) &&
		    !memcmp(&entry, gid, sizeof(entry)))
			return i;
	return -1;
}

/* Creates an address handle for the resolved path in the protection domain of the queue pair. */
static void use_path(struct dgram *dgram, struct dgram_peer *peer)
{
	const struct ibv_sa_path_rec *path = peer->id->route.path_rec;
	struct ibv_ah_attr attr = {.port_num = peer->id->port_num};
	int index;

	if (!path || peer->id->verbs != peer->qp->id->verbs)
		return;
	index = sgid_index_of(peer->id, &path->sgid);
	attr.dlid = be16toh(path->dlid);
	attr.sl = path->sl;
	attr.static_rate = path->rate;
	if (path->hop_limit > 1 || !attr.dlid) {
		attr.is_global = 1;
		attr.grh.dgid = path->dgid;
		attr.grh.sgid_index = (uint8_t)(index < 0 ? 0 : index);
		attr.grh.flow_label = be32toh(path->flow_label);
		attr.grh.hop_limit = path->hop_limit;
		attr.grh.traffic_class = path->traffic_class;
	}
	peer->ah = ibv_create_ah(peer->qp->id->pd, &attr);
	if (!peer->ah)
		log_debug("rsocket %d: cannot create an address handle for a peer: %m",
			  dgram->sock.fd);
}

static struct dgram_peer *dgram_peer_owner_of(struct dgram *dgram, const struct rdma_cm_id *id)
{
	struct dgram_peer *peer;

	list_for_each_entry(peer, &dgram->peers_used, node)
		if (peer->id == id)
			return peer;
	return NULL;
}

static void dgram_peer_on_event(struct dgram *dgram, struct dgram_peer *peer,
				enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!rdma_resolve_route(peer->id, RESOLVE_MS))
			return;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		use_path(dgram, peer);
		break;
	default:
		log_debug("rsocket %d: no path to a peer: %s", dgram->sock.fd,
			  rdma_event_str(type));
		break;
	}
	forget_path(peer);
}

static void dgram_peer_lose_cm(struct dgram *dgram)
{
	dgram->has_lost_cm = true;
	dgram->sock.error = ENETDOWN;
	rsock_unwatch(&dgram->sock, dgram->channel->fd);
}

bool dgram_peer_progress(struct dgram *dgram)
{
	struct rdma_cm_event *event;
	bool has_changes = false;

	while (dgram->channel && !dgram->has_lost_cm) {
		enum rdma_cm_event_type type;
		struct dgram_peer *peer;

		if (take_cm_event(dgram->channel, &event)) {
			if (!rsock_may_look_again(-errno))
				dgram_peer_lose_cm(dgram);
			break;
		}
		has_changes = true;
		type = event->event;
		peer = dgram_peer_owner_of(dgram, event->id);
		rdma_ack_cm_event(event);
		if (peer)
			dgram_peer_on_event(dgram, peer, type);
	}
	return has_changes;
}
