/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_MSG_FAILURE_H
#define USRDMA_IPC_MSG_FAILURE_H

#include "ipc/msg.h"

/*
 * Failures: what a process, or the daemon for a process, reports about an operation that failed.
 * The daemon stores the last of them, also after the process has ended, and `usrdma why` explains
 * them. The rules of ipc/msg.h apply.
 */
enum ipc_failure_kind {
	IPC_FAILURE_WR = 1,  /* a work request completed with an error of its own */
	IPC_FAILURE_QP,	     /* a QP entered ERR or SQE; its other WRs were flushed */
	IPC_FAILURE_EVENT,   /* an asynchronous event of a CQ, an SRQ, a port or the device */
	IPC_FAILURE_CM,	     /* a connection attempt or a connection failed */
	IPC_FAILURE_CALL,    /* a call of the application returned an error */
	IPC_FAILURE_DROP,    /* a received packet was dropped that a QP will miss */
	IPC_FAILURE_WARNING, /* no failure yet: enum ipc_failure_reason has the cause */
	IPC_FAILURE_KIND_COUNT
};

enum ipc_failure_flags {
	IPC_FAILURE_NOTE =
		1 << 0, /* the application or its peer asked for it, as in a normal shutdown */
	IPC_FAILURE_HAS_REGION = 1 << 1, /* the region_* fields are valid */
	IPC_FAILURE_HAS_REMOTE = 1 << 2, /* remote_addr, rkey and length are valid */
	IPC_FAILURE_HAS_LOCAL =
		1 << 3, /* local_addr, local_length and lkey are those of the invalid SGE */
	IPC_FAILURE_IS_RECV = 1 << 4, /* the WR is a receive */
	/* a request of the peer was refused: remote_addr, rkey and length are its */
	IPC_FAILURE_IS_RESPONDER = 1 << 5,
	IPC_FAILURE_SAME_HOST = 1 << 6, /* the peer is a process of this host */
	IPC_FAILURE_UPDATES =
		1 << 7, /* replaces the failure of this process with this id, if it is stored */
	IPC_FAILURE_IS_OF_CM = 1 << 10, /* librdmacm has set the attributes of the QP */
	IPC_FAILURE_IS_OWN = 1 << 9,	/* IPC_FAILURE_DROP: the sender reports it */
	/* the region is a memory window; numbers: QPN of a type 2 window, 0: none */
	IPC_FAILURE_IS_WINDOW = 1 << 8,
};

/*
 * The cause of a QP that entered ERR, of a call, of a dropped packet or of a warning. The values
 * are not reused.
 */
enum ipc_failure_reason {
	IPC_REASON_NONE,
	/* IPC_FAILURE_QP */
	IPC_REASON_QP_WR,	/* the WR of `follows` failed */
	IPC_REASON_QP_MODIFIED, /* the process called ibv_modify_qp() or rdma_disconnect() */
	IPC_REASON_QP_REFUSED,	/* a request of the peer failed the checks: vendor_err */
	/* a completion was lost because the CQ was full; numbers: its entries */
	IPC_REASON_QP_CQ_OVERRUN,
	IPC_REASON_QP_POSTED_IN_ERR, /* WRs were posted to a QP that was in ERR */
	/*
	 * IPC_FAILURE_CM, and IPC_FAILURE_WARNING while the process waits: numbers: messages sent,
	 * ns since the first one
	 */
	IPC_REASON_CM_NO_REP, /* a REQ had no response */
	IPC_REASON_CM_NO_RTU, /* a REP had no response */
	IPC_REASON_CM_NO_DREP,
	IPC_REASON_CM_DREQ, /* the peer disconnected */
	/* IPC_FAILURE_CALL of librdmacm */
	IPC_REASON_CM_STATE,	    /* not valid in the id's state */
	IPC_REASON_CM_PRIVATE_DATA, /* numbers: length, maximum */
	IPC_REASON_CM_FAMILY,	    /* numbers: address family of the source, of the destination */
	/*
	 * IPC_FAILURE_CALL of libibverbs; numbers: the value of the argument, and its maximum
	 * unless stated otherwise
	 */
	IPC_REASON_TRANSITION,	 /* state, next state */
	IPC_REASON_ATTR_MISSING, /* enum ibv_qp_attr_mask, next state */
	IPC_REASON_ATTR_SURPLUS, /* enum ibv_qp_attr_mask, next state */
	IPC_REASON_CUR_STATE,	 /* cur_qp_state, state */
	IPC_REASON_MTU,		 /* enum ibv_mtu: path_mtu, active_mtu */
	IPC_REASON_DEST_QPN,
	IPC_REASON_PORT,
	IPC_REASON_NO_GRH,
	IPC_REASON_SGID_INDEX,
	IPC_REASON_GID_FAMILY, /* whether the source GID is IPv4, its index */
	IPC_REASON_TIMEOUT,
	IPC_REASON_RETRY_CNT,
	IPC_REASON_RNR_RETRY,
	IPC_REASON_RNR_TIMER,
	IPC_REASON_RD_ATOMIC,
	IPC_REASON_POST_STATE,	/* state, first valid state */
	IPC_REASON_POST_OPCODE, /* opcode, QP type */
	IPC_REASON_POST_SGES,
	IPC_REASON_POST_INLINE,
	IPC_REASON_POST_FULL, /* number of WRs in the queue */
	IPC_REASON_POST_SRQ,  /* ibv_post_recv() for a QP with an SRQ */
	IPC_REASON_MR_ACCESS, /* access flags: remote write or atomic without local write */
	IPC_REASON_MR_ACCESS_UNSUPPORTED, /* access flags */
	IPC_REASON_MR_UNMAPPED,		  /* address, length */
	IPC_REASON_CAP_WR,
	IPC_REASON_CAP_SGE,
	IPC_REASON_CAP_INLINE,
	IPC_REASON_QP_TYPE, /* QP type */
	/* IPC_FAILURE_WARNING */
	IPC_REASON_RNR_WAIT, /* RNR NAKs, the total wait in ns */
	IPC_REASON_UNACKED,  /* events; the call waits for their acknowledgement */
	/*
	 * IPC_FAILURE_DROP of a datagram; peer_qpn is the sender's; numbers: the value of the
	 * datagram, that of the QP
	 */
	IPC_REASON_DROP_STATE,
	IPC_REASON_DROP_QKEY,
	IPC_REASON_DROP_NO_RECV,
	IPC_REASON_DROP_TOO_LONG,
	/* IPC_FAILURE_DROP of a packet or message of a connected QP */
	IPC_REASON_DROP_SEQUENCE, /* its PSN, the expected PSN */
	IPC_REASON_DROP_SIZE,	  /* bytes of its payload, the path MTU */
	IPC_REASON_DROP_ACCESS,	  /* vendor_err */
	IPC_REASON_DROP_PKEY,
	IPC_REASON_DROP_ICRC,
	IPC_REASON_DROP_ADDRESS,     /* peer_gid is the sender's */
	IPC_REASON_DROP_NO_PEER,     /* reported by the sender */
	IPC_REASON_DROP_UNKNOWN_QPN, /* qpn does not exist; peer_gid is the sender's */
	/* IPC_FAILURE_WR without a response from a process of this host */
	IPC_REASON_PEER_UNKNOWN_QPN,
	IPC_REASON_PEER_STATE, /* the state of the peer's QP */
	/* IPC_FAILURE_CALL of libibverbs */
	IPC_REASON_BUSY,     /* number of objects that use the object */
	IPC_REASON_SEND_OPS, /* send_ops_flags of the QP */
	IPC_REASON_CAP_CQE,
	IPC_REASON_CAP_SRQ_WR,
	IPC_REASON_CAP_SRQ_SGE,
	/* IPC_FAILURE_QP: bytes of payload of the peer's packet, path_mtu in bytes */
	IPC_REASON_QP_SIZE,
	/* IPC_FAILURE_WARNING */
	/* completions, entries, WRs of the queues that use it, number of QPs */
	IPC_REASON_CQ_SMALL,
	IPC_REASON_PATH_MTU,	  /* bytes, those of the peer */
	IPC_REASON_UNACKED_ASYNC, /* events */
	/*
	 * IPC_FAILURE_CALL of libibverbs: no route, or no reply of the next hop; local_ip and
	 * remote_ip are the GIDs
	 */
	IPC_REASON_UNREACHABLE,
	/* IPC_FAILURE_CM: another program or the kernel has the UDP port of RoCEv2 */
	IPC_REASON_CM_NO_PORT,
	/*
	 * IPC_FAILURE_EVENT: the daemon, which was in another PID namespace, ended; numbers: its
	 * process id, 0: unknown here
	 */
	IPC_REASON_DAEMON_ENDED,
	IPC_REASON_COUNT
};

/*
 * FAILURE (verbs, cm): reports a failure; the daemon sends no reply. In a reply of FAILURE_GET,
 * hdr.seq is the daemon's number of the failure. Strings are NUL-terminated unless they fill their
 * array. Fields that do not apply are 0.
 */
struct ipc_failure {
	struct ipc_hdr hdr;
	uint64_t id; /* chosen by the process, in increasing order; 0: reported by the daemon */
	/* id of the failure of the same process that this one follows from; 0: none */
	uint64_t follows;
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint32_t kind;	  /* enum ipc_failure_kind */
	uint32_t flags;	  /* enum ipc_failure_flags */
	uint32_t reason;  /* enum ipc_failure_reason */
	uint32_t uid;	  /* of the process; set by the daemon */
	int32_t pid;	  /* set by the daemon */
	/* failures that the process did not report before this one: rate limit, socket full */
	uint32_t dropped;
	char program[16];
	char device[16];
	uint32_t qpn;
	uint32_t qp_type; /* enum ibv_qp_type */
	uint32_t peer_qpn;
	int32_t peer_pid;     /* 0: unknown */
	uint8_t peer_gid[16]; /* of the path */
	/* The WR, or the request of the peer. */
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t length; /* of the message, in bytes */
	uint64_t local_addr;
	uint32_t rkey;
	uint32_t lkey;
	uint32_t local_length;
	uint32_t opcode;     /* enum ibv_wr_opcode */
	uint32_t status;     /* enum ibv_wc_status */
	uint32_t vendor_err; /* docs/completion-errors.md */
	/* The memory region that the key denotes. */
	uint64_t region_start; /* in the owner's virtual addresses, as in the rkey's range */
	uint64_t region_length;
	uint32_t region_access; /* enum ibv_access_flags */
	int32_t region_pid;	/* owner */
	/* IPC_FAILURE_QP */
	uint32_t flushed_sends; /* WRs that completed as flushed */
	uint32_t flushed_receives;
	/*
	 * enum ibv_event_type, or enum rdma_cm_event_type of IPC_FAILURE_CM; -1: none.
	 * IPC_FAILURE_EVENT has as numbers: entries of the CQ; receives in the SRQ, its max_wr
	 */
	uint32_t event;
	int32_t error; /* errno of a call, or status of an event */
	/* Attributes of the QP. */
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer; /* of the peer, from its RNR NAK; 255: unknown */
	uint32_t qp_access;    /* qp_access_flags of the QP that refused */
	uint64_t numbers[6];   /* by kind and reason */
	char call[32];	       /* IPC_FAILURE_CALL: its name */
	/*
	 * IPC_FAILURE_CM and some calls: IPv4 addresses are mapped to IPv6; ports in host byte
	 * order.
	 */
	uint8_t local_ip[16];
	uint8_t remote_ip[16];
	uint16_t local_port;
	uint16_t remote_port;
	/* fired last for the QP or the process (fault_fired_code()); 0: none */
	uint16_t fault_rule;
	uint16_t fault_age_ms;
};

/*
 * FAILURE_GET (control): the oldest stored failure with a number of at least `cursor` that the
 * caller may read: those of its own uid, or all for root. -ENOENT: none.
 */
struct ipc_failure_get {
	struct ipc_hdr hdr;
	uint64_t cursor;
};

struct ipc_failure_get_reply {
	struct ipc_hdr hdr;
	uint64_t number; /* of this failure, in order of arrival, from 1 */
	struct ipc_failure failure;
};

static_assert(sizeof(struct ipc_failure) % 8 == 0, "no padding at the end");

#endif
