/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_ROCE_H
#define USRDMA_ROCE_ROCE_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/object/objects.h"
#include "core/queue/execute.h"
#include "link/link.h"
#include "roce/cc.h"
#include "roce/inflow.h"
#include "roce/lanes.h"
#include "roce/vendor_ack.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/psn.h"

/*
 * The RoCEv2 transport: RC, UC, UD and XRC over UDP (IBA 1.x §9.7, §9.8, IBA A17). The module has
 * no sockets and no clock of its own: its input is datagrams and the time; its output is datagrams
 * and timers on engine.timers. engine.lock guards all state.
 *
 * The owner of the engine sets a link and a clock with roce_set_link(); without a link bind()
 * fails. Between calls the module refers to payload in application memory only in packets that wait
 * for the next call of ibv_post_send() (batch.c). They are sent before the WR is completed or
 * flushed, and before the MR is deregistered. Packets that the link did not accept are copied.
 */

#define ROCE_TRANSPORT 1 /* its number, see core/engine/transport.h */

extern const struct transport roce_transport;

/* Counters of the transport; roce_counter_name() describes each. */
enum roce_counter {
	ROCE_PACKETS_SENT,
	ROCE_PACKETS_RESENT,
	ROCE_PACKETS_RECEIVED,
	ROCE_BACK_PRESSURE,
	ROCE_TIMEOUTS,
	ROCE_DUPLICATES,
	ROCE_OUT_OF_ORDER,
	ROCE_SENT_AHEAD,
	ROCE_RECEIVED_AHEAD,
	ROCE_SEQUENCE_NAKS_SENT,
	ROCE_SEQUENCE_NAKS_RECEIVED,
	ROCE_RNR_NAKS_SENT,
	ROCE_RNR_NAKS_RECEIVED,
	ROCE_CONGESTION_MARKS,
	ROCE_CONGESTION_NOTICES,
	ROCE_QP_ERRORS,
	ROCE_DROPPED_UNPARSABLE, /* roce.unparsable counts them by cause */
	ROCE_DROPPED_UNKNOWN_QPN,
	ROCE_DROPPED_QP_STATE,
	ROCE_DROPPED_ADDRESS,
	ROCE_DROPPED_PKEY,
	ROCE_DROPPED_OPCODE,
	ROCE_DROPPED_RESPONSE, /* responses without an outstanding request */
	ROCE_DROPPED_QKEY,
	ROCE_DROPPED_NO_RECV,
	ROCE_DROPPED_RECV_TOO_SHORT,
	ROCE_DROPPED_BAD_RECV,
	ROCE_DATAGRAMS_LOST, /* UD sends dropped because no path could be opened */
	/*
	 * UC: late packets, and packets of a message that lost a packet. RC: packets after a gap
	 * for which a NAK was sent.
	 */
	ROCE_DROPPED_SEQUENCE,
	ROCE_DROPPED_STALE, /* duplicates whose response is not available */
	/* this and the next: UC packets with errors that an RC responder reports by a NAK */
	ROCE_DROPPED_SIZE,
	ROCE_DROPPED_ACCESS,
	ROCE_INVALID_NAKS_SENT,
	ROCE_ACCESS_NAKS_SENT,
	ROCE_OPERATION_NAKS_SENT,
	ROCE_FATAL_NAKS_RECEIVED,
	/* invalid responses, which move the requester to ERROR: unknown NAK code, wrong length */
	ROCE_BAD_RESPONSES,
	ROCE_XRC_FORWARDED, /* XRC requests forwarded to another process */
	ROCE_XRC_RECEIVED,  /* XRC requests received from another process */
	ROCE_VENDOR_ACKS_SENT,
	ROCE_VENDOR_ACKS_RECEIVED,
	ROCE_PACE_TIMEOUTS, /* UC, UD: no VENDOR_ACK arrived for a full window (pace.h) */
	ROCE_COUNTER_COUNT
};

/* Those of enum roce_counter, and behind them one for each enum packet_reason. */
#define ROCE_ALL_COUNTERS ((unsigned int)ROCE_COUNTER_COUNT + (unsigned int)PACKET_REASON_COUNT)

const char *roce_counter_name(enum roce_counter counter);

struct roce;

/* Registers the counters, and one for each cause of a malformed packet. */
void roce_open_counters(struct roce *roce);

#define ROCE_BATCH LANES_MAX

struct roce_qp;

/*
 * The payload of one packet in the batch: `iov` refers to it; `bytes` holds a copy if the link does
 * not accept the packet.
 */
struct roce_slot {
	struct link_path path;
	struct iovec iov[MAX_SGE];
	uint8_t bytes[PACKET_PAYLOAD_MAX];
};

/* What the batch knows of a packet for the link. */
struct roce_note {
	struct roce_qp
		*owner; /* the QP that records this packet if it is part of a GSO burst, or NULL */
	uint32_t psn;
	uint8_t slot;
};

/*
 * Packets for the link. [sent, count) were not yet accepted. is_held: the link returned
 * back-pressure, and these packets are copies; no packet is added before they are sent.
 */
struct roce_batch {
	int count;
	int sent;
	bool is_held;
	bool is_faulty; /* `fault` applies to tx[drawn - 1] */
	int drawn;	/* tx[0, drawn) passed the fault point packet.send (roce/fault.c) */
	struct fault fault;
	uint32_t burst; /* number of the last GSO burst */
	struct lanes lanes;
	struct lane_range others;	    /* packets without a connected QP */
	uint8_t lane_of[ROCE_BATCH];	    /* as the packets were added */
	struct roce_note notes[ROCE_BATCH]; /* of tx, in the same order */
	struct link_tx tx[ROCE_BATCH];
	struct roce_slot slots[ROCE_BATCH];
};

/* State of XRC requests that are forwarded to or received from other processes (xrc_forward.h). */
struct roce_xrc {
	struct list_head targets;	  /* struct xrc_target */
	struct list_head executor_list;	  /* struct xrc_executor */
	struct hash executors;		  /* struct xrc_executor, by QPN */
	uint16_t executors_of[IPC_SLOTS]; /* number of executors for each process (slot) */
};

#define ROCE_INFLOWS 64

/* State of UD packets (datagram.c). */
struct roce_datagrams {
	/* struct ah_path of all address handles, least recently used first */
	struct list_head paths;
	unsigned int path_count;
	/* direct-mapped cache: an entry holds the latest sender with its hash */
	struct roce_sender {
		uint8_t local_gid[GID_BYTES];
		uint8_t remote_gid[GID_BYTES];
		struct roce_inflow inflow;
	} senders[ROCE_INFLOWS];
};

/*
 * The transport's state: one for each engine, allocated by open(), freed by close(). The caller of
 * roce_set_link() owns link.
 */
struct roce {
	struct engine *engine;
	struct link *link; /* NULL: not set */
	uint64_t (*clock)(void *arg);
	void *clock_arg;
	const struct cc_ops *cc; /* congestion control of queue pairs that reach RTS from now on */
	uint64_t now_ns;	 /* time of the current call */
	bool is_link_readable;	 /* roce_link_is_readable() was called after the last link_recv() */
	bool has_more; /* the last link_recv() filled its array: more datagrams may be waiting */
	size_t reorder_bytes;	/* memory of all out-of-order packets of the process */
	bool is_datagrams_turn; /* UD queue pairs send before connected ones in this run */
	/* calls of batch_may_wait() since the last run, up to POSTS_OF_POLLING */
	unsigned int posts_since_run;
	unsigned int posts_before_run; /* the same before the last run with any */
	unsigned int runs_without_posts;
	unsigned int vain_looks; /* consecutive empty link_recv() calls, up to VAIN_LOOKS */
	uint64_t looked_ns;	 /* time of the last rate-limited link_recv() */
	/* connected QPs (RC, UC, XRC); 0: link_recv() is rate-limited (is_time_to_look()) */
	unsigned int qp_count;
	struct list_head sending; /* roce_qp.send_node: QPs with packets left to send */
	/* roce_qp.sent_node: UC QPs whose WQEs [una, nxt) were sent and did not complete yet */
	struct list_head sent;
	struct list_head responding; /* roce_qp.response_node: QPs with responses pending */
	struct timer held_timer;     /* retries the held packets of the batch */
	struct timer ack_timer;	     /* sends the ACKs that wait (ack_wait.c) */
	struct timer pace_timer;     /* retries UD packets that wait for a window */
	struct vendor_acks vendor_acks;
	struct list_head delayed; /* packets that fault injection delays (fault.c) */
	unsigned int delayed_count;
	unsigned int reordered_count; /* of these, packets that later packets are to overtake */
	uint64_t delayed_until_ns[2]; /* the last deadline of incoming and of outgoing ones */
	struct icrc_solver solver;
	/* by enum roce_counter; in the segment, which `usrdma status` reads, or in `unshown` */
	uint64_t *counters;
	uint64_t *unparsable; /* by enum packet_reason */
	/* Storage of the counters if the segment has no space for them. */
	uint64_t unshown[ROCE_ALL_COUNTERS];
	struct roce_datagrams datagrams;
	struct roce_xrc xrc;
	struct roce_batch batch;
};

static inline struct roce *roce_of(const struct engine *engine)
{
	return engine->transport_state[ROCE_TRANSPORT];
}

/*
 * Sets the link and the clock of the engine. NULL removes them: the caller does this after the last
 * QP is unbound and before it closes the link. engine.lock held.
 */
void roce_set_link(struct engine *engine, struct link *link, uint64_t (*clock)(void *arg),
		   void *clock_arg);

/*
 * link_fd() of the engine's link is readable: run() calls link_recv() next time. engine.lock held.
 */
static inline void roce_link_is_readable(struct engine *engine)
{
	engine_assert_locked(engine);
	roce_of(engine)->is_link_readable = true;
}

/*
 * recovery.c. Selects the congestion control algorithm for queue pairs that reach RTS later:
 * westwood or newreno (cc.h). 0 or -EINVAL.
 */
int roce_set_cc(struct engine *engine, const char *name) __attribute__((warn_unused_result));

/*
 * Whether packets are held because of back-pressure. The link's owner may call run() when the link
 * is writable again.
 */
bool roce_is_held(const struct engine *engine);

#endif
