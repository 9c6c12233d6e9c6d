/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA connection manager. It establishes connections between queue pairs by IP address and
 * port, with calls that resemble those of sockets.
 *
 * The following holds for every call, unless its page states otherwise:
 *
 * - A call that returns int returns 0 on success. On failure it returns -1 and sets errno. A call
 * that returns a pointer returns NULL and sets errno on failure. Early
 * releases of librdmacm returned -errno in some cases; usrdma never does.
 * - An id that was created on an event channel is asynchronous. For such an id, 0 means that the
 * operation has started. Its outcome is reported as an event on the channel, and may be a failure:
 * check the event type and rdma_cm_event.status. If the call returns -1, the operation has not
 * started and no event follows.
 * - An id that was created with a NULL channel, or by rdma_create_ep(), is synchronous. The call
 * blocks until the event arrives and stores it in rdma_cm_id.event, where it is valid until the
 * next call on the id. If another event than the expected one arrives, the call returns -1. errno
 * is then ECONNREFUSED for RDMA_CM_EVENT_REJECTED and for an RDMA_CM_EVENT_UNREACHABLE with a
 * positive status, ENODEV for RDMA_CM_EVENT_DEVICE_REMOVAL, ECONNRESET for
 * RDMA_CM_EVENT_DISCONNECTED, and otherwise the absolute value of the event's status, or EIO if the
 * status is 0. The section SYNCHRONOUS OPERATION of a page names the event that the call waits for.
 * - Every call can fail with these errors: EINVAL: a required pointer is NULL; ENOMEM: no memory;
 * ENODEV: the daemon has ended, or the object was created before fork() and this process is the
 * child; EACCES: the daemon runs under another user id; EDQUOT: a quota of this user or process is
 * exceeded.
 * - Pointers must not be NULL. Addresses, private data and parameters are copied during the call.
 * An object that a call returns belongs to the caller until it is passed to the corresponding
 * destroying call.
 * - Any thread may make any call at any time. Two threads must not call for the same id at once,
 * and no thread may use an object during or after its destruction. Several threads may fetch events
 * of one channel. No call is async-signal-safe.
 * - "Does not block" means that the call does not wait for a peer or for the application. It may
 * wait for a reply of the local daemon.
 * - Addresses and ports in sockaddr structures are in network byte order. All other integers are in
 * host byte order.
 * - The section HISTORY names the symbol version of an exported call. Inline calls have no symbol
 * version.
 *
 * Private data is carried by the connection management messages. usrdma applies the limits of
 * InfiniBand:
 *
 *	call			message		bytes, PS_TCP	bytes, PS_UDP
 *	rdma_connect()		REQ, SIDR_REQ	56		180
 *	rdma_accept()		REP, SIDR_REP	196		136
 *	rdma_reject()		REJ, SIDR_REP	148		136
 *
 * Longer private data fails with EINVAL. The receiver gets the whole field of the message, padded
 * with zeros: private_data_len of an event is the size of the field, not the number of bytes that
 * the sender passed. An application that needs the length must put it into the data.
 *
 * Ids whose qp_type is IBV_QPT_UD are datagram ids. They have no connections. rdma_connect() asks
 * the peer for the QP number and the Q_Key of the service at a port. rdma_accept() sends them. The
 * side that connected can then send. The side that accepted gets the address of the other side from
 * the first datagram that it receives, with ibv_create_ah_from_wc().
 *
 * The CM timeout is 8 seconds, or the value of the environment variable USRDMA_CM_TIMEOUT (1 to 300
 * seconds) of the process that waits. If the peer does not reply to a connection request within the
 * CM timeout, RDMA_CM_EVENT_UNREACHABLE is reported. If the peer does not reply to a disconnect
 * request within the CM timeout, RDMA_CM_EVENT_DISCONNECTED is reported with status -ETIMEDOUT. An
 * ICMP error from the network ends the connection attempt at once.
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
 * The type of a communication event, see rdma_get_cm_event(). rdma_cm_event.status is 0 unless the
 * description of the type states otherwise. rdma_cm_event.param.conn and rdma_cm_event.param.ud are
 * valid only for the types whose description names them; otherwise all of their members are 0.
 *
 * *RDMA_CM_EVENT_ADDR_RESOLVED*: rdma_resolve_addr() succeeded. The id is bound to a device:
 * id->verbs, id->pd, id->port_num and both addresses are set. Next: create the QP and call
 * rdma_resolve_route().
 * *RDMA_CM_EVENT_ADDR_ERROR*: rdma_resolve_addr() failed. status is -ENETUNREACH or -EHOSTUNREACH:
 * no route to the address; -EHOSTUNREACH or -ETIMEDOUT: the next hop does not reply to ARP or to
 * neighbour solicitations; -ENETDOWN: the interface is down; -ENODEV: the interface of the route is
 * not an RDMA device. Next: call rdma_resolve_addr() again, or destroy the id.
 * *RDMA_CM_EVENT_ROUTE_RESOLVED*: rdma_resolve_route() succeeded, or RDMA_OPTION_IB_PATH of
 * rdma_set_option() set the path. id->route.path_rec is set. Next: call rdma_connect().
 * *RDMA_CM_EVENT_ROUTE_ERROR*: rdma_resolve_route() failed. status is -EHOSTUNREACH: the connection
 * needs UDP port 4791, which another program uses; -ENODEV: the device no longer exists.
 * Connections to other hosts, all connections with USRDMA_TRANSPORT=roce, and XRC connections need
 * this port. Next: destroy the QP and the id.
 * *RDMA_CM_EVENT_CONNECT_REQUEST*: A listening id received a connection request or, in RDMA_PS_UDP
 * and RDMA_PS_IPOIB, a datagram service lookup. rdma_cm_event.id is a new id for this request,
 * bound to the device on which the request arrived. rdma_cm_event.listen_id is the listening id.
 * param.conn holds the parameters of the peer's rdma_connect(), of a datagram id param.ud its
 * private data. Next: create a QP for the new id, post receives and call rdma_accept(); or call
 * rdma_reject(). Destroy the new id in the end in both cases.
 * *RDMA_CM_EVENT_CONNECT_RESPONSE*: Active side, only if the id has no QP of rdma_create_qp(): the
 * peer accepted. param.conn holds the parameters of the peer's rdma_accept(). Next: move the QP to
 * RTR and RTS with rdma_init_qp_attr() and ibv_modify_qp(), and call rdma_establish(); or call
 * rdma_reject().
 * *RDMA_CM_EVENT_CONNECT_ERROR*: Active or passive side: an error occurred while the connection was
 * being established. status is a negative errno. The QP is in ERR. Next: destroy the QP and the id.
 * *RDMA_CM_EVENT_UNREACHABLE*: The peer did not reply. Active side: to the connection request;
 * passive side: to rdma_accept(). status is -ETIMEDOUT, or -ECONNREFUSED, -EHOSTUNREACH or
 * -ENETUNREACH if the network reported this error. Of a datagram id, status can also be the
 * positive status of the peer's SIDR_REP: 1: no id listens at the port; 2: the peer called
 * rdma_reject(), whose private data is in param.ud; other values: IBA 1.x §12.11.2. Next: destroy
 * the QP and the id; a new attempt needs a new id.
 * *RDMA_CM_EVENT_REJECTED*: The peer application or its host rejected the request or the response.
 * param.conn holds the private data of the rejection only. The QP is in ERR. status is the reason
 * of the REJ message: 4: the peer did not complete the connection within its CM timeout; 8: no id
 * listens at the port; 9: the peer's QP type differs; 10: the QP number is still in use by a
 * preceding connection; 28: the peer called rdma_reject(), or destroyed the id of the request; 35:
 * the peer called rdma_reject_ece(). Next: destroy the QP and the id; a new attempt needs a new id.
 * *RDMA_CM_EVENT_ESTABLISHED*: The connection is established and the QP is in RTS. Reported on both
 * sides; of datagram ids on the active side only. On the active side param.conn holds the
 * parameters of the peer's rdma_accept(). On the passive side it holds none. Of a datagram id
 * param.ud holds what is needed to send to the peer. Next: transfer data.
 * *RDMA_CM_EVENT_DISCONNECTED*: The connection has ended. Reported once on each side, whether this
 * side or the peer called rdma_disconnect(), the peer process ended, or its host was lost. status
 * is -ETIMEDOUT if the peer did not reply to this side's disconnect request within the CM timeout,
 * otherwise 0. The peer replies when its application calls rdma_disconnect() or rdma_destroy_id(),
 * or when its process ends. The QP of
 * the side that called rdma_disconnect() is in ERR. The QP of the other side keeps its state until
 * that side calls rdma_disconnect(). Next: call rdma_disconnect() if this side has not done so,
 * collect the flushed completions, destroy the QP and the id.
 * *RDMA_CM_EVENT_DEVICE_REMOVAL*: The device of the id was removed, or the daemon ended. Next:
 * destroy the id, its QP and all other objects of the device.
 * *RDMA_CM_EVENT_MULTICAST_JOIN*: rdma_join_multicast() succeeded. param.ud holds what is needed to
 * send to the group; param.ud.private_data is the *context* of the join. The QP of the id is
 * attached to the group.
 * *RDMA_CM_EVENT_MULTICAST_ERROR*: The join failed, or a group that was joined is no longer
 * reachable. status is -ENETDOWN if the interface is or went down, or another negative errno of the
 * join. param.ud.private_data is the *context* of the join. Next: call rdma_leave_multicast(),
 * which the membership needs in this case too, and join again if required.
 * *RDMA_CM_EVENT_ADDR_CHANGE*: The id's interface is a bond, and a bonding failover changed its
 * hardware address. Established connections continue; new connections may take another path. Next:
 * optionally reconnect. Other changes of addresses have no event of the rdma_cm, as with Linux; the
 * device reports IBV_EVENT_GID_CHANGE (ibv_get_async_event()).
 * *RDMA_CM_EVENT_TIMEWAIT_EXIT*: Follows RDMA_CM_EVENT_DISCONNECTED after the ACK timeout of the
 * connection. If the peer disconnected, it is reported only after this side has called
 * rdma_disconnect() too. Packets of the connection can no longer arrive, and the QP may be reused
 * for another connection.
 * *RDMA_CM_EVENT_ADDRINFO_RESOLVED*: rdma_resolve_addrinfo() succeeded. Next: call
 * rdma_query_addrinfo().
 * *RDMA_CM_EVENT_ADDRINFO_ERROR*: rdma_resolve_addrinfo() failed. status is a negative errno.
 * *RDMA_CM_EVENT_USER*: rdma_write_cm_event() was called for the id. status and param.arg are the
 * arguments of that call.
 * *RDMA_CM_EVENT_INTERNAL*: Reserved for the library. The application never receives it.
 * Source: rdma_get_cm_event(3).
 */
enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED = 0,
	RDMA_CM_EVENT_ADDR_ERROR = 1,
	RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
	RDMA_CM_EVENT_ROUTE_ERROR = 3,
	RDMA_CM_EVENT_CONNECT_REQUEST = 4,
	RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
	RDMA_CM_EVENT_CONNECT_ERROR = 6,
	RDMA_CM_EVENT_UNREACHABLE = 7,
	RDMA_CM_EVENT_REJECTED = 8,
	RDMA_CM_EVENT_ESTABLISHED = 9,
	RDMA_CM_EVENT_DISCONNECTED = 10,
	RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
	RDMA_CM_EVENT_MULTICAST_JOIN = 12,
	RDMA_CM_EVENT_MULTICAST_ERROR = 13,
	RDMA_CM_EVENT_ADDR_CHANGE = 14,
	RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
	RDMA_CM_EVENT_ADDRINFO_RESOLVED = 16,
	RDMA_CM_EVENT_ADDRINFO_ERROR = 17,
	RDMA_CM_EVENT_USER = 18,
	RDMA_CM_EVENT_INTERNAL = 19
};

/* ---- Port spaces and addresses ---- */

/**
 * The service type of an id. Each port space has ports of its own; they are independent of the TCP
 * and UDP ports of the kernel.
 *
 * *RDMA_PS_IPOIB*: Unreliable datagrams (UD). Groups are those of IP over InfiniBand.
 * *RDMA_PS_TCP*: Connections. The QP type is RC, or UC if id->qp_type is set so. Unlike TCP, a
 * connection carries messages, not a stream of bytes.
 * *RDMA_PS_UDP*: Unreliable datagrams (UD), without connections, with multicast groups.
 * *RDMA_PS_IB*: Any QP type.
 * Source: rdma_create_id(3), IBA A11.
 */
enum rdma_port_space {
	RDMA_PS_IPOIB = 0x0002,
	RDMA_PS_TCP = 0x0106,
	RDMA_PS_UDP = 0x0111,
	RDMA_PS_IB = 0x013f
};

/* A service ID of IP addressing: a port space, then the port in the two lowest bytes (IBA A11). */
#define RDMA_IB_IP_PS_MASK   0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP    0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP    0x0000000001110000ULL
#define RDMA_IB_PS_IB	     0x00000000013F0000ULL

/* The Q_Key of all datagram QPs and groups of PS_UDP. */
#define RDMA_UDP_QKEY 0x01234567

/** The addresses of an id at the transport: the GIDs of both ends and the P_Key. */
struct rdma_ib_addr {
	union ibv_gid sgid;
	union ibv_gid dgid;
	__be16 pkey;
};

/**
 * The local and the remote address of an id, as socket addresses and as GIDs. Unknown addresses are
 * all zero.
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
 * The addresses of an id and the paths between them.
 *
 * *addr*: the addresses.
 * *path_rec*: *num_paths* path records, which belong to the id. NULL until
 * RDMA_CM_EVENT_ROUTE_RESOLVED or RDMA_CM_EVENT_CONNECT_REQUEST.
 * *num_paths*: number of path records, 0 or 1.
 */
struct rdma_route {
	struct rdma_addr addr;
	struct ibv_sa_path_rec *path_rec;
	int num_paths;
};

/* ---- Objects ---- */

/**
 * A channel on which the events of ids are reported. rdma_create_event_channel() creates it and
 * rdma_destroy_event_channel() destroys it. One channel can serve any number of ids.
 *
 * *fd*: a file descriptor that is readable while an event is pending. The application may poll it,
 * set it to O_NONBLOCK and duplicate it. It must not read from it or close it.
 */
struct rdma_event_channel {
	int fd;
};

/**
 * A communication identifier: the RDMA counterpart of a socket. It is bound to one RDMA device
 * before it can communicate, and most of its operations are asynchronous.
 *
 * rdma_create_id() and rdma_create_ep() allocate an id, and the library allocates one for each
 * connection request. rdma_destroy_id() and rdma_destroy_ep() destroy it. The application may set
 * *context*, and *qp*, *pd*, *srq* and the CQs to objects that it created itself. It must not
 * change other members.
 *
 * *verbs*: the device, shared by all ids on it. NULL until the id is bound to a device.
 * *channel*: the event channel. A synchronous id has a channel of its own.
 * *context*: a value for the application.
 * *qp*: the QP of rdma_create_qp(), otherwise NULL.
 * *route*: addresses and path.
 * *ps*: the port space.
 * *port_num*: port number of the device, 0 until the id is bound to a device.
 * *event*: of a synchronous id: the event of the last call. The next call on the id acknowledges
 * it.
 * *send_cq_channel*, *send_cq*, *recv_cq_channel*, *recv_cq*: CQs and completion channels that
 * rdma_create_qp() created because the application passed none; otherwise NULL.
 * *srq*: the SRQ of rdma_create_srq(), otherwise NULL.
 * *pd*: the protection domain: by default one that all ids on the device share.
 * *qp_type*: the QP type.
 */
struct rdma_cm_id {
	struct ibv_context *verbs;
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp;
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;
	struct rdma_cm_event *event;
	struct ibv_comp_channel *send_cq_channel;
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	enum ibv_qp_type qp_type;
};

/* Instead of a number in rdma_conn_param: as many as the device can. */
enum { RDMA_MAX_RESP_RES = 0xff, RDMA_MAX_INIT_DEPTH = 0xff };

/**
 * Parameters of a connection, given to rdma_connect() and rdma_accept(), and received in events.
 * Members other than the private data apply to connected ids only, not to datagram ids.
 *
 * *private_data*: data that the connection message carries to the peer. It is copied during the
 * call. NULL: no private data. In an event: the data of the peer, valid until rdma_ack_cm_event(),
 * or NULL.
 * *private_data_len*: number of bytes at *private_data*; ignored if *private_data* is NULL.
 * rdma_connect() accepts at most 56 bytes, rdma_accept() 196. For a datagram id rdma_connect()
 * accepts 180 bytes and rdma_accept() 136. In an event: the size of the field of the message, which
 * is at least the number of bytes that the peer sent; the remainder is zero.
 * *responder_resources*: number of RDMA READ and atomic operations of the peer that the local side
 * serves at the same time. 0 to the device's max_qp_rd_atom, or RDMA_MAX_RESP_RES for that maximum.
 * It should not exceed the peer's max_qp_init_rd_atom; the peer may reduce it when it accepts. 0:
 * the peer cannot use READ and atomic operations. In an event: the number that the peer requests of
 * this side, which is the peer's *initiator_depth*.
 * *initiator_depth*: number of RDMA READ and atomic operations that the local side keeps
 * outstanding at the peer. 0 to the device's max_qp_init_rd_atom, or RDMA_MAX_INIT_DEPTH for that
 * maximum. It should not exceed the peer's max_qp_rd_atom; the peer may reduce it when it accepts.
 * In an event: the number that the peer grants to this side, which is the peer's
 * *responder_resources*.
 * *flow_control*: nonzero if the sender of the message has end-to-end flow control. It is
 * transmitted to the peer and does not configure the QP.
 * *retry_count*: number of times that a SEND, RDMA or atomic operation is retransmitted if the peer
 * does not acknowledge it within the local ACK timeout. 0 to 7; larger values are taken as 7.
 * Afterwards the operation completes with IBV_WC_RETRY_EXC_ERR and the QP is in ERR. The value of
 * rdma_connect() applies to both QPs; rdma_accept() ignores it. In RDMA_CM_EVENT_CONNECT_REQUEST:
 * the value for the QP of this side. In other events: 0, because only the request contains it.
 * *rnr_retry_count*: number of times that the peer retransmits an operation that needs a receive WR
 * while no receive WR is posted here (receiver not ready, RNR). 0 to 6; 7 and larger values:
 * without limit. Afterwards the operation completes with IBV_WC_RNR_RETRY_EXC_ERR at the peer and
 * its QP is in ERR. In an event: the value for the QP of this side.
 * *srq*: 1 if the QP uses a shared receive queue, otherwise 0. Read only if the id has no QP of
 * rdma_create_qp(). In an event: that of the peer.
 * *qp_num*: number of the QP to connect. Read only if the id has no QP of rdma_create_qp(). The QP
 * belongs to a process of the same user. Without a QP: 0, or 2 to 32767. In an event: the QP number
 * of the peer.
 * Source: rdma_connect(3), rdma_accept(3), IBA 1.x §12.7.
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
 * Parameters of datagram communication, received in events of datagram ids.
 * RDMA_CM_EVENT_ESTABLISHED and RDMA_CM_EVENT_MULTICAST_JOIN set all members.
 * RDMA_CM_EVENT_CONNECT_REQUEST and RDMA_CM_EVENT_UNREACHABLE set the private data only.
 *
 * *private_data*: data of the peer's rdma_connect(), rdma_accept() or rdma_reject(), valid until
 * rdma_ack_cm_event(). In multicast events: the *context* of rdma_join_multicast().
 * *private_data_len*: size of the private data field of the message, padded with zeros; 0 in
 * multicast events.
 * *ah_attr*: address of the peer or of the group, for ibv_create_ah().
 * *qp_num*: QP number of the peer; 0xffffff of a group.
 * *qkey*: Q_Key of the peer or of the group.
 */
struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

/**
 * A communication event. rdma_get_cm_event() allocates it. rdma_ack_cm_event() frees it with
 * everything that it points to except the ids.
 *
 * *id*: the id that the event belongs to. In RDMA_CM_EVENT_CONNECT_REQUEST: a new id for the
 * request.
 * *listen_id*: in RDMA_CM_EVENT_CONNECT_REQUEST the listening id, otherwise NULL.
 * *event*: the type.
 * *status*: 0; a negative errno; or, in RDMA_CM_EVENT_REJECTED and RDMA_CM_EVENT_UNREACHABLE, the
 * positive reason or status of the peer's message.
 * *param*: details that depend on the type. *conn* for ids of connected QPs, *ud* for datagram ids,
 * *arg* for RDMA_CM_EVENT_USER.
 */
struct rdma_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id;
	enum rdma_cm_event_type event;
	int status;
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
		uint64_t arg;
	} param;
};

/* rdma_addrinfo.ai_flags. */
#define RAI_PASSIVE	0x00000001 /* for a listener */
#define RAI_NUMERICHOST 0x00000002 /* node is a numeric address: no name service */
#define RAI_NOROUTE	0x00000004 /* do not look for routing data; no effect, as RoCE needs none */
#define RAI_FAMILY	0x00000008 /* ai_family is the family of the address in node */
#define RAI_SA		0x00000010 /* node is an InfiniBand service; not offered by usrdma */
#define RAI_DNS		0x00000020 /* node is a host name; the default. Excludes RAI_SA */

/**
 * Local address, remote address and service: hints for rdma_getaddrinfo(), its result, and input of
 * rdma_create_ep().
 *
 * rdma_getaddrinfo() and rdma_query_addrinfo() allocate results. rdma_freeaddrinfo() frees them
 * with everything that they point to. Hints belong to the caller. Unused members of hints are 0.
 *
 * *ai_flags*: RAI_PASSIVE: the addresses are for a listening id. RAI_NUMERICHOST: the node is a
 * numeric address; no name service is queried. RAI_NOROUTE: no routing data is requested; it has no
 * effect, because RoCE needs none. RAI_FAMILY: ai_family states how to interpret the node. RAI_DNS:
 * the node is a host name; this is the default. RAI_SA: the node is an InfiniBand service; usrdma
 * refuses it with EOPNOTSUPP.
 * *ai_family*: AF_INET or AF_INET6. In hints AF_UNSPEC: either.
 * *ai_qp_type*: enum ibv_qp_type of the QP that rdma_create_ep() creates. In hints 0: IBV_QPT_UD
 * for RDMA_PS_UDP and RDMA_PS_IPOIB, otherwise IBV_QPT_RC.
 * *ai_port_space*: enum rdma_port_space of the id. In hints 0: RDMA_PS_UDP for IBV_QPT_UD,
 * otherwise RDMA_PS_TCP.
 * *ai_src_len*: number of bytes at *ai_src_addr*; 0 if *ai_src_addr* is NULL.
 * *ai_dst_len*: number of bytes at *ai_dst_addr*; 0 if *ai_dst_addr* is NULL.
 * *ai_src_addr*: the local address and port. With RAI_PASSIVE: the address of *node* and *service*.
 * *ai_dst_addr*: the remote address and port. Without RAI_PASSIVE: the address of *node* and
 * *service*.
 * *ai_src_canonname*: the canonical name of the local address, or NULL.
 * *ai_dst_canonname*: the canonical name of the remote address, or NULL.
 * *ai_route_len*: number of bytes at *ai_route*; 0 in results.
 * *ai_route*: an array of struct ibv_path_data. rdma_create_ep() sets it with RDMA_OPTION_IB_PATH
 * instead of resolving the route. NULL in results.
 * *ai_connect_len*: number of bytes at *ai_connect*; 0 in results.
 * *ai_connect*: data that rdma_connect() inserts before the private data of the endpoint. NULL in
 * results.
 * *ai_next*: the next result, NULL at the end of the list.
 */
struct rdma_addrinfo {
	int ai_flags;
	int ai_family;
	int ai_qp_type;
	int ai_port_space;
	socklen_t ai_src_len;
	socklen_t ai_dst_len;
	struct sockaddr *ai_src_addr;
	struct sockaddr *ai_dst_addr;
	char *ai_src_canonname;
	char *ai_dst_canonname;
	size_t ai_route_len;
	void *ai_route;
	size_t ai_connect_len;
	void *ai_connect;
	struct rdma_addrinfo *ai_next;
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
 * The group and the kind of membership for rdma_join_multicast_ex().
 *
 * *comp_mask*: RDMA_CM_JOIN_MC_ATTR_ADDRESS and RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, both required.
 * *join_flags*: RDMA_MC_JOIN_FLAG_FULLMEMBER: the QP of the id receives from the group and can send
 * to it. RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER: the QP can only send.
 * *addr*: the group, as in rdma_join_multicast().
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
	RDMA_OPTION_ID_ACK_TIMEOUT = 3 /* uint8_t, 0 to 31: ACK timeout, 4.096 us * 2^n; 0: none */
};

/* Options of RDMA_OPTION_IB. */
enum {
	RDMA_OPTION_IB_PATH = 1 /* struct ibv_path_data[]: instead of rdma_resolve_route() */
};

/* ---- Event channels ---- */

/**
 * Opens an event channel, on which the events of ids are reported.
 *
 * Returns the channel, or NULL with errno.
 * Errors: EMFILE, ENFILE: no file descriptor is available.
 * Threads: any. Does not block, except that the first call of a process starts the daemon if it
 * does not run.
 * Events: unread events remain in the channel without loss. If the processes of one user other than
 * root leave more than 32 MiB of events unread, the daemon closes its connection to the process
 * that has most of them. Each id of that process then reports RDMA_CM_EVENT_DEVICE_REMOVAL.
 * Notes: an application may use one channel for all ids, or several channels to distribute ids
 * among threads. The channel has a file descriptor (struct rdma_event_channel) for poll(2) and for
 * non-blocking operation.
 * Since RDMACM_1.0. Source: rdma_create_event_channel(3).
 * See also: rdma_get_cm_event(), rdma_destroy_event_channel(), rdma_migrate_id(), struct
 * rdma_event_channel.
 */
struct rdma_event_channel *rdma_create_event_channel(void);

/**
 * Closes an event channel and its file descriptor.
 *
 * *channel*: the channel; NULL: no effect.
 * Threads: any. Does not block.
 * State: destroy or migrate all ids of the channel and acknowledge all of its events first. Ids
 * that remain lose their ports, requests, connections and groups, as in rdma_destroy_id(); calls on
 * them fail with EBADF. rdma_destroy_qp() and rdma_destroy_id() free what is left of them. A thread
 * that waits in rdma_get_cm_event() on the channel continues to wait; the ids remain until then.
 * Since RDMACM_1.0. Source: rdma_create_event_channel(3). See also: rdma_create_event_channel().
 */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/**
 * Retrieves the next pending communication event of a channel, and waits if none is pending.
 *
 * *channel*: a channel of rdma_create_event_channel(), or rdma_cm_id.channel.
 * *event*: set to the event. The caller must pass each event to rdma_ack_cm_event().
 * Types: struct rdma_cm_event, enum rdma_cm_event_type, struct rdma_conn_param, struct
 * rdma_ud_param.
 * Returns 0, or -1 with errno.
 * Errors: EAGAIN: no event is pending and channel->fd is O_NONBLOCK; EINTR: a signal interrupted
 * the wait; ENODEV: the daemon has ended and every id has reported RDMA_CM_EVENT_DEVICE_REMOVAL.
 * Threads: any, also several at once; each event is retrieved once. Blocks until an event is
 * pending. For non-blocking operation set channel->fd to O_NONBLOCK and use poll(2). A signal
 * handler may leave the wait by siglongjmp(3): the call blocks signals except during the wait.
 * State: events of one id are retrieved in the order in which they occurred. If the id has a QP,
 * this call moves it to RTS before it returns RDMA_CM_EVENT_ESTABLISHED on the active side, and to
 * ERR before it returns RDMA_CM_EVENT_REJECTED or RDMA_CM_EVENT_CONNECT_ERROR.
 * RDMA_CM_EVENT_DISCONNECTED does not change the state of the QP: rdma_disconnect() moves it to
 * ERR.
 * Notes: rdma_destroy_id() blocks until all retrieved events of the id are acknowledged. A thread
 * that calls it with an unacknowledged event of the same id deadlocks. Copy private data that is
 * needed later before the acknowledgement.
 * Example:
 *
 *	struct rdma_cm_event *event;
 *
 *	while (!rdma_get_cm_event(channel, &event)) {
 *		struct rdma_cm_id *id = event->id;
 *		enum rdma_cm_event_type type = event->event;
 *		int status = event->status;
 *
 *		rdma_ack_cm_event(event);
 *		printf("%s: status %d\n", rdma_event_str(type), status);
 *		handle(id, type, status);
 *	}
 *
 * Since RDMACM_1.0. Source: rdma_get_cm_event(3).
 * See also: rdma_ack_cm_event(), rdma_event_str(), rdma_create_event_channel().
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/**
 * Acknowledges and frees an event.
 *
 * *event*: an event of rdma_get_cm_event(). Neither the event nor its private data may be used
 * afterwards.
 * Returns 0, or -1 with errno EINVAL if *event* is NULL.
 * Threads: any. Does not block.
 * State: exactly one call is required for each event that rdma_get_cm_event() returned.
 * rdma_destroy_id(), rdma_migrate_id() and rdma_leave_multicast() wait for it.
 * Since RDMACM_1.0. Source: rdma_get_cm_event(3). See also: rdma_get_cm_event(), rdma_destroy_id().
 */
int rdma_ack_cm_event(struct rdma_cm_event *event);

/**
 * Translates an event type to its name, for example "RDMA_CM_EVENT_ESTABLISHED".
 *
 * *event*: any value.
 * Returns a constant string. For an unknown value the string states that the event is unknown. With
 * rdma-core 65 this includes RDMA_CM_EVENT_USER and RDMA_CM_EVENT_INTERNAL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_event_str(3). See also: rdma_get_cm_event().
 */
const char *rdma_event_str(enum rdma_cm_event_type event);

/* ---- Ids ---- */

/**
 * Allocates a communication identifier.
 *
 * *channel*: the channel on which its events are reported. NULL: the id is synchronous and has a
 * channel of its own.
 * *id*: set to the new id, which the caller passes to rdma_destroy_id().
 * *context*: any value; it becomes id->context.
 * *ps*: the port space. RDMA_PS_TCP and RDMA_PS_IB set id->qp_type to IBV_QPT_RC: reliable
 * connections, which unlike TCP carry messages and not a stream of bytes. RDMA_PS_UDP and
 * RDMA_PS_IPOIB set it to IBV_QPT_UD: unreliable datagrams without a connection, to peers and to
 * multicast groups.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: unknown port space.
 * Threads: any. Does not block.
 * State: the new id is not bound to a device or an address. An id is the counterpart of a socket,
 * but it must be bound to an RDMA device before it can communicate.
 * Since RDMACM_1.0. Source: rdma_create_id(3).
 * See also: rdma_bind_addr(), rdma_resolve_addr(), rdma_create_ep(), rdma_destroy_id(), enum
 * rdma_port_space, rdma_cm(7).
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);

/**
 * Destroys an id and cancels its outstanding operations.
 *
 * *id*: any id; it may not be used afterwards.
 * Returns 0, or -1 with errno EINVAL if *id* is NULL.
 * Threads: any thread that holds no unacknowledged event of the id. Blocks until all retrieved
 * events of the id are acknowledged; of a listening id, also those of its requests. If the wait
 * lasts longer than two seconds, USRDMA_LOG=warn reports the id and the event. The same holds for
 * all calls that wait for acknowledgements.
 * State: destroy the QP of the id with rdma_destroy_qp() first. Events that were not retrieved are
 * discarded. Pending requests of a listening id are rejected. An established connection is
 * disconnected. The id leaves its multicast groups.
 * Since RDMACM_1.0. Source: rdma_destroy_id(3).
 * See also: rdma_create_id(), rdma_destroy_qp(), rdma_ack_cm_event().
 */
int rdma_destroy_id(struct rdma_cm_id *id);

/**
 * Moves an id and its pending events to another event channel.
 *
 * *id*: any id.
 * *channel*: the new channel. NULL: the id becomes synchronous and gets a channel of its own; calls
 * on it then block until the operation completes.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: *channel* is NULL and the id is synchronous already.
 * Threads: no other thread may retrieve events of the old channel or use the id during the call.
 * Blocks until all retrieved events of the id are acknowledged. The call itself acknowledges
 * id->event.
 * State: the events of the id keep their order. The own channel of a synchronous id is closed.
 * Notes: rdma_create_ep() creates synchronous ids; this call makes them asynchronous.
 * Since RDMACM_1.0. Source: rdma_migrate_id(3). See also: rdma_create_id(), rdma_create_ep(),
 * rdma_create_event_channel().
 */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/**
 * Sets an option of an id.
 *
 * *id*: any id.
 * *level*: RDMA_OPTION_ID or RDMA_OPTION_IB.
 * *optname*: the option. Options of RDMA_OPTION_ID:
 *
 * - RDMA_OPTION_ID_TOS, uint8_t: type of service of the packets (RFC 2474). Takes effect with the
 * next connection.
 * - RDMA_OPTION_ID_REUSEADDR, int: nonzero: other ids that set it too may bind to the same address.
 * 1 is accepted until the id listens, 0 until the id is bound.
 * - RDMA_OPTION_ID_AFONLY, int: nonzero: a wildcard address includes only its own address family.
 * By default 0.0.0.0 includes IPv4 only and :: includes IPv4 and IPv6. Set it before the id
 * listens.
 * - RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t, 0 to 31: local ACK timeout of the QP, 4.096 us * 2^n; 0:
 * no timeout, so that the QP waits indefinitely for a response. The value is for the QP of this id
 * only; the peer sets its own. Set it on the active side before the peer accepts, on the passive
 * side before rdma_accept(). If it is set before rdma_resolve_route() and is not 0, the packet
 * lifetime of the path becomes n - 1, and the peer uses n unless it sets the option. EINVAL unless
 * the QP type of the id is IBV_QPT_RC or IBV_QPT_XRC_SEND.
 *
 * Options of RDMA_OPTION_IB:
 *
 * - RDMA_OPTION_IB_PATH, array of struct ibv_path_data: the path to the peer, instead of
 * rdma_resolve_route(). The call uses the entry whose flags are IBV_PATH_FLAG_GMP,
 * IBV_PATH_FLAG_PRIMARY and IBV_PATH_FLAG_BIDIRECTIONAL. Its sgid and dgid must be those of the
 * resolved address, its MTU at most that of the interface, its P_Key 0xffff and its packet lifetime
 * at most 30. Flow label, traffic class, SL, MTU, rate and lifetime are used. The REQ contains the
 * hop limit of the path record, or that of the kernel's route if it is 0; packets have that of the
 * kernel's route in both cases. Rate 0 means that of the interface.
 * LIDs are ignored.
 *
 * *optval*: the value.
 * *optlen*: size of the value in bytes. It must be exactly that of the option's type.
 * Returns 0, or -1 with errno.
 * Errors: ENOSYS: unknown level or option; EINVAL: wrong size or value, the state of the id no
 * longer permits the option, or RDMA_OPTION_IB_PATH is set before the address is resolved;
 * EHOSTUNREACH: RDMA_OPTION_IB_PATH leads to another host, and UDP port 4791 is not available.
 * Threads: any. Does not block.
 * Events: RDMA_OPTION_IB_PATH: RDMA_CM_EVENT_ROUTE_RESOLVED, which sets id->route.path_rec. The
 * next call on a synchronous id retrieves this event.
 * Since RDMACM_1.0. Source: rdma_set_option(3), IBA 1.x §15.2.5.16. See also: rdma_bind_addr(),
 * rdma_connect(), rdma_resolve_route(), ibv_modify_qp().
 */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/* ---- Addresses ---- */

/**
 * Binds an id to a local address and port.
 *
 * *id*: an id that is not bound.
 * *addr*: AF_INET or AF_INET6. The address may be the wildcard. With port 0 the library selects a
 * free port, see rdma_get_src_port(). An IPv4-mapped IPv6 address (::ffff:a.b.c.d) means the IPv4
 * address. The id and the ids of its requests report it in the mapped form.
 * Returns 0, or -1 with errno.
 * Errors: EADDRINUSE: another id has the port, and one of the two ids lacks
 * RDMA_OPTION_ID_REUSEADDR; EADDRNOTAVAIL: no device has the address; EACCES: the port is below
 * net.ipv4.ip_unprivileged_port_start and the caller is not root; ENODEV: the family is AF_IB, of
 * which a RoCE device has no addresses; EINVAL: other address family, or the id is bound already.
 * Threads: any. Does not block.
 * State: with a specific address the id is bound to the device of that address: id->verbs, id->pd
 * and id->port_num are set, and a PD, SRQ or QP may be created before rdma_listen(). With the
 * wildcard address the id is not bound to a device. One exception: of a synchronous id of
 * RDMA_PS_TCP or RDMA_PS_IB that is bound to the ai_src_addr that rdma_getaddrinfo() returned for
 * the node "localhost" with RAI_PASSIVE and without a service, the next rdma_listen(),
 * rdma_resolve_addr(), rdma_create_qp(), rdma_create_srq() or rdma_init_qp_attr() sets these
 * members. libfabric finds devices in this way.
 * Notes: servers call it before rdma_listen(). Clients may call it before rdma_resolve_addr() to
 * select a local address or port.
 * Since RDMACM_1.0. Source: rdma_bind_addr(3). See also: rdma_create_id(), rdma_listen(),
 * rdma_resolve_addr(), rdma_create_qp(), rdma_get_local_addr(), rdma_get_src_port().
 */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/**
 * Resolves a destination address to a device and a local address, and binds the id to them.
 *
 * *id*: an id that is not connected.
 * *src_addr*: the local address to bind to, as with rdma_bind_addr(). It is ignored if the id is
 * bound already. NULL: the address to which the id is bound, otherwise the one that the routing
 * table of the host selects.
 * *dst_addr*: AF_INET or AF_INET6, with the port to connect to. 127.0.0.1, ::1 and the addresses of
 * the host lead to this host. An IPv4-mapped IPv6 address (::ffff:a.b.c.d) means the IPv4 address
 * and is reported as given.
 * *timeout_ms*: time in milliseconds that the next hop may take to reply to ARP or to a neighbour
 * solicitation. No time is needed if the kernel knows the neighbour, for an address of this host,
 * for a multicast group, and on an interface without neighbours.
 * Returns 0, or -1 with errno. Sync: ADDR_RESOLVED.
 * Errors: as rdma_bind_addr() for *src_addr*; ENODEV: the family is AF_IB; EINVAL: other address
 * family, or the id has passed this step. On a synchronous id also the errors of
 * RDMA_CM_EVENT_ADDR_ERROR; ENETUNREACH: no route; EHOSTUNREACH: the kernel has no reply from the
 * next hop; ETIMEDOUT: *timeout_ms* expired.
 * Threads: any. Does not block on an asynchronous id.
 * State: after RDMA_CM_EVENT_ADDR_RESOLVED the id is bound to a device, and both addresses are set.
 * Events: RDMA_CM_EVENT_ADDR_RESOLVED or RDMA_CM_EVENT_ADDR_ERROR.
 * Notes: clients call it before rdma_create_qp(), rdma_resolve_route() and rdma_connect(). The GIDs
 * of a RoCE device are formed from IP addresses. The mapping therefore needs the routing table and
 * the neighbour table, but no subnet administrator and no IPoIB.
 * Since RDMACM_1.0. Source: rdma_resolve_addr(3). See also: rdma_create_id(), rdma_resolve_route(),
 * rdma_connect(), rdma_create_qp(), rdma_get_cm_event(), rdma_bind_addr(), rdma_get_local_addr(),
 * rdma_get_peer_addr().
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);

/**
 * Resolves the path to the destination address.
 *
 * *id*: an id whose address rdma_resolve_addr() has resolved.
 * *timeout_ms*: not 0; otherwise ignored. A RoCE path follows from the addresses; no subnet
 * administrator is queried.
 * Returns 0, or -1 with errno. Sync: ROUTE_RESOLVED.
 * Errors: EINVAL: the address is not resolved, the id has passed this step, or *timeout_ms* is 0.
 * Threads: any. Does not block on an asynchronous id.
 * State: after RDMA_CM_EVENT_ROUTE_RESOLVED id->route.path_rec is set and rdma_connect() may be
 * called.
 * Events: RDMA_CM_EVENT_ROUTE_RESOLVED or RDMA_CM_EVENT_ROUTE_ERROR.
 * Since RDMACM_1.0. Source: rdma_resolve_route(3). See also: rdma_resolve_addr(), rdma_connect(),
 * rdma_get_cm_event().
 */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/**
 * Gets the local port of an id.
 *
 * *id*: any id.
 * Returns the port in network byte order; 0 if the id is not bound to a port or *id* is NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_src_port(3). See also: rdma_bind_addr(),
 * rdma_get_local_addr().
 */
__be16 rdma_get_src_port(struct rdma_cm_id *id);

/**
 * Gets the port of the peer of an id.
 *
 * *id*: any id.
 * Returns the port in network byte order; 0 if the id has no peer or *id* is NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_dst_port(3). See also: rdma_get_peer_addr().
 */
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/**
 * Gets the local address of an id.
 *
 * *id*: any id.
 * Returns a pointer to the address in the id. It is all zero, with sa_family 0, if the id is not
 * bound.
 * Threads: any. Does not block.
 * Inline. Source: rdma_get_local_addr(3). See also: rdma_get_src_port(), rdma_get_peer_addr().
 */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

/**
 * Gets the address of the peer of an id.
 *
 * *id*: any id.
 * Returns a pointer to the address in the id. It is all zero, with sa_family 0, if the id has no
 * peer.
 * Threads: any. Does not block.
 * Inline. Source: rdma_get_peer_addr(3). See also: rdma_get_dst_port(), rdma_get_local_addr().
 */
static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/**
 * Opens all RDMA devices and returns their contexts.
 *
 * *num_devices*: set to the number of devices; may be NULL.
 * Returns a NULL-terminated array, which the caller passes to rdma_free_devices(), or NULL with
 * errno. The contexts are those of rdma_cm_id.verbs. They are shared and remain open; the caller
 * must not close them.
 * Errors: ENODEV: no daemon runs and none can be started; otherwise those of ibv_get_device_list().
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_devices(3). See also: rdma_free_devices(),
 * ibv_get_device_list().
 */
struct ibv_context **rdma_get_devices(int *num_devices);

/**
 * Frees the array of rdma_get_devices(). The devices remain open.
 *
 * *list*: the array, or NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_get_devices(3). See also: rdma_get_devices().
 */
void rdma_free_devices(struct ibv_context **list);

/**
 * Resolves a node and a service to RDMA addresses. It is the counterpart of getaddrinfo(3): the
 * result has what is needed to connect or to listen.
 *
 * *node*: host name or numeric IPv4 or IPv6 address of the peer; with RAI_PASSIVE of the local
 * side. May be NULL.
 * *service*: port number or service name. May be NULL. At least one of *node*, *service* and
 * *hints* is required.
 * *hints*: flags, family, QP type, port space and addresses to start from. NULL: an RC QP in
 * RDMA_PS_TCP.
 * *res*: set to the result, which the caller passes to rdma_freeaddrinfo(). Unchanged on failure.
 * Types: struct rdma_addrinfo.
 * Returns 0, -1 with errno, or an EAI_ value of getaddrinfo(3), for gai_strerror(3). With an EAI_
 * value errno is set too: ENOMEM, EAGAIN, EINVAL for EAI_BADFLAGS and EAI_SOCKTYPE, EAFNOSUPPORT
 * for EAI_FAMILY, otherwise ENOENT.
 * Errors: EINVAL: *node*, *service* and *hints* are all NULL, or flags are unknown; EAI_SYSTEM:
 * RAI_SA is set; errno is EOPNOTSUPP; EAI_FAMILY: other family than IPv4 and IPv6; EAI_SOCKTYPE:
 * the QP type does not fit the port space; EAI_SERVICE: unknown service; EAI_NONAME: unknown host;
 * EAI_AGAIN, EAI_FAIL, EAI_MEMORY: reported by the name service. Other values are as with
 * getaddrinfo(3).
 * Threads: any. Blocks for the name service, unless RAI_NUMERICHOST is set.
 * State: ai_route and ai_connect of the result are NULL, because RoCE needs no routing data.
 * Notes: other manuals require *node* or *service*, and describe every failure as -1. This call
 * does as librdmacm of rdma-core: hints alone are accepted, also without an address, and a failed
 * look-up is an EAI_ value. A portable program therefore checks for any value but 0. EAI_BADFLAGS
 * is -1 too, so gai_strerror(3) describes each failure with errno as "Bad value for ai_flags";
 * print errno if the result is -1. This call needs no device; on other systems it fails with -1 and
 * ENODEV if the host has none.
 * Since RDMACM_1.0. Source: rdma_getaddrinfo(3). See also: rdma_create_ep(),
 * rdma_resolve_addrinfo(), rdma_freeaddrinfo().
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);

/**
 * Frees a list of address information, including all entries that ai_next links.
 *
 * *res*: the result of rdma_getaddrinfo() or rdma_query_addrinfo(); NULL is allowed.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rdma_getaddrinfo(3). See also: rdma_getaddrinfo().
 */
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/**
 * Starts the resolution of a node and a service to addresses, and reports the end as an event of an
 * id.
 *
 * *id*: an id that has no such resolution in progress.
 * *node*, *service*, *hints*: as in rdma_getaddrinfo().
 * Returns 0, or -1 with errno. Sync: ADDRINFO_RESOLVED.
 * Errors: EBUSY: a resolution is in progress; EINVAL: *node*, *service* and *hints* are all NULL;
 * EOPNOTSUPP: RAI_SA is set.
 * Threads: any. Blocks for the name service, unless RAI_NUMERICHOST is set.
 * State: the id keeps the result for rdma_query_addrinfo(). A preceding result that was not
 * retrieved is freed.
 * Events: RDMA_CM_EVENT_ADDRINFO_RESOLVED or RDMA_CM_EVENT_ADDRINFO_ERROR.
 * Since RDMACM_1.4. Source: rdma_resolve_addrinfo(3). See also: rdma_query_addrinfo().
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);

/**
 * Retrieves the result of rdma_resolve_addrinfo(). A result can be retrieved once.
 *
 * *id*: the id of rdma_resolve_addrinfo().
 * *info*: set to the list, which the caller passes to rdma_freeaddrinfo().
 * Returns 0, or -1 with errno.
 * Errors: ENOENT: the id has no result, or the result was retrieved already.
 * Threads: any. Does not block.
 * Since RDMACM_1.4. Source: rdma_query_addrinfo(3). See also: rdma_resolve_addrinfo(),
 * rdma_freeaddrinfo(), struct rdma_addrinfo.
 */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* ---- Queue pairs ---- */

/**
 * Allocates a queue pair for an id, and CQs for those that the caller does not supply.
 *
 * *id*: an id that is bound to a device and has no QP.
 * *pd*: a PD of id->verbs. NULL: the default PD, which all ids on the device share.
 * *qp_init_attr*: attributes as in ibv_create_qp(). The actual capabilities are written back. A
 * NULL send_cq or recv_cq means that of the id. If the id has none, the call creates a completion
 * channel and a CQ, with cq_context set to the id and with the size of the queue. A NULL srq means
 * id->srq. An XRC receive QP has neither queue, and belongs to the XRC domain of the device.
 * Types: struct ibv_qp_init_attr, struct ibv_qp_cap.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP or no device, the PD belongs to another context, a CQ differs
 * from that of the id, or attributes exceed the limits of the device; else as ibv_create_qp() and
 * ibv_create_cq().
 * Threads: any. Does not block.
 * State: id->qp, id->pd and the CQs are set. An RC, UC or XRC QP is in INIT: receives may be
 * posted, and the connection calls and events move the QP to its further states. A UD QP is in RTS
 * with the Q_Key RDMA_UDP_QKEY: receives and sends may be posted.
 * Since RDMACM_1.0. Source: rdma_create_qp(3). See also: rdma_bind_addr(), rdma_resolve_addr(),
 * rdma_destroy_qp(), rdma_create_srq(), ibv_create_qp(), ibv_modify_qp().
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/**
 * Allocates a queue pair for an id with extended attributes, otherwise as rdma_create_qp().
 *
 * *id*: an id that is bound to a device and has no QP.
 * *qp_init_attr*: attributes as in ibv_create_qp_ex(). The PD is optional. NULL CQs and SRQs are
 * treated as in rdma_create_qp().
 * Returns, errors, threads, state: as rdma_create_qp(); errors also of ibv_create_qp_ex().
 * Since RDMACM_1.0. Source: rdma_create_qp(3). See also: rdma_create_qp(), ibv_create_qp_ex().
 */
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/**
 * Destroys the queue pair of an id, and the CQs that rdma_create_qp() created for it.
 *
 * *id*: any id. If it is NULL or has no QP, the call has no effect.
 * Threads: any. No other thread may use the QP or those CQs during the call. Another thread may
 * retrieve events of the id at the same time: an event that moves the QP either finds the QP or
 * leaves it unchanged. Blocks until the events of the QP and the CQs are acknowledged.
 * State: id->qp is NULL. If ibv_destroy_qp() fails with EBUSY, the failure is logged, the id keeps
 * the QP, and a later call can destroy it. CQs of the application remain. The QP leaves the groups
 * that it joined by rdma_join_multicast(); the memberships of the id remain.
 * Notes: call it before rdma_destroy_id().
 * Since RDMACM_1.0. Source: rdma_create_qp(3). See also: rdma_create_qp(), rdma_destroy_id(),
 * ibv_destroy_qp().
 */
void rdma_destroy_qp(struct rdma_cm_id *id);

/**
 * Computes the attributes for the next state transition of a QP that the application created
 * itself.
 *
 * *id*: an id that is bound to a device. For RTR and RTS it must have a connection request or
 * response, unless it is a datagram id.
 * *qp_attr*: the caller sets qp_state to IBV_QPS_INIT, IBV_QPS_RTR or IBV_QPS_RTS. The call fills
 * in the other members.
 * *qp_attr_mask*: set to the mask for ibv_modify_qp().
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has no device, qp_state has another value, or the peer is not known yet.
 * Threads: any. Does not block.
 * State: qp_access_flags permits READ, atomic operations and FLUSH only if the connection has
 * responder resources. min_rnr_timer is 0 (655 ms).
 * Since RDMACM_1.2. Source: rdma_init_qp_attr(3). See also: rdma_establish(), ibv_modify_qp(),
 * struct ibv_qp_attr.
 */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/* ---- Connections ---- */

/**
 * Initiates a connection. Of a datagram id, queries the QP of the datagram service.
 *
 * *id*: an id whose route is resolved, by rdma_resolve_route(), rdma_create_ep() or
 * RDMA_OPTION_IB_PATH.
 * *conn_param*: parameters of the connection. Of a datagram id only the private data is used. NULL
 * is permitted if the id has a QP or its port space is not RDMA_PS_TCP: the maxima of the device
 * for responder_resources and initiator_depth, retry_count 7, rnr_retry_count 7 and no private
 * data.
 * Types: struct rdma_conn_param.
 * Returns 0, or -1 with errno. Sync: ESTABLISHED; if the id has no QP, CONNECT_RESPONSE.
 * Errors: EINVAL: the route is not resolved, *conn_param* is NULL and not permitted to be,
 * responder_resources or initiator_depth exceed the limits of the device (RDMA_PS_TCP), the private
 * data is too long, or the id is already connecting; EPERM: qp_num is not a QP of this user.
 * Threads: any. Does not block on an asynchronous id. If a signal interrupts the wait on a
 * synchronous id, the call fails with errno EINTR, and a repeated call continues the wait. The same
 * holds for rdma_accept(), rdma_disconnect() and the resolving calls.
 * State: after RDMA_CM_EVENT_ESTABLISHED the QP of the id is in RTS. Its minimum RNR NAK timer is
 * 655 ms (code 0). Its local ACK timeout is that of RDMA_OPTION_ID_ACK_TIMEOUT, or is derived from
 * the packet lifetime of the path: 4.096 us * 2^(lifetime + 1), by default 537 ms.
 * Events: if the id has a QP, RDMA_CM_EVENT_ESTABLISHED. If the id has no QP,
 * RDMA_CM_EVENT_CONNECT_RESPONSE. On failure RDMA_CM_EVENT_REJECTED (status 8 at once if no id
 * listens at the port), RDMA_CM_EVENT_UNREACHABLE (within USRDMA_CM_TIMEOUT seconds) or
 * RDMA_CM_EVENT_CONNECT_ERROR. Of a datagram id RDMA_CM_EVENT_ESTABLISHED, whose param.ud holds
 * what is needed to send, or RDMA_CM_EVENT_UNREACHABLE.
 * Notes: private data is limited to 56 bytes in RDMA_PS_TCP and to 180 bytes in RDMA_PS_UDP.
 * responder_resources must not exceed max_qp_rd_atom of the local device; a value above
 * max_qp_init_rd_atom of the peer is of no use. The peer may reduce both depths when it accepts.
 * Retry counts have 3 bits in the messages.
 *
 * An iWARP device needs the side that connects to send the first message. usrdma has no such rule:
 * either side may send first. Portable applications should follow the rule.
 * Example:
 *
 *	struct rdma_conn_param param = {
 *		.responder_resources = 1,
 *		.initiator_depth = 1,
 *		.retry_count = 7,
 *		.rnr_retry_count = 7,
 *		.private_data = "hello",
 *		.private_data_len = 5,
 *	};
 *
 *	if (rdma_connect(id, &param))
 *		perror("rdma_connect");
 *
 * Since RDMACM_1.0. Source: rdma_connect(3), IBA 1.x §12.9. See also: rdma_create_id(),
 * rdma_resolve_route(), rdma_accept(), rdma_disconnect(), rdma_listen(), rdma_get_cm_event(),
 * rdma_establish().
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/**
 * Completes a connection on the active side if the application moves the QP itself.
 *
 * *id*: an id without a QP of rdma_create_qp(), after RDMA_CM_EVENT_CONNECT_RESPONSE.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP, or has no response to confirm.
 * Threads: any. Does not block.
 * State: the application moves the QP to RTS before this call. The peer reports
 * RDMA_CM_EVENT_ESTABLISHED. This side reports no further event.
 * Since RDMACM_1.2. Source: rdma_establish(3). See also: rdma_connect(), rdma_init_qp_attr(),
 * ibv_modify_qp().
 */
int rdma_establish(struct rdma_cm_id *id);

/**
 * Starts to listen for connection requests and datagram service lookups. The id receives those for
 * the address to which it is bound.
 *
 * *id*: an id that rdma_bind_addr() has bound. If the id is not bound, the library selects a port
 * on all devices.
 * *backlog*: maximum number of requests that wait for rdma_accept() or rdma_reject(). 0 or less:
 * 1024. Requests beyond it are not answered; their senders retransmit them.
 * Returns 0, or -1 with errno.
 * Errors: EADDRINUSE: another id listens at the address; EINVAL: the id is connecting, or listens
 * already.
 * Threads: any. Does not block. Unlike accept(2), the id of a new connection is reported by an
 * event.
 * State: an id that is bound to a specific address listens at that address and its device. An id
 * that is bound to the wildcard address listens on all devices, including those that appear later.
 * Events: RDMA_CM_EVENT_CONNECT_REQUEST for each request. Its new id has the channel and the
 * context of the listening id, and is bound to the device on which the request arrived.
 * Since RDMACM_1.0. Source: rdma_listen(3). See also: rdma_bind_addr(), rdma_get_cm_event(),
 * rdma_get_request(), rdma_accept(), rdma_reject().
 */
int rdma_listen(struct rdma_cm_id *id, int backlog);

/**
 * Retrieves the next connection request of a synchronous listening id.
 *
 * *listen*: a synchronous id that listens.
 * *id*: set to the new id, which is synchronous and belongs to the caller. Its event is the
 * request, valid until rdma_accept(), rdma_reject() or another call on the id. If the listening id
 * was created by rdma_create_ep() with QP attributes, the new id has a QP.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: *listen* is not synchronous, or does not listen; EAGAIN, EINTR as
 * rdma_get_cm_event(); as rdma_create_qp(); the request is then rejected.
 * Threads: any. Blocks until a request arrives.
 * Since RDMACM_1.0. Source: rdma_get_request(3). See also: rdma_create_ep(), rdma_listen(),
 * rdma_accept(), rdma_reject(), rdma_get_cm_event().
 */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);

/**
 * Accepts a connection request or a datagram service lookup.
 *
 * *id*: the new id of RDMA_CM_EVENT_CONNECT_REQUEST or of rdma_get_request(). Unlike in accept(2),
 * it is not the listening id.
 * *conn_param*: parameters of the connection. The param.conn of the request event may be passed,
 * before the acknowledgement of the event. Values of responder_resources and initiator_depth above
 * those of the request are reduced to them, so that both QPs have the same limits. retry_count is
 * ignored. Private data: at most 196 bytes, of a datagram id 136. Of a datagram id only the private
 * data is used, and qp_num if the id has no QP. NULL is permitted if the id has a QP: the values of
 * the request within the limits of the device, rnr_retry_count 7 and no private data.
 * Types: struct rdma_conn_param.
 * Returns 0, or -1 with errno. Sync: ESTABLISHED; on a datagram id the call does not wait.
 * Errors: EINVAL: the id has no request, *conn_param* is NULL and the id has no QP,
 * responder_resources or initiator_depth exceed the limits of the device (RDMA_PS_TCP), or the
 * private data is too long; EPERM: qp_num is not a QP of this user; as ibv_modify_qp().
 * Threads: any. Does not block on an asynchronous id.
 * State: the QP of the id is in RTS before the REP is sent; its RNR NAK timer and ACK timeout are
 * as with rdma_connect(). If responder_resources, initiator_depth or a NULL *conn_param* is
 * refused, the QP is unchanged, and the request may still be accepted or rejected. If the QP cannot
 * be moved, the QP is in ERR, and the request may still be rejected. If the private data is too
 * long or qp_num is refused, the QP is in ERR and the request is rejected, as with Linux: the peer
 * reports RDMA_CM_EVENT_REJECTED with status 28, of a datagram id RDMA_CM_EVENT_UNREACHABLE with
 * status 2, and a further rdma_accept() or rdma_reject() fails with EINVAL. If the peer gave up
 * before the call, the QP is in ERR.
 * Events: RDMA_CM_EVENT_ESTABLISHED when the peer confirms, otherwise RDMA_CM_EVENT_CONNECT_ERROR,
 * RDMA_CM_EVENT_REJECTED or RDMA_CM_EVENT_UNREACHABLE. Of a datagram id no event.
 * Notes: post receives before this call. The peer may send as soon as it has the REP, and a message
 * that finds no receive WR is delayed by RNR retries.
 * Since RDMACM_1.0. Source: rdma_accept(3), IBA 1.x §12.9. See also: rdma_listen(), rdma_connect(),
 * rdma_reject(), rdma_get_cm_event(), rdma_create_qp().
 */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/**
 * Rejects a connection request or a datagram service lookup; on the active side a response.
 *
 * *id*: the new id of RDMA_CM_EVENT_CONNECT_REQUEST, or on the active side an id after
 * RDMA_CM_EVENT_CONNECT_RESPONSE. The caller must still destroy the id.
 * *private_data*: data for the peer. NULL: no private data.
 * *private_data_len*: number of bytes at *private_data*, at most 148, of a datagram id 136; ignored
 * if *private_data* is NULL.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has no request or response, or it was accepted or rejected already, or the
 * private data is too long.
 * Threads: any. Does not block.
 * Events: the peer reports RDMA_CM_EVENT_REJECTED with status 28 and the private data. A datagram
 * id of the peer reports RDMA_CM_EVENT_UNREACHABLE with status 2.
 * Since RDMACM_1.0. Source: rdma_reject(3), IBA 1.x §12.6.7. See also: rdma_listen(),
 * rdma_accept(), rdma_get_cm_event(), rdma_reject_ece().
 */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/**
 * Rejects a request or a response because the ECE vendor options of the peer are not acceptable.
 *
 * *id*, *private_data*, *private_data_len*: as in rdma_reject().
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has no request or response, or the private data is too long.
 * Threads: any. Does not block.
 * Events: as rdma_reject(), but RDMA_CM_EVENT_REJECTED of the peer has status 35 (vendor option not
 * supported).
 * Since RDMACM_1.3. Source: rdma_get_remote_ece(3). See also: rdma_reject(), rdma_get_remote_ece().
 */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/**
 * Reports an asynchronous event of a QP to the connection manager.
 *
 * *id*: passive side, after rdma_accept().
 * *event*: IBV_EVENT_COMM_EST.
 * Returns 0, or -1 with errno.
 * Errors: EISCONN: the connection is established already; this is harmless; EINVAL: other event, or
 * no connection is being established.
 * Threads: any. Does not block.
 * Events: RDMA_CM_EVENT_ESTABLISHED, as if the RTU of the peer had arrived.
 * Notes: a message can arrive on the QP before the RTU. The device then reports IBV_EVENT_COMM_EST
 * by ibv_get_async_event(). Most applications need not call rdma_notify(), because the peer
 * retransmits a lost RTU.
 * Since RDMACM_1.0. Source: rdma_notify(3), IBA 1.x §12.9. See also: rdma_accept(),
 * ibv_get_async_event().
 */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/**
 * Ends a connection and moves the QP of the id to ERR.
 *
 * *id*: an id with a connection, on either side. The call only moves the QP to ERR if the id is a
 * datagram id, is connecting, has a request that was not accepted, or has a connection that failed
 * or has ended.
 * Returns 0, or -1 with errno. Sync: DISCONNECTED, or TIMEWAIT_EXIT if DISCONNECTED was received
 * before; if the call only moves the QP to ERR, it does not wait.
 * Errors: EINVAL: the id has neither requested a connection nor been requested, or its device was
 * removed; as ibv_modify_qp().
 * Threads: any. Does not block on an asynchronous id.
 * State: the QP is in ERR before the disconnect request is sent, and also if the call fails with
 * EINVAL because of the id's state. Outstanding WRs complete with IBV_WC_WR_FLUSH_ERR. If the id is
 * connecting and the peer accepts, RDMA_CM_EVENT_CONNECT_ERROR is reported, because the QP is in
 * ERR.
 * Events: RDMA_CM_EVENT_DISCONNECTED on both sides, then RDMA_CM_EVENT_TIMEWAIT_EXIT. The side that
 * calls first gets DISCONNECTED when the peer has called rdma_disconnect() or rdma_destroy_id()
 * too, or has ended; with status -ETIMEDOUT if this does not happen within the CM timeout.
 * Notes: the QP of the peer keeps its state, as on Linux. The peer moves it to ERR by its own call,
 * after RDMA_CM_EVENT_DISCONNECTED.
 * Since RDMACM_1.0. Source: rdma_disconnect(3), IBA 1.x §12.9. See also: rdma_connect(),
 * rdma_listen(), rdma_accept(), rdma_get_cm_event().
 */
int rdma_disconnect(struct rdma_cm_id *id);

/**
 * Adds an event of the application to the channel of an id.
 *
 * *id*: any id.
 * *event*: RDMA_CM_EVENT_USER.
 * *status*: any value; it becomes the status of the event.
 * *arg*: any value; it becomes param.arg of the event.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: other event.
 * Threads: any. Does not block.
 * Events: RDMA_CM_EVENT_USER, after the events that are pending already.
 * Since RDMACM_1.4. Source: rdma_write_cm_event(3). See also: rdma_get_cm_event().
 */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* ---- Endpoints ---- */

/**
 * Allocates a synchronous id from address information. The id is ready to connect or to listen.
 *
 * *id*: set to the new id, which the caller passes to rdma_destroy_ep().
 * *res*: the result of rdma_getaddrinfo(). It may be freed after the call.
 * *pd*: the PD for the QP. NULL: the default PD of the device.
 * *qp_init_attr*: attributes of the QP. NULL: the id has no QP. The qp_type of *res* is written
 * back.
 * Types: struct rdma_addrinfo.
 * Returns 0, or -1 with errno.
 * Errors: as rdma_create_id(), rdma_bind_addr(), rdma_resolve_addr(), rdma_resolve_route() and
 * rdma_create_qp().
 * Threads: any. Blocks until address and route are resolved, at most 2 seconds each.
 * State: without RAI_PASSIVE in ai_flags the route is resolved and the QP, if requested, exists.
 * Next: rdma_connect(). With RAI_PASSIVE the id is bound, and keeps *pd* and *qp_init_attr* for the
 * ids of rdma_get_request(). Next: rdma_listen().
 * Notes: rdma_migrate_id() makes the id asynchronous.
 * Example: a client.
 *
 *	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
 *	struct ibv_qp_init_attr attr = {
 *		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
 *		.sq_sig_all = 1,
 *	};
 *	struct rdma_cm_id *id;
 *
 *	if (rdma_getaddrinfo("server", "7471", &hints, &info))
 *		return -1;
 *	if (rdma_create_ep(&id, info, NULL, &attr) || rdma_connect(id, NULL))
 *		return -1;
 *
 * Since RDMACM_1.0. Source: rdma_create_ep(3). See also: rdma_getaddrinfo(), rdma_connect(),
 * rdma_listen(), rdma_get_request(), rdma_migrate_id(), rdma_destroy_ep().
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);

/**
 * Destroys an id with its QP, its SRQ and the CQs that were created for them.
 *
 * *id*: an id of rdma_create_ep() or rdma_get_request(); NULL is allowed.
 * Threads, state: as rdma_destroy_qp() and rdma_destroy_id().
 * Since RDMACM_1.0. Source: rdma_create_ep(3). See also: rdma_create_ep(), rdma_get_request().
 */
void rdma_destroy_ep(struct rdma_cm_id *id);

/* ---- Multicast ---- */

/**
 * Joins a multicast group and attaches the QP of the id to the group.
 *
 * *id*: a datagram id (RDMA_PS_UDP, RDMA_PS_IPOIB) that is bound to a device by rdma_bind_addr()
 * with a specific address or by rdma_resolve_addr(). A group address resolves by the address to
 * which the id is bound, otherwise by the routing table of the host.
 * *addr*: the group, of the address family of the id: in 224.0.0.0/4 or ff00::/8, or its GID as a
 * struct sockaddr_ib. The port is ignored.
 * *context*: any value; events of this membership report it in param.ud.private_data.
 * Returns 0 when the join has started, on a synchronous id when it has succeeded; -1 with errno.
 * Errors: EINVAL: the id is not a datagram id, is not bound to a device, has its route resolved or
 * has lost its device, or *addr* is of another family or is not a group; EDQUOT: the id has 1024
 * memberships; ENOMEM: no memory; ENODEV: the daemon has ended. On a synchronous id also the errors
 * that the status of the event reports.
 * Threads: any. Blocks until the outcome is known on a synchronous id.
 * State: the membership lasts until rdma_leave_multicast() or the destruction of the id. Two joins
 * of one group make two memberships. The host joins the group by IGMP or MLD on the interface of
 * the id while a QP is attached.
 * Events: RDMA_CM_EVENT_MULTICAST_JOIN, whose param.ud holds ah_attr, qp_num (0xffffff) and qkey
 * for sends to the group. When this event is retrieved, the QP of the id is attached as by
 * ibv_attach_mcast(), and receives from the group. It also receives its own messages, unless it was
 * created with IBV_QP_CREATE_BLOCK_SELF_MCAST_LB. On failure RDMA_CM_EVENT_MULTICAST_ERROR with a
 * negative status: -ENETDOWN if the interface is down, otherwise an errno of ibv_attach_mcast().
 * RDMA_CM_EVENT_MULTICAST_ERROR with -ENETDOWN is also reported when the interface goes down later.
 * Since RDMACM_1.0. Source: rdma_join_multicast(3), IBA 1.x §10.5. See also:
 * rdma_join_multicast_ex(), rdma_leave_multicast(), rdma_bind_addr(), rdma_resolve_addr(),
 * rdma_create_qp(), rdma_get_cm_event(), ibv_attach_mcast(), struct rdma_ud_param.
 */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);

/**
 * Joins a multicast group, as a full member or for sending only.
 *
 * *id*, *context*: as in rdma_join_multicast().
 * *mc_join_attr*: the group and the kind of membership. With RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
 * no QP is attached.
 * Types: struct rdma_cm_join_mc_attr_ex.
 * Returns 0, or -1 with errno, as rdma_join_multicast().
 * Errors: as of rdma_join_multicast(); ENOTSUP: unknown bits in comp_mask; EINVAL: a bit of
 * comp_mask is missing, join_flags is unknown, or as rdma_join_multicast().
 * Threads: any. Blocks until the outcome is known on a synchronous id.
 * Since RDMACM_1.1. Source: rdma_join_multicast_ex(3). See also: rdma_join_multicast(),
 * rdma_leave_multicast().
 */
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/**
 * Leaves a multicast group and detaches the QP of the id from it.
 *
 * *id*: the id that joined the group.
 * *addr*: the address that was passed to the join. If several memberships have this address, the
 * newest one ends.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: unknown address family; EADDRNOTAVAIL: the id has no such membership; ENODEV: the
 * daemon has ended.
 * Threads: any. Blocks until retrieved events of the membership are acknowledged.
 * State: a join in progress is cancelled, and its event is not reported. Messages of the group that
 * were received before the call may still complete after it. The destruction of an id ends all of
 * its memberships.
 * Since RDMACM_1.0. Source: rdma_leave_multicast(3). See also: rdma_join_multicast(),
 * rdma_destroy_qp(), rdma_ack_cm_event().
 */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/* ---- Enhanced connection establishment ---- */

/**
 * Sets the ECE vendor options that the next REQ or REP of an id transmits to the peer. They
 * describe QPs that the application creates and moves itself. QPs of usrdma have no vendor options.
 *
 * *id*: an id without a QP of rdma_create_qp(), before rdma_connect() or rdma_accept().
 * *ece*: comp_mask is 0. vendor_id is not 0; its lower 24 bits are transmitted.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP, vendor_id is 0, or comp_mask has bits set.
 * Threads: any. Does not block.
 * State: the options remain until the next call. They are not transmitted while the id has a QP,
 * nor by datagram ids.
 * Since RDMACM_1.3. Source: rdma_set_local_ece(3). See also: rdma_get_remote_ece(), ibv_set_ece(),
 * struct ibv_ece.
 */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/**
 * Gets the ECE vendor options of the REQ or REP of the peer.
 *
 * *id*: an id without a QP of rdma_create_qp(), after RDMA_CM_EVENT_CONNECT_REQUEST or
 * RDMA_CM_EVENT_CONNECT_RESPONSE.
 * *ece*: filled in. vendor_id is 0 if the message has no vendor options.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has a QP.
 * Threads: any. Does not block.
 * Since RDMACM_1.3. Source: rdma_get_remote_ece(3). See also: rdma_set_local_ece(),
 * rdma_reject_ece(), ibv_query_ece().
 */
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_CMA_H */
