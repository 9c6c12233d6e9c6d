/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PRIV_H
#define USRDMA_DAEMON_CMA_PRIV_H

#include <rdma/rdma_cma.h>

#include "base/id_table.h"
#include "base/list.h"
#include "base/timer.h"
#include "daemon/cm_ops.h"
#include "daemon/cma.h"
#include "daemon/cma_linger.h"
#include "daemon/cma_port.h"
#include "daemon/netdev.h"
#include "daemon/program_name.h"

/* Internals of the daemon's rdma_cm part. The loop's thread owns all of this. */

#define CMA_IDS_MAX		(1u << 18)
#define CMA_CHANNELS_MAX	(1u << 16)
#define CMA_IDS_PER_CLIENT	(1u << 15)
#define CMA_CHANNELS_PER_CLIENT (1u << 14)
/*
 * Limits of all processes of one user; root and the daemon's user are exempt (fair_share.h).
 * _RESERVED: the number that is reserved for them. _LEAST: the number that every user gets while
 * more than the reserved ones are free.
 */
#define CMA_IDS_RESERVED      (CMA_IDS_MAX / 32)
#define CMA_IDS_LEAST	      256u
#define CMA_CHANNELS_RESERVED (CMA_CHANNELS_MAX / 32)
#define CMA_CHANNELS_LEAST    64u
#define CMA_CHANNELS_PER_USER CMA_CHANNELS_PER_CLIENT
/*
 * Send buffer of a channel's socket; the kernel doubles it for its own overhead. It limits the
 * kernel memory of unread events: 512 MiB for all channels of a user. A listener that receives
 * requests at a high rate needs a larger buffer: while the daemon refills a small one, the
 * listener's backlog fills and requests are dropped. The first CMA_WIDE_CHANNELS channels of a user
 * therefore have CMA_WIDE_SNDBUF_BYTES, which adds 11 MiB.
 */
#define CMA_CHANNEL_SNDBUF_BYTES (16 << 10)
#define CMA_WIDE_SNDBUF_BYTES	 (104 << 10)
#define CMA_WIDE_CHANNELS	 64u
/*
 * Events queued in the daemon for all processes of a user. Above this, the process with the most
 * queued events is ended.
 */
#define CMA_UNREAD_BYTES_PER_USER (32u << 20)
/* WRITE_EVENTs are refused while the channel has this many queued events. */
#define CMA_QUEUE_OF_OWN_MAKING 1024u
/*
 * Queued events of a client above which requests that cause repeatable events are refused:
 * CMA_UNREAD_MAX, and CMA_UNREAD_PER_ID for each id, which covers the events that each id has once.
 */
#define CMA_UNREAD_MAX	       4096u
#define CMA_UNREAD_PER_ID      8u
#define CMA_BACKLOG_MAX	       1024u
#define CMA_MEMBERSHIPS_PER_ID 1024u

/* The largest QPN (24 bits); a larger value in a request is an error of the caller. */
#define CMA_QPN_MAX 0xffffffu

/* The state of an id determines the requests that are valid; see the table in cma_request.c. */
enum cma_state {
	CMA_IDLE,
	CMA_BOUND,
	CMA_LISTENING,
	CMA_RESOLVING, /* waiting for the neighbour entry of the next hop */
	CMA_ADDR_RESOLVED,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECTING, /* a REQ or SIDR_REQ was sent */
	CMA_REQUESTED,	/* a REQ or SIDR_REQ was received; the client must accept or reject it */
	CMA_CONNECTED, /* accepted or established; the CM has the current state of the connection */
	CMA_OVER,      /* rejected, unreachable or disconnected */
	CMA_REMOVED,   /* its device was removed */
	CMA_STATE_COUNT
};

struct cma_counters {
	uint64_t requests;
	uint64_t events;
	uint64_t events_lost; /* out of memory, or the client closed its socket or is evicted */
	uint64_t connect_requests; /* passed on to a listener */
	uint64_t backlog_drops;
	/* requests whose private data has other addresses than their packets */
	uint64_t misaddressed;
	uint64_t rejects_sent;
	uint64_t established;
	uint64_t clients_gone;
	uint64_t clients_evicted; /* ended because they left too many events unread */
};

/*
 * One for each daemon. Owned by the caller of cma_open(); freed when its libuv handles are closed
 * after cma_close().
 */
struct cma {
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_idle_t idle; /* active while work must be done before the loop may block */
	unsigned handles;
	uint64_t timer_ns; /* the deadline of `timer`, or TIMER_NEVER_NS */
	struct cma_cms cms;
	struct cma_ports ports;
	struct cma_linger linger;
	struct id_table ids;
	/* struct cma_id, by the slot of qp_num; not all of them are connected */
	struct list_head by_slot[IPC_SLOTS];
	struct id_table channels;
	struct list_head clients;
	struct list_head dirty; /* channels with events to push */
	struct cma_counters counters;
	uint32_t queued; /* events in the queues of all clients */
	/* maximum number of ids and connections since memory was last returned to the kernel */
	size_t crowd;
	/* the number was at least CROWD_LEAST, and more than CROWD_GONE of them are left */
	bool is_crowded;
	int (*qpn_check)(void *ctx, const struct cma_peer *peer, uint32_t qpn);
	void *qpn_ctx;
	bool (*qpn_is_known)(void *ctx, uint32_t qpn);
	void *qpn_known_ctx;
	struct { /* cma_failure.c */
		cma_failure_fn *report;
		void *ctx;
		uint64_t last_id;
		enum ipc_failure_reason reason; /* set by cma_because() for the next failure */
		uint64_t numbers[2];
		struct sockaddr_storage dst; /* set by cma_failing_to() for the next failure */
	} failures;
};

/* One session of role CM. Freed by cma_client_gone(). */
struct cma_client {
	struct list_head node;
	struct cma *cma;
	struct cma_peer peer;
	struct list_head ids;
	struct list_head channels;
	uint32_t id_count;
	uint32_t channel_count;
	uint32_t queued;		  /* events in the queues of all its channels */
	char program[PROGRAM_NAME_BYTES]; /* empty: not read yet */
	bool is_evicted; /* its session is about to end; no more events are queued */
};

/*
 * One event channel: the daemon's end of the socket pair whose other end is the application's
 * descriptor. Owned by its client; freed by CHANNEL_DESTROY or with the client.
 */
struct cma_channel {
	struct cma *cma;
	struct cma_client *client;
	struct list_head node;	/* cma_client.channels */
	struct list_head ids;	/* struct cma_id, by of_channel */
	struct list_head dirty; /* cma.dirty */
	struct list_head queue; /* struct cma_queued */
	/* returned by the client while the channel is held; sent before `queue` */
	struct list_head returned;
	uint32_t handle;
	uint32_t queued;
	int fd;
	bool is_held;	     /* between MIGRATE_BEGIN and _END */
	uint32_t returnable; /* while held: number of events that the client may still return */
	uint32_t moving;     /* handle of the id that leaves this channel, or 0 */
	bool is_blocked;     /* the socket is full; the loop watches it */
	bool has_poll;
	uv_poll_t poll;
};

/*
 * An event that was not written to the socket yet. Owned by a channel's queue; freed by
 * cma_queued_free().
 */
struct cma_queued {
	struct list_head node;
	struct list_head of_source; /* cma_id.unpushed of the id whose events_sent includes it */
	struct cma_channel *channel;
	struct ipc_cm_event event;
};

/*
 * One join of a multicast group. Owned by its id; freed when the id leaves the group or is
 * destroyed.
 */
struct cma_membership {
	struct list_head node; /* cma_id.memberships */
	uint64_t cookie;       /* chosen by the client, unique within the id */
	uint8_t group[GID_BYTES];
	bool sends_only;
};

/* One rdma_cm_id. Owned by its client; freed by DESTROY or with the client. */
struct cma_id {
	struct cma *cma;
	struct cma_client *client;
	struct cma_channel *channel;
	/* during a migration: the previous channel, which queues its events in order */
	struct cma_channel *held_by;
	struct list_head node; /* cma_client.ids */
	struct list_head of_channel;
	uint32_t handle;
	uint64_t cookie;
	uint64_t events_sent;
	struct list_head unpushed; /* struct cma_queued, in the queues of any channels */
	enum cma_state state;
	uint32_t ps;
	uint8_t qp_type;

	/* options */
	uint8_t tos;
	uint8_t ack_timeout; /* determines the life time of the path; 0: not set, or no timer */
	bool has_tos;
	bool has_family_only; /* the client has set binding.is_family_only */

	/* addresses and path */
	struct cma_binding binding;
	struct ipc_cm_route route;
	struct cma_resolution *resolution; /* in CMA_RESOLVING, else NULL */

	/* multicast groups */
	struct list_head memberships;
	uint32_t membership_count;

	/* used by listeners */
	uint32_t backlog;
	uint32_t unread; /* pushed CONNECT_REQUESTs that the client may not have read */

	/* used by connections and by service ID resolution (SIDR) */
	struct cma_cm *cm; /* of the id's device; NULL: not bound to a device */
	void *conn; /* the CM's connection or resolution; a resolution ends with its response */
	uint32_t listener; /* handle of the listener that received the request, or 0 */
	uint64_t service_id;
	struct ipc_cm_qp qp;
	uint32_t qp_num; /* see cma_id_set_qpn() */
	struct list_head of_slot;
	uint8_t responder_resources; /* requested or offered, from the local side's view */
	uint8_t initiator_depth;
	uint64_t failure_id;  /* of the warning that a response is outstanding, or 0 */
	bool is_end_reported; /* DISCONNECTED was reported; it is reported once */
	/* REJ reason that ended the request before rdma_accept(), else 0; reported after it */
	int withheld_reason;
	bool is_cut; /* a fault rule has ended the connection */
};

/* cma.c: makes the loop run cma_on_idle(), which delivers queued MADs and events */
void cma_wake(struct cma *cma);
/* Whether the client's user may have one more id; or one more channel, whose socket is fd. */
bool cma_user_may_add_id(const struct cma_client *client);
bool cma_user_may_add_channel(const struct cma_client *client, int fd);
/* The send buffer of the client's next channel, in bytes. */
int cma_user_sndbuf_bytes(const struct cma_client *client);

/* cma_channel.c */
int cma_channel_create(struct cma_client *client, int *client_end, struct cma_channel **channel)
	__attribute__((warn_unused_result));
void cma_channel_destroy(struct cma_channel *channel);
struct cma_channel *cma_channel_of(struct cma_client *client, uint32_t handle);
uint32_t cma_channel_unread(const struct cma_channel *channel);
bool cma_channel_is_read(const struct cma_channel *channel);
void cma_channel_flush(struct cma_channel *channel);
void cma_channel_dirty(struct cma_channel *channel);
void cma_queued_free(struct cma_queued *queued);

/* cma_event.c: copies private data into the event. */
void cma_event_private_data(struct ipc_cm_event *event, const void *data, size_t len);

/*
 * cma_event.c: queues an event of `id`. `source` is the id whose events_sent counts it: the
 * listener for a CONNECT_REQUEST, otherwise `id`. The caller fills in all fields of `event` that
 * are not common to all events.
 */
void cma_event_push(struct cma_id *id, struct cma_id *source, struct ipc_cm_event *event);
void cma_event_status(struct cma_id *id, enum rdma_cm_event_type type, int status);
void cma_event_purge(struct cma_id *id);
void cma_event_purge_join(struct cma_id *id, uint64_t join_cookie);
/*
 * Whether the client has left so many events unread that requests which cause events are refused.
 * `times` multiplies the limit.
 */
bool cma_client_is_unresponsive(const struct cma_client *client, uint32_t times);
int cma_migrate_begin(struct cma_client *client, const struct ipc_cm_migrate *req);
int cma_migrate_end(struct cma_client *client, const struct ipc_cm_migrate_end *req);
int cma_write_event(struct cma_id *id, const struct ipc_cm_write_event *req);

/*
 * cma_failure.c: reports a failed event of an id, and a request that failed with -errno; id NULL:
 * it names no valid id. cma_because() sets the reason of the failure that follows; the numbers
 * depend on the reason. cma_failing_to() sets the destination of the failure that follows, if it is
 * not that of the id's route.
 */
void cma_failed_event(struct cma_id *id, const struct ipc_cm_event *event);
void cma_failed_call(struct cma_client *client, const struct cma_id *id, const struct ipc_hdr *req,
		     int error);
/* The name of the process, which is read when it is needed first; "": the process has ended. */
const char *cma_program_of(struct cma_client *client);
void cma_because(struct cma *cma, enum ipc_failure_reason reason, uint64_t first, uint64_t second);
void cma_failing_to(struct cma *cma, const struct sockaddr_storage *dst);

/* cma_id.c */
int cma_id_create(struct cma_client *client, struct cma_channel *channel, uint32_t ps,
		  uint8_t qp_type, uint64_t cookie, struct cma_id **id)
	__attribute__((warn_unused_result));
void cma_id_destroy(struct cma_id *id);
struct cma_id *cma_id_of(struct cma_client *client, uint32_t handle);
/* Sets qp_num, at most CMA_QPN_MAX. cma_claim_qpns() finds the id by it. */
void cma_id_set_qpn(struct cma_id *id, uint32_t qpn);
void cma_id_let_go(struct cma_id *id);	  /* destroys its connection or resolution */
void cma_id_responded(struct cma_id *id); /* the client has replied to the request of this id */
int cma_set_option(struct cma_id *id, const struct ipc_cm_set_option *req);
const char *cma_state_name(enum cma_state state);

/* cma_addr.c */
int cma_bind(struct cma_id *id, const struct sockaddr_storage *addr);
int cma_listen(struct cma_id *id, uint32_t backlog);
void cma_unlisten(struct cma_id *id);
int cma_resolve_addr(struct cma_id *id, const struct ipc_cm_resolve_addr *req);

/* cma_neigh.c */
/*
 * Resolves the next hop of id->route. Returns 0 if it is resolved or needs no resolution. Returns
 * -EINPROGRESS if the id is now in CMA_RESOLVING; ADDR_RESOLVED or ADDR_ERROR follows within
 * timeout_ms. Otherwise returns -errno. `before` is the route that is restored if the resolution
 * fails later.
 */
int cma_neigh_resolve(struct cma_id *id, const struct ipc_cm_route *before, uint32_t timeout_ms);
void cma_neigh_cancel(struct cma_id *id);
/*
 * The interface of the id has no carrier. A resolution in progress fails with -ENETDOWN: the kernel
 * has removed the neighbour entry, and reports no failure of it.
 */
void cma_neigh_port_down(struct cma_id *id);

/* cma_path.c */
int cma_resolve_route(struct cma_id *id);
int cma_set_path(struct cma_id *id, const struct ibv_path_record *record);
void cma_path_fill(struct cma_id *id, const struct netdev *dev, uint8_t mtu);
/* The packet life time that belongs to an ACK timeout; `without`: for the ACK timeout 0. */
uint8_t cma_path_life_time(uint8_t ack_timeout, uint8_t without);

/* cma_connect.c: requests of connections */
int cma_connect(struct cma_id *id, const struct ipc_cm_connect *req);
int cma_accept(struct cma_id *id, const struct ipc_cm_connect *req);
int cma_reject(struct cma_id *id, const struct ipc_cm_reject *req);
int cma_establish(struct cma_id *id);
int cma_disconnect(struct cma_id *id);
int cma_notify(struct cma_id *id, uint32_t event);
uint64_t cma_service_id(uint32_t ps, uint16_t port);
uint8_t cma_ack_timeout_of(const struct cma_id *id);
uint8_t cma_retry_count(uint8_t value); /* limited to the 3 bits of the field */
int cma_check_qpn(const struct cma_id *id, uint32_t qpn);

/* cma_datagram.c: the same requests for ids of datagram QPs */
bool cma_is_datagram(const struct cma_id *id);
int cma_datagram_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
int cma_datagram_accept(struct cma_id *id, uint64_t cookie, const struct ipc_cm_param *param);
int cma_datagram_reject(struct cma_id *id, const struct ipc_cm_reject *req);

/* cma_mcast.c: multicast groups of datagram ids */
int cma_join(struct cma_id *id, const struct ipc_cm_join *req);
int cma_leave(struct cma_id *id, uint64_t cookie);
void cma_leave_all(struct cma_id *id);
/* The id's interface went down: reports MULTICAST_ERROR for each of its groups. */
void cma_mcast_down(struct cma_id *id);

/* The addresses of both sides of a request. */
struct cma_addrs {
	struct sockaddr_storage theirs;
	struct sockaddr_storage ours;
};

/*
 * A request that a connection manager received. The connection manager fills in all fields, and in
 * `event` the parameters from the local side's view, with the QP type that the passive side must
 * use; IBV_QPT_DRIVER: none.
 */
struct cma_request {
	struct cma_cm *cm;
	void *conn; /* becomes id->conn */
	uint64_t service_id;
	uint32_t dev_id;
	uint8_t sgid[GID_BYTES]; /* of this host */
	uint8_t dgid[GID_BYTES]; /* of the peer */
	struct cma_addrs addrs;	 /* address family AF_UNSPEC: matches no listener */
	struct ipc_cm_qp qp;	 /* of a connection, except the negotiated values */
	bool has_flow;		 /* the request specifies the following fields */
	uint8_t traffic_class;
	uint8_t sl;
	uint32_t flow_label;
	struct ipc_cm_event event;
};

/* cma_incoming.c: the listener that the service ID and the addresses specify; NULL: not found. */
struct cma_id *cma_find_listener(const struct cma_request *request);

/*
 * cma_incoming.c: passes a request to its listener. 0: *id is the new id. -EAGAIN: drop the request
 * without a response, so that the peer repeats it. Otherwise the CM rejects the request.
 * -ECONNREFUSED: no listener; -EPROTOTYPE: the listener has another QP type; -EMSGSIZE: the path
 * MTU is invalid.
 */
int cma_on_request(struct cma_request *request, struct cma_id **id)
	__attribute__((warn_unused_result));

/*
 * cma_cm_events.c: what a CM received about the connection of an id. cma_on_response(): the peer
 * accepted; event->param has its parameters from the local side's view. cma_on_rejected() may have
 * the reason of an IBA REJ message. cma_on_unreachable(): no response arrived.
 * cma_on_disconnected(): 0, or -ETIMEDOUT if the peer did not confirm.
 */
void cma_on_response(struct cma_id *id, struct ipc_cm_event *event);
void cma_on_established(struct cma_id *id);
void cma_on_rejected(struct cma_id *id, int reason, const void *private_data, size_t len);
void cma_on_unreachable(struct cma_id *id, int status);
void cma_on_disconnected(struct cma_id *id, int status);
void cma_on_timewait_exit(struct cma_id *id);

/*
 * cma_datagram.c: the result of a resolution, after which id->conn is invalid. event->status is 0
 * or the SIDR status, and event->param has QPN, Q_Key and private data. cma_on_unresolved(): no
 * response arrived.
 */
void cma_on_resolved(struct cma_id *id, struct ipc_cm_event *event);
void cma_on_unresolved(struct cma_id *id, int status);

#endif
