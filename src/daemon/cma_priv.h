/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PRIV_H
#define USRDMA_DAEMON_CMA_PRIV_H

#include <rdma/rdma_cma.h>

#include "base/id_table.h"
#include "base/list.h"
#include "cm/cm.h"
#include "cm/sidr.h"
#include "daemon/cma.h"
#include "daemon/cma_grace.h"
#include "daemon/cma_port.h"
#include "daemon/gsi.h"
#include "daemon/netdev.h"

/* The inside of the daemon's rdma_cm half. Everything here belongs to the loop's one thread. */

#define CMA_IDS_MAX		(1u << 18)
#define CMA_CHANNELS_MAX	(1u << 16)
#define CMA_IDS_PER_CLIENT	(1u << 15)
#define CMA_CHANNELS_PER_CLIENT (1u << 14)
/* All processes of a user who is not root leave others what one process may have. */
#define CMA_IDS_PER_USER	(CMA_IDS_MAX - CMA_IDS_PER_CLIENT)
#define CMA_CHANNELS_PER_USER	(CMA_CHANNELS_MAX - CMA_CHANNELS_PER_CLIENT)
#define CMA_QUEUE_OF_OWN_MAKING 1024u /* WRITE_EVENTs that one channel holds unread */
/* Events that a client leaves unread before it may ask for no more that make some, beyond those of its ids' lives. */
#define CMA_UNREAD_MAX	       4096u
#define CMA_UNREAD_PER_ID      8u
#define CMA_BACKLOG_MAX	       1024u
#define CMA_MEMBERSHIPS_PER_ID 1024u
#define CMA_REQ_PRIVATE_BYTES  (CM_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES)

#define CMA_SIDR_REQ_PRIVATE_BYTES (CM_SIDR_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES)

/* What is wrong is the caller's 24-bit number. */
#define CMA_QPN_MAX 0xffffffu

/* What an id may be asked follows from where it is; see the table in cma_request.c. */
enum cma_state {
	CMA_IDLE,
	CMA_BOUND,
	CMA_LISTENING,
	CMA_ADDR_RESOLVED,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECTING, /* our REQ or SIDR_REQ is out */
	CMA_REQUESTED,	/* one came in; the client has to answer it */
	CMA_CONNECTED, /* accepted or established; whether it still is, the communication manager knows */
	CMA_OVER,    /* rejected, unreachable or disconnected */
	CMA_REMOVED, /* its device went away */
	CMA_STATE_COUNT
};

struct cma_counters {
	uint64_t requests;
	uint64_t events;
	uint64_t events_lost;	   /* out of memory, or the client closed its end */
	uint64_t connect_requests; /* passed on to a listener */
	uint64_t backlog_drops;
	uint64_t rejects_sent;
	uint64_t established;
	uint64_t clients_gone;
};

/* The daemon's one; owned by whoever called cma_open(), dies some loop turns after cma_close(). */
struct cma {
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_idle_t idle; /* runs while something waits to be done before the loop may sleep */
	unsigned handles;
	uint64_t timer_ns; /* what the timer is set for, or TIMER_NEVER_NS */
	struct cm *cm;
	struct gsi gsi;
	uv_poll_t wire_poll; /* while gsi.wire */
	struct cma_ports ports;
	struct cma_grace grace;
	struct id_table ids;
	struct id_table channels;
	struct list_head clients;
	struct list_head dirty; /* channels with events to push */
	struct cma_counters counters;
	size_t crowd;	 /* the most ids and connections there were since memory was given back */
	bool is_crowded; /* there was a crowd, and more than a few are left of it */
	int (*qpn_check)(void *ctx, const struct cma_peer *peer, uint32_t qpn);
	void *qpn_ctx;
};

/* One session of role CM; dies in cma_client_gone(). */
struct cma_client {
	struct list_head node;
	struct cma *cma;
	struct cma_peer peer;
	struct list_head ids;
	struct list_head channels;
	uint32_t id_count;
	uint32_t channel_count;
	uint32_t queued; /* events in all of its channels' queues */
};

/*
 * One event channel: our end of the socket pair whose other end is the user's fd. Owned by its client; dies when that
 * destroys it or goes away.
 */
struct cma_channel {
	struct cma *cma;
	struct cma_client *client;
	struct list_head node;	   /* of the client's */
	struct list_head dirty;	   /* of the cma's */
	struct list_head queue;	   /* struct cma_queued */
	struct list_head returned; /* given back while held; they go before the queue */
	uint32_t handle;
	uint32_t queued;
	uint32_t users; /* ids that push here, and moves under way */
	int fd;
	bool is_held;	     /* between MIGRATE_BEGIN and _END */
	uint32_t returnable; /* while held: how many events may still be given back */
	uint32_t moving;     /* the id that moves away, or 0 */
	bool is_blocked;     /* the socket is full; the loop watches it */
	bool has_poll;
	uv_poll_t poll;
};

/* An event that waits for its socket; owned by a channel's queue, dies in cma_queued_free(). */
struct cma_queued {
	struct list_head node;
	struct list_head of_source; /* cma_id.unpushed of the id that counts it */
	struct cma_channel *channel;
	struct ipc_cm_event event;
};

/* One join of a multicast group. Owned by its id; dies when that leaves the group or is destroyed. */
struct cma_membership {
	struct list_head node; /* cma_id.memberships */
	uint64_t cookie;       /* the client's name for it, unique in its id */
	uint8_t group[GID_BYTES];
	bool sends_only;
};

/* One rdma_cm_id. Owned by its client; dies when that destroys it or goes away. */
struct cma_id {
	struct cma *cma;
	struct cma_client *client;
	struct cma_channel *channel;
	struct cma_channel *
		held_by; /* while it moves: the channel it leaves, which keeps its events in order */
	struct list_head node;
	uint32_t handle;
	uint64_t cookie;
	uint64_t events_sent;
	struct list_head unpushed; /* struct cma_queued, in whichever channel each waits */
	enum cma_state state;
	uint32_t ps;
	uint8_t qp_type;

	/* options */
	uint8_t tos;
	uint8_t ack_timeout; /* 0: derived from the path */
	bool has_tos;
	bool has_family_only; /* binding.is_family_only was asked for */

	/* where */
	struct cma_binding binding;
	struct ipc_cm_route route;
	bool is_told_change;

	/* in multicast groups */
	struct list_head memberships;
	uint32_t membership_count;

	/* as a listener */
	uint32_t backlog;
	uint32_t unread; /* requests pushed that the client may not have seen yet */

	/* as a connection, or a datagram service asked for or asked about */
	struct cm_conn *conn;
	struct cm_sidr *sidr; /* until it is answered */
	uint32_t listener;    /* handle of the id whose request this is, or 0 */
	uint64_t service_id;
	struct ipc_cm_qp qp;
	uint32_t qp_num;
	uint8_t responder_resources; /* what we asked for or were offered, seen from here */
	uint8_t initiator_depth;
	bool is_told_end; /* DISCONNECTED is told once */
};

/* cma.c: makes the loop come back for what was queued. */
void cma_wake(struct cma *cma);
/* Whether a client's user has its share of ids, or of channels. */
bool cma_user_has_ids(const struct cma_client *client);
bool cma_user_has_channels(const struct cma_client *client);

/* cma_channel.c */
int cma_channel_create(struct cma_client *client, int *fd, struct cma_channel **channel)
	__attribute__((warn_unused_result));
void cma_channel_destroy(struct cma_channel *channel);
struct cma_channel *cma_channel_of(struct cma_client *client, uint32_t handle);
uint32_t cma_channel_unread(const struct cma_channel *channel);
bool cma_channel_is_read(const struct cma_channel *channel);
void cma_channel_flush(struct cma_channel *channel);
void cma_channel_dirty(struct cma_channel *channel);
void cma_queued_free(struct cma_queued *queued);

/* cma_event.c: the bytes that an event has for the user. */
void cma_event_private_data(struct ipc_cm_event *event, const void *data, size_t len);

/* cma_event.c: queues an event about `id`; `source` counts it (the listener for a CONNECT_REQUEST, else id). `event` has
 * everything but what is the same in all of them. */
void cma_event_push(struct cma_id *id, struct cma_id *source, struct ipc_cm_event *event);
void cma_event_status(struct cma_id *id, enum rdma_cm_event_type type, int status);
void cma_event_purge(struct cma_id *id);
void cma_event_purge_join(struct cma_id *id, uint64_t join_cookie);
/* Whether so much is unread that a client must not ask for more; `times`: by so many times what it should have. */
bool cma_client_is_deaf(const struct cma_client *client, uint32_t times);
int cma_migrate_begin(struct cma_client *client, const struct ipc_cm_migrate *req);
int cma_migrate_end(struct cma_client *client, const struct ipc_cm_migrate_end *req);
int cma_write_event(struct cma_id *id, const struct ipc_cm_write_event *req);

/* cma_id.c */
int cma_id_create(struct cma_client *client, struct cma_channel *channel, uint32_t ps,
		  uint8_t qp_type, uint64_t cookie, struct cma_id **id)
	__attribute__((warn_unused_result));
void cma_id_destroy(struct cma_id *id);
struct cma_id *cma_id_of(struct cma_client *client, uint32_t handle);
void cma_id_let_go(struct cma_id *id); /* of its connection or resolution */
void cma_id_answered(
	struct cma_id *id); /* the client has seen the request and done something about it */
int cma_set_option(struct cma_id *id, const struct ipc_cm_set_option *req);
const char *cma_state_name(enum cma_state state);

/* cma_addr.c */
int cma_bind(struct cma_id *id, const struct sockaddr_storage *addr);
int cma_listen(struct cma_id *id, uint32_t backlog);
int cma_resolve_addr(struct cma_id *id, const struct ipc_cm_resolve_addr *req);

/* cma_path.c */
int cma_resolve_route(struct cma_id *id);
int cma_set_path(struct cma_id *id, const struct ibv_path_record *record);
uint8_t cma_mtu_of(const struct netdev *dev);
void cma_path_fill(struct cma_id *id, const struct netdev *dev, uint8_t mtu);

/* cma_connect.c: requests about connections */
int cma_connect(struct cma_id *id, const struct ipc_cm_connect *req);
int cma_accept(struct cma_id *id, const struct ipc_cm_connect *req);
int cma_reject(struct cma_id *id, const struct ipc_cm_reject *req);
int cma_establish(struct cma_id *id);
int cma_disconnect(struct cma_id *id);
int cma_notify(struct cma_id *id, uint32_t event);
uint64_t cma_service_id(uint32_t ps, uint16_t port);
void cma_cm_path(const struct cma_id *id, struct cm_path *path);
int cma_check_qpn(const struct cma_id *id, uint32_t qpn);

/* cma_datagram.c: the same for ids of datagram QPs */
bool cma_is_datagram(const struct cma_id *id);
int cma_datagram_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t patience_ns);
int cma_datagram_accept(struct cma_id *id, uint64_t cookie, const struct ipc_cm_param *param);
int cma_datagram_reject(struct cma_id *id, const struct ipc_cm_reject *req);
void *cma_on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			  const struct cm_sidr_req *req, uint8_t *status);
void cma_on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner, const struct cm_sidr_rep *rep,
		       uint64_t now_ns);

/* cma_mcast.c: multicast groups of datagram ids */
int cma_join(struct cma_id *id, const struct ipc_cm_join *req);
int cma_leave(struct cma_id *id, uint64_t cookie);
void cma_leave_all(struct cma_id *id);

/* The addresses that a request is between. */
struct cma_addrs {
	struct sockaddr_storage theirs;
	struct sockaddr_storage ours;
};

/*
 * cma_incoming.c: which id a request is for: the port space and port are in the service ID, the addresses in front of the
 * private data. NULL: nobody's.
 */
struct cma_id *cma_find_listener(struct cma *cma, const struct cm_path *path, uint64_t service_id,
				 const void *private_data, struct cma_addrs *addrs);

/* A new id for a request to the listener. NULL: the backlog is full, or memory short; as Linux has it, nothing is said and
 * the request comes again. */
struct cma_id *cma_request_child(struct cma_id *listener, uint8_t qp_type);

/* Where it is, seen from here; and the CONNECT_REQUEST that tells of it, when all else is filled in. */
void cma_request_place(struct cma_id *id, const struct cm_path *path, const struct cma_addrs *addrs,
		       const struct netdev *dev, uint8_t mtu);
void cma_request_push(struct cma_id *id, struct cma_id *listener, struct ipc_cm_event *event);

/* cma_news.c: what the communication manager has to say */
extern const struct cm_ops cma_cm_ops;

#endif
