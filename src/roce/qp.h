/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_QP_H
#define USRDMA_ROCE_QP_H

#include "roce/roce.h"
#include "roce/verdict.h"

/* The most unacknowledged PSNs, which is what rxe keeps to as well. */
#define WINDOW_PSNS 128u

/* A READ or atomic response that is due: PSNs [next_psn, end_psn). */
struct answer_job {
	uint32_t next_psn;
	uint32_t end_psn;
	uint32_t msn;
	bool is_atomic;
	bool is_replay;
	bool is_started;
	uint32_t rkey;
	uint64_t remote_addr; /* of the bytes of next_psn */
	uint32_t left_bytes;
	uint64_t original;
};

/* An atomic that was executed, for as long as its request may come again. */
struct done_atomic {
	bool is_valid;
	uint32_t psn;
	uint32_t msn;
	uint64_t original;
};

/* The round trip, the retransmission timer and the window that backs off on loss (retry.c). */
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
	uint32_t window;
	uint32_t threshold;
	uint32_t acked; /* since the window last grew */
	bool is_recovering;
	uint32_t recover_psn; /* losses before it are one loss */
	bool has_gone_back;
	uint32_t gone_back_psn; /* another NAK of it says nothing new */
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
	struct icrc_flow rx_flow;
	uint16_t rx_flow_port;
	bool rx_dont_fragment;
	unsigned rx_other_df; /* packets in a row whose sender seems to have that bit otherwise */
	uint32_t mtu_bytes;
	struct { /* requester */
		bool is_ready;
		uint32_t una_psn;
		uint32_t next_psn;
		uint32_t max_psn;
		uint32_t unasked_pkts;		   /* since the last one that asked for an ACK */
		uint32_t read_ends[MAX_RD_ATOMIC]; /* [reads_tail, reads_head): where requests end */
		uint32_t reads_head;
		uint32_t reads_tail;
		bool is_waiting_rnr;
		struct timer timer;
		struct roce_retry retry;
	} tx;
	struct {	      /* responder */
		uint32_t psn; /* expected */
		uint32_t msn;
		bool is_inside;
		bool is_inside_write;
		bool has_begun; /* UC: something came, so what is before it is late */
		bool has_spare; /* UC: `in` holds the receive of a message that was dropped */
		bool has_nakd; /* one NAK for each gap; until the expected PSN comes the rest is dropped */
		bool owes_ack;
		enum verdict owes_nak; /* VERDICT_ACCEPTED: none */
		enum verdict
			fatal; /* what this QP erred of; its requester may have to be told again */
		bool owes_notice;
		uint64_t notice_ns;
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
	return rqp->qp->type == IBV_QPT_RC;
}

static inline void roce_count(struct roce *roce, enum roce_counter counter)
{
	roce->counters[counter]++;
}

static inline uint32_t psns_of_bytes(const struct roce_qp *rqp, uint32_t bytes)
{
	return bytes ? (bytes - 1) / rqp->mtu_bytes + 1 : 1;
}

/* roce.c */
void roce_timer_add(struct roce *roce, struct timer *timer, uint64_t deadline_ns);
void roce_send_later(struct roce_qp *rqp);

/* batch.c: room for one more packet, or NULL: the link takes no more. The slot's iov is the caller's to fill. */
struct roce_slot *batch_reserve(struct roce *roce);
/* Completes the packet whose payload the slot's first `iovs` entries name, and puts it on its way. */
void batch_commit(struct roce_qp *rqp, struct packet *packet, int iovs);
void batch_flush(struct roce *roce);
void batch_timer(struct timer *timer, uint64_t now_ns);

/* requester.c */
void roce_requester_run(struct roce_qp *rqp);
void roce_requester_succeed(struct roce_qp *rqp);
void roce_requester_fail(struct roce_qp *rqp, enum ibv_wc_status status,
			 enum vendor_err vendor_err);
/* Everything from una_psn on goes out again. */
void roce_requester_go_back(struct roce_qp *rqp);
/* The PSNs before una_psn are done with. */
void roce_requester_moved_on(struct roce_qp *rqp);
uint32_t roce_requester_wqe_psns(const struct roce_qp *rqp, const struct send_wqe *wqe);

static inline bool opcode_is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool opcode_is_read_or_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode_is_atomic(opcode);
}

/* completer.c */
void roce_completer_response(struct roce_qp *rqp, const struct packet *packet);

/* retry.c */
void retry_init(struct roce_qp *rqp);
void retry_sent(struct roce_qp *rqp, uint32_t psn, bool wants_ack);
void retry_progress(struct roce_qp *rqp, uint32_t acked_psns);
void retry_lost(struct roce_qp *rqp);
void retry_congested(struct roce_qp *rqp);
void retry_rnr(struct roce_qp *rqp, unsigned timer_code);
uint32_t retry_room(const struct roce_qp *rqp);
void retry_timer(struct timer *timer, uint64_t now_ns);

/* responder.c */
void roce_responder_request(struct roce_qp *rqp, const struct packet *packet);
void roce_responder_abandon(struct roce_qp *rqp);
/* Says no to the requester for good and errs the QP. */
void roce_responder_refuse(struct roce_qp *rqp, enum verdict verdict);

/* answer.c */
void answer_owe(struct roce_qp *rqp);
/* Queues a response; false: more are due already than the QP has room for. */
bool answer_add(struct roce_qp *rqp, const struct answer_job *job);
void answer_replace(struct roce_qp *rqp, const struct answer_job *job);
/* Sends what is due; false: the link takes no more. */
bool answer_run(struct roce_qp *rqp);

#endif
