/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_ROCE_H
#define USRDMA_ROCE_ROCE_H

#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "core/engine.h"
#include "core/execute.h"
#include "core/objects.h"
#include "core/transport.h"
#include "link/link.h"
#include "roce/inflow.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/psn.h"

/*
 * RoCEv2: RC, UC and UD over UDP (IBA 1.x §9.7, §9.8, IBA A17). Pure protocol: it is handed datagrams and the time and
 * hands out datagrams and deadlines (timers on engine.timers). All of it is guarded by engine.lock.
 *
 * Whoever owns the engine gives it a link and a clock; without them no QP is bound. Between two calls into this room
 * nothing waits in memory that the application owns: what the link did not take was copied.
 */

extern const struct transport roce_transport;

/* What happened, by number; roce_counter_name() says it in words. */
enum roce_counter {
	ROCE_PACKETS_SENT,
	ROCE_PACKETS_RESENT,
	ROCE_PACKETS_RECEIVED,
	ROCE_BACK_PRESSURE,
	ROCE_TIMEOUTS,
	ROCE_DUPLICATES,
	ROCE_KEPT,
	ROCE_SEQUENCE_NAKS_SENT,
	ROCE_SEQUENCE_NAKS_RECEIVED,
	ROCE_RNR_NAKS_SENT,
	ROCE_RNR_NAKS_RECEIVED,
	ROCE_CONGESTION_MARKS,
	ROCE_CONGESTION_NOTICES,
	ROCE_QP_ERRORS,
	ROCE_DROPPED_UNPARSABLE, /* by reason in roce.unparsable */
	ROCE_DROPPED_UNKNOWN_QPN,
	ROCE_DROPPED_QP_STATE,
	ROCE_DROPPED_ADDRESS,
	ROCE_DROPPED_PKEY,
	ROCE_DROPPED_OPCODE,
	ROCE_DROPPED_RESPONSE, /* answers that answer nothing */
	ROCE_DROPPED_QKEY,
	ROCE_DROPPED_NO_RECV,
	ROCE_DROPPED_RECV_TOO_SHORT,
	ROCE_DROPPED_BAD_RECV,
	ROCE_DATAGRAMS_LOST, /* sent where no path leads */
	ROCE_DROPPED_SEQUENCE, /* UC: late, or of a message that had lost something; RC: behind a gap that was told of */
	ROCE_DROPPED_STALE, /* a duplicate that cannot be answered any more */
	ROCE_DROPPED_SIZE,  /* UC, as what follows: what RC is told by a NAK */
	ROCE_DROPPED_ACCESS,
	ROCE_INVALID_NAKS_SENT,
	ROCE_ACCESS_NAKS_SENT,
	ROCE_OPERATION_NAKS_SENT,
	ROCE_FATAL_NAKS_RECEIVED,
	ROCE_BAD_RESPONSES, /* answers that end the requester: an unknown NAK, data of another length */
	ROCE_RELAYED, /* XRC requests that were another process's, and those that others passed on */
	ROCE_RELAYS_TAKEN,
	ROCE_COUNTER_COUNT
};

const char *roce_counter_name(enum roce_counter counter);

#define ROCE_BATCH 60

struct roce_qp;

/* Where one packet's payload is named, and held if the link does not take it at once. */
struct roce_slot {
	struct link_path path;
	struct roce_qp *owner; /* who is to know if this request begins a train; NULL: nobody */
	uint32_t psn;
	struct iovec iov[MAX_SGE];
	uint8_t bytes[PACKET_PAYLOAD_MAX];
};

/* Packets on their way to the link: [sent, count). Held ones are copies and go before all others. */
struct roce_batch {
	int count;
	int sent;
	bool is_held;
	struct link_tx tx[ROCE_BATCH];
	struct roce_slot slots[ROCE_BATCH];
};

/* XRC requests for other processes, and of them (relay.h). */
struct roce_relay {
	struct list_head homes;		/* struct relay_home */
	struct list_head proxy_list;	/* struct relay_proxy */
	struct hash proxies;		/* the same, by QPN */
	struct list_head waiting;	/* struct relay_wait */
	struct list_head owed;		/* struct owed_word */
	uint16_t proxies_of[IPC_SLOTS]; /* how many of them are each process's */
};

#define ROCE_INFLOWS 64

/* Datagrams, which have no QP of the peer's behind them (datagram.c). */
struct roce_datagrams {
	struct list_head paths; /* of address handles, the one used longest ago first */
	unsigned int path_count;
	struct roce_sender {
		uint8_t local_gid[GID_BYTES];
		uint8_t remote_gid[GID_BYTES];
		struct roce_inflow inflow;
	} senders[ROCE_INFLOWS]; /* by a hash; the last one heard of has the place */
};

/* One for each engine, made by open() and freed by close(). The link is its giver's. */
struct roce {
	struct engine *engine;
	struct link *link; /* NULL: none yet */
	uint64_t (*clock)(void *arg);
	void *clock_arg;
	uint64_t now_ns;	  /* as of the call under way */
	bool has_more;		  /* the link may have received what it has not handed out yet */
	size_t kept_bytes;	  /* of all packets that wait for their turn */
	bool is_datagrams_turn;	  /* to send first */
	unsigned int vain_looks;  /* for packets, since one came */
	uint64_t looked_ns;	  /* after many in vain: when last */
	unsigned int qp_count;	  /* bound: without any, only a socket seen readable is looked at */
	struct list_head sending; /* roce_qp.send_node: have more to send than the turn allowed */
	struct list_head answering; /* roce_qp.answer_node: owe their peers an answer */
	struct timer held_timer;    /* the link's next chance to take what is held */
	struct icrc_solver solver;
	uint64_t *counters; /* by enum roce_counter; shown by `usrdma status` where it has a segment to look at */
	uint64_t *unparsable; /* by enum packet_reason */
	uint64_t unshown[ROCE_COUNTER_COUNT + PACKET_REASON_COUNT];
	struct roce_datagrams datagrams;
	struct roce_relay relay;
	struct roce_batch batch;
};

/*
 * Gives the engine its link and clock; NULL takes them away, which the owner does before it closes the link and after the
 * last QP is unbound. engine.lock held.
 */
void roce_set_link(struct engine *engine, struct link *link, uint64_t (*clock)(void *arg),
		   void *clock_arg);

/* Whether packets wait for the link to have room: its owner may call run() as soon as it is writable. */
bool roce_is_held(const struct engine *engine);

#endif
