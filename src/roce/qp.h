/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_QP_H
#define USRDMA_ROCE_QP_H

#include "core/object/opcode.h"
#include "core/qp/xrc.h"
#include "core/queue/reply_wait.h"
#include "roce/cc.h"
#include "roce/disposition.h"
#include "roce/pace.h"
#include "roce/recovery.h"
#include "roce/roce.h"

/*
 * Capacity of a queue pair's reorder buffer: the maximum that a requester of this project has in
 * flight.
 */
#define REORDER_PSNS CC_MAX_PKTS
/* Number of GSO bursts that a queue pair stores. */
#define BURSTS_NOTED 48u

struct xrc_executor;
struct xrc_target;

/*
 * A responder resource: a pending response to a READ, atomic, atomic WRITE or FLUSH. PSNs
 * [next_psn, end_psn) are unsent.
 */
struct response_job {
	uint32_t next_psn;
	uint32_t end_psn;
	uint32_t msn;
	enum wr_response response;
	bool is_replay;
	bool is_started;
	bool may_overtake; /* a READ: the request had takes_ahead */
	uint32_t srqn;	   /* XRC: the SRQ whose access rights apply */
	uint32_t rkey;
	uint64_t remote_addr; /* address of the payload of next_psn */
	uint32_t left_bytes;
	/*
	 * For the QP's completion counter: the peer's WRs that end with this response, and their
	 * bytes. Both 0: not counted.
	 */
	uint32_t reads;
	uint64_t read_bytes;
	uint64_t original;
};

/*
 * Result of an executed atomic, atomic WRITE or FLUSH, stored to respond to duplicates of its
 * request.
 */
struct done_atomic {
	bool is_valid;
	enum wr_response response;
	uint32_t psn;
	uint32_t msn;
	uint64_t original;
};

/*
 * Ring of the latest GSO bursts with at least two packets of the QP (bursts.c). `pkts` counts from
 * the lowest PSN to the highest one: PSNs between them may be in the next burst.
 */
struct roce_bursts {
	uint32_t first_psns[BURSTS_NOTED]; /* of the QP's packets in the burst */
	uint8_t pkts[BURSTS_NOTED];
	uint32_t head;
	uint32_t latest; /* number of the burst at head - 1 */
};

/*
 * The READ responses that arrived ahead of others (read_reorder.c). Their data is in its place. All
 * zeros at first.
 */
struct read_reorder {
	uint64_t psns[REORDER_PSNS / 64]; /* one bit for each PSN modulo REORDER_PSNS */
	uint32_t count;
	uint32_t end_psn;  /* after the last of them; valid if there are any */
	uint32_t last_wqe; /* index of the WQE of the last one */
	/*
	 * UDP source port of the last response with the expected PSN except ACKs and NAKs; 0: none
	 */
	uint16_t flow_port;
};

/*
 * The transport state of a QP. Allocated by bind(), freed by unbind(), guarded by engine.lock. The
 * requester's PSNs: [una_psn, next_psn) is in flight; [next_psn, max_psn) was sent and is to be
 * retransmitted (recovery.h).
 */
struct roce_qp {
	struct qp *qp;
	struct roce *roce;
	struct list_head send_node;
	struct list_head sent_node;
	struct list_head response_node;
	struct link_path path;
	struct icrc_flow tx_flow;
	struct roce_inflow inflow;
	uint32_t mtu_bytes;
	/*
	 * Not NULL: this QP executes requests for an XRC target QP of another process
	 * (xrc_forward.h).
	 */
	struct xrc_executor *executor;
	struct { /* requester */
		bool is_ready;
		uint32_t una_psn;
		uint32_t next_psn;
		uint32_t max_psn;
		struct lane_range lanes;
		bool may_overtake; /* the last response had takes_ahead */
		bool has_whole;	   /* whole_psn is set */
		/* of the first message of several packets (requester_splits()) */
		uint32_t whole_psn;
		struct read_reorder read_reorder;
		uint32_t unasked_pkts; /* packets since the last with the AckReq bit */
		uint32_t read_ends
			[MAX_RD_ATOMIC]; /* [reads_tail, reads_head): end PSNs of the requests */
		uint32_t reads_head;
		uint32_t reads_tail;
		/* end PSN of the last READ or atomic that was sent, or una_psn */
		uint32_t reads_end_psn;
		struct timer timer; /* recovery_timer(); UC: roce_requester_pace_timer() */
		struct pace pace;   /* UC */
		struct recovery recovery;
		struct cc cc;
		uint32_t traced_cwnd_pkts; /* in the last trace event */
		struct roce_bursts bursts;
	} tx;
	struct {	      /* responder */
		uint32_t psn; /* expected */
		uint32_t msn;
		bool is_inside;
		bool is_inside_write;
		uint32_t srqn;	/* XRC: SRQ of the current or latest message */
		bool has_begun; /* UC: a message was received, so lower PSNs are late packets */
		bool has_taken_recv; /* UC: the latest message took a receive */
		/*
		 * One NAK is sent for each gap. Until the expected PSN arrives, packets are
		 * buffered or dropped.
		 */
		bool nak_sent;
		/* By PSN modulo REORDER_PSNS; NULL: never used. */
		struct reorder_packet **reorder_buffer;
		uint32_t reorder_count;
		uint32_t reorder_late_count; /* of these, packets that were not sent ahead */
		uint16_t flow_port; /* UDP source port of the last in-sequence request; 0: none */
		struct lane_range lanes; /* of the responses */
		bool ack_pending;
		bool has_waited;	      /* responses were postponed (response_may_wait()) */
		struct reply_wait reply;      /* ack_wait.c */
		enum disposition nak_pending; /* DISPOSITION_ACCEPTED: none */
		/*
		 * Why the QP entered ERROR. The NAK is sent again if the requester sends a
		 * duplicate.
		 */
		enum disposition fatal;
		/* the application moves the QP to ERR or RESET: no response reads memory */
		bool is_revoked;
		bool cnp_pending;
		uint64_t cnp_ns;
		/* Not NULL: XRC target QP whose domain other processes may open (xrc_forward.h). */
		struct xrc_target *xrc_target;
		struct inbound *in;
		struct response_job *jobs; /* ring: [jobs_tail, jobs_head), at most max_jobs */
		uint32_t max_jobs;
		uint32_t jobs_head;
		uint32_t jobs_tail;
		struct done_atomic *atomics; /* ring: the last atomics_count */
		uint32_t atomics_count;	     /* at least max_reads; a power of two */
		uint32_t atomics_head;
		uint32_t max_reads;
	} rx;
};

static inline struct roce_qp *roce_qp_of(const struct qp *qp)
{
	return qp->transport_qp;
}

static inline bool is_reliable(const struct roce_qp *rqp)
{
	return rqp->qp->type != IBV_QPT_UC;
}

/* The transport service in the opcodes of the QP's packets. */
static inline enum opcode_transport service_of(const struct roce_qp *rqp)
{
	if (qp_is_xrc(rqp->qp->type))
		return OPCODE_TRANSPORT_XRC;
	return is_reliable(rqp) ? OPCODE_TRANSPORT_RC : OPCODE_TRANSPORT_UC;
}

static inline void roce_count(struct roce *roce, enum roce_counter counter)
{
	roce->counters[counter]++;
}

/* Counts a packet that was dropped because of its P_Key. */
static inline void roce_drop_partition(struct roce *roce)
{
	roce_count(roce, ROCE_DROPPED_PKEY);
	roce->engine->pkey_violations++;
}

static inline uint32_t psns_of_bytes(const struct roce_qp *rqp, uint32_t bytes)
{
	return bytes ? (bytes - 1) / rqp->mtu_bytes + 1 : 1;
}

/* A P_Key without its membership bit. */
#define ROCE_PKEY_MASK 0x7fff
/* The ECN field of the traffic class, which the application cannot set (RFC 3168 §5). */
#define ROCE_ECN_MASK	       0x03
#define ROCE_HOP_LIMIT_DEFAULT 64

/* receive.c: processes one datagram. */
void roce_receive(struct roce *roce, const struct link_rx *rx);
/* Moves ACKs before the requests to the same QP that directly precede them. */
void roce_acks_first(struct link_rx *rx, int n);

/* Sets now_ns for the current call. */
static inline void roce_look_at_clock(struct roce *roce)
{
	if (roce->clock)
		roce->now_ns = roce->clock(roce->clock_arg);
}

/* roce.c */
void roce_timer_add(struct roce *roce, struct timer *timer, uint64_t deadline_ns);
void roce_send_later(struct roce_qp *rqp);

/* run.c */
/* The operations run() and sleep() of the transport (core/engine/transport.h). */
unsigned int roce_run(struct engine *engine);
bool roce_sleep(struct engine *engine, bool want_doorbell);
/*
 * Before a QP is bound: packets that have arrived for it belong to an earlier connection, whose
 * PSNs may be the same. In INIT it drops them, as a NIC does at the time of their arrival. Packets
 * for other QPs are executed, as in qp_reset().
 */
void roce_drop_earlier_packets(struct roce *roce);

/*
 * batch.c: reserves a slot for one packet; NULL: back-pressure of the link. The caller fills the
 * slot's iov.
 */
struct roce_slot *batch_reserve(struct roce *roce);
/*
 * Completes the packet in the reserved slot and adds it to the batch. The payload is the slot's
 * first `iovs` iov entries. false: application memory of the payload cannot be read. The batch was
 * sent, and the packet was not added.
 */
bool batch_commit(struct roce_qp *rqp, struct packet *packet, int iovs);
/* The same for a request or READ response that may be sent before those with lower PSNs. */
bool batch_commit_ahead(struct roce_qp *rqp, struct packet *packet, int iovs);
/* The same for a packet without a connected QP; the caller has set dest_qpn. */
bool batch_commit_to(struct roce *roce, const struct link_path *path, const struct icrc_flow *flow,
		     struct packet *packet, int iovs);
/*
 * Records that the last committed packet is a request with this PSN that is sent for the first
 * time.
 */
void batch_note(struct roce_qp *rqp, uint32_t psn);
void batch_flush(struct roce *roce);
/*
 * Whether the packets of this call of ibv_post_send() may wait for those of the next calls. To be
 * called once for each call.
 */
bool batch_may_wait(struct roce *roce);
/* An application thread runs the transport. */
void batch_on_run(struct roce *roce);
void batch_timer(struct timer *timer, uint64_t now_ns);

/*
 * bursts.c: records the packets that each QP has in the GSO burst notes[0, n). A network that loses
 * one packet of a burst mostly loses the whole burst, so loss recovery uses the number of the QP's
 * packets in it.
 */
void bursts_note(struct roce_batch *batch, const struct roce_note *notes, int n);
/*
 * The number of the QP's packets in the stored GSO burst in which `psn` is its first; 1 without
 * such a burst.
 */
uint32_t bursts_pkts(const struct roce_qp *rqp, uint32_t psn);

/*
 * path.c: fills a path from a local address and a route, except remote_qpn. The ECN field is 0. 0
 * or -errno.
 */
int path_fill(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
	      const struct ibv_global_route *route, struct link_path *path)
	__attribute__((warn_unused_result));
/* The same for UD: with the addresses themselves if the kernel can send them. */
int path_fill_datagram(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
		       const struct ibv_global_route *route, struct link_path *path)
	__attribute__((warn_unused_result));

/* ack_wait.c */
/* A request packet was executed. */
void ack_wait_on_request(struct roce_qp *rqp, bool completes_recv);
/*
 * Whether the QP's ACK waits for the reply: a message has arrived, nothing after it, and the
 * application has not processed it yet.
 */
bool ack_waits(const struct roce_qp *rqp);
/* An ACK waits; the timer ends this. */
void ack_wait_begin(struct roce *roce);
void ack_wait_timer(struct timer *timer, uint64_t now_ns);
/* The ACK does not wait any longer. */
static inline void ack_wait_end(struct roce_qp *rqp)
{
	reply_wait_end(&rqp->rx.reply);
}

/* datagram.c */
int roce_ah_open(struct ah *ah);
void roce_ah_close(struct ah *ah);
int roce_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
bool roce_datagrams_end(struct engine *engine, bool may_wait);
void roce_datagram_receive(struct roce *roce, const struct link_rx *rx,
			   const struct packet *packet);
/* A VENDOR_ACK for a UD QP arrived. */
void roce_datagram_on_vendor_ack(struct roce *roce, const struct link_rx *rx,
				 const struct packet *packet);
void roce_datagram_pace_timer(struct timer *timer, uint64_t now_ns);

/*
 * One WR may be sent as several WRITE Only packets (docs/adr/0056), or as several READ requests.
 * All but the last have the SE bit, which has no meaning in a WRITE without immediate and in a
 * READ: so the responder can count WRs.
 */
static inline void roce_mark_part(struct packet *packet, bool is_part)
{
	packet->is_solicited = is_part;
}

static inline bool roce_is_part(const struct packet *packet)
{
	bool is_write_only = packet->info->is_write && !packet->info->has_imm &&
			     opcode_starts_message(packet->info) &&
			     opcode_ends_message(packet->info);

	return packet->is_solicited && (is_write_only || packet->info->is_read);
}

/* requester.c */
void roce_requester_run(struct roce_qp *rqp);
/*
 * Sends the packets that wait, and then completes the WQEs of UC that were sent. Returns the number
 * of QPs with completions.
 */
unsigned int roce_requester_flush(struct roce *roce);
void roce_requester_succeed(struct roce_qp *rqp);
/* Goes back N: una_psn is the next packet to be sent. */
void roce_requester_go_back(struct roce_qp *rqp);
bool roce_requester_has_reads_out(const struct roce_qp *rqp);
/* Updates the requester's state after una_psn advanced. */
void roce_requester_moved_on(struct roce_qp *rqp);
/* UC: a VENDOR_ACK arrived; a timeout of the window. */
void roce_requester_on_vendor_ack(struct roce_qp *rqp, const struct packet *packet);
void roce_requester_pace_timer(struct timer *timer, uint64_t now_ns);
uint32_t roce_requester_wqe_psns(const struct roce_qp *rqp, const struct send_wqe *wqe);

/* completer.c */
void roce_completer_response(struct roce_qp *rqp, const struct packet *packet);

/* read_reorder.c */
/*
 * A READ response arrived ahead of its turn: its data is stored in its place, and the response
 * takes effect when those before it have arrived. An unexpected response is dropped; the requester
 * requests its data again if they are still missing.
 */
void read_reorder_add(struct roce_qp *rqp, const struct packet *packet);
/* Whether the response with this PSN, which is in flight, has arrived ahead of its turn. */
bool read_reorder_has(struct roce_qp *rqp, uint32_t psn);
/* The PSNs [first_psn, end_psn) are acknowledged. */
void read_reorder_forget(struct roce_qp *rqp, uint32_t first_psn, uint32_t end_psn);

/* The payload of the response of a READ that begins at `at`. */
static inline uint32_t read_response_bytes(const struct roce_qp *rqp, const struct send_wqe *wqe,
					   uint32_t at)
{
	return min_u32(wqe->length_bytes - at, rqp->mtu_bytes);
}

/* recovery.c: the events of recovery.h on a queue pair. */
/* The queue pair is in RTR: no packet was sent, but CNPs may arrive. */
void recovery_init(struct roce_qp *rqp);
/* The queue pair has reached RTS. */
void recovery_start(struct roce_qp *rqp);
/* The queue pair is in ERROR: cancels the timer; no packets are sent. */
void recovery_halt(struct roce_qp *rqp);
/*
 * The packet next_psn (`psn`) is being sent. is_timeable: it is sent for the first time and has the
 * AckReq bit.
 */
void recovery_on_sent(struct roce_qp *rqp, uint32_t psn, bool is_timeable);
/* una_psn advanced by acked_pkts. */
void recovery_on_progress(struct roce_qp *rqp, uint32_t acked_pkts);
/* An ACK was processed completely: una_psn is the PSN after the acknowledged one. */
void recovery_on_ack_end(struct roce_qp *rqp);
/* A packet from the peer shows that una_psn is missing there. */
void recovery_on_gap(struct roce_qp *rqp);
void recovery_on_rnr_nak(struct roce_qp *rqp, unsigned int timer_code);
/* A CNP arrived. */
void recovery_on_ecn(struct roce_qp *rqp);
/* How many packets may be sent now. */
uint32_t recovery_room(const struct roce_qp *rqp);
/* false: the RNR timer is running. */
bool recovery_may_send(const struct roce_qp *rqp);
/*
 * Whether selective repeat is in progress: packets up to retransmit_end_psn are retransmitted,
 * those up to max_psn are not.
 */
bool recovery_is_sending_gap(const struct roce_qp *rqp);
void recovery_timer(struct timer *timer, uint64_t now_ns);

/* reorder.c: an out-of-order packet. After reorder_dequeue() the caller owns it. */
struct reorder_packet {
	struct packet packet;
	uint8_t payload[];
};

/*
 * Whether the latest packet has this UDP source port, of the last packet in sequence, and the port
 * cannot be guessed from the QPNs. 0: none. Only then a packet out of sequence is accepted
 * (reorder.c).
 */
bool reorder_is_flow(const struct roce_qp *rqp, uint16_t port);
/* The same for a request. */
bool reorder_may_buffer(const struct roce_qp *rqp);
/*
 * Whether to permit the requester to send packets ahead of others (docs/adr/0062). Responses tell
 * the requester.
 */
bool reorder_takes_ahead(const struct roce_qp *rqp);
/*
 * Whether the packet was sent ahead, as the requester was permitted to, and there is memory for it.
 */
bool reorder_is_ahead(const struct roce_qp *rqp, const struct packet *packet);
void reorder_add(struct roce_qp *rqp, const struct packet *packet);
/* The packet with the expected PSN, or NULL. */
struct reorder_packet *reorder_dequeue(struct roce_qp *rqp) __attribute__((warn_unused_result));
void reorder_free(struct roce_qp *rqp, struct reorder_packet *buffered);
/*
 * Whether the expected PSN was lost or overtaken: packets after it are buffered that were not sent
 * ahead.
 */
bool reorder_has_gap(struct roce_qp *rqp);
/*
 * A READ has used the last `psns` PSNs before the expected one for its responses: drops buffered
 * packets with these.
 */
void reorder_pass(struct roce_qp *rqp, uint32_t psns);
void reorder_drop_all(struct roce_qp *rqp);

/* responder_uc.c: a request of UC. */
void responder_take_unreliable(struct roce_qp *rqp, const struct packet *packet);

/* responder.c */
void roce_responder_request(struct roce_qp *rqp, const struct packet *packet);
void roce_responder_abandon(struct roce_qp *rqp);
/*
 * Two of its steps: the lengths of the payload and of the message; the execution of one packet of a
 * SEND or WRITE.
 */
enum disposition responder_check_size(struct roce_qp *rqp, const struct packet *packet);
enum access_result responder_execute_message(struct roce_qp *rqp, const struct packet *packet);
/*
 * In the XRC target QP process: processes the deferred packet and those after it (xrc_forward.h).
 */
void roce_responder_resume(struct roce_qp *rqp);
/*
 * In an executor: executes a request with the expected PSN; sends the response to a duplicate
 * again.
 */
enum disposition roce_responder_forwarded(struct roce_qp *rqp, const struct packet *packet);
void roce_responder_replay(struct roce_qp *rqp, const struct packet *packet);
/* Sends the NAK of `disposition` and moves the QP to ERROR. */
void roce_responder_refuse(struct roce_qp *rqp, enum disposition disposition);

/* response.c */
/* Queues the QP for sending its pending responses. */
void response_set_pending(struct roce_qp *rqp);
/* false: max_reads new responses are pending. */
bool response_has_room(const struct roce_qp *rqp);
/* Queues a response, for which there is room. */
void response_add(struct roce_qp *rqp, struct response_job *job);
/* Queues the response to a duplicate request, unless a pending response covers it. */
void response_replace(struct roce_qp *rqp, struct response_job *job);
/*
 * The application ends the peer's access to its memory: drops the first pending READ response and
 * all responses after it, which the requester cannot process without it. From now on no duplicate
 * READ is executed.
 */
void response_revoke(struct roce_qp *rqp);
/*
 * Whether to postpone pending ACKs to the next turn, which will be soon. Never true twice in a row.
 */
bool response_may_wait(struct roce_qp *rqp);
/* Sends responses that were postponed. */
void response_run_waited(struct roce_qp *rqp);
/*
 * Sends pending responses; false: some remain, because of back-pressure or the end of the QP's
 * turn.
 */
bool response_run(struct roce_qp *rqp);

#endif
