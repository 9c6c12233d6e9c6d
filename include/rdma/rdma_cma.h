/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA connection manager: connections by IP address and port, in the manner of sockets.
 *
 * How to read the pages in this header. Unless a page says otherwise:
 *
 * - A call that returns int answers 0, or -1 with errno set; one that returns a pointer answers
 *   NULL with errno set.
 * - An id is asynchronous if it was created on an event channel. Then 0 means that the operation
 *   has been started, and its outcome arrives as an event on that channel; nothing has been started
 *   if the call answered -1. An id that was created with a NULL channel, or by rdma_create_ep(), is
 *   synchronous: the same call blocks until the event is there, leaves it in rdma_cm_id.event until
 *   the next call on that id, and answers -1 if it is not the hoped-for one. errno is then
 *   ECONNREFUSED for REJECTED and for an UNREACHABLE that the peer answered (status > 0), ENODEV
 *   for DEVICE_REMOVAL, ECONNRESET for DISCONNECTED, otherwise the event's status without its sign,
 *   EIO if that is 0. "Sync:" names the event that a call waits for.
 * - Errors that every call may answer: EINVAL: a required pointer is NULL; ENOMEM; ENODEV: there is
 *   no daemon any more, or the object was made before fork() and this is the child; EACCES: the
 *   daemon belongs to another user; EDQUOT: a quota of this user or process is used up.
 * - Pointers may not be NULL. Addresses, private data and parameters are copied during the call. An
 *   object that a call returns belongs to the caller until the destroying call of its kind.
 * - Any thread may make any call at any time, but two threads may not call for one id at once, and
 *   nobody may use an object while, or after, it is being destroyed. Events of one channel may be
 *   fetched by several threads. Nothing here is async-signal-safe.
 * - "Does not block" means: no waiting for peers or for the application. The daemon is asked and
 *   answers.
 * - Ports and addresses in sockaddr structures are in network order, all other integers in host
 *   order.
 * - "Since" names the version of the exported symbol; inline calls have none.
 *
 * Private data travels in the connection messages. usrdma keeps to what InfiniBand has room for:
 *
 *	call			message		bytes, PS_TCP	bytes, PS_UDP
 *	rdma_connect()		REQ, SIDR_REQ	56		180
 *	rdma_accept()		REP, SIDR_REP	196		136
 *	rdma_reject()		REJ, SIDR_REP	148		136
 *
 * More is EINVAL. The receiver sees the whole field, filled up with zeros: private_data_len of an
 * event is the room, not what was sent.
 *
 * Datagram ids, those whose qp_type is UD, make no connections: rdma_connect() asks which QP stands
 * behind a port of the peer's and under which Q_Key, rdma_accept() says so, and each side may send
 * to the other from then on. Whoever was asked learns the way back from what comes in.
 *
 * How long a peer may say nothing before it is UNREACHABLE, or DISCONNECTED with -ETIMEDOUT: 8
 * seconds, or as many as the environment variable USRDMA_CM_TIMEOUT says (1 to 300) in the process
 * that waits. A network that says that the peer cannot be reached (ICMP) ends a connect at once.
 *
 * Source: rdma_cm(7); IBA 1.x §12 (communication management), IBA A11 (IP addressing of REQ).
 */
#ifndef RDMA_CMA_H
#define RDMA_CMA_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public names are visible, also in a library built with -fvisibility=hidden. */
#pragma GCC visibility push(default)

/* ---- Events ---- */

/**
 * What an event says. *status* is 0 where the comment names none. "conn" after a name: the event
 * carries param.conn, whose fields are the peer's wishes seen from here (see struct
 * rdma_conn_param).
 * Source: rdma_get_cm_event(3).
 */
enum rdma_cm_event_type {
	/* rdma_resolve_addr() is done: id->verbs, pd, port_num and the addresses are set. */
	RDMA_CM_EVENT_ADDR_RESOLVED = 0,
	/*
	 * It failed. status: -ENETUNREACH, -EHOSTUNREACH: no route; -ENETDOWN: the interface is
	 * down; -ENODEV: it is no device.
	 */
	RDMA_CM_EVENT_ADDR_ERROR = 1,
	/* rdma_resolve_route() is done: id->route.path_rec is set. */
	RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
	/* It failed. status: -EHOSTUNREACH: other hosts cannot be reached; -ENODEV: no device. */
	RDMA_CM_EVENT_ROUTE_ERROR = 3,
	/*
	 * conn, or ud of datagram ids. To a listener: *id* is a new id for the request, *listen_id*
	 * the listener.
	 */
	RDMA_CM_EVENT_CONNECT_REQUEST = 4,
	/* conn. Active side, only if the id has no QP: the peer accepted; see rdma_establish(). */
	RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
	/* Either side: the connection could not be set up, or not completed. status: negative errno. */
	RDMA_CM_EVENT_CONNECT_ERROR = 6,
	/*
	 * Active side: no answer; either side: the peer went silent while connecting. status:
	 * -ETIMEDOUT; -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH: the network says so. Datagram ids
	 * also: the peer answered, and said no: 1 nobody listens, 2 the application (ud, private
	 * data only), or another status of its SIDR_REP.
	 */
	RDMA_CM_EVENT_UNREACHABLE = 7,
	/*
	 * conn, private data only. The peer, or its host, refused or gave up; the QP is in ERR.
	 * status: the reason in its REJ: 4 it does not wait any longer, 8 nobody listens, 9 its QP
	 * is of another kind, 10 the QP number is still in use there, 26 the path MTU is more than
	 * its interface takes, 28 the application, 35 the application does not like the vendor
	 * options.
	 */
	RDMA_CM_EVENT_REJECTED = 8,
	/* conn on the active side. Both sides: data may flow. Datagram ids: ud, active side only. */
	RDMA_CM_EVENT_ESTABLISHED = 9,
	/* Both sides, once: either side disconnected, or the peer died. The QP is in ERR. */
	RDMA_CM_EVENT_DISCONNECTED = 10,
	/* The device, or the daemon, is gone: every id on it must be destroyed. */
	RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
	/* param.ud: ready to send to and receive from a group; private_data is the join's context. */
	RDMA_CM_EVENT_MULTICAST_JOIN = 12,
	/* The join failed. status: -ENETDOWN: the interface is down, or an errno of joining. */
	RDMA_CM_EVENT_MULTICAST_ERROR = 13,
	/*
	 * The interface of a bound id has another hardware address, or the id's address no more.
	 * Connections stay; new ones may go elsewhere.
	 */
	RDMA_CM_EVENT_ADDR_CHANGE = 14,
	/* After DISCONNECTED: nothing of the connection is under way any more; its QP may be reused. */
	RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
	/* rdma_resolve_addrinfo() is done; see rdma_query_addrinfo(). */
	RDMA_CM_EVENT_ADDRINFO_RESOLVED = 16,
	/* It failed. status: negative errno. */
	RDMA_CM_EVENT_ADDRINFO_ERROR = 17,
	/* From rdma_write_cm_event(): status and param.arg are what it was given. */
	RDMA_CM_EVENT_USER = 18,
	/* Never delivered. */
	RDMA_CM_EVENT_INTERNAL = 19
};

/* ---- Port spaces and addresses ---- */

/**
 * What kind of service an id is for. Ports of one space have nothing to do with those of another,
 * nor with the kernel's TCP and UDP. Source: rdma_create_id(3), IBA A11.
 */
enum rdma_port_space {
	RDMA_PS_IPOIB = 0x0002, /* datagrams, into the multicast groups of IP over InfiniBand */
	RDMA_PS_TCP = 0x0106,	/* connected: RC, with a choice of UC by qp_type */
	RDMA_PS_UDP = 0x0111,	/* datagrams: UD */
	RDMA_PS_IB = 0x013f	/* any service type, by native or IP address */
};

/* A service ID of IP addressing: a port space, then the port in the two lowest bytes (IBA A11). */
#define RDMA_IB_IP_PS_MASK   0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP    0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP    0x0000000001110000ULL
#define RDMA_IB_PS_IB	     0x00000000013F0000ULL

/* The Q_Key of all datagram QPs and groups of PS_UDP. */
#define RDMA_UDP_QKEY 0x01234567

/**
 * The addresses of an id as the transport has them: the GIDs of both ends, and the partition.
 */
struct rdma_ib_addr {
	union ibv_gid sgid;
	union ibv_gid dgid;
	__be16 pkey;
};

/**
 * The addresses of an id: its own, its peer's, and what they became. All zero until known.
 */
struct rdma_addr {
	union {
		struct sockaddr src_addr;
		struct sockaddr_in src_sin;
		struct sockaddr_in6 src_sin6;
		struct sockaddr_storage src_storage;
	};
	union {
		struct sockaddr dst_addr;
		struct sockaddr_in dst_sin;
		struct sockaddr_in6 dst_sin6;
		struct sockaddr_storage dst_storage;
	};
	union {
		struct rdma_ib_addr ibaddr;
	} addr;
};

/**
 * The addresses of an id and the paths between them. *path_rec* points to *num_paths* records that
 * belong to the id; NULL and 0 until the route is resolved or a request has come.
 */
struct rdma_route {
	struct rdma_addr addr;
	struct ibv_sa_path_rec *path_rec;
	int num_paths;
};

/* ---- Objects ---- */

/**
 * Where events of ids arrive. *fd* is a real descriptor: it may be polled (readable while an event
 * waits), set to O_NONBLOCK and duplicated, but not read or closed. Made by
 * rdma_create_event_channel(), dies in rdma_destroy_event_channel().
 */
struct rdma_event_channel {
	int fd;
};

/**
 * A communication identifier: the RDMA counterpart of a socket.
 *
 * Made by rdma_create_id() or rdma_create_ep(), or by the library for an incoming request; dies in
 * rdma_destroy_id() or rdma_destroy_ep(). Members are for reading, except *context*, which is the
 * application's, and *qp*, *pd*, *srq* and the CQs, which it may set to objects of its own making.
 */
struct rdma_cm_id {
	struct ibv_context *verbs;	    /* device, shared; NULL until bound to one */
	struct rdma_event_channel *channel; /* where events arrive */
	void *context;
	struct ibv_qp *qp; /* of rdma_create_qp(), or NULL */
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;	     /* port of the device; 0 until bound */
	struct rdma_cm_event *event; /* synchronous: of the last call; the next acknowledges it */
	/* Made by rdma_create_qp() where the application gave no CQ; otherwise NULL. */
	struct ibv_comp_channel *send_cq_channel;
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq; /* of rdma_create_srq(), or NULL */
	struct ibv_pd *pd;   /* of the device by default, shared by all ids on it */
	enum ibv_qp_type qp_type;
};

/* Instead of a number in rdma_conn_param: as many as the device can. */
enum { RDMA_MAX_RESP_RES = 0xff, RDMA_MAX_INIT_DEPTH = 0xff };

/**
 * Properties of a connection: what rdma_connect() and rdma_accept() ask for, and what their peers
 * read in the event.
 *
 * *private_data*, *private_data_len*: the application's bytes for the peer, NULL and 0 for none;
 * limits at the top of this header. In an event the bytes are valid until rdma_ack_cm_event().
 * *responder_resources*: READs and atomics of the peer that may be outstanding here at once; at
 * most ibv_device_attr.max_qp_rd_atom, or RDMA_MAX_RESP_RES. In an event: what the peer's
 * initiator_depth asks of this side.
 * *initiator_depth*: READs and atomics that this side may have outstanding at the peer; at most
 * max_qp_init_rd_atom, or RDMA_MAX_INIT_DEPTH. In an event: what the peer's responder_resources
 * leave to this side.
 * *flow_control*: passed to the peer, without effect.
 * *retry_count*: 0 to 7: how often a request is repeated that got no answer; ignored by
 * rdma_accept().
 * *rnr_retry_count*: 0 to 7: how often a SEND of the peer is repeated that met no receive; 7: for
 * ever.
 * *srq*, *qp_num*: whether the QP has a shared receive queue, and its number; read only from ids
 * without a QP of their own. In an event: the peer's. Larger retry counts mean 7. Source:
 * rdma_connect(3), rdma_accept(3), IBA 1.x §12.7.
 */
struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qp_num;
};

/**
 * What is needed to send datagrams to a peer or a group: in ESTABLISHED and MULTICAST_JOIN of
 * datagram ids. *ah_attr* is for ibv_create_ah(); *qp_num* is 0xffffff for a group. Private data as
 * above; CONNECT_REQUEST and UNREACHABLE have nothing else.
 */
struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

/**
 * One event: made by rdma_get_cm_event(), dies in rdma_ack_cm_event(), with everything it points to
 * but the ids.
 */
struct rdma_cm_event {
	struct rdma_cm_id *id;	      /* whose event it is; a new id in CONNECT_REQUEST */
	struct rdma_cm_id *listen_id; /* CONNECT_REQUEST: the listener; otherwise NULL */
	enum rdma_cm_event_type event;
	int status; /* 0, a negative errno, or the positive reason of a REJ */
	union {
		struct rdma_conn_param conn; /* ids of connected QPs */
		struct rdma_ud_param ud;     /* datagram ids */
		uint64_t arg;		     /* RDMA_CM_EVENT_USER */
	} param;
};

/* rdma_addrinfo.ai_flags. */
#define RAI_PASSIVE	0x00000001 /* for a listener */
#define RAI_NUMERICHOST 0x00000002 /* node is a numeric address: no name service */
#define RAI_NOROUTE	0x00000004 /* no lengthy search for a route; usrdma never makes one */
#define RAI_FAMILY	0x00000008 /* ai_family of the hints says how to read node */
#define RAI_SA		0x00000010 /* node is an InfiniBand service; not offered by usrdma */
#define RAI_DNS		0x00000020 /* node is a host name; the default. Excludes RAI_SA */

/**
 * Addresses of both ends and the service between them: hints for, and result of,
 * rdma_getaddrinfo(); input of rdma_create_ep().
 *
 * Made by rdma_getaddrinfo() or rdma_query_addrinfo() and dies, with everything it points to, in
 * rdma_freeaddrinfo(). Hints are the caller's; fields that it does not use are 0.
 */
struct rdma_addrinfo {
	int ai_flags;
	int ai_family;	   /* AF_INET or AF_INET6 */
	int ai_qp_type;	   /* enum ibv_qp_type; hints: 0 leaves the choice */
	int ai_port_space; /* enum rdma_port_space; hints: 0 leaves the choice */
	socklen_t ai_src_len;
	socklen_t ai_dst_len;
	struct sockaddr *ai_src_addr;
	struct sockaddr *ai_dst_addr;
	char *ai_src_canonname;
	char *ai_dst_canonname;
	size_t ai_route_len; /* bytes of ai_route: struct ibv_path_data[] */
	void *ai_route;
	size_t ai_connect_len; /* bytes of ai_connect, put in front of the private data of REQ */
	void *ai_connect;
	struct rdma_addrinfo *ai_next; /* NULL at the end of a list */
};

/* rdma_cm_join_mc_attr_ex.comp_mask. */
enum rdma_cm_join_mc_attr_mask {
	RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1 << 0,
	RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
	RDMA_CM_JOIN_MC_ATTR_RESERVED = 1 << 2
};

/* rdma_cm_join_mc_attr_ex.join_flags: a value, not a mask. */
enum rdma_cm_mc_join_flags {
	RDMA_MC_JOIN_FLAG_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_RESERVED
};

/**
 * Which group to join and how, for rdma_join_multicast_ex(). Both bits of *comp_mask* are required.
 */
struct rdma_cm_join_mc_attr_ex {
	uint32_t comp_mask;
	uint32_t join_flags;
	struct sockaddr *addr;
};

/* Levels of rdma_set_option(). */
enum { RDMA_OPTION_ID = 0, RDMA_OPTION_IB = 1 };

/* Options of RDMA_OPTION_ID, with the type of the value. */
enum {
	RDMA_OPTION_ID_TOS = 0,	       /* uint8_t: type of service of the packets (RFC 2474) */
	RDMA_OPTION_ID_REUSEADDR = 1,  /* int: whether others may bind to the address too */
	RDMA_OPTION_ID_AFONLY = 2,     /* int: whether a wildcard is of one family */
	RDMA_OPTION_ID_ACK_TIMEOUT = 3 /* uint8_t, 0 to 31: local ACK timeout, 4.096 us * 2^n */
};

/* Options of RDMA_OPTION_IB. */
enum {
	RDMA_OPTION_IB_PATH = 1 /* struct ibv_path_data[]: instead of rdma_resolve_route() */
};

/* ---- Event channels ---- */

/**
 * Opens a channel for events.
 *
 * Returns the channel, or NULL with errno.
 * Errors: EMFILE, ENFILE: no descriptor left.
 * Threads: any. Does not block, except while the first call of all starts the daemon.
 * Since RDMACM_1.0. Source: rdma_create_event_channel(3).
 * See also: rdma_get_cm_event(), rdma_destroy_event_channel().
 */
struct rdma_event_channel *rdma_create_event_channel(void);

/**
 * Closes a channel and its descriptor.
 *
 * *channel*: may be NULL, then nothing happens.
 * Threads: any. Does not block.
 * State: all its ids are destroyed or migrated, all its events acknowledged.
 * Since RDMACM_1.0. Source: rdma_create_event_channel(3).
 */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/**
 * Takes the next event off a channel.
 *
 * *channel*: of rdma_create_event_channel(), or rdma_cm_id.channel.
 * *event*: set to the event, the caller's until rdma_ack_cm_event(). Each has to be acknowledged.
 * Returns 0, or -1 with errno.
 * Errors: EAGAIN: none waits and channel->fd is O_NONBLOCK; EINTR: a signal came while waiting;
 * ENODEV: the daemon is gone and every id has had its DEVICE_REMOVAL.
 * Threads: any, several at once; each event is taken once. Blocks until there is one, unless the
 * descriptor is non-blocking.
 * State: events of one id come in order. An id with a QP has it moved to RTS before ESTABLISHED is
 * handed out on the active side, and to ERR before REJECTED and DISCONNECTED are.
 * Since RDMACM_1.0. Source: rdma_get_cm_event(3).
 * See also: rdma_ack_cm_event(), rdma_event_str(), enum rdma_cm_event_type.
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/**
 * Acknowledges and frees an event.
 *
 * *event*: of rdma_get_cm_event(); not to be used afterwards, nor the private data in it.
 * Returns 0, or -1 with errno EINVAL if *event* is NULL.
 * Threads: any. Does not block.
 * State: destroying or migrating an id waits for this call.
 * Since RDMACM_1.0. Source: rdma_get_cm_event(3).
 */
int rdma_ack_cm_event(struct rdma_cm_event *event);

/**
 * Names an event, as "RDMA_CM_EVENT_ESTABLISHED".
 *
 * *event*: any value.
 * Returns a constant string; for what is no event, one that says so.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_event_str(3).
 */
const char *rdma_event_str(enum rdma_cm_event_type event);

/* ---- Ids ---- */

/**
 * Makes an id.
 *
 * *channel*: where its events go. NULL makes a synchronous id with a channel of its own.
 * *id*: set to the new id, the caller's until rdma_destroy_id().
 * *context*: becomes id->context; any value.
 * *ps*: PS_TCP and PS_IB make id->qp_type RC, PS_UDP and PS_IPOIB make it UD.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port space.
 * Threads: any. Does not block.
 * State: the new id has no device and no address.
 * Since RDMACM_1.0. Source: rdma_create_id(3).
 * See also: rdma_bind_addr(), rdma_resolve_addr(), rdma_create_ep().
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);

/**
 * Destroys an id and whatever it has under way.
 *
 * *id*: any id; not to be used afterwards.
 * Returns 0, or -1 with errno EINVAL if *id* is NULL.
 * Threads: any, but not one that still holds an event of the id unacknowledged: blocks until all
 * events that were taken are acknowledged, a listener also for those of its requests. After two
 * seconds USRDMA_LOG=warn names the id and the event; so it does in all calls that wait in this way.
 * State: its QP is destroyed already. Events not yet taken are dropped. A listener's requests that
 * nobody took are rejected; a connection that still stands is disconnected.
 * Since RDMACM_1.0. Source: rdma_destroy_id(3).
 * See also: rdma_destroy_qp(), rdma_ack_cm_event().
 */
int rdma_destroy_id(struct rdma_cm_id *id);

/**
 * Moves an id, with its events that nobody took yet, to another channel.
 *
 * *id*: any id.
 * *channel*: the new one. NULL makes the id synchronous, with a channel of its own.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: *channel* is NULL and the id is synchronous already.
 * Threads: nobody fetches events of the old channel meanwhile. Blocks until all events of the id
 * that were taken are acknowledged; id->event is acknowledged by the call itself.
 * State: the order of the id's events stays. A synchronous id's own channel is closed.
 * Since RDMACM_1.0. Source: rdma_migrate_id(3).
 */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/**
 * Sets an option of an id.
 *
 * *id*: any id.
 * *level*: RDMA_OPTION_ID or RDMA_OPTION_IB.
 * *optname*: the option; of RDMA_OPTION_ID:
 *
 * - RDMA_OPTION_ID_TOS, uint8_t: type of service of the packets (RFC 2474); from the next
 * connection on
 * - RDMA_OPTION_ID_REUSEADDR, int: whether others may bind to the address too; at the next bind
 * - RDMA_OPTION_ID_AFONLY, int: whether a wildcard leaves the other family alone; without it 0.0.0.0
 * does and :: does not; before the port is listened on
 * - RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t, 0 to 31: local ACK timeout of the QP, 4.096 us * 2^n;
 * from the next connection on
 *
 * Of RDMA_OPTION_IB:
 *
 * - RDMA_OPTION_IB_PATH, array of struct ibv_path_data: the path to the peer, in place of
 * rdma_resolve_route(). Of several that one is taken whose flags are IBV_PATH_FLAG_GMP,
 * IBV_PATH_FLAG_PRIMARY and IBV_PATH_FLAG_BIDIRECTIONAL. Its sgid and dgid are those that the
 * address resolved to, its MTU at most what the interface takes, its P_Key 0xffff, its lifetime at
 * most 30. Flow label, traffic class, SL, MTU, rate and lifetime count; 0 hops mean 64, rate 0 that
 * of the interface, and LIDs mean nothing
 *
 * *optval*, *optlen*: the value and its bytes, which must be exactly those of its type.
 * Returns 0, or -1 with errno.
 * Errors: ENOSYS: no such level or option; EINVAL: wrong size or value, or too late for this
 * option; RDMA_OPTION_IB_PATH also: the address is not resolved yet; EHOSTUNREACH: other hosts
 * cannot be reached.
 * Threads: any. Does not block.
 * Events: RDMA_OPTION_IB_PATH: RDMA_CM_EVENT_ROUTE_RESOLVED, with which id->route.path_rec is set; a
 * synchronous id takes it in its next call.
 * Since RDMACM_1.0. Source: rdma_set_option(3), IBA 1.x §15.2.5.16. See also: rdma_bind_addr(),
 * rdma_connect(), rdma_resolve_route(), ibv_modify_qp().
 */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/* ---- Addresses ---- */

/**
 * Binds an id to a local address and port.
 *
 * *id*: one that is not bound yet.
 * *addr*: AF_INET or AF_INET6. The address may be the wildcard, the port 0: then a free one is
 * chosen, which rdma_get_src_port() tells.
 * Returns 0, or -1 with errno.
 * Errors: EADDRINUSE: another id has the port (and either lacks REUSEADDR); EADDRNOTAVAIL: no device
 * has the address; EACCES: the port is below net.ipv4.ip_unprivileged_port_start, and this is not
 * root; ENODEV: AF_IB, the family of InfiniBand's own links, of which no RoCE device has an address; EINVAL: other
 * address family, or already bound.
 * Threads: any. Does not block.
 * State: with a specific address the id is bound to its device (id->verbs, pd, port_num). With the
 * wildcard these stay unset, and with a loopback address too, which is all devices' alike; an id of
 * RDMA_PS_UDP or RDMA_PS_IPOIB is bound to the loopback interface's device then.
 * Since RDMACM_1.0. Source: rdma_bind_addr(3). See also: rdma_listen(), rdma_resolve_addr().
 */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/**
 * Finds the device and the local address by which to reach a peer.
 *
 * *id*: one that is not connected.
 * *src_addr*: local address to bind to first, as rdma_bind_addr() does; NULL: what is bound
 * already, else what the host's routing table says.
 * *dst_addr*: AF_INET or AF_INET6, with the port to connect to. 127.0.0.1, ::1 and the host's own
 * addresses lead to this host.
 * *timeout_ms*: upper bound in milliseconds, > 0.
 * Returns 0, or -1 with errno. Sync: ADDR_RESOLVED.
 * Errors: as rdma_bind_addr() for *src_addr*; ENODEV: AF_IB; EINVAL: other address family, or the id is past this
 * step. Of a synchronous id also what RDMA_CM_EVENT_ADDR_ERROR says, as ENETUNREACH: no route.
 * Threads: any. Does not block on an asynchronous id.
 * State: at ADDR_RESOLVED the id is bound to a device and both addresses are set.
 * Events: RDMA_CM_EVENT_ADDR_RESOLVED or RDMA_CM_EVENT_ADDR_ERROR.
 * Since RDMACM_1.0. Source: rdma_resolve_addr(3). See also: rdma_resolve_route().
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);

/**
 * Finds the path to the peer.
 *
 * *id*: one whose address is resolved.
 * *timeout_ms*: upper bound in milliseconds, > 0.
 * Returns 0, or -1 with errno. Sync: ROUTE_RESOLVED.
 * Errors: EINVAL: the address is not resolved, or the id is past this step.
 * Threads: any. Does not block on an asynchronous id.
 * State: at ROUTE_RESOLVED id->route.path_rec is set and the id may connect.
 * Events: RDMA_CM_EVENT_ROUTE_RESOLVED or RDMA_CM_EVENT_ROUTE_ERROR.
 * Since RDMACM_1.0. Source: rdma_resolve_route(3). See also: rdma_connect().
 */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/**
 * Tells the local port of an id.
 *
 * *id*: any id.
 * Returns the port in network order, 0 if it is not bound to one.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_src_port(3).
 */
__be16 rdma_get_src_port(struct rdma_cm_id *id);

/**
 * Tells the peer's port.
 *
 * *id*: any id.
 * Returns the port in network order, 0 if there is no peer.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_dst_port(3).
 */
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/**
 * Tells the local address of an id.
 *
 * *id*: any id.
 * Returns a pointer into the id; sa_family is 0 if it is not bound.
 * Threads: any. Does not block.
 * Inline. Source: rdma_get_local_addr(3).
 */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

/**
 * Tells the peer's address.
 *
 * *id*: any id.
 * Returns a pointer into the id; sa_family is 0 if there is no peer.
 * Threads: any. Does not block.
 * Inline. Source: rdma_get_peer_addr(3).
 */
static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/**
 * Opens all devices, as the ids use them.
 *
 * *num_devices*: set to their number; may be NULL.
 * Returns an array with a NULL at its end, for rdma_free_devices(), or NULL with errno. The contexts are those of
 * rdma_cm_id.verbs; they are shared and stay open, so nobody closes them.
 * Errors: those of ibv_get_device_list().
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_devices(3). See also: ibv_get_device_list().
 */
struct ibv_context **rdma_get_devices(int *num_devices);

/**
 * Frees an array of devices; the devices stay open.
 *
 * *list*: of rdma_get_devices(), or NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_devices(3).
 */
void rdma_free_devices(struct ibv_context **list);

/**
 * Translates names into addresses, as getaddrinfo() does for sockets.
 *
 * *node*: host name or numeric address; with RAI_PASSIVE the local one. NULL: none.
 * *service*: port number or service name. NULL: none.
 * *hints*: flags, family, QP type, port space and addresses to start from; NULL: RC over PS_TCP.
 * *res*: set to one result, for rdma_freeaddrinfo(). Left alone on failure.
 * Returns 0, -1 with errno, or one of getaddrinfo()'s EAI_ values, for gai_strerror().
 * Errors: EINVAL: *node*, *service* and *hints* are all NULL, or unknown flags; EAI_SYSTEM: RAI_SA, with errno
 * EOPNOTSUPP; EAI_FAMILY: other family than IPv4 and IPv6; EAI_SOCKTYPE: QP type and port space do not fit; EAI_SERVICE:
 * no such service; EAI_NONAME: no such host; EAI_AGAIN, EAI_FAIL, EAI_MEMORY: the name service says so; others as
 * getaddrinfo(3).
 * Threads: any. Blocks while the name service is asked, unless RAI_NUMERICHOST.
 * State: ai_route and ai_connect are empty: IP has no use for them.
 * Since RDMACM_1.0. Source: rdma_getaddrinfo(3). See also: rdma_create_ep(),
 * rdma_resolve_addrinfo().
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);

/**
 * Frees a list of address information.
 *
 * *res*: of rdma_getaddrinfo() or rdma_query_addrinfo(); NULL is allowed.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_getaddrinfo(3).
 */
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/**
 * Translates names into addresses for an id.
 *
 * *id*: any id that has no such translation under way.
 * *node*, *service*, *hints*: as rdma_getaddrinfo().
 * Returns 0, or -1 with errno. Sync: ADDRINFO_RESOLVED.
 * Errors: EBUSY: one is under way; EINVAL: nothing to translate; EOPNOTSUPP: RAI_SA.
 * Threads: any. Blocks while the name service is asked, unless RAI_NUMERICHOST.
 * State: the result waits in the id; a former one that nobody took is freed.
 * Events: RDMA_CM_EVENT_ADDRINFO_RESOLVED or RDMA_CM_EVENT_ADDRINFO_ERROR.
 * Since RDMACM_1.4. Source: rdma_resolve_addrinfo(3). See also: rdma_query_addrinfo().
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);

/**
 * Hands out the result of rdma_resolve_addrinfo(), once.
 *
 * *id*: the id. *info*: set to the list, the caller's, for rdma_freeaddrinfo().
 * Returns 0, or -1 with errno.
 * Errors: ENOENT: there is no result, or it was taken.
 * Threads: any. Does not block.
 * Since RDMACM_1.4. Source: rdma_query_addrinfo(3).
 */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* ---- Queue pairs ---- */

/**
 * Makes a QP for an id, and CQs where none are given.
 *
 * *id*: one that is bound to a device and has no QP.
 * *pd*: a PD of id->verbs; NULL: the shared one.
 * *qp_init_attr*: as ibv_create_qp(); what was really made is written back. A NULL send_cq or
 * recv_cq means that of the id; if it has none, a completion channel and a CQ with cq_context == id
 * are made, of the size of the queue. A NULL srq means id->srq. An XRC receive QP has neither, and is in the device's
 * own XRC domain.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: a QP is there, no device, PD of another context, CQ other than the id's own, or
 * attributes beyond the device's limits; else as ibv_create_qp() and ibv_create_cq().
 * Threads: any. Does not block.
 * State: id->qp, pd and the CQs are set. An RC, UC or XRC QP is in INIT: receives may be posted. Its
 * further moves are made by the calls and events of the id. A UD QP is in RTS, with the Q_Key
 * RDMA_UDP_QKEY.
 * Since RDMACM_1.0. Source: rdma_create_qp(3). See also: rdma_destroy_qp(), rdma_create_srq().
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/**
 * As rdma_create_qp(), with extended attributes.
 *
 * *id*: one that is bound to a device and has no QP. *qp_init_attr*: as ibv_create_qp_ex(); the PD is optional here,
 * and what is said of NULL CQs and SRQs at rdma_create_qp() holds.
 * Returns, errors, threads, state: as rdma_create_qp(); errors also of ibv_create_qp_ex().
 * Since RDMACM_1.0. Source: rdma_create_qp(3).
 */
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/**
 * Destroys the QP of an id, and the CQs that were made for it.
 *
 * *id*: NULL, or an id without a QP: nothing happens.
 * Threads: any, but nobody may use the QP or those CQs. Another thread may be taking events of the
 * id meanwhile: one that would have moved the QP finds it, or does not. Blocks until the events of
 * QP and CQs are acknowledged.
 * State: id->qp is NULL. CQs that the application gave stay. The QP is in no multicast group any more
 * that it came into by rdma_join_multicast(); the id's memberships stay.
 * Since RDMACM_1.0. Source: rdma_create_qp(3).
 */
void rdma_destroy_qp(struct rdma_cm_id *id);

/**
 * Tells with which attributes to move a QP that is not the id's own.
 *
 * *id*: one that is bound to a device; beyond INIT, one with a request or a response, unless it is
 * a datagram id.
 * *qp_attr*: its qp_state says which move: IBV_QPS_INIT, _RTR or _RTS; filled in.
 * *qp_attr_mask*: set to the mask for ibv_modify_qp().
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no device, other state, or the peer is not known yet.
 * Threads: any. Does not block.
 * State: a peer's wish for no READs or atomics shows in qp_access_flags. min_rnr_timer is 0: 655
 * ms.
 * Since RDMACM_1.2. Source: rdma_init_qp_attr(3). See also: rdma_establish(), ibv_modify_qp().
 */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/* ---- Connections ---- */

/**
 * Connects to the peer; of a datagram id, asks for the peer's QP.
 *
 * *id*: one whose route is resolved.
 * *conn_param*: what to ask the peer for, struct rdma_conn_param. NULL, if the id has a QP: as many READs and atomics
 * as the device can, retry counts 7, no private data. Of a datagram id only the private data counts.
 * Returns 0, or -1 with errno. Sync: ESTABLISHED.
 * Errors: EINVAL: no route, *conn_param* is NULL and there is no QP, more READs or atomics than the
 * device can (PS_TCP), too much private data, or the id is connecting already.
 * Threads: any. Does not block on an asynchronous id.
 * State: at ESTABLISHED the id's QP is in RTS.
 * Events: RDMA_CM_EVENT_ESTABLISHED; without a QP RDMA_CM_EVENT_CONNECT_RESPONSE; else
 * RDMA_CM_EVENT_REJECTED (status 8 at once if nobody listens), _UNREACHABLE (within
 * USRDMA_CM_TIMEOUT seconds) or _CONNECT_ERROR. A datagram id: RDMA_CM_EVENT_ESTABLISHED, with
 * what it takes to send, or _UNREACHABLE.
 * Since RDMACM_1.0. Source: rdma_connect(3), IBA 1.x §12.9. See also: rdma_accept(),
 * rdma_establish().
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/**
 * Completes a connection whose QP the application moves itself.
 *
 * *id*: active side, without a QP of its own, after RDMA_CM_EVENT_CONNECT_RESPONSE.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP, or there is no response to confirm.
 * Threads: any. Does not block.
 * State: the QP is in RTS before this call. The peer gets RDMA_CM_EVENT_ESTABLISHED; this side gets
 * no further event.
 * Since RDMACM_1.2. Source: rdma_establish(3). See also: rdma_init_qp_attr().
 */
int rdma_establish(struct rdma_cm_id *id);

/**
 * Waits for connections to the address that an id is bound to.
 *
 * *id*: a bound id; one that is not gets a port chosen.
 * *backlog*: how many requests may wait for rdma_accept() or rdma_reject() at once; 0 or less: the
 * default, 1024. Requests beyond it are not answered, so that their senders ask again.
 * Returns 0, or -1 with errno.
 * Errors: EADDRINUSE: another id listens there; EINVAL: the id is connecting, or listens already.
 * Threads: any. Does not block.
 * State: an id bound to the wildcard listens on all devices, also on those that appear later.
 * Events: RDMA_CM_EVENT_CONNECT_REQUEST for each request, with a new id on the same channel, with
 * the listener's context, bound to the device that it came by.
 * Since RDMACM_1.0. Source: rdma_listen(3). See also: rdma_get_request(), rdma_accept().
 */
int rdma_listen(struct rdma_cm_id *id, int backlog);

/**
 * Takes the next request off a synchronous listener.
 *
 * *listen*: a synchronous id that listens.
 * *id*: set to the new id, synchronous too, the caller's. Its event is the request, valid until the
 * next call on the id. If the listener is of rdma_create_ep() with QP attributes, it has a QP.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: *listen* is not synchronous; EAGAIN, EINTR as rdma_get_cm_event(); as
 * rdma_create_qp(), the request is then rejected.
 * Threads: any. Blocks until a request comes.
 * Since RDMACM_1.0. Source: rdma_get_request(3). See also: rdma_accept(), rdma_reject().
 */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);

/**
 * Accepts a request.
 *
 * *id*: the new id of a CONNECT_REQUEST, not the listener.
 * *conn_param*: what to grant the peer, struct rdma_conn_param; the event's may be passed as it is, before its
 * acknowledgement. NULL, if the id has a QP: what the request asks for, as far as the device can. Of a datagram id only
 * the private data counts, and qp_num if it has no QP.
 * Returns 0, or -1 with errno. Sync: ESTABLISHED; of a datagram id it waits for nothing.
 * Errors: EINVAL: no request, *conn_param* is NULL and there is no QP, more READs or atomics than
 * the device can (PS_TCP), or too much private data; as ibv_modify_qp().
 * Threads: any. Does not block on an asynchronous id.
 * State: the id's QP is in RTS before the peer hears of it, and in ERR if the call fails.
 * Events: RDMA_CM_EVENT_ESTABLISHED when the peer confirms, or _CONNECT_ERROR, _REJECTED,
 * _UNREACHABLE. A datagram id: none.
 * Since RDMACM_1.0. Source: rdma_accept(3), IBA 1.x §12.9. See also: rdma_reject().
 */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/**
 * Rejects a request.
 *
 * *id*: the new id of a CONNECT_REQUEST; it must still be destroyed. Also the active side after a
 * CONNECT_RESPONSE that it does not want.
 * *private_data*, *private_data_len*: bytes for the peer; NULL and 0 for none.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: nothing to reject, or too much private data.
 * Threads: any. Does not block.
 * Events: the peer gets RDMA_CM_EVENT_REJECTED with status 28 and the private data; if it asked for
 * a datagram QP, RDMA_CM_EVENT_UNREACHABLE with status 2.
 * Since RDMACM_1.0. Source: rdma_reject(3), IBA 1.x §12.6.7.
 */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/**
 * Rejects a request, or a response, because the peer's vendor options do not suit.
 *
 * *id*, *private_data*, *private_data_len*: as rdma_reject().
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: nothing to reject, or too much private data.
 * Threads: any. Does not block.
 * Events: as rdma_reject(), but the peer's RDMA_CM_EVENT_REJECTED has status 35: vendor option not
 * supported.
 * Since RDMACM_1.3. Source: rdma_get_remote_ece(3). See also: rdma_reject().
 */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/**
 * Tells that something came in on the QP of a connection that is not established yet.
 *
 * *id*: passive side, after rdma_accept().
 * *event*: IBV_EVENT_COMM_EST.
 * Returns 0, or -1 with errno.
 * Errors: EISCONN: established already, which is harmless; EINVAL: other event, or no connection is
 * being set up.
 * Threads: any. Does not block.
 * Events: RDMA_CM_EVENT_ESTABLISHED, as if the peer's confirmation had come.
 * Since RDMACM_1.0. Source: rdma_notify(3), IBA 1.x §12.9.
 */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/**
 * Ends a connection.
 *
 * *id*: either side of a connection. A datagram id has none: its QP goes to ERR, and that is all.
 * Returns 0, or -1 with errno. Sync: DISCONNECTED, but of a datagram id nothing.
 * Errors: EINVAL: not connected.
 * Threads: any. Does not block on an asynchronous id.
 * State: the id's QP goes to ERR first; work that was posted is flushed.
 * Events: RDMA_CM_EVENT_DISCONNECTED on both sides, then RDMA_CM_EVENT_TIMEWAIT_EXIT.
 * Since RDMACM_1.0. Source: rdma_disconnect(3), IBA 1.x §12.9.
 */
int rdma_disconnect(struct rdma_cm_id *id);

/**
 * Puts an event of the application's own on the channel of an id.
 *
 * *id*: any id. *event*: RDMA_CM_EVENT_USER. *status*, *arg*: any value, found again in the event's
 * status and param.arg.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: other event.
 * Threads: any. Does not block.
 * Events: RDMA_CM_EVENT_USER, after those that wait already.
 * Since RDMACM_1.4. Source: rdma_write_cm_event(3).
 */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* ---- Endpoints ---- */

/**
 * Makes a synchronous id from address information, up to where it can connect or listen.
 *
 * *id*: set to the new id, the caller's until rdma_destroy_ep().
 * *res*: of rdma_getaddrinfo(); may be freed afterwards.
 * *pd*: for the QPs; NULL: the shared one.
 * *qp_init_attr*: of the QP; NULL: none. qp_type is written back.
 * Returns 0, or -1 with errno.
 * Errors: as rdma_create_id(), rdma_bind_addr(), rdma_resolve_addr(), rdma_resolve_route() and
 * rdma_create_qp().
 * Threads: any. Blocks until address and route are resolved, 2 seconds each at most.
 * State: without RAI_PASSIVE the id has its route, and a QP if asked for: rdma_connect() is next.
 * With it, the id is bound and keeps *pd* and *qp_init_attr* for the ids of rdma_get_request():
 * rdma_listen() is next.
 * Since RDMACM_1.0. Source: rdma_create_ep(3). See also: rdma_getaddrinfo(), rdma_migrate_id().
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);

/**
 * Destroys an id with its QP, its SRQ and the CQs that were made for them.
 *
 * *id*: of rdma_create_ep() or rdma_get_request(); NULL is allowed.
 * Threads, state: as rdma_destroy_qp() and rdma_destroy_id().
 * Since RDMACM_1.0. Source: rdma_create_ep(3).
 */
void rdma_destroy_ep(struct rdma_cm_id *id);

/* ---- Multicast ---- */

/**
 * Joins a multicast group as a full member: what is sent to it comes to the id's QP, and the QP may
 * send to it. The outcome is RDMA_CM_EVENT_MULTICAST_JOIN or RDMA_CM_EVENT_MULTICAST_ERROR, whose
 * param.ud.private_data is *context*. In the former, param.ud.ah_attr, qp_num (0xFFFFFF) and qkey are
 * what a send to the group needs; when it is taken, a QP of the id is attached as by
 * ibv_attach_mcast(), what is sent by the QP itself included unless the QP was made with
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB. The machine joins the group on the id's interface by IGMP or
 * MLD while a QP is attached.
 *
 * *id*: a datagram id (RDMA_PS_UDP, RDMA_PS_IPOIB) that is bound to a device by rdma_bind_addr() with
 * an address, or by rdma_resolve_addr(). A group resolves by the address that the id is bound to, or
 * by the machine's routes.
 * *addr*: the group, of the family of the id's address: in 224.0.0.0/4 or ff00::/8; or its GID as a
 * struct sockaddr_ib. Ports are of no meaning.
 * *context*: for the events of this membership.
 * Returns 0 once the join is under way, on a synchronous id once it has succeeded; -1 with errno.
 * Errors: EINVAL: not a datagram id, not bound to a device, its route resolved or the device gone, an
 * address of another family or of no group; EDQUOT: more than 1024 memberships of one id; ENOMEM: no
 * memory; ENODEV: the daemon is gone; on a synchronous id also what the event's status says. In
 * RDMA_CM_EVENT_MULTICAST_ERROR, status is ENETDOWN: the interface is down, or an errno of
 * ibv_attach_mcast(), negative.
 * Threads: any. On a synchronous id blocks until the outcome is there.
 * State: ended by rdma_leave_multicast(), or with the id. Joining twice makes two memberships.
 * Since RDMACM_1.0. Source: rdma_join_multicast(3), IBA 1.x §10.5. See also:
 * rdma_join_multicast_ex(), rdma_leave_multicast(), ibv_attach_mcast().
 */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);

/**
 * Joins a multicast group, as a full member or to send only.
 *
 * *id*, *context*: as of rdma_join_multicast().
 * *mc_join_attr*: comp_mask with both RDMA_CM_JOIN_MC_ATTR_ADDRESS and
 * RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS; addr as of rdma_join_multicast(); join_flags
 * RDMA_MC_JOIN_FLAG_FULLMEMBER, or RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER: no QP is attached.
 * Returns 0, or -1 with errno, as rdma_join_multicast().
 * Errors: as of rdma_join_multicast(); ENOTSUP: unknown bits in comp_mask; EINVAL also for a missing
 * bit and for other join_flags.
 * Threads: any. On a synchronous id blocks until the outcome is there.
 * Since RDMACM_1.1. Source: rdma_join_multicast_ex(3). See also: rdma_join_multicast().
 */
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/**
 * Leaves a multicast group, in which the id's QP is no longer from here on. An event of the join
 * that was not taken never comes.
 *
 * *id*: that joined.
 * *addr*: as it was given to the join; of several that are the same the newest membership ends.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: an address of no known family; EADDRNOTAVAIL: no such membership; ENODEV: the
 * daemon is gone.
 * Threads: any. Blocks until events of the membership that were taken are acknowledged.
 * Since RDMACM_1.0. Source: rdma_leave_multicast(3). See also: rdma_join_multicast(),
 * rdma_ack_cm_event().
 */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/* ---- Enhanced connection establishment ---- */

/**
 * Sets the vendor options that the next REQ or REP of an id brings to the peer. They are for QPs that
 * the application makes and moves itself; QPs of usrdma have none.
 *
 * *id*: one without a QP of its own, before rdma_connect() or rdma_accept().
 * *ece*: comp_mask is 0. vendor_id is not 0; its lower 24 bits travel.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP, no vendor, or bits in comp_mask.
 * Threads: any. Does not block.
 * State: they stay until they are set again, and are not offered while the id has a QP. Those of
 * datagram ids do not travel.
 * Since RDMACM_1.3. Source: rdma_set_local_ece(3). See also: ibv_set_ece().
 */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/**
 * Tells the vendor options that the peer's REQ or REP brought.
 *
 * *id*: one without a QP of its own, after RDMA_CM_EVENT_CONNECT_REQUEST or _CONNECT_RESPONSE.
 * *ece*: filled in; vendor_id is 0 if there are none.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP.
 * Threads: any. Does not block.
 * Since RDMACM_1.3. Source: rdma_get_remote_ece(3). See also: ibv_query_ece().
 */
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_CMA_H */
