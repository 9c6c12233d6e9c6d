/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_ID_H
#define USRDMA_RDMACM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "base/list.h"
#include "ipc/msg.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"

struct rcm_membership;

/* Options of a vendor's devices, as one side of a connection has them; vendor_id 0: none. */
struct rcm_ece {
	uint32_t vendor_id;
	uint32_t options;
};

/*
 * What a passive endpoint keeps for the QPs of the requests it will get (rdma_create_ep), and an
 * active one for the start of its private data. Owned by the id.
 */
struct rcm_endpoint {
	bool wants_qp;
	struct ibv_pd *pd; /* NULL: the default one */
	struct ibv_qp_init_attr qp_attr;
	void *prefix; /* goes in front of the private data of a connect */
	size_t prefix_bytes;
};

/*
 * A communication identifier. The user owns it from rdma_create_id, or from the CONNECT_REQUEST
 * that brought it, to rdma_destroy_id, which waits until every event of it is acknowledged.
 *
 * The daemon knows it by handle, and names it in events by cookie, which is its place in this
 * process's id table; an id that a request made has cookie 0 there until ACCEPT or a migration
 * tells.
 *
 * pub belongs to the user as rdma_cm_id(3) says: it changes in the calls that the user makes and
 * when one of the id's events is taken, and nothing else guards it. The same holds for what has no
 * lock named below.
 */
struct rcm_id {
	struct rdma_cm_id pub; /* first: the user's pointer is ours */
	struct rcm_session *session;
	struct rcm_channel *channel;
	struct rcm_device *device; /* NULL: not bound to one */
	uint64_t cookie;
	uint32_t handle;
	bool is_sync; /* has a channel of its own and waits for its events */
	bool is_listener;
	bool has_connect_error; /* told to the user: what follows is noise */
	bool srq_has_recv_cq;	/* pub.recv_cq is what the SRQ, of XRC, completes in */

	/* Held while an event moves pub.qp, and while pub.qp comes or goes; taken before the others. */
	pthread_mutex_t qp_lock;

	/* under channel->lock */
	struct list_head channel_node;
	uint64_t events_received; /* taken out of the socket */
	bool is_dying;		  /* rdma_destroy_id began: events are dropped */
	bool is_told_removed;

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	struct list_head unacked;	/* struct rcm_event: the user has them */
	struct rdma_addrinfo *addrinfo; /* until rdma_query_addrinfo */
	bool is_resolving;
	enum ipc_type next_step; /* CONNECT or ACCEPT, where the daemon awaits that; 0: not known */
	struct list_head memberships; /* multicast.h */
	uint64_t last_membership;

	struct ibv_sa_path_rec path;
	struct ipc_cm_route route;   /* as last told */
	struct ipc_cm_qp qp_param;   /* as agreed; remote_qpn 0: not yet */
	uint8_t responder_resources; /* of the request, seen from here */
	uint8_t initiator_depth;
	struct rcm_endpoint endpoint;
	struct rcm_ece local_ece; /* of a QP that the user moves by hand */
	struct rcm_ece remote_ece;
};

static inline struct rcm_id *rcm_id_of(struct rdma_cm_id *id)
{
	return container_of(id, struct rcm_id, pub);
}

static inline bool rcm_id_is_datagram(const struct rcm_id *id)
{
	return id->pub.qp_type == IBV_QPT_UD;
}

/* An id of the daemon's on `channel`, as made by rdma_create_id; NULL: a new channel of its own. */
int rcm_id_create(struct rcm_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct rcm_id **id) __attribute__((warn_unused_result));

/*
 * The id of a CONNECT_REQUEST that came on channel, whose lock the caller has: `handle` is already
 * the daemon's, and what it has in common with its listener is copied. 0 or -ENOMEM.
 */
int rcm_id_adopt(struct rcm_id *listener, uint32_t handle, struct rcm_id **id)
	__attribute__((warn_unused_result));

/*
 * Ends the id for the daemon and here, waiting for acknowledgements: rdma_destroy_id without its
 * convention.
 */
void rcm_id_destroy(struct rcm_id *id);

/*
 * The id that a cookie of the daemon's names, or NULL. The caller has the lock of the channel it
 * asks for.
 */
struct rcm_id *rcm_id_find(uint64_t cookie);

/*
 * Takes over what the daemon says of the id's addresses, device and path. 0 or -errno (no such
 * device).
 */
int rcm_id_set_route(struct rcm_id *id, const struct ipc_cm_route *route)
	__attribute__((warn_unused_result));

/*
 * A request about an id: ipc_call, after everything this thread wrote to the id is there for the
 * thread that will take the event which the request brings about.
 */
int rcm_id_call(struct rcm_id *id, void *req, uint32_t req_len, void *reply, uint32_t reply_len)
	__attribute__((warn_unused_result));

/* One whose answer is nothing but its status, and one that also names nothing but the id. */
int rcm_id_request(struct rcm_id *id, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));
int rcm_id_request_plain(struct rcm_id *id, enum ipc_type type) __attribute__((warn_unused_result));

/*
 * Notes what an event has the id ready for: CONNECT, ACCEPT or nothing (0). The next request of any kind takes that note
 * away. true: it was `step`, so the daemon will not say no for where the id is.
 */
void rcm_id_set_next(struct rcm_id *id, enum ipc_type step);
bool rcm_id_take_next(struct rcm_id *id, enum ipc_type step);

/* A request about an id that gets no answer: ipc_tell, as rcm_id_call. */
int rcm_id_tell(struct rcm_id *id, void *req, uint32_t req_len) __attribute__((warn_unused_result));

/* Acknowledges the event that a synchronous call left in id->event. */
void rcm_id_release_event(struct rcm_id *id);

/*
 * Waits until every event of the id, or of one membership of its own, is acknowledged. When that takes long the log says
 * what `call` waits for: an event that was forgotten looks like a hang in a call that has nothing to do with it.
 */
void rcm_id_wait_acked(struct rcm_id *id, const struct rcm_membership *membership,
		       const char *call);

/* Bytes of an address of a family that is served here, or 0. */
socklen_t rcm_addr_bytes(const struct sockaddr *addr);

#endif
