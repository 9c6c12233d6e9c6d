/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_OBJECTS_H
#define USRDMA_CORE_OBJECT_OBJECTS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/biased_lock.h"
#include "base/list.h"
#include "base/timer.h"
#include "core/engine/engine_watch.h"
#include "core/engine/shard.h"
#include "core/object/channel_units.h"
#include "core/object/wqe.h"
#include "ipc/msg.h"
#include "profile/profile.h"

/*
 * The library's representation of the verbs objects. Each struct starts with the public struct that
 * the application holds, so that container_of converts between the two.
 *
 * Locks, in the order in which they may be taken:
 *
 *   shard.lock            the QPs of a shard other than 0 (core/engine/shard.h), in the order of
 *                         the shards
 *   engine.lock           all other QPs with their queues, SRQs and transports; one per process,
 *                         for short work only
 *   all of these          changes of MRs and of the tables of MRs and QPs, which are read with any
 *                         of these locks
 *   cq.lock               the ring and the notification state of one CQ
 *   channel.lock          the queue of CQs of one completion channel
 *   context.events_lock   the queue of async events of one context
 *
 * ibv_qp.mutex, ibv_cq.mutex and ibv_srq.mutex are public fields. They guard the counts of
 * acknowledged events and are taken last.
 *
 * A thread performs no blocking socket I/O while it holds one of these locks. Requests that need
 * the daemon's reply are made without engine.lock; messages under engine.lock are sent without
 * waiting.
 */

struct comp_cntr;
struct dm_body;
struct engine;
struct pd_body;
struct transport;
struct xrc_domain;
struct xrc_remote_qp;
struct xrcd;

#define MAX_CQE		 ((1u << 22) - 1)
#define MAX_QPS		 (IPC_SLOT_QPNS - 2 - (SHARDS - 1) * SHARD_QPNS)
#define MAX_CQS		 65536u
#define MAX_SRQS	 65536u
#define XRC_SRQNS	 IPC_SLOT_QPNS /* per process, without number 0 */
#define MAX_PDS		 65536u
#define MR_INDEX_BITS	 20 /* the other bits of a key are its generation */
#define MAX_MRS		 (1u << MR_INDEX_BITS)
#define MR_KEY_BITS	 31 /* keys of memory windows have the upper bit set */
#define MAX_MWS		 65536u
#define MW_HANDLE_BITS	 23
#define MAX_DMS		 65536u
#define MAX_DM_BYTES	 (UINT64_C(1) << 24)
#define MAX_MR_BYTES	 (UINT64_C(1) << 47)
#define MAX_MSG_BYTES	 (UINT32_C(1) << 31)
#define MAX_RD_ATOMIC	 128u
#define NUM_COMP_VECTORS 4
#define RNR_TIMER_MAX	 31 /* the largest encoding of min_rnr_timer */
#define QP_COMP_CNTR_OPS 6  /* enum ibv_qp_attach_comp_cntr_op */
#define GID_TABLE_LEN	 IPC_GIDS_MAX

/* Objects that a profile limits (device_count_add()). */
enum device_object {
	DEVICE_QP,
	DEVICE_CQ,
	DEVICE_MR,
	DEVICE_MW,
	DEVICE_PD,
	DEVICE_SRQ,
	DEVICE_OBJECTS
};

/*
 * A device of ibv_get_device_list(). Created when the daemon first reports the interface. Never
 * freed, because the application may keep the pointer. `info` describes the interface and is
 * replaced when the interface changes; guarded by device_lock (core/device/device.c). The name, the
 * profile and the GID table that the application sees are those of the process's view
 * (profile/view.h).
 */
struct device {
	struct ibv_device pub; /* ABI: 664 bytes */
	uint8_t zero_for_providers
		[128]; /* libmlx5 and libefa read an ops pointer behind ibv_device; always 0 */
	struct list_head node;
	bool is_present;
	bool is_stale;	    /* the daemon reported a change: query it before replying */
	unsigned int fetch; /* the device query whose result is stored */
	unsigned int order; /* position in the view's list of devices; VIEW_ORDER_UNNAMED: none */
	unsigned int rail;  /* number of preceding devices of the view on the same interface */
	const struct profile *profile;	 /* NULL: as the profile usrdma */
	uint32_t counts[DEVICE_OBJECTS]; /* number of objects of this process; engine.lock */
	uint32_t dev_id;		 /* the dev_id of `info`; it never changes */
	struct ipc_device_reply info;	 /* of the last query; device_lock */
};

/*
 * One ibv_open_device(). Owned by the application; freed by ibv_close_device() or with the last
 * object.
 */
struct context {
	struct verbs_context pub; /* contains the ibv_context as its last member; see verbs.h */
	struct device *device;
	struct engine *engine;
	struct list_head node; /* engine.tables.contexts */
	unsigned int users;    /* number of PDs, CQs, channels, …; engine.lock */
	bool is_closed;	   /* ibv_close_device() was called while `users` was not 0; engine.lock */
	uint64_t token[2]; /* of the command file; imports have the same */
	bool is_shared;	 /* the context was imported or was the source of an import; engine.lock */
	bool is_foreign; /* imported from another process: no object can be imported into it */
	pthread_mutex_t events_lock;
	/* struct async_event (core/device/async.c) that were not fetched yet */
	struct list_head events;
	uint32_t units_pending; /* event_fd.h */
};

/*
 * A protection domain, or a parent domain (core/memory/domain.h), which has the id of its base.
 * Access checks compare `id`.
 */
struct pd {
	struct ibv_pd pub;
	struct context *context;
	uint32_t id; /* pub.handle; not 0, unique in the process; a parent domain has its base's */
	unsigned int users; /* number of MRs, QPs, SRQs, AHs, parent domains; engine.lock */
	/* shared by all handles of the PD (core/memory/pd.h); NULL in a parent domain */
	struct pd_body *body;
	struct list_head name_node; /* pd_body.names */
	bool is_unimported;	    /* ibv_unimport_pd() was called while `users` was not 0 */
	struct pd *base;	    /* set in parent domains only, also the fields below */
	struct ibv_td *td;
	void *pd_context;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
};

/*
 * A memory region. Found by key in engine.tables.mrs. Changes with all locks held (engine_lock()),
 * so that the data path of each shard may read it. lkey == rkey.
 */
struct mr {
	struct ibv_mr pub;
	struct pd *pd;
	uint8_t *addr;
	uint64_t iova;
	uint64_t length;
	unsigned int access;  /* enum ibv_access_flags */
	uint32_t key;	      /* handle in engine.tables.mrs: index and generation */
	unsigned int windows; /* number of bound MWs; the MR cannot be deregistered before */
	struct dm_body *dm;   /* the device memory that was registered, or NULL */
	bool is_null;	      /* core/memory/null_mr.h */
	uint8_t *mapping;     /* mapping owned by the MR (mr_register_mapping()), or NULL */
	uint64_t mapping_bytes;
	bool is_unreachable; /* no one-sided path: the owner copies the data */
	struct mr *original; /* this MR is a handle of `original` (ibv_import_mr) */
	unsigned int names;  /* number of its imported handles */
	bool is_revoked;     /* deregistered by one of its handles */
	bool is_changing;    /* ibv_rereg_mr() waits for peers without engine.lock */
	/* the application has no pointer to it; freed with the last imported handle */
	bool is_let_go;
};

/*
 * A memory window. Found in engine.tables.mws; guarded by engine.lock. Free until it is bound
 * (core/memory/mw.h).
 */
struct mw {
	struct ibv_mw pub; /* the application reads rkey and, for type 2, writes it */
	struct pd *pd;
	struct mr *mr; /* NULL: free */
	struct qp *qp; /* type 2, bound: the QP it was bound over */
	uint64_t iova; /* remote address of the window's first byte */
	uint64_t mr_iova;
	uint64_t length;
	unsigned int access; /* enum ibv_access_flags */
	uint32_t key;	     /* the rkey it is bound under */
};

/* A completion in a CQ. */
struct cqe {
	struct ibv_wc wc;
	uint64_t timestamp_ns; /* monotonic time of cq_push() */
	uint64_t wallclock_ns;
};

/*
 * Interrupt moderation of a CQ (core/queue/moderation.h); off if both limits are 0. Guarded by
 * engine.lock; the limits change with all locks held.
 */
struct moderation {
	uint16_t count;	    /* number of completions that triggers the event; 0: no limit */
	uint16_t period_us; /* time that triggers the event; 0: no limit */
	uint32_t pending;   /* completions since the last event that the CQ was armed for */
	struct timer timer;
};

/*
 * A completion queue. cq.lock guards the ring and the notification state; producers also hold the
 * lock of the QP (core/engine/qp_lock.h). The entries are [tail, head) of a power-of-two ring. The
 * ring is mapped with mmap(), so that unused entries take no memory.
 */
struct cq {
	union {
		struct ibv_cq pub;
		struct ibv_cq_ex ex;
	};
	struct context *context;
	struct comp_channel *channel; /* NULL: none */
	struct list_head node;	      /* engine.tables.cqs */
	struct biased_lock lock;
	struct cqe *ring;
	size_t ring_bytes;
	uint32_t mask;
	uint32_t capacity; /* the size that create or resize returned: pub.cqe */
	uint32_t head;	   /* atomic: consumers read it without the lock */
	uint32_t tail;
	atomic_uint turns;	  /* cq_turns() */
	struct segment_cq *usage; /* core/report/usage.h */
	uint32_t reported;  /* head when the last event was reported: later completions had none */
	uint32_t solicited; /* head after the newest solicited or failed completion */
	bool is_armed;	    /* ibv_req_notify_cq */
	bool is_armed_solicited; /* IBV_CQ_SOLICITED: solicited and failed completions only */
	bool has_overflowed;	 /* overrun; IBV_EVENT_CQ_ERR was reported */
	bool is_single_threaded;
	atomic_bool may_spin;	       /* core/engine/armed_spin.h */
	unsigned int users;	       /* number of QPs; engine.lock */
	atomic_uint shards;	       /* bit i: QPs of shard i use or used it; 0: none */
	atomic_uint events_queued;     /* completion events that were not fetched; channel.lock */
	struct list_head channel_node; /* in channel.ready while events_queued > 0; channel.lock */
	uint32_t comp_events_fetched;  /* number returned by ibv_get_cq_event(); channel.lock */
	/* number returned by ibv_get_async_event(); context.events_lock */
	uint32_t async_events_fetched;
	bool ignores_overrun; /* a full CQ discards its oldest completion */
	bool was_nearly_full; /* this was reported */
	uint64_t demand;      /* sum of the WRs that its QPs were created for; engine.lock */
	/* number of completions at which cq_deliver() reports that the CQ is too small; lock */
	uint32_t warn_level;
	pthread_mutex_t poll_lock; /* from start_poll to end_poll; taken before all others */
	uint64_t wc_flags;	   /* of ibv_create_cq_ex */
	struct cqe current;	   /* read by the readers, from start_poll to end_poll */
	struct moderation moderation;
	/* completions that fault injection delays (core/queue/fault_completion.h) */
	struct list_head delayed;
	struct timer delay_timer;
};

struct comp_channel {
	/* fd: an eventfd in semaphore mode, one unit per queued event */
	struct ibv_comp_channel pub;
	pthread_mutex_t lock;
	struct list_head ready;	      /* struct cq with events_queued > 0, oldest first */
	struct channel_units units;   /* lock */
	pthread_cond_t signalled;     /* units.signallers became 0 */
	struct list_head signal_node; /* of engine.signals; engine.lock */
	/*
	 * The epoll descriptor of the threads that wait for an event, opened by the first one;
	 * engine.lock
	 */
	struct watch_set set;
	/* the application waits by other means than ibv_get_cq_event(); engine.lock */
	bool is_external;
	atomic_uint turns; /* cq_turns() */
	/* the thread that took the last event (core/engine/armed_spin.h); lock */
	atomic_uchar taker;
	/* calls that found an event; concurrent calls may not be counted */
	unsigned int ready_calls;
	/* Of core/engine/direct_wake.h: */
	uint32_t number; /* unique in the process; 0: not external so far; engine.lock */
	/* The same while is_external is set; 0: peers must not wake the application. */
	atomic_uint wake_number;
	atomic_uint wake_requests;     /* the second number of the last segment_cq_wake() */
	struct list_head promise_node; /* engine.lock */
};

struct srq {
	struct ibv_srq pub;
	struct context *context;
	struct pd *pd;
	struct recv_queue rq;
	/* XRC SRQ: its domain (core/qp/xrc.h), also the next two fields; else NULL */
	struct xrcd *xrcd;
	struct cq *cq;		       /* CQ of its receive completions */
	uint32_t number;	       /* XRC SRQ number in packets, unique on this host */
	uint32_t limit;		       /* SRQ limit; 0: not armed */
	unsigned int users;	       /* number of QPs */
	uint32_t events_fetched;       /* by ibv_get_async_event; context.events_lock */
	struct list_head waiting_recv; /* QPs that sent an RNR NAK because the SRQ was empty */
};

/*
 * WQEs between ibv_wr_start() and ibv_wr_complete(), stored behind sq.head (core/queue/wr_batch.h).
 */
struct wr_batch {
	/* Guarded by the lock of the QP. */
	pid_t owner;	       /* the thread that has a batch open; 0: none */
	bool has_waiters;      /* other threads wait for the end of the batch */
	bool is_stale;	       /* the QP was reset since ibv_wr_start() */
	_Atomic uint32_t ends; /* futex: changes when a batch for which others wait ends */
	/* Used by the owner, without a lock. */
	uint32_t first;	       /* place of the first WQE */
	uint32_t room;	       /* number of WQEs for which the queue had space */
	int error;	       /* -errno of the first error, for ibv_wr_complete() */
	uint64_t failed_wr_id; /* of the WR that had it */
	enum ibv_wr_opcode failed_opcode;
	uint32_t count;		  /* number of WQEs that ibv_wr_complete() will post */
	struct send_wqe *current; /* the WQE that the setters change; NULL: none yet */
};

/* The lock of the data path of a QP: core/engine/qp_lock.h. */
enum qp_lock {
	QP_LOCK_BASE,
	QP_LOCK_SHARD,
	QP_LOCK_ALL,
};

/*
 * A queue pair. Guarded by the lock of its shard (core/engine/shard.h), except pub's own mutex.
 * Freed by ibv_destroy_qp() after the transport unbound it.
 */
struct qp {
	union {
		struct ibv_qp pub;
		struct ibv_qp_ex ex;
	};
	struct context *context;
	/* XRC_RECV: as the next 3, NULL except while a packet is processed (core/qp/xrc.h) */
	struct pd *pd;
	struct cq *send_cq; /* NULL: XRC_RECV */
	struct cq *recv_cq; /* NULL: XRC_SEND */
	struct srq *srq;    /* NULL: own receive queue */
	struct xrcd *xrcd;  /* XRC_RECV, while the creator's handle exists */
	struct xrc_domain *xrc_domain;
	struct list_head handles; /* XRC_RECV: qp.handle_node of the handles of ibv_open_qp() */
	struct list_head handle_node;
	struct qp *opened; /* this QP is a handle of `opened` */
	/*
	 * XRC_RECV: struct xrc_remote_client, processes that have opened it (core/qp/xrc_remote.h)
	 */
	struct list_head remote_clients;
	struct xrc_remote_qp *remote; /* this QP is a handle of another process's QP */
	bool is_destroyed_by_creator; /* other handles keep it */
	bool is_datagram_held; /* UD: the transport was full (send_datagram() returned -EAGAIN) */
	bool is_waiting_recv;
	bool has_lost_completion; /* in a full CQ */
	uint32_t qpn;
	uint32_t shard; /* qpn_shard(qpn) */
	/*
	 * enum qp_lock; changes with engine_lock() held, or with its shard's lock and engine.lock
	 */
	_Atomic(enum qp_lock) lock;
	enum ibv_qp_type type;
	enum ibv_qp_state state; /* pub.state is updated by modify and query only */
	bool is_sig_all;
	bool has_ex;	   /* created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS */
	bool has_comm_est; /* IBV_EVENT_COMM_EST was reported */
	bool blocks_echo;  /* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB */
	uint64_t send_ops_flags;
	struct ibv_qp_attr attr; /* set by modify; source of ibv_query_qp() */
	struct ibv_qp_cap cap;
	/*
	 * max_send_wr and max_recv_wr at creation, before they were rounded; no receives with an
	 * SRQ
	 */
	uint32_t wanted_sends;
	uint32_t wanted_receives;
	uint32_t flushed_sends; /* WRs that were posted in ERR (flushed_id) */
	uint32_t flushed_receives;
	struct send_queue sq;
	struct recv_queue rq;
	struct wr_batch batch;
	const struct transport *transport; /* chosen in INIT->RTR; NULL before that, and for UD */
	void *transport_qp;		   /* the transport's state of this QP */
	/* UD: engine.datagrams.waiting (core/queue/datagram.h) */
	struct list_head datagram_node;
	struct list_head sent_node;	    /* UD: engine.datagrams.sent */
	struct list_head waiting_recv_node; /* srq.waiting_recv */
	struct list_head memberships;	    /* multicast groups: core/device/mcast.c */
	unsigned int attaching;		    /* ibv_attach_mcast() calls that wait for the daemon */
	uint32_t events_fetched;	    /* by ibv_get_async_event; context.events_lock */
	unsigned int windows;		    /* number of type 2 windows bound to it */
	unsigned int revokers; /* calls that wait for the end of the peers' one-sided accesses */
	bool is_of_cm; /* librdmacm changes its state: its parameters are those of the rdma_cm */
	/* of the first failure of this QP that was reported (core/report/failure.h); 0: none */
	uint64_t failure_id;
	uint64_t reported_reasons[2]; /* bits of enum ipc_failure_reason: reported once for a QP */
	uint64_t flushed_id;	      /* of the report of WRs that were posted in ERR */
	struct timer lost_timer;      /* expires at once after a completion was lost in a full CQ */
	int lost_event;		/* enum ibv_event_type that lost_timer reports, or QP_NO_EVENT */
	uint32_t comp_cntr_ops; /* enum ibv_qp_attach_comp_cntr_op: operations with a counter */
	struct segment_qp_usage *usage; /* core/report/usage.h */
	/* [QP_COMP_CNTR_OPS], by the operation's bit number; NULL: none so far */
	struct comp_cntr **comp_cntrs;
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

static inline bool qp_is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

#endif
