/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_QP_H
#define USRDMA_ROCE_QP_H

#include "core/xrc.h"
#include "roce/roce.h"
#include "roce/verdict.h"

/* The most unacknowledged PSNs, which is what rxe keeps to as well, and the most on a long way without a queue. */
#define WINDOW_PSNS	120u
#define WINDOW_MAX_PSNS 512u
/* What is kept of packets that came before their turn: as many as a window of ours may hold. */
#define KEPT_PSNS WINDOW_MAX_PSNS
/* The last round trips, of which the shortest says whether there is a queue (window.c). */
#define ROUND_TRIPS_NOTED 4u
/* Where the trains began that are under way, the latest of them. */
#define TRAINS_NOTED 64u

struct relay_home;
struct relay_proxy;

/* What a response brings. */
enum answer_kind {
	ANSWER_READ,
	ANSWER_ATOMIC,
	ANSWER_EMPTY, /* READ's without data: an atomic WRITE or a FLUSH was executed (IBA A19) */
};

/* A response that is due to a request that has one of its own: PSNs [next_psn, end_psn). */
struct answer_job {
	uint32_t next_psn;
	uint32_t end_psn;
	uint32_t msn;
	enum answer_kind kind;
	bool is_replay;
	bool is_started;
	uint32_t srqn; /* XRC: whose rights it goes by */
	uint32_t rkey;
	uint64_t remote_addr; /* of the bytes of next_psn */
	uint32_t left_bytes;
	uint64_t original;
};

/* An atomic, an atomic WRITE or a FLUSH that was executed, for as long as its request may come again. */
struct done_atomic {
	bool is_valid;
	enum answer_kind kind;
	uint32_t psn;
	uint32_t msn;
	uint64_t original;
};

/* The round trip and the retransmission timer (retry.c). */
struct roce_retry {
	uint32_t retries_left;
	uint32_t rnr_left;
	unsigned backoff;
	uint64_t progress_ns; /* when the peer last acknowledged something new, or it became its turn */
	uint64_t resent_ns; /* the same, or when something was sent again */
	uint64_t srtt_ns;   /* 0: not measured yet */
	uint64_t rttvar_ns;
	bool is_timing;
	uint32_t timed_psn;
	uint64_t timed_ns;
	bool has_gone_back;
	uint32_t gone_back_psn; /* another NAK of it says nothing new */
	uint32_t again_end_psn; /* what is before it went again last, at again_ns */
	uint64_t again_ns;
	uint32_t again_max_psn; /* max_psn at that time */
};

/* Whether the peer keeps what comes ahead of a gap (retry.c). */
struct roce_keeping {
	bool is_known;
	bool is_asking; /* what is before end_psn went again, alone: what will the peer say? */
	uint32_t end_psn;
	uint32_t hole_psns; /* that went again */
	unsigned doubt;
	unsigned losses_left; /* before it is asked again */
	uint32_t all_end_psn; /* everything before it went again, or una_psn */
};

/* The window of unacknowledged PSNs, and what it goes by (window.c). */
struct roce_window {
	uint32_t psns;
	uint32_t threshold;  /* up to here it grows by what is acknowledged, then slowly */
	uint32_t acked_psns; /* since it last grew */
	bool is_recovering;
	bool has_timed_out;
	uint32_t recover_psn; /* what is lost before it does not shrink the window again */
	uint32_t losses;      /* of delivered_psns; both fade */
	uint32_t delivered_psns;
	uint64_t era_ns;
	uint64_t shortest_ns; /* round trip of this era; 0: none yet */
	uint64_t before_ns;   /* and of the one before */
	uint64_t recent_ns;
	uint64_t last_ns[ROUND_TRIPS_NOTED]; /* a ring; 0: none yet */
	uint32_t last_head;
};

/* Which packets left as one train: a ring of its trains' first PSNs, in their order (batch.c). */
struct roce_trains {
	uint32_t first_psns[TRAINS_NOTED];
	uint32_t head;
};

/*
 * A QP's transport state, made in bind() and freed in unbind(). The requester's PSNs: [una_psn, next_psn) are out and
 * unacknowledged, [next_psn, max_psn) were out before and go again.
 */
struct roce_qp {
	struct qp *qp;
	struct roce *roce;
	struct list_head send_node;
	struct list_head answer_node;
	struct link_path path;
	struct icrc_flow tx_flow;
	struct roce_inflow inflow;
	uint32_t mtu_bytes;
	struct relay_proxy *proxy; /* XRC: this stands for a QP of another process (relay.h) */
	struct {		   /* requester */
		bool is_ready;
		uint32_t una_psn;
		uint32_t next_psn;
		uint32_t max_psn;
		uint32_t unasked_pkts;		   /* since the last one that asked for an ACK */
		uint32_t read_ends[MAX_RD_ATOMIC]; /* [reads_tail, reads_head): where requests end */
		uint32_t reads_head;
		uint32_t reads_tail;
		uint32_t reads_end_psn; /* where the last of all that were ever sent ends, or una_psn */
		bool is_waiting_rnr;
		bool skips; /* from skip_psn on to max_psn: the peer has, or may have, what lies between */
		uint32_t skip_psn;
		struct timer timer;
		struct roce_retry retry;
		struct roce_keeping keeping;
		struct roce_window window;
		struct roce_trains trains;
	} tx;
	struct {	      /* responder */
		uint32_t psn; /* expected */
		uint32_t msn;
		bool is_inside;
		bool is_inside_write;
		uint32_t srqn;	/* XRC: of the message that comes in, or came in last */
		bool has_begun; /* UC: something came, so what is before it is late */
		bool has_nakd; /* one NAK for each gap; until the expected PSN comes the rest is kept or dropped */
		struct kept_packet **kept; /* by PSN modulo KEPT_PSNS; NULL: never any */
		uint32_t kept_count;
		bool owes_ack;
		bool has_waited;       /* … since the turn before */
		enum verdict owes_nak; /* VERDICT_ACCEPTED: none */
		enum verdict
			fatal; /* what this QP erred of; its requester may have to be told again */
		bool owes_notice;
		uint64_t notice_ns;
		struct relay_home *home; /* XRC: other processes may have SRQs for it (relay.h) */
		struct inbound *in;
		struct answer_job *jobs; /* [jobs_tail, jobs_head) of max_jobs */
		uint32_t max_jobs;
		uint32_t jobs_head;
		uint32_t jobs_tail;
		struct done_atomic *atomics; /* ring of max_reads */
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

/* What the opcodes of the QP's packets begin with. */
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

/* A packet was not of our partition. */
static inline void roce_drop_partition(struct roce *roce)
{
	roce_count(roce, ROCE_DROPPED_PKEY);
	roce->engine->pkey_violations++;
}

static inline uint32_t psns_of_bytes(const struct roce_qp *rqp, uint32_t bytes)
{
	return bytes ? (bytes - 1) / rqp->mtu_bytes + 1 : 1;
}

/* Of a P_Key all but the membership bit. */
#define ROCE_PKEY_MASK 0x7fff
/* The low bits of a traffic class are not the sender's to choose (RFC 3168 §5). */
#define ROCE_ECN_MASK	       0x03
#define ROCE_HOP_LIMIT_DEFAULT 64

/* roce.c */
void roce_look_at_clock(struct roce *roce); /* a call begins: this is its time */
void roce_timer_add(struct roce *roce, struct timer *timer, uint64_t deadline_ns);
void roce_send_later(struct roce_qp *rqp);

/* batch.c: room for one more packet, or NULL: the link takes no more. The slot's iov is the caller's to fill. */
struct roce_slot *batch_reserve(struct roce *roce);
/* Completes the packet whose payload the slot's first `iovs` entries name, and puts it on its way. */
void batch_commit(struct roce_qp *rqp, struct packet *packet, int iovs);
/* The same for whoever is no connected QP; dest_qpn is filled in. */
void batch_commit_to(struct roce *roce, const struct link_path *path, const struct icrc_flow *flow,
		     struct packet *packet, int iovs);
/* The packet that was committed last is a request with this PSN that was never out before. */
void batch_note(struct roce_qp *rqp, uint32_t psn);
void batch_flush(struct roce *roce);
void batch_timer(struct timer *timer, uint64_t now_ns);
/* How many packets, from this one on, left as one train; 1 for one in its midst. */
uint32_t batch_train_psns(const struct roce_qp *rqp, uint32_t psn);

/* path.c: where a route leads from a local address, all but the peer's QPN. No ECN. 0 or -errno. */
int path_fill(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
	      const struct ibv_global_route *route, struct link_path *path)
	__attribute__((warn_unused_result));

/* datagram.c */
int roce_ah_open(struct ah *ah);
void roce_ah_close(struct ah *ah);
int roce_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
void roce_datagrams_flush(struct engine *engine);
void roce_datagram_receive(struct roce *roce, const struct link_rx *rx,
			   const struct packet *packet);

/* requester.c */
void roce_requester_run(struct roce_qp *rqp);
void roce_requester_succeed(struct roce_qp *rqp);
void roce_requester_fail(struct roce_qp *rqp, enum ibv_wc_status status,
			 enum vendor_err vendor_err);
/* Everything from una_psn on goes out again. */
void roce_requester_go_back(struct roce_qp *rqp);
/* … but after what is before `psn` it goes on with what was never out. */
void roce_requester_skip_after(struct roce_qp *rqp, uint32_t psn);
bool roce_requester_has_reads_out(const struct roce_qp *rqp);
/* The PSNs before una_psn are done with. */
void roce_requester_moved_on(struct roce_qp *rqp);
uint32_t roce_requester_wqe_psns(const struct roce_qp *rqp, const struct send_wqe *wqe);

/* completer.c */
void roce_completer_response(struct roce_qp *rqp, const struct packet *packet);

/* retry.c */
void retry_init(struct roce_qp *rqp);
/* is_timeable: the packet was never out before and asks for an ACK. */
void retry_sent(struct roce_qp *rqp, uint32_t psn, bool is_timeable);
void retry_progress(struct roce_qp *rqp, uint32_t acked_psns);
void retry_lost(struct roce_qp *rqp);
/* The peer acknowledged, and missed nothing that it would tell of. */
void retry_acked(struct roce_qp *rqp);
void retry_rnr(struct roce_qp *rqp, unsigned timer_code);
uint32_t retry_room(const struct roce_qp *rqp);
void retry_timer(struct timer *timer, uint64_t now_ns);

/* window.c */
void window_init(struct roce_qp *rqp);
void window_measured(struct roce_qp *rqp, uint64_t rtt_ns);
uint64_t window_shortest_rtt_ns(const struct roce_qp *rqp);
void window_repaired(struct roce_qp *rqp, uint64_t rtt_ns);
void window_acked(struct roce_qp *rqp, uint32_t acked_psns);
void window_lost(struct roce_qp *rqp);
void window_marked(struct roce_qp *rqp);
void window_timed_out(struct roce_qp *rqp);

/* kept.c: a packet that came before its turn; whoever takes it frees it. */
struct kept_packet {
	struct packet packet;
	uint8_t payload[];
};

void kept_add(struct roce_qp *rqp, const struct packet *packet);
/* The one whose turn it is now, or NULL. */
struct kept_packet *kept_take(struct roce_qp *rqp) __attribute__((warn_unused_result));
void kept_free(struct roce_qp *rqp, struct kept_packet *kept);
/* Whether something is kept for later. */
bool kept_has_later(struct roce_qp *rqp);
void kept_drop_all(struct roce_qp *rqp);

/* responder.c */
void roce_responder_request(struct roce_qp *rqp, const struct packet *packet);
void roce_responder_abandon(struct roce_qp *rqp);
/* At an XRC queue pair's home: what waits for another process may go on (relay.h). */
void roce_responder_resume(struct roce_qp *rqp);
/* At its proxy: a request that is in turn; one that was executed and is to be answered again. */
enum verdict roce_responder_relayed(struct roce_qp *rqp, const struct packet *packet);
void roce_responder_replay(struct roce_qp *rqp, const struct packet *packet);
/* Says no to the requester for good and errs the QP. */
void roce_responder_refuse(struct roce_qp *rqp, enum verdict verdict);

/* answer.c */
void answer_owe(struct roce_qp *rqp);
/* Queues a response; false: more are due already than the QP has room for. */
bool answer_add(struct roce_qp *rqp, const struct answer_job *job);
void answer_replace(struct roce_qp *rqp, const struct answer_job *job);
/* Whether what is due is better sent in the next turn, which will be soon. Never twice in a row. */
bool answer_may_wait(struct roce_qp *rqp);
/* Sends what is due; false: the link takes no more. */
bool answer_run(struct roce_qp *rqp);

#endif
