/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_MSG_H
#define USRDMA_IPC_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * Every message between a client and the daemon.
 *
 * One message is one SEQPACKET datagram: a struct ipc_hdr followed by the body that its type names, at exactly
 * that size. A client sends requests and waits for each answer (same type and seq, status 0 or -errno), unless it
 * said that it needs none (IPC_UNANSWERED); the daemon pushes notices and events on a second socket whose one end
 * the client passed to it. So an answer and a push can never be taken for one another.
 *
 * Host byte order, both ends are one machine. Q_Keys, QPNs, PSNs and ports of struct ipc_cm_* are host order
 * too; addresses and GIDs are bytes as on the wire. Reserved fields are zero and checked.
 *
 * Changing anything here, or what lies in the memory of a pair, means a new IPC_VERSION: a client and a daemon of
 * different versions refuse one another with a clear line (docs/adr: daemon).
 */
#define IPC_MAGIC	 0x75726d61u
#define IPC_VERSION	 8
#define IPC_MSG_MAX	 16384
#define IPC_FDS_MAX	 4
#define IPC_NAME	 "usrdmad" /* abstract AF_UNIX name: one daemon per network namespace */
#define IPC_PRIVATE_MAX	 256
#define IPC_GIDS_MAX	 256
#define IPC_IFNAME_BYTES 64
#define IPC_PAIR_BYTES	 ((4u << 20) + (64u << 10)) /* of a pair memfd; pages exist once touched */

/* 24-bit QPNs are split into slots: a process owns every QPN whose upper bits are its slot. Slot 0 is the
 * daemon's own, with QP1. */
#define IPC_SLOT_SHIFT 15
#define IPC_SLOTS      512
#define IPC_SLOT_QPNS  (1u << IPC_SLOT_SHIFT)

enum ipc_role {
	IPC_ROLE_VERBS = 1,   /* an engine: gets a slot */
	IPC_ROLE_CM = 2,      /* librdmacm of a process */
	IPC_ROLE_CONTROL = 3, /* the usrdma command */
};

enum ipc_type {
	IPC_HELLO = 1,
	/* verbs */
	IPC_SEGMENT,
	IPC_DEVICE_GET,
	IPC_INTRODUCE,
	/* pushed to an engine */
	IPC_PEER,
	IPC_PEER_GONE,
	IPC_DEVICE_NOTICE,
	IPC_LEND,
	/* cm requests */
	IPC_CM_CHANNEL_CREATE,
	IPC_CM_CHANNEL_DESTROY,
	IPC_CM_CREATE,
	IPC_CM_DESTROY,
	IPC_CM_BIND,
	IPC_CM_RESOLVE_ADDR,
	IPC_CM_RESOLVE_ROUTE,
	IPC_CM_LISTEN,
	IPC_CM_CONNECT,
	IPC_CM_ACCEPT,
	IPC_CM_REJECT,
	IPC_CM_ESTABLISH,
	IPC_CM_DISCONNECT,
	IPC_CM_NOTIFY,
	IPC_CM_SET_OPTION,
	IPC_CM_MIGRATE_BEGIN,
	IPC_CM_MIGRATE_END,
	IPC_CM_WRITE_EVENT,
	IPC_CM_JOIN,
	IPC_CM_LEAVE,
	/* pushed to a cm channel */
	IPC_CM_EVENT,
	/* control */
	IPC_STATUS,
	/* verbs: XRC domains */
	IPC_XRCD_OPEN,
	IPC_XRCD_CLOSE,
	IPC_TYPE_COUNT
};

/*
 * Of a request: it gets no answer. The client has looked at all that it can know; should the daemon have to refuse it
 * all the same, an event of the id says so: CONNECT_ERROR, or the one that has told of the connection's end already.
 */
#define IPC_UNANSWERED 1u

struct ipc_hdr {
	uint16_t type;	/* enum ipc_type */
	uint16_t flags; /* of requests: IPC_UNANSWERED, where the type has that; else 0 */
	uint32_t seq;	/* chosen by the client, echoed; 0 in a push */
	int32_t status; /* answers: 0 or -errno; else 0 */
	uint32_t len;	/* of the whole message, header included */
};

/* An answer that carries nothing but its status. */
struct ipc_reply {
	struct ipc_hdr hdr;
};

/* HELLO: first message on a connection, both ways. */
struct ipc_hello {
	struct ipc_hdr hdr;
	uint32_t magic;
	uint32_t version;
	uint32_t role; /* enum ipc_role */
	uint32_t reserved;
};

struct ipc_hello_reply {
	struct ipc_hdr hdr;
	uint32_t version;
	uint32_t daemon_pid;
	uint64_t daemon_id; /* random per daemon: tells a restart */
	uint32_t slot;	    /* VERBS: lent until the connection ends; else 0 */
	uint32_t wire_errno; /* why UDP port 4791 could not be had, so that no other host is reached; 0: it was */
};

/*
 * SEGMENT (verbs, once): what the daemon passes on when it introduces this process to another.
 * fds: [0] segment memfd (sealed against growing, shrinking and new writable mappings), [1] the daemon's end of the
 * SEQPACKET pair on which this engine gets its pushes.
 */
struct ipc_segment {
	struct ipc_hdr hdr;
	uint64_t segment_bytes;
};

/* DEVICE_GET: the device with the smallest order number >= cursor; -ENOENT after the last. Devices that reach
 * other hosts come first, lo last. */
struct ipc_device_get {
	struct ipc_hdr hdr;
	uint32_t cursor;
	uint32_t reserved;
};

struct ipc_gid {
	uint8_t raw[16];
	uint32_t is_valid;
	uint32_t ifindex;
};

enum ipc_device_flags {
	IPC_DEVICE_UP = 1 << 0, /* running: port ACTIVE; else DOWN */
	IPC_DEVICE_LOOPBACK = 1 << 1,
};

struct ipc_device_reply {
	struct ipc_hdr hdr;
	uint32_t next_cursor;
	uint32_t dev_id;    /* the interface's index: stable while the interface lives */
	uint64_t node_guid; /* host order, never 0, stable */
	uint32_t netdev_mtu_bytes;
	uint32_t speed_mbps;	     /* 0: unknown */
	uint32_t flags;		     /* enum ipc_device_flags */
	uint32_t gid_count;	     /* entries of gids that may be valid */
	char name[IPC_IFNAME_BYTES]; /* the interface's, NUL terminated */
	struct ipc_gid gids[IPC_GIDS_MAX];
};

/* INTRODUCE: asks that the caller and the owner of `slot` be introduced. The PEER pushes to both are sent before
 * the answer. -ENOENT: no live engine has that slot; -ENOBUFS: one of the two has too many pushes unread. Asking again
 * for a living pair answers 0 and pushes nothing. */
struct ipc_introduce {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t reserved;
};

enum ipc_peer_flags {
	IPC_PEER_SAME_UID = 1 << 0, /* fds[2] is the peer's segment, and its memory may be tried */
};

/*
 * PEER (push): a pair of rings between this process and a peer.
 * fds: [0] pair memfd, zeroed, of pair_bytes, sealed in size; [1] this side's end of the pair's doorbell, a SEQPACKET
 * socket pair of the two alone, on which an empty-handed byte is a ring; [2] the peer's segment (SAME_UID).
 */
struct ipc_peer {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t flags;	  /* enum ipc_peer_flags */
	uint64_t pair_id; /* never reused; PEER_GONE names it */
	int32_t pid;
	uint32_t uid;
	uint32_t side; /* 0 or 1: which half of the pair this process writes */
	uint32_t reserved;
	uint64_t pair_bytes;
	uint64_t segment_bytes; /* 0 without SAME_UID */
};

/*
 * LEND (push, once, right after SEGMENT): the socket on which RoCEv2 datagrams for this slot's QPNs come in. fds: [0] a UDP
 * socket bound to port 4791. Not sent where the port could not be had, which HELLO told.
 */
struct ipc_lend {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t reserved;
};

struct ipc_peer_gone {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t reserved;
	uint64_t pair_id;
};

enum ipc_device_what {
	IPC_DEVICE_ADDED = 1,
	IPC_DEVICE_REMOVED,
	IPC_DEVICE_GID_CHANGE,
	IPC_DEVICE_PORT_ACTIVE,
	IPC_DEVICE_PORT_DOWN,
	IPC_DEVICE_MTU_CHANGE,
	IPC_DEVICE_MAC_CHANGE,
	IPC_DEVICE_WHAT_COUNT
};

struct ipc_device_notice {
	struct ipc_hdr hdr;
	uint32_t dev_id;
	uint32_t what; /* enum ipc_device_what */
};

/*
 * The communication manager. A channel is a SEQPACKET pair: the client keeps one end, which is the user's
 * rdma_event_channel.fd, and passes the other (fds[0]) with CHANNEL_CREATE. Events are pushed on it in order,
 * each with the number of events its id has had, so that a client knows whether any are still in the socket.
 */
struct ipc_cm_channel_reply {
	struct ipc_hdr hdr;
	uint32_t channel;
	uint32_t reserved;
};

struct ipc_cm_channel { /* CHANNEL_DESTROY: -EBUSY while ids use it */
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
	uint64_t cookie; /* the client's own name for the id, echoed in its events */
};

struct ipc_cm_create_reply {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
};

/* Any request that names just an id: DESTROY, ESTABLISH, DISCONNECT. */
struct ipc_cm_id {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
};

struct ipc_cm_destroy_reply {
	struct ipc_hdr hdr;
	uint64_t events_sent; /* how many events this id was pushed in all */
};

/* Where an id stands: what rdma_cm_id.route and port_num tell the user. */
struct ipc_cm_route {
	struct sockaddr_storage src; /* ss_family 0: not known yet */
	struct sockaddr_storage dst;
	uint32_t dev_id;   /* 0: not bound to a device (wildcard) */
	uint32_t has_path; /* the fields below count */
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

struct ipc_cm_route_reply { /* answer to BIND, LISTEN, RESOLVE_ADDR */
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

/* Private data for which every message of a connection has room: a REQ's 92 bytes less the addresses in front. */
#define IPC_CM_PRIVATE_FITS 56

/* What both sides of a connection tell one another, as in rdma_conn_param. */
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
	uint32_t vendor_id; /* options of the devices' vendor, and whose; 0: none */
	uint32_t vendor_options;
	uint32_t private_len; /* <= IPC_PRIVATE_MAX; the daemon knows each message's limit */
	uint8_t private_data[IPC_PRIVATE_MAX];
};

struct ipc_cm_connect { /* CONNECT, ACCEPT */
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t timeout_ms; /* how long the peer may say nothing; 0: the daemon knows */
	uint64_t cookie; /* ACCEPT: the client's name for an id that a request made; CONNECT: 0 */
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
 * Moving an id to another channel without losing or reordering its events. BEGIN stops all pushes on the id's
 * channel; the client then takes whatever is still in that channel's socket and gives it back with END (whole
 * struct ipc_cm_event each, in order, at most IPC_MIGRATE_EVENTS a message; `more` in all but the last), and the
 * daemon sends each to the channel that its id uses now, then what it had held. Given-back events keep their
 * events_sent and are not counted again; one whose id is gone by then is dropped. A CONNECT_REQUEST goes where its
 * listener is now, and its new id with it.
 *
 * With id 0 nothing moves: BEGIN only holds the pushes on new_channel, until the END that names that channel. That
 * is how a destroy, once DESTROY was answered, takes the id's unread events out from among those of other ids.
 * A client holds a channel once at a time (-EBUSY); one that disconnects holds nothing any more.
 */
#define IPC_MIGRATE_EVENTS 12

struct ipc_cm_migrate { /* MIGRATE_BEGIN */
	struct ipc_hdr hdr;
	uint32_t id; /* or 0 */
	uint32_t new_channel;
	uint64_t cookie; /* the id's cookie from here on */
};

/* What rdma_init_qp_attr and the library's own transitions need, beside the route. */
struct ipc_cm_qp {
	uint32_t remote_qpn;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t qkey;
	uint8_t path_mtu; /* enum ibv_mtu, already the smaller of both sides */
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
	uint64_t cookie; /* of the id; 0 for an id that a request made, until ACCEPT or MIGRATE names it */
	uint64_t listen_cookie; /* CONNECT_REQUEST: the listener's */
	uint64_t events_sent; /* of this id, this one included; a CONNECT_REQUEST counts as its listener's */
	uint64_t join_cookie; /* MULTICAST_JOIN, MULTICAST_ERROR: the JOIN's; route.dgid is the group */
	uint32_t id;
	uint32_t event; /* enum rdma_cm_event_type */
	int32_t status; /* 0, -errno or the positive REJ reason */
	uint32_t reserved;
	struct ipc_cm_route route;
	struct ipc_cm_qp qp;
	struct ipc_cm_param
		param; /* seen from here: resources and depth already swapped and clipped */
};

struct ipc_cm_migrate_end { /* MIGRATE_END */
	struct ipc_hdr hdr;
	uint32_t channel; /* the one that BEGIN held */
	uint32_t count;
	uint32_t more;
	uint32_t reserved;
	struct ipc_cm_event events[IPC_MIGRATE_EVENTS];
};

/*
 * WRITE_EVENT: the client asks for an event of its own making on the id's channel (rdma_write_cm_event, and the
 * outcome of rdma_resolve_addrinfo). `event` is ADDRINFO_RESOLVED, ADDRINFO_ERROR or USER, else -EINVAL; `arg` is
 * pushed as the first 8 bytes of the event's private data, private_len 8. Counted like every event.
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
 * JOIN (UD ids that are bound to a device, before their route is resolved): outcome MULTICAST_JOIN or MULTICAST_ERROR.
 * LEAVE ends a membership, -EADDRNOTAVAIL if there is none of that cookie; the event of it that was not pushed yet
 * never is.
 */
struct ipc_cm_join {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t join_flags; /* enum rdma_cm_mc_join_flags */
	uint64_t cookie;     /* the client's name for this membership of the id, not 0 */
	struct sockaddr_storage addr;
};

struct ipc_cm_leave {
	struct ipc_hdr hdr;
	uint32_t id;
	uint32_t reserved;
	uint64_t cookie;
};

/* STATUS (control): fds[0] is a memfd or pipe into which the daemon writes its JSON report, see daemon/control.c. */
struct ipc_status {
	struct ipc_hdr hdr;
};

/*
 * XRCD_OPEN (verbs): opens the XRC domain of a device and an inode. fds: [0] the file, whose inode the daemon reads itself;
 * one that was opened with O_PATH says nothing about what its owner may open (-EBADF). -EAGAIN: nobody has the domain open,
 * and no CREATE; -EINVAL: somebody has, and EXCLUSIVE; -EDQUOT: this uid has too many. The answer's domain_id is random:
 * who knows it has opened the inode.
 */
enum ipc_xrcd_flags {
	IPC_XRCD_CREATE = 1 << 0,
	IPC_XRCD_EXCLUSIVE = 1 << 1,
};

struct ipc_xrcd_open {
	struct ipc_hdr hdr;
	uint32_t dev_id;
	uint32_t flags; /* enum ipc_xrcd_flags */
};

struct ipc_xrcd_open_reply {
	struct ipc_hdr hdr;
	uint64_t domain_id; /* never 0, unique while anybody has the domain open */
};

/* XRCD_CLOSE: ends one XRCD_OPEN of this client; -ENOENT: it has none of that domain. */
struct ipc_xrcd_close {
	struct ipc_hdr hdr;
	uint64_t domain_id;
};

#define IPC_ROLE_BIT(role) (1u << (role))
#define IPC_ZERO_FIELDS	   2

/*
 * What is legal for one type: the one table that the client, the daemon and the fuzzer read. A type that is never a
 * request has request_bytes 0, one that is never pushed push_bytes 0.
 */
struct ipc_type_info {
	const char *name;
	uint32_t request_bytes;
	uint32_t reply_bytes;
	uint32_t push_bytes;
	uint8_t roles; /* IPC_ROLE_BITs of those who may ask */
	bool may_be_unanswered;
	uint8_t request_fds;
	uint8_t push_fds_min;
	uint8_t push_fds_max;
	struct {
		uint32_t at;
		uint32_t len;
	} zero[IPC_ZERO_FIELDS]; /* fields of the request that must be zero */
};

/* The row of a type, or NULL if there is no such type. */
const struct ipc_type_info *ipc_type_info(uint32_t type);

/*
 * Whether the datagram of len bytes and nfds descriptors is a well-formed request, push, or answer to req of reply_len
 * bytes (an error may be the header alone): 0 or -EPROTO. Only lengths, counts and reserved fields are judged; who may
 * ask and what the values mean is the receiver's to check. msg need not be aligned.
 */
int ipc_request_check(const void *msg, size_t len, int nfds) __attribute__((warn_unused_result));
int ipc_push_check(const void *msg, size_t len, int nfds) __attribute__((warn_unused_result));
int ipc_reply_check(const struct ipc_hdr *req, const void *msg, size_t len, size_t reply_len)
	__attribute__((warn_unused_result));

static_assert(sizeof(struct ipc_hdr) == 16, "the header is read before its type is known");
static_assert(sizeof(struct ipc_device_reply) <= IPC_MSG_MAX, "a device fits one message");
static_assert(sizeof(struct ipc_cm_migrate_end) <= IPC_MSG_MAX,
	      "given-back events fit one message");

#endif
