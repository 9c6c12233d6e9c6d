/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECTS_H
#define USRDMA_CORE_OBJECTS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"
#include "ipc/msg.h"

/*
 * The verbs objects as the library sees them. Each starts with the public struct that the application holds, so the
 * two convert by container_of.
 *
 * Locks, in the order in which they may be taken:
 *   engine.lock    everything about QPs, WQs, SRQs, MRs and transports; one per process, held for short work only
 *   cq.lock        one CQ's ring and its arming
 *   channel.lock   one completion channel's queue of CQs
 *   context.events_lock   one context's queue of async events
 * ibv_qp.mutex, ibv_cq.mutex and ibv_srq.mutex are public fields; they guard the counts of acknowledged events and
 * are taken last. Nobody blocks on a socket while holding any of them, but for the answer of the daemon to an
 * INTRODUCE (see engine.h), and to the opening and closing of an XRC domain (xrc_domain.c).
 */

struct ah;
struct dm_body;
struct engine;
struct pd_body;
struct transport;
struct xrc_domain;
struct xrc_far;
struct xrcd;

#define MAX_SGE		 32u
#define MAX_INLINE_BYTES 1024u
#define MAX_QP_WR	 65536u
#define MAX_CQE		 ((1u << 22) - 1)
#define MAX_SRQ_WR	 65536u
#define MAX_QPS		 (IPC_SLOT_QPNS - 2)
#define MAX_CQS		 65536u
#define MAX_SRQS	 65536u
#define XRC_SRQNS	 IPC_SLOT_QPNS /* of one process, but for number 0 */
#define MAX_PDS		 65536u
#define MR_INDEX_BITS	 20 /* the rest of a key is its generation */
#define MAX_MRS		 (1u << MR_INDEX_BITS)
#define MR_KEY_BITS	 31 /* the other half of all keys is the memory windows' */
#define MAX_MWS		 65536u
#define MW_HANDLE_BITS	 23
#define MAX_DMS		 65536u
#define MAX_DM_BYTES	 (UINT64_C(1) << 24)
#define MAX_MR_BYTES	 (UINT64_C(1) << 47)
#define MAX_MSG_BYTES	 (UINT32_C(1) << 31)
#define MAX_RD_ATOMIC	 128u
#define NUM_COMP_VECTORS 4
#define GID_TABLE_LEN	 IPC_GIDS_MAX

/* The vendor_err of a completion: which check said no. Part of what `usrdma` and the docs explain. */
enum vendor_err {
	VENDOR_ERR_NONE,
	VENDOR_ERR_FLUSHED,	   /* the QP was in ERR, or entered it while this WR was queued */
	VENDOR_ERR_LKEY,	   /* no MR has that lkey */
	VENDOR_ERR_LKEY_PD,	   /* the lkey belongs to another PD than the QP */
	VENDOR_ERR_LKEY_BOUNDS,	   /* the SGE is not inside the MR */
	VENDOR_ERR_LKEY_ACCESS,	   /* the MR has no IBV_ACCESS_LOCAL_WRITE */
	VENDOR_ERR_RECV_TOO_SHORT, /* the message is longer than the receive buffers */
	VENDOR_ERR_RKEY,	   /* remote: no MR has that rkey */
	VENDOR_ERR_RKEY_PD,	   /* remote: MR and QP are of different PDs */
	VENDOR_ERR_RKEY_BOUNDS,	   /* remote: outside the MR */
	VENDOR_ERR_RKEY_ACCESS,	   /* remote: the MR does not permit this */
	VENDOR_ERR_QP_ACCESS,	   /* remote: the QP does not permit this (qp_access_flags) */
	VENDOR_ERR_ATOMIC_ALIGN,   /* remote address of an atomic is not a multiple of 8 */
	VENDOR_ERR_RNR,		   /* the peer had no receive posted, rnr_retry times */
	VENDOR_ERR_NO_ANSWER,	   /* the peer's QP was not ready to receive, retry_cnt times */
	VENDOR_ERR_PEER_DEAD,	   /* the process that owned the peer's QP is gone */
	VENDOR_ERR_REMOTE_RECV,	   /* the peer's receive WR was bad (length, lkey) */
	VENDOR_ERR_MSG_LENGTH,	   /* longer than the port's max_msg_sz */
	VENDOR_ERR_MEMORY_GONE,	   /* the MR's pages were unmapped under it */
	VENDOR_ERR_NOT_INVALIDATABLE, /* LOCAL_INV or SEND_INV of a key that is no type 2 memory window */
	VENDOR_ERR_AH_PD,	      /* the address handle is of another PD than the QP */
	VENDOR_ERR_DATAGRAM_LENGTH, /* longer than the port's MTU */
	VENDOR_ERR_WINDOW, /* bind of a window that is not there, or of type 2 and bound already */
	VENDOR_ERR_COUNT
};

/* A device of the list: made when the daemon first names the interface, never freed, so that pointers that the
 * application kept stay good. `info` is replaced as the interface changes; guarded by device_lock (device.c). */
struct device {
	struct ibv_device pub; /* 664 bytes as clients were compiled with … */
	uint8_t zero_for_providers
		[128]; /* … and libmlx5 and libefa read their ops pointer behind it: stays 0 */
	struct list_head node;
	bool is_present;
	bool is_stale;	    /* the daemon said that it changed: ask before answering */
	unsigned int fetch; /* which walk of the daemon's list saw it last */
	struct ipc_device_reply info;
};

/* One ibv_open_device. Owned by the application; dies in ibv_close_device. */
struct context {
	struct verbs_context pub; /* holds the ibv_context at its end; see verbs.h */
	struct device *device;
	struct engine *engine;
	struct list_head node; /* engine.contexts */
	unsigned int users;    /* PDs, CQs, channels, …; engine.lock */
	bool is_closed;	       /* ibv_close_device came before `users` was 0; engine.lock */
	uint64_t token[2]; /* of its command file: who has the same, imported from one another */
	bool is_shared;	   /* it was imported, or is an import; engine.lock */
	bool is_foreign;   /* imported from another process: nothing more can be imported into it */
	pthread_mutex_t events_lock;
	struct list_head events; /* struct async_event (async.c) not fetched yet */
	uint32_t units_owed;	 /* event_fd.h */
};

/*
 * A protection domain, or a parent domain (domain.h), which is one under another name. What may use what is decided by
 * `id`.
 */
struct pd {
	struct ibv_pd pub;
	struct context *context;
	uint32_t id; /* pub.handle; never 0, unique in the process while the PD lives; a parent's is its base's */
	unsigned int users;   /* MRs, QPs, SRQs, AHs, parent domains; engine.lock */
	struct pd_body *body; /* what all names of it share (pd.h); of a parent domain, NULL */
	struct list_head name_node; /* pd_body.names */
	bool is_unimported;	    /* ibv_unimport_pd() came before `users` was 0 */
	struct pd *base;	    /* of a parent domain, else NULL; so are those below */
	struct ibv_td *td;
	void *pd_context;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
};

/* A memory region. Found by key through engine.mrs; guarded by engine.lock. lkey == rkey. */
struct mr {
	struct ibv_mr pub;
	struct pd *pd;
	uint8_t *addr;
	uint64_t iova;
	uint64_t length;
	unsigned int access;  /* enum ibv_access_flags */
	uint32_t key;	      /* its handle in engine.mrs: index and generation */
	unsigned int windows; /* bound to it: it cannot go before them */
	struct dm_body *dm;   /* the device memory that it shows, or NULL */
	bool is_null;	      /* null_mr.h */
	uint8_t *mapping;     /* the MR's own (mr_register_mapping()), or NULL */
	uint64_t mapping_bytes;
	bool is_unreachable; /* others cannot look into it: its owner moves the bytes */
	struct mr *original; /* this is but a name of that one (ibv_import_mr) */
	unsigned int names;  /* how many such it has */
	bool is_revoked;     /* deregistered by one of its names */
	bool is_let_go;	     /* the application has no pointer to it: it goes with its last name */
};

/* A memory window. Found through engine.mws; guarded by engine.lock. Free until it is bound (mw.h). */
struct mw {
	struct ibv_mw pub; /* rkey is the application's to read, and for type 2 to write */
	struct pd *pd;
	struct mr *mr; /* NULL: free */
	struct qp *qp; /* type 2, bound: the QP it was bound over */
	uint64_t iova; /* where the peer finds it */
	uint64_t mr_iova;
	uint64_t length;
	unsigned int access; /* enum ibv_access_flags */
	uint32_t key;	     /* the rkey it is bound under */
};

/* One completion as it waits in a CQ. */
struct cqe {
	struct ibv_wc wc;
	uint64_t timestamp_ns; /* monotonic, when pushed */
	uint64_t wallclock_ns;
};

/* When a CQ's event is due (moderation.h): both 0: at once. engine.lock. */
struct moderation {
	uint16_t count;	    /* 0: no number of completions makes it due */
	uint16_t period_us; /* 0: no time does */
	uint32_t pending;   /* completions that wait for it */
	struct timer timer;
};

/*
 * A completion queue: one producer side (whoever holds engine.lock), many consumers (whoever holds cq.lock).
 * Entries [tail, head) of a power-of-two ring that mmap gave, so untouched entries cost no memory.
 */
struct cq {
	union {
		struct ibv_cq pub;
		struct ibv_cq_ex ex;
	};
	struct context *context;
	struct comp_channel *channel; /* NULL: none */
	struct list_head node;	      /* engine.cqs */
	pthread_spinlock_t lock;
	struct cqe *ring;
	size_t ring_bytes;
	uint32_t mask;
	uint32_t capacity; /* what create or resize answered: pub.cqe */
	uint32_t head;	   /* atomic: the consumer peeks without the lock */
	uint32_t tail;
	bool is_armed;		 /* ibv_req_notify_cq */
	bool is_armed_solicited; /* … for solicited or failed completions only */
	bool has_overflowed;	 /* dead: IBV_EVENT_CQ_ERR was reported */
	bool is_single_threaded;
	unsigned int users;	       /* QPs; engine.lock */
	unsigned int events_queued;    /* in the channel, not fetched; channel.lock */
	struct list_head channel_node; /* channel.ready while events_queued; channel.lock */
	uint32_t comp_events_fetched;  /* by ibv_get_cq_event; channel.lock */
	uint32_t async_events_fetched; /* by ibv_get_async_event; context.events_lock */
	bool ignores_overrun;	       /* full: the oldest completion makes room */
	pthread_mutex_t poll_lock;     /* from start_poll to end_poll; taken before all others */
	uint64_t wc_flags;	       /* of ibv_create_cq_ex */
	struct cqe current;	       /* between start_poll and end_poll */
	struct moderation moderation;
};

struct comp_channel {
	struct ibv_comp_channel pub; /* fd: an eventfd in semaphore mode, one unit per queued event */
	pthread_mutex_t lock;
	struct list_head ready; /* struct cq with events_queued > 0, oldest first */
	uint32_t units_owed;	/* event_fd.h */
};

/* A receive WR in its queue. */
struct recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
	struct ibv_sge sge[]; /* max_sge of the queue */
};

/* Receive WRs [tail, head), of a QP or an SRQ. mmap'd, power-of-two slots of `stride` bytes. engine.lock. */
struct recv_queue {
	uint8_t *slots;
	size_t bytes;
	struct pd *owner; /* whose allocator made the slots, NULL: we */
	uint32_t kind;	  /* enum queue_kind */
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t head;
	uint32_t tail;
};

enum send_wqe_state {
	SEND_WQE_POSTED,
	SEND_WQE_SENT, /* handed over; the transport awaits the peer's word */
	SEND_WQE_DONE, /* succeeded, waits for its elders */
};

/* A send WR in its queue. What follows the fixed part is either SGEs or, if is_inline, the bytes themselves. */
struct send_wqe {
	uint64_t wr_id;
	uint32_t opcode : 8;	   /* enum ibv_wr_opcode */
	uint32_t remote_srqn : 24; /* XRC */
	uint32_t send_flags;
	uint32_t imm_data_be; /* or the rkey to invalidate, host order */
	uint32_t length_bytes;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t ssn; /* the transport's message sequence number */
	union {
		uint64_t compare_add;
		uint64_t flush_length_bytes; /* FLUSH; the WQE itself has no bytes */
		struct ah *ah;		     /* UD: a counted reference (core/ah.h) */
	};
	union {
		uint64_t swap;
		struct {		     /* FLUSH */
			uint8_t flush_types; /* enum ibv_placement_type */
			uint8_t flush_level; /* enum ibv_selectivity_level */
		};
		struct { /* UD */
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		};
	};
	uint32_t done_bytes; /* the transport's progress */
	uint8_t num_sge;
	uint8_t is_inline;
	uint8_t state; /* enum send_wqe_state */
	uint8_t path;  /* the transport's: how this message travels; 0 until it is its turn */
	union {
		struct ibv_sge sge[0];
		uint8_t data[0];
	};
};

/* Send WRs: [una, nxt) were handed to the peer, [nxt, head) wait, [nxt, begun) of them for another try. engine.lock. */
struct send_queue {
	uint8_t *slots;
	size_t bytes;
	struct pd *owner; /* whose allocator made the slots, NULL: we */
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline_bytes;
	uint32_t head;
	uint32_t nxt;
	uint32_t una;
	uint32_t begun; /* SQD ends what was begun */
};

struct srq {
	struct ibv_srq pub;
	struct context *context;
	struct pd *pd;
	struct recv_queue rq;
	struct xrcd *xrcd;	  /* of the XRC kind, as what follows (xrc.h); else NULL */
	struct cq *cq;		  /* where its receives complete */
	uint32_t number;	  /* by which packets name it, unique on this host */
	uint32_t limit;		  /* 0: not armed */
	unsigned int users;	  /* QPs */
	uint32_t events_fetched;  /* by ibv_get_async_event; context.events_lock */
	struct list_head starved; /* QPs that turned a peer away for want of a receive */
};

/* What ibv_wr_start … ibv_wr_complete gathers behind sq.head. Guarded by engine.lock, which is held in between. */
struct wr_batch {
	bool is_open;
	int error;		  /* first failure, reported by wr_complete */
	uint32_t count;		  /* WQEs that wr_complete will post */
	struct send_wqe *current; /* the WR that the setters work on; NULL: none yet */
};

/*
 * A queue pair. Guarded by engine.lock, but for pub's own mutex. Dies in ibv_destroy_qp, after its transport let go.
 */
struct qp {
	union {
		struct ibv_qp pub;
		struct ibv_qp_ex ex;
	};
	struct context *context;
	struct pd *pd; /* of XRC_RECV this and all up to srq are NULL but for a packet (xrc.h) */
	struct cq *send_cq; /* NULL: XRC_RECV */
	struct cq *recv_cq; /* NULL: XRC_SEND */
	struct srq *srq;    /* NULL: own receive queue */
	struct xrcd *xrcd;  /* XRC_RECV, while its maker's name lives */
	struct xrc_domain *xrc_domain;
	struct list_head names; /* XRC_RECV: qp.name_node of what ibv_open_qp() made */
	struct list_head name_node;
	struct qp *opened; /* this is but a name of that one */
	bool is_nameless;  /* its maker destroyed it, others have it open */
	struct list_head
		holders; /* XRC_RECV: struct xrc_holder, processes that have it open (xrc_far.h) */
	struct xrc_far *far; /* this is but a name of another process's QP */
	uint32_t qpn;
	enum ibv_qp_type type;
	enum ibv_qp_state state; /* pub.state follows it on modify and query only */
	bool is_sig_all;
	bool has_ex;	   /* created with SEND_OPS_FLAGS */
	bool has_comm_est; /* COMM_EST was reported */
	bool blocks_echo;  /* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB */
	uint64_t send_ops_flags;
	struct ibv_qp_attr attr; /* as set by modify: the whole of query_qp comes from here */
	struct ibv_qp_cap cap;
	struct send_queue sq;
	struct recv_queue rq;
	struct wr_batch batch;
	const struct transport *transport; /* chosen in INIT->RTR; NULL before, and always for UD */
	void *transport_qp;		   /* its own state */
	struct list_head datagram_node;	   /* UD: engine.datagrams.waiting (datagram.h) */
	bool is_datagram_held;		   /* … for a transport to have room */
	struct list_head starved_node;	   /* srq.starved */
	bool is_starved;
	struct list_head memberships; /* multicast groups: mcast.c */
	uint32_t events_fetched;      /* by ibv_get_async_event; context.events_lock */
	unsigned int windows;	      /* of type 2, bound over it */
	struct timer lost_timer;      /* a full CQ lost a completion: due at once */
};

static inline struct context *to_context(struct ibv_context *context)
{
	return (struct context *)((uint8_t *)context - offsetof(struct context, pub.context));
}

static inline struct pd *to_pd(struct ibv_pd *pd)
{
	return (struct pd *)pd;
}

static inline struct mr *to_mr(struct ibv_mr *mr)
{
	return (struct mr *)mr;
}

static inline struct mw *to_mw(struct ibv_mw *mw)
{
	return (struct mw *)mw;
}

static inline struct cq *to_cq(struct ibv_cq *cq)
{
	return (struct cq *)cq;
}

static inline struct srq *to_srq(struct ibv_srq *srq)
{
	return (struct srq *)srq;
}

static inline struct qp *to_qp(struct ibv_qp *qp)
{
	return (struct qp *)qp;
}

static inline struct device *to_device(struct ibv_device *device)
{
	return (struct device *)device;
}

static inline struct comp_channel *to_channel(struct ibv_comp_channel *channel)
{
	return (struct comp_channel *)channel;
}

static inline struct send_wqe *sq_wqe(const struct send_queue *sq, uint32_t index)
{
	return (struct send_wqe *)(sq->slots + (size_t)(index & sq->mask) * sq->stride);
}

static inline struct recv_wqe *rq_wqe(const struct recv_queue *rq, uint32_t index)
{
	return (struct recv_wqe *)(rq->slots + (size_t)(index & rq->mask) * rq->stride);
}

#endif
