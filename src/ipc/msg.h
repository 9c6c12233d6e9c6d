/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_MSG_H
#define USRDMA_IPC_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The messages between a client and the daemon. The bodies of the rdma_cm messages are in
 * ipc/msg_cm.h, those of failures in ipc/msg_failure.h.
 *
 * Each message is one SEQPACKET datagram: a struct ipc_hdr and the body of its type, which has a
 * fixed size. A client sends a request and waits for the reply, which has the same type and seq,
 * and status 0 or -errno. A request with IPC_UNANSWERED has no reply. The daemon sends notices and
 * events ("pushes") on a second socket, which it creates and passes to the client. Replies and
 * pushes are therefore never received on the same socket.
 *
 * All fields are in host byte order, including the Q_Keys, QPNs, PSNs and ports of struct ipc_cm_*.
 * Addresses and GIDs are in network byte order. Reserved fields are zero; the receiver checks this.
 *
 * A change of these files or of the layout of a pair requires a new IPC_VERSION. A daemon rejects a
 * client of another version, and the client reports both versions to the user (docs/adr: daemon).
 * struct ipc_hdr, magic and version of HELLO, and struct ipc_version_reply are the same in all
 * versions.
 */
#define IPC_MAGIC	 0x75726d61u
#define IPC_VERSION	 23
#define IPC_MSG_MAX	 16384
#define IPC_FDS_MAX	 4
#define IPC_NAME	 "usrdmad" /* abstract AF_UNIX name: one daemon per network namespace */
#define IPC_GIDS_MAX	 256
#define IPC_RELEASE_MAX	 20
#define IPC_IFNAME_BYTES 64
#define IPC_PAIR_BYTES	 (38u << 20) /* of a pair memfd, which is sparse */

/*
 * A slot is a QPN range: a process owns all QPNs whose upper 9 bits are its slot. Slot 0 is the
 * daemon's, with QP1.
 */
#define IPC_SLOT_SHIFT 15
#define IPC_SLOTS      512
#define IPC_SLOT_QPNS  (1u << IPC_SLOT_SHIFT)

enum ipc_role {
	IPC_ROLE_VERBS = 1,   /* the engine of a process: gets a slot */
	IPC_ROLE_CM = 2,      /* the librdmacm of a process */
	IPC_ROLE_CONTROL = 3, /* the usrdma command */
};

enum ipc_type {
	IPC_HELLO = 1,
	/* verbs */
	IPC_SEGMENT,
	IPC_DEVICE_GET,
	IPC_CONNECT_PEER,
	/* pushed to an engine */
	IPC_PEER,
	IPC_PEER_GONE,
	IPC_DEVICE_NOTICE,
	IPC_DELEGATE,
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
	/* verbs: replace IPC_DELEGATE for an engine of a user other than the daemon's */
	IPC_RING, /* pushed */
	IPC_GROUP_JOIN,
	IPC_GROUP_LEAVE,
	IPC_PEER_NOT_TAKEN,	 /* verbs */
	IPC_CONNECT_PEER_FAILED, /* pushed to an engine */
	IPC_PROBES,		 /* pushed to an engine */
	IPC_TRACE_RING,		 /* cm */
	/* control */
	IPC_TRACE_START,
	IPC_TRACE_NEXT,
	IPC_FAULT_SET,
	IPC_FAILURE_GET,
	/* verbs, cm */
	IPC_FAILURE,
	IPC_FAULT_DISCONNECT, /* verbs */
	IPC_AV_RESOLVE,	      /* verbs */
	IPC_AV_RESOLVED,      /* pushed to an engine */
	IPC_DEVICE_TOTAL,     /* control */
	IPC_TYPE_COUNT
};

/*
 * Flag of a request: the daemon sends no reply. The client has checked the request as far as it
 * can. If the daemon rejects the request of a CM id, an event of the id reports this:
 * CONNECT_ERROR, or the preceding event that ended the connection.
 */
#define IPC_UNANSWERED 1u

struct ipc_hdr {
	uint16_t type;	/* enum ipc_type */
	uint16_t flags; /* of a request: IPC_UNANSWERED if the type permits it; else 0 */
	uint32_t seq;	/* chosen by the client, copied to the reply; 0 in a push */
	int32_t status; /* of a reply: 0 or -errno; else 0 */
	uint32_t len;	/* of the whole message, header included */
};

/* A reply without a body. */
struct ipc_reply {
	struct ipc_hdr hdr;
};

/* HELLO: the first request on a connection. */
struct ipc_hello {
	struct ipc_hdr hdr;
	uint32_t magic;
	uint32_t version;
	uint32_t role; /* enum ipc_role */
	uint32_t reserved;
};

/* fds: [0] the probe page of the client's user (base/probe_page.h). */
struct ipc_hello_reply {
	struct ipc_hdr hdr;
	uint32_t version;
	uint32_t daemon_pid;
	uint64_t daemon_id; /* random number of this daemon process: detects a restart */
	uint32_t slot;	    /* VERBS: the client's slot until the connection ends; else 0 */
	/* errno of binding UDP port 4791, without which other hosts are unreachable; 0: bound */
	uint32_t wire_errno;
};

/*
 * The reply to a HELLO of another version, with the status -EPROTO. It is as long as the reply that
 * the client expects.
 */
struct ipc_version_reply {
	struct ipc_hdr hdr;
	uint32_t version;	       /* of the daemon */
	char release[IPC_RELEASE_MAX]; /* of the daemon, NUL-terminated: "0.3.0" */
};
static_assert(sizeof(struct ipc_version_reply) == sizeof(struct ipc_hello_reply),
	      "a client receives both in one buffer");
static_assert(offsetof(struct ipc_version_reply, version) == 16 && IPC_RELEASE_MAX == 20,
	      "the layout is the same in all versions");

/*
 * SEGMENT (verbs): publishes the engine's segment (ipc/segment.h), which the daemon passes to peers
 * of the same uid. fds: [0] segment memfd (sealed against growing, shrinking and new writable
 * mappings). The reply carries the SEQPACKET socket on which this engine receives its pushes; the
 * engine cannot send on it. A client that could not use the reply may repeat the request; the new
 * segment then replaces the first. -EEXIST: peers have the first segment, or pushes are queued.
 */
struct ipc_segment {
	struct ipc_hdr hdr;
	uint64_t segment_bytes;
};

/*
 * DEVICE_GET: the device with the smallest order number >= cursor; -ENOENT after the last. The last
 * device is lo.
 */
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
	uint32_t dev_id;    /* the interface index: constant while the interface exists */
	uint64_t node_guid; /* host order, never 0, stable */
	uint32_t netdev_mtu_bytes;
	uint32_t speed_mbps;	/* 0: unknown */
	uint32_t flags;		/* enum ipc_device_flags */
	uint32_t gid_count;	/* only entries [0, gid_count) of gids can be valid */
	uint8_t node_type;	/* enum ibv_node_type */
	uint8_t transport_type; /* enum ibv_transport_type */
	uint8_t link_layer;	/* IBV_LINK_LAYER_* */
	uint8_t gid_type;	/* enum ibv_gid_type, of all GIDs */
	/* the port reports the MTU of an interface with this one, if smaller; 0: no limit */
	uint32_t mtu_limit_bytes;
	char name[IPC_IFNAME_BYTES]; /* the interface's, NUL terminated */
	struct ipc_gid gids[IPC_GIDS_MAX];
};

/*
 * CONNECT_PEER: the daemon creates a pair for the caller and the owner of `slot`. Both receive PEER
 * before the reply. If the pair exists, nothing is pushed. -ENOENT: no engine has that slot;
 * -ENOBUFS: one of the two has too many unread pushes. CONNECT_PEER_FAILED (push): a CONNECT_PEER
 * with IPC_UNANSWERED failed with `error`.
 */
struct ipc_connect_peer {
	struct ipc_hdr hdr;
	uint32_t slot;
	int32_t error; /* in the push: -errno; in the request: 0 */
};

enum ipc_peer_flags {
	IPC_PEER_SAME_UID =
		1 << 0, /* fds[2] is the peer's segment; the one-sided path may be tried */
};

/*
 * PEER (push): a pair, that is two FIFOs shared by this process and a peer. fds: [0] pair memfd,
 * zeroed, of pair_bytes, sealed in size; [1] this side's end of the pair's doorbell, a SEQPACKET
 * socket pair on which a byte without descriptors wakes the other side; [2] the peer's segment
 * (SAME_UID).
 */
struct ipc_peer {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t flags;	  /* enum ipc_peer_flags */
	uint64_t pair_id; /* never reused; identifies the pair in PEER_GONE */
	int32_t pid;
	uint32_t uid;
	uint32_t side; /* 0 or 1: the half of the pair that this process writes */
	uint32_t reserved;
	uint64_t pair_bytes;
	uint64_t segment_bytes; /* 0 without SAME_UID */
};

/*
 * DELEGATE (push, once, directly after SEGMENT): delegates the socket that receives the RoCEv2
 * datagrams for this slot's QPNs. fds: [0] a UDP socket bound to port 4791. Only for a process of
 * the daemon's own uid; other processes receive RING. Neither is pushed if the daemon could not
 * bind the port, which the HELLO reply reports.
 */
struct ipc_delegate {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t reserved;
};

/*
 * RING (push, after SEGMENT): the forwarding ring for this slot's QPNs (link/udp_ring.h). fds: enum
 * udp_ring_fd.
 */
#define IPC_RING_FDS 4

struct ipc_ring {
	struct ipc_hdr hdr;
	uint32_t slot;
	uint32_t rx_bytes; /* size of the receive buffer of the daemon's socket */
};

/*
 * GROUP_JOIN, GROUP_LEAVE (verbs): the daemon's socket for this engine's forwarding ring joins or
 * leaves a multicast group. -EOPNOTSUPP: the engine has no ring; -EINVAL: not a multicast group;
 * -EDQUOT: this uid has IPC_GROUPS_MAX memberships; or an error of link/udp_group.h.
 */
#define IPC_GROUPS_MAX 512

struct ipc_group {
	struct ipc_hdr hdr;
	uint32_t ifindex;
	uint32_t reserved;
	uint8_t gid[16];
};

/*
 * PEER_GONE (push): the pair has ended. PEER_NOT_TAKEN (verbs): no memory or descriptors for a
 * PEER; its peer gets PEER_GONE. An engine also sends it after PEER_GONE, when it has closed the
 * doorbell of a pair with another user that can carry descriptors (fdpass_is_refused()); an engine
 * with too many such pairs gets no more of them (-ENOBUFS).
 */
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
	IPC_DEVICE_FAILOVER, /* a bond has another hardware address */
	/* of fault rules only */
	IPC_DEVICE_LID_CHANGE,
	IPC_DEVICE_SM_CHANGE,
	IPC_DEVICE_CLIENT_REREGISTER,
	IPC_DEVICE_WHAT_COUNT
};

struct ipc_device_notice {
	struct ipc_hdr hdr;
	uint32_t dev_id;
	uint32_t what; /* enum ipc_device_what */
};

/*
 * STATUS (control): reads the next piece of the daemon's JSON report (daemon/control.h). The first
 * request of a connection, and the first one after a reply with more == 0, starts a new report. A
 * piece may be empty while more is 1. -EDQUOT: this uid has too many unfinished reports.
 */
#define IPC_STATUS_TEXT_MAX 8192

struct ipc_status {
	struct ipc_hdr hdr;
};

struct ipc_status_reply {
	struct ipc_hdr hdr;
	uint32_t bytes; /* number of valid bytes of text */
	uint32_t more;	/* 1: more pieces follow; 0: the last piece */
	char text[IPC_STATUS_TEXT_MAX];
};

/*
 * XRCD_OPEN (verbs): opens the XRC domain of a device and an inode. fds: [0] the file; the daemon
 * itself reads its inode. -EBADF: the file was opened with O_PATH, which does not prove that the
 * client may open it. -EAGAIN: the domain is not open and CREATE is not set; -EINVAL: the domain is
 * open and EXCLUSIVE is set; -EDQUOT: this uid has too many open domains. The domain_id of the
 * reply is random, so a process that has it has opened the inode.
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
	uint64_t domain_id; /* never 0; unique while a process has the domain open */
};

/*
 * XRCD_CLOSE: reverts one XRCD_OPEN of this client. -ENOENT: this client has not opened that
 * domain.
 */
struct ipc_xrcd_close {
	struct ipc_hdr hdr;
	uint64_t domain_id;
};

/*
 * PROBES (push): the daemon changed the probe page of the engine's user. fds: [0] a trace ring for
 * this process (base/trace_ring.h), if a tracer was attached; otherwise none.
 */
struct ipc_probes {
	struct ipc_hdr hdr;
};

/*
 * TRACE_RING (cm): the reply carries a trace ring for this client. -ENOENT: no tracer is attached
 * to this process.
 */
struct ipc_trace_ring {
	struct ipc_hdr hdr;
};

/*
 * TRACE_START (control): attaches this client as a tracer of its user's processes; of all users'
 * for root. It remains attached until its connection ends. -EALREADY: it is attached. -EDQUOT: its
 * user has IPC_TRACERS_MAX tracers. -EINVAL: invalid pid or flags.
 */
#define IPC_TRACERS_MAX 16

struct ipc_trace_start {
	struct ipc_hdr hdr;
	int32_t pid;	/* only this process; 0: all */
	uint32_t flags; /* IPC_TRACE_OPERATIONS; other bits are invalid */
};

/*
 * The tracer does not need the packets and FIFO elements without errors, and no one-sided
 * operations without errors.
 */
#define IPC_TRACE_OPERATIONS 0x1u

/*
 * TRACE_NEXT (control): the next trace ring that this tracer has not received. The reply carries
 * the ring, which remains readable after its process has ended. -EAGAIN: it has received all rings;
 * -EINVAL: not a tracer.
 */
struct ipc_trace_next {
	struct ipc_hdr hdr;
};

struct ipc_trace_next_reply {
	struct ipc_hdr hdr;
	int32_t pid;
	uint32_t uid;
	uint32_t role; /* enum ipc_role of the process; 0: the daemon's own ring */
	uint32_t reserved;
};

/*
 * FAULT_SET (control): replaces the fault rules (base/fault.h) of all processes of a user, also of
 * later ones. They remain until they are unused for some time (daemon/rule_expiry.h); the daemon
 * does not exit for idleness while any user has rules. fds: [0] a memfd with the text, sealed
 * against writing and shrinking. -EINVAL: invalid rules or file; -E2BIG: more than PROBE_RULES_MAX
 * bytes; -EPERM: only root may set rules of another user; -EOPNOTSUPP: the daemon may not send
 * signals to processes of this user, as rules for `process` require; -EDQUOT: too many users have
 * rules.
 */
struct ipc_fault_set {
	struct ipc_hdr hdr;
	uint32_t uid;
	uint32_t reserved;
};

/*
 * FAULT_DISCONNECT (verbs): a fault rule ends the connection of a QP of this engine: the daemon
 * sends a DREQ. -ENOTCONN: the QP has no connection; -EPERM: the QPN is not of this engine.
 */
struct ipc_fault_disconnect {
	struct ipc_hdr hdr;
	uint32_t qpn;
	uint32_t reserved;
};

/*
 * AV_RESOLVE (verbs): whether packets can be sent from sgid, a GID of the interface ifindex, to
 * dgid. Status 0 with IPC_AV_IS_LOCAL: a device of this host has dgid. 0 without a flag: the kernel
 * has a route and the link-layer address of the next hop. 0 with IPC_AV_WAITS: the kernel resolves
 * the next hop, and AV_RESOLVED follows. With IPC_AV_ROUTE_ONLY in the request, the link-layer
 * address is not resolved. -ENETUNREACH and other errors of the kernel: no route. -EADDRNOTAVAIL:
 * no device has sgid. -EINVAL: no SEGMENT yet, or other flags. -EDQUOT: the client waits for
 * IPC_AV_WAITS_MAX results, or its uid for its share of those of the daemon.
 */
#define IPC_AV_WAITS_MAX 256

enum ipc_av_flags {
	IPC_AV_IS_LOCAL = 1 << 0,
	IPC_AV_WAITS = 1 << 1,
	/* in the request */
	IPC_AV_ROUTE_ONLY = 1 << 2,
};

struct ipc_av_resolve {
	struct ipc_hdr hdr;
	uint32_t serial; /* chosen by the client, for AV_RESOLVED */
	uint32_t ifindex;
	uint32_t flags; /* enum ipc_av_flags */
	uint32_t reserved;
	uint8_t sgid[16];
	uint8_t dgid[16];
};

struct ipc_av_resolve_reply {
	struct ipc_hdr hdr;
	uint32_t flags; /* enum ipc_av_flags */
	/* of the kernel's packets on the route; 0: a group, or an address of this host */
	uint32_t hop_limit;
};

/* AV_RESOLVED (push): the result of an AV_RESOLVE: 0, -EHOSTUNREACH or -ETIMEDOUT. */
struct ipc_av_resolved {
	struct ipc_hdr hdr;
	uint32_t serial;
	int32_t error;
};

/*
 * DEVICE_TOTAL (control): what the QPs of a device have transferred since the daemon started, of
 * all processes that it serves or has served. A request adds up a limited number of QPs. If more is
 * 1, total is 0, and the client repeats the request. -ENODEV: no such device for this user;
 * -EDQUOT: too many clients of this uid have not read the last reply.
 */
struct ipc_device_total {
	struct ipc_hdr hdr;
	uint32_t dev_id;
	uint32_t reserved;
};

/* What several queue pairs transferred, modulo 2^64; also in segments (ipc/segment.h). */
struct ipc_usage {
	uint64_t sent_messages;
	uint64_t sent_bytes;
	uint64_t received_messages;
	uint64_t received_bytes;
	/* of sent_bytes: those of READs and atomics, which the requester received */
	uint64_t read_bytes;
	uint64_t retries;
	uint64_t rnr_naks; /* received */
};

struct ipc_device_total_reply {
	struct ipc_hdr hdr;
	uint32_t more;
	uint32_t reserved;
	struct ipc_usage total;
};

#define IPC_ROLE_BIT(role) (1u << (role))
#define IPC_ZERO_FIELDS	   2

/*
 * The valid messages of one type. The client, the daemon and the fuzzer use the same table.
 * request_bytes 0: the type is not a request; push_bytes 0: the type is not a push.
 */
struct ipc_type_info {
	const char *name;
	uint32_t request_bytes;
	uint32_t reply_bytes;
	uint32_t push_bytes;
	uint8_t roles; /* IPC_ROLE_BITs of the clients that may send the request */
	bool may_be_unanswered;
	uint8_t request_fds;
	uint8_t reply_fds; /* of a reply with status 0: 0 or 1 */
	uint8_t push_fds_min;
	uint8_t push_fds_max;
	struct {
		uint32_t at;
		uint32_t len;
	} zero[IPC_ZERO_FIELDS]; /* fields of the request that must be zero */
};

/* The table row of a type; NULL: unknown type. */
const struct ipc_type_info *ipc_type_info(uint32_t type);

/*
 * Check whether a datagram of len bytes with nfds descriptors (FDPASS_LOST: some were not received)
 * is a well-formed request, a push, or a reply to req of reply_len bytes (an error reply may be the
 * header only). 0 or -EPROTO. These functions check lengths, counts and reserved fields; the
 * receiver checks roles and values. msg need not be aligned.
 */
int ipc_request_check(const void *msg, size_t len, int nfds) __attribute__((warn_unused_result));
int ipc_push_check(const void *msg, size_t len, int nfds) __attribute__((warn_unused_result));
int ipc_reply_check(const struct ipc_hdr *req, const void *msg, size_t len, size_t reply_len,
		    int nfds) __attribute__((warn_unused_result));

static_assert(sizeof(struct ipc_hdr) == 16, "the header is read before its type is known");
static_assert(sizeof(struct ipc_device_reply) <= IPC_MSG_MAX, "a device fits one message");
static_assert(sizeof(struct ipc_status_reply) <= IPC_MSG_MAX, "a piece of a report fits");

#endif
