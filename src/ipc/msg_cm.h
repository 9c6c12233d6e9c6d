/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_MSG_CM_H
#define USRDMA_IPC_MSG_CM_H

#include "ipc/msg.h"

/*
 * The bodies of the messages between librdmacm and the daemon: ids, event channels, connections and
 * multicast groups. The rules of ipc/msg.h apply.
 */

#define IPC_PRIVATE_MAX 256

/*
 * The communication manager. A channel is a SEQPACKET socket pair: the daemon creates it and keeps
 * one end, and the reply to CHANNEL_CREATE carries the other end, which is the application's
 * rdma_event_channel.fd. Events are pushed on it in order. Each event has the number of events
 * pushed for its id, so that a client can compute whether more are in the socket.
 */
struct ipc_cm_channel_reply {
	struct ipc_hdr hdr;
	uint32_t channel;
	uint32_t reserved;
};

/* CHANNEL_DESTROY: also destroys its ids; -EBUSY between MIGRATE_BEGIN and _END */
struct ipc_cm_channel {
	struct ipc_hdr hdr;
	uint32_t channel;
	uint32_t reserved;
};

struct ipc_cm_create {
	struct ipc_hdr hdr;
	uint32_t channel;
	uint32_t ps;	  /* enum rdma_port_space */
	uint32_t qp_type; /* enum ibv_qp_type */
	uint32_t reserved;
	uint64_t cookie; /* chosen by the client; copied to the events of the id */
};

struct ipc_cm_create_reply {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
};

/* A request with an id and no other parameters: DESTROY, ESTABLISH, DISCONNECT. */
struct ipc_cm_id {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
};

struct ipc_cm_destroy_reply {
	struct ipc_hdr hdr;
	uint64_t events_sent; /* number of events pushed for this id */
};

/* Addresses, device and path of an id: the contents of rdma_cm_id.route and port_num. */
struct ipc_cm_route {
	struct sockaddr_storage src; /* ss_family 0: not set yet */
	struct sockaddr_storage dst;
	uint32_t dev_id;   /* 0: not bound to a device (wildcard) */
	uint32_t has_path; /* the fields below are valid */
	uint8_t sgid[16];
	uint8_t dgid[16];
	uint32_t sgid_index;
	uint32_t flow_label;
	uint16_t pkey;
	uint8_t port_num;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint8_t rate;		  /* enum ibv_rate */
	uint8_t packet_life_time; /* 4.096 us * 2^n */
	uint8_t reserved[7];
};

struct ipc_cm_bind { /* BIND */
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
	struct sockaddr_storage addr;
};

struct ipc_cm_route_reply { /* reply to BIND, LISTEN, RESOLVE_ADDR */
	struct ipc_hdr hdr;
	struct ipc_cm_route route;
};

struct ipc_cm_resolve_addr { /* RESOLVE_ADDR; outcome: ADDR_RESOLVED or ADDR_ERROR */
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t timeout_ms;
	struct sockaddr_storage src; /* ss_family 0: none */
	struct sockaddr_storage dst;
};

struct ipc_cm_resolve_route { /* RESOLVE_ROUTE; outcome: ROUTE_RESOLVED or ROUTE_ERROR */
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t timeout_ms;
};

struct ipc_cm_listen {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t backlog;
};

/*
 * Private data bytes that fit in every CM message: the 92 bytes of a REQ less the IP addressing
 * header.
 */
#define IPC_CM_PRIVATE_FITS 56
/* Private data bytes of rdma_accept(): in a REP, and in the SIDR_REP of a datagram id. */
#define IPC_CM_REP_PRIVATE_BYTES      196
#define IPC_CM_SIDR_REP_PRIVATE_BYTES 136

/* Connection parameters that the two sides exchange, as in rdma_conn_param. */
struct ipc_cm_param {
	uint32_t qp_num;
	uint32_t qkey; /* UD */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;	 /* 0-7 */
	uint8_t rnr_retry_count; /* 0-7 */
	uint8_t srq;
	uint8_t qp_type; /* enum ibv_qp_type */
	uint8_t reserved;
	uint32_t vendor_id; /* ECE: vendor id and vendor options of the device; 0: none */
	uint32_t vendor_options;
	uint32_t private_len; /* <= IPC_PRIVATE_MAX; the daemon checks the limit of each message */
	uint8_t private_data[IPC_PRIVATE_MAX];
};

struct ipc_cm_connect { /* CONNECT, ACCEPT */
	struct ipc_hdr hdr;
	uint32_t id;
	/* CM timeout: how long to wait for the peer's reply; 0: the daemon's default */
	uint32_t timeout_ms;
	/* ACCEPT: the client's cookie for the id of a connection request; CONNECT: 0 */
	uint64_t cookie;
	struct ipc_cm_param param;
};

struct ipc_cm_reject {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reason; /* IBA 12.x REJ reason; 28 consumer */
	uint32_t private_len;
	uint8_t private_data[IPC_PRIVATE_MAX];
};

struct ipc_cm_notify {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t event; /* enum ibv_event_type */
};

struct ipc_cm_set_option {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t level;
	uint32_t name;
	uint32_t value_len;
	uint8_t value[64];
};

/*
 * MIGRATE_BEGIN, MIGRATE_END: move an id to another channel without loss or reordering of its
 * events. BEGIN suspends all pushes on the id's channel. The client then reads all events from that
 * channel's socket and returns them to the daemon with END, in order: at most IPC_MIGRATE_EVENTS
 * complete struct ipc_cm_event for each message, and `more` in all messages except the last. The
 * daemon pushes each returned event on the current channel of its id, followed by the events that
 * it had suspended. A returned event keeps its events_sent and is not counted again; it is dropped
 * if its id no longer exists. A CONNECT_REQUEST is pushed on the current channel of its listener,
 * and its new id moves to that channel.
 *
 * With id 0 no id moves: BEGIN only suspends the pushes on new_channel until the END for that
 * channel. rdma_destroy_id() uses this, after the reply to DESTROY, to remove the id's unread
 * events from a channel that other ids share. A client can suspend a channel only once at a time
 * (-EBUSY). A disconnect of the client ends the suspension.
 */
#define IPC_MIGRATE_EVENTS 12

struct ipc_cm_migrate { /* MIGRATE_BEGIN */
	struct ipc_hdr hdr;
	uint32_t id; /* or 0 */
	uint32_t new_channel;
	uint64_t cookie; /* the new cookie of the id */
};

/*
 * The QP attributes, in addition to the route, for rdma_init_qp_attr() and the library's own QP
 * transitions.
 */
struct ipc_cm_qp {
	uint32_t remote_qpn;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t qkey;
	uint8_t path_mtu; /* enum ibv_mtu, the smaller one of both sides */
	uint8_t timeout;  /* local ACK timeout exponent */
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t max_rd_atomic;	    /* as initiator, negotiated */
	uint8_t max_dest_rd_atomic; /* as responder, negotiated */
	uint8_t min_rnr_timer;
	uint8_t srq;
};

struct ipc_cm_event {
	struct ipc_hdr hdr;
	/* of the id; 0 for the id of a connection request until ACCEPT or MIGRATE_BEGIN sets it */
	uint64_t cookie;
	uint64_t listen_cookie; /* CONNECT_REQUEST: the listener's cookie */
	/* events of this id including this one; a CONNECT_REQUEST counts for its listener */
	uint64_t events_sent;
	/* MULTICAST_JOIN, MULTICAST_ERROR: cookie of the JOIN; route.dgid is the group */
	uint64_t join_cookie;
	uint32_t id;
	uint32_t event; /* enum rdma_cm_event_type */
	int32_t status; /* 0, -errno or the positive REJ reason */
	uint32_t reserved;
	struct ipc_cm_route route;
	struct ipc_cm_qp qp;
	struct ipc_cm_param
		param; /* from the local side's view: resources and depth are swapped and limited */
};

struct ipc_cm_migrate_end { /* MIGRATE_END */
	struct ipc_hdr hdr;
	uint32_t channel; /* the channel that BEGIN suspended */
	uint32_t count;
	uint32_t more;
	uint32_t reserved;
	struct ipc_cm_event events[IPC_MIGRATE_EVENTS];
};

/*
 * WRITE_EVENT: the daemon pushes an event that the client specifies on the id's channel (for
 * rdma_write_cm_event() and the result of rdma_resolve_addrinfo()). `event` is ADDRINFO_RESOLVED,
 * ADDRINFO_ERROR or USER, else -EINVAL. `arg` becomes the 8 bytes of the event's private data
 * (private_len 8). The event is counted in events_sent.
 */
struct ipc_cm_write_event {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t event; /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t reserved;
	uint64_t arg;
};

/*
 * JOIN (for a UD id that is bound to a device, before its route is resolved): the result is the
 * event MULTICAST_JOIN or MULTICAST_ERROR. LEAVE ends a membership and drops its event if that was
 * not pushed yet. -EADDRNOTAVAIL: the id has no membership with that cookie.
 */
struct ipc_cm_join {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t join_flags; /* enum rdma_cm_mc_join_flags */
	uint64_t cookie;     /* chosen by the client for this membership of the id, not 0 */
	struct sockaddr_storage addr;
};

struct ipc_cm_leave {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
	uint64_t cookie;
};

static_assert(sizeof(struct ipc_cm_migrate_end) <= IPC_MSG_MAX, "given-back events fit");

#endif
