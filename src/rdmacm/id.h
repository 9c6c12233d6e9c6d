/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_ID_H
#define USRDMA_RDMACM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "ipc/msg_cm.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/phase.h"

struct rcm_membership;

/* ECE options of one side of a connection; vendor_id 0: none. */
struct rcm_ece {
	uint32_t vendor_id;
	uint32_t options;
};

/*
 * The parameters of rdma_create_ep(). A passive endpoint creates the QPs of its connection requests
 * from them; an active endpoint prepends `prefix` to the private data of rdma_connect(). Owned by
 * the id.
 */
struct rcm_endpoint {
	bool wants_qp;
	struct ibv_pd *pd; /* NULL: the default PD */
	struct ibv_qp_init_attr qp_attr;
	void *prefix; /* prepended to the private data of rdma_connect() */
	size_t prefix_bytes;
};

/*
 * A communication identifier. The application owns it from rdma_create_id(), or from its
 * CONNECT_REQUEST event, until rdma_destroy_id(), which waits until all events of the id are
 * acknowledged.
 *
 * Requests identify the id by `handle`, which the daemon assigns. Events identify it by `cookie`,
 * its key in the id table of this process. In events of an id that a connection request created,
 * the cookie is 0 until ACCEPT or a migration sets it.
 *
 * `pub` and the members without a lock below are not guarded. They change only in calls of the
 * application on the id and when rdma_get_cm_event() returns an event of the id; the application
 * serializes these.
 */
struct rcm_id {
	struct rdma_cm_id pub; /* first: the application has its address */
	struct rcm_session *session;
	struct rcm_channel *channel;
	struct rcm_device *device; /* NULL: not bound to a device */
	uint64_t cookie;
	uint32_t handle;
	/* attributes, which do not depend on the phase */
	bool is_sync;	 /* has a channel of its own; calls wait for their events */
	bool is_waiting; /* a synchronous call waits for `awaited`, or its wait was interrupted */
	enum rdma_cm_event_type awaited;
	bool is_src_mapped; /* reported to the application as ::ffff:a.b.c.d */
	bool is_dst_mapped;
	bool defers_device;   /* bound to a loopback address; pub.verbs is set when first needed */
	bool srq_has_recv_cq; /* pub.recv_cq is the CQ of the XRC SRQ */

	/*
	 * Held while an event handler modifies pub.qp, and while pub.qp is set; acquired before the
	 * other locks.
	 */
	pthread_mutex_t qp_lock;
	/*
	 * Of pub.qp, for reports: a program may destroy the QP with ibv_destroy_qp(), and pub.qp
	 * then points to freed memory.
	 */
	atomic_uint qpn;

	/* under channel->lock */
	struct list_head channel_node;
	uint64_t events_received; /* number of events received from the socket */
	bool is_dying;		  /* destroyed in the daemon: its events are dropped */
	bool is_removal_reported; /* DEVICE_REMOVAL was reported */

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	enum rcm_phase phase;		/* read and changed by rcm_id_step() */
	struct list_head unacked;	/* struct rcm_event that the application holds */
	struct rdma_addrinfo *addrinfo; /* until rdma_query_addrinfo() */
	bool is_resolving;
	/* CONNECT or ACCEPT if the id's state in the daemon permits it; 0: unknown */
	enum ipc_type next_step;
	struct list_head memberships; /* multicast.h */
	uint64_t last_membership;

	struct ibv_sa_path_rec path;
	struct ipc_cm_route route; /* from the last reply or event */
	struct ipc_cm_qp qp_param; /* negotiated; remote_qpn 0: not yet */
	/* RDMA_OPTION_ID_ACK_TIMEOUT was set: used instead of qp_param.timeout */
	bool has_ack_timeout;
	uint8_t ack_timeout;	     /* 0: no timeout */
	uint8_t responder_resources; /* of the connection request, from the local side's view */
	uint8_t initiator_depth;
	struct rcm_endpoint endpoint;
	struct rcm_ece local_ece; /* for a QP that the application creates and modifies itself */
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

/* Applies an input to the phase of the id. Returns the action, which the caller carries out. */
enum rcm_action rcm_id_step(struct rcm_id *id, enum rcm_input input);

/* Creates an id on `channel`; NULL: a synchronous id with a new channel of its own. 0 or -errno. */
int rcm_id_create(struct rcm_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct rcm_id **id) __attribute__((warn_unused_result));

/*
 * Creates the id of a received CONNECT_REQUEST. `handle` is the daemon's handle of the id; context,
 * port space and QP type are copied from the listener. Called with the lock of the listener's
 * channel held. 0 or -errno.
 */
int rcm_id_adopt(struct rcm_id *listener, uint32_t handle, struct rcm_id **id)
	__attribute__((warn_unused_result));

/*
 * Destroys the id in the daemon and in this process; waits until all events are acknowledged.
 * Implements rdma_destroy_id().
 */
void rcm_id_destroy(struct rcm_id *id);

/*
 * Finds the id with a cookie that the daemon sent; NULL: none. While the caller has the lock of the
 * channel of the id, the id is not freed.
 */
struct rcm_id *rcm_id_find(uint64_t cookie);

/* Called by the fork handler of the session in the child of a fork(): the child has no ids. */
void rcm_id_after_fork_in_child(void);

/*
 * Sets the id's addresses, device and path from a message of the daemon. 0 or -errno (the device
 * cannot be opened).
 */
int rcm_id_set_route(struct rcm_id *id, const struct ipc_cm_route *route)
	__attribute__((warn_unused_result));

/*
 * Binds the id to the device of its address if rdma_bind_addr() deferred this. -EINVAL: the id has
 * no device.
 */
int rcm_id_need_device(struct rcm_id *id) __attribute__((warn_unused_result));

/*
 * Sends a request about an id with ipc_call(). Acquires and releases the id's lock before, so that
 * a thread which receives the resulting event sees all members of the id that this thread has
 * written.
 */
int rcm_id_call(struct rcm_id *id, void *req, uint32_t req_len, void *reply, uint32_t reply_len)
	__attribute__((warn_unused_result));

/*
 * As rcm_id_call(), for a request whose reply has no body; rcm_id_request_plain(): also without
 * parameters except the id.
 */
int rcm_id_request(struct rcm_id *id, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));
int rcm_id_request_plain(struct rcm_id *id, enum ipc_type type) __attribute__((warn_unused_result));

/*
 * rcm_id_set_next() stores the request that the id's state permits after an event: CONNECT, ACCEPT
 * or none (0). Every later request resets it to 0. rcm_id_take_next() also resets it and returns
 * true if it was `step`: the daemon will not reject that request because of the id's state.
 */
void rcm_id_set_next(struct rcm_id *id, enum ipc_type step);
bool rcm_id_take_next(struct rcm_id *id, enum ipc_type step);

/* As rcm_id_call(), for a request without a reply: uses ipc_send_request(). */
int rcm_id_send(struct rcm_id *id, void *req, uint32_t req_len) __attribute__((warn_unused_result));

/* Acknowledges the event that a synchronous call left in id->event. */
void rcm_id_release_event(struct rcm_id *id);

/*
 * Waits until all events of the id, or only those of one of its memberships, are acknowledged.
 * After 2 s it logs which event `call` waits for, because a missing rdma_ack_cm_event() otherwise
 * looks like a hang of an unrelated call.
 */
void rcm_id_wait_acked(struct rcm_id *id, const struct rcm_membership *membership,
		       const char *call);

/*
 * Converts an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2) to the IPv4 address, which the daemon
 * uses. false: it is another address, which remains unchanged.
 */
bool rcm_addr_unmap(struct sockaddr_storage *addr);

/* The size of an address in bytes; 0: unsupported family. */
socklen_t rcm_addr_bytes(const struct sockaddr *addr);

#endif
