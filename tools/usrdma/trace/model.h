/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_MODEL_H
#define USRDMA_TOOL_TRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "record.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

/*
 * The connections of a trace: the records in short form, each assigned to one side of a pair of
 * QPs. The analysis and the diagram read the model. Use: model_open(), model_put() for each record,
 * model_end(), model_close().
 */

#define MODEL_ITEMS_MAX	 4000000u
#define MODEL_NONE	 UINT32_MAX
#define MODEL_NAME_BYTES 32
#define MODEL_SYNDROMES	 256
#define MODEL_STATUSES	 32

struct model_host {
	uint8_t gid[16];
};

struct model_process {
	uint32_t pid;
	char program[MODEL_NAME_BYTES];
};

enum item_kind {
	ITEM_PACKET,	 /* of a QP, not of QP1 */
	ITEM_CM,	 /* a message of the communication manager */
	ITEM_POST,	 /* a WR */
	ITEM_COMPLETION, /* a CQE */
	ITEM_QP_STATE,
	ITEM_PATH, /* TRACE_QP_PATH */
	ITEM_CM_EVENT,
	ITEM_ASYNC_EVENT,
	ITEM_CALL_FAILED,
	ITEM_DROP,
	ITEM_FAULT,
};

/* Results of model_follow(). */
enum item_flags {
	ITEM_RETRANSMISSION = 1 << 0,	    /* a request or response that was sent before */
	ITEM_RETRANSMISSION_FIRST = 1 << 1, /* the first packet of a retransmission */
	ITEM_AFTER_GAP = 1 << 2,     /* `missing` PSNs before this packet are not in the trace */
	ITEM_OUT_OF_ORDER = 1 << 3,  /* fills a gap: out of order, or a retransmission */
	ITEM_DUPLICATE_ACK = 1 << 4, /* acknowledges nothing new */
	ITEM_LOST = 1 << 5,	     /* the receiver is traced and did not record the packet */
	ITEM_CM_RETRANSMISSION = 1 << 6, /* a repeated CM message */
	ITEM_CONTINUED = 1 << 7,	 /* a further request of the same message */
	ITEM_HAS_NEXT = 1 << 8,		 /* the next request is ITEM_CONTINUED */
};

/* Why a requester sent packets again: what the trace contains before them. */
enum retransmission_cause {
	RETRANSMISSION_TIMEOUT,
	RETRANSMISSION_NAK,
	RETRANSMISSION_RNR,
	RETRANSMISSION_CAUSES
};

struct item_packet {
	uint64_t va;
	uint32_t dst_qpn;
	uint32_t src_qpn; /* UD; 0: unknown */
	uint32_t psn;
	uint32_t rkey;
	uint32_t dma_bytes; /* RETH */
	uint32_t payload_bytes;
	uint32_t imm;
	uint32_t missing; /* ITEM_AFTER_GAP */
	uint8_t opcode;
	uint8_t syndrome; /* AETH */
	bool wants_ack;
	/*
	 * SE: of a WRITE Only packet or READ request: the next one continues its work request (ADR
	 * 0056)
	 */
	bool is_solicited;
	bool is_ahead;	   /* packets with lower PSNs follow */
	bool is_congested; /* ECN: CE in the IP header; in a CNP the notification */
};

struct item_cm {
	uint64_t service_id;
	uint32_t local_comm_id; /* of the sender; SIDR: request ID */
	uint32_t remote_comm_id;
	uint32_t qpn; /* of the sender; 0: not in this message */
	uint32_t psn;
	uint16_t reason; /* REJ; SIDR_REP: status */
	uint8_t type;	 /* enum cm_msg_type */
	uint8_t about;	 /* MRA, REJ */
	uint8_t mtu_code;
	uint8_t transport;
	uint8_t ack_timeout;
	uint8_t retry_count;
	uint8_t rnr_retry;
};

/*
 * Numbers of the other kinds. Their meaning is that of the members of the event with the same name.
 */
struct item_note {
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t status; /* also enum rdma_cm_event_type, ibv_event_type, the new QP state */
	uint32_t opcode; /* also the old QP state, the fault's action */
	uint32_t vendor_err;
	uint32_t bytes;
	uint32_t peer_qpn;
	int32_t error;
	uint32_t text; /* of model_text(): name of a call, cause of a drop; MODEL_NONE: none */
	uint32_t psn;
};

struct item {
	uint64_t time_ns;
	uint64_t arrival_ns; /* record of the receiver for the same packet; 0: none */
	uint64_t rtt_ns;     /* of an ACK: since its request was sent; 0: unknown */
	uint32_t src_host;   /* index; of a note: the own host, or MODEL_NONE */
	uint32_t dst_host;
	uint32_t src_process; /* index, or MODEL_NONE */
	uint32_t dst_process;
	uint32_t conn; /* index, or MODEL_NONE */
	/* of model_put(): the number of an older record of the same packet; 0: none */
	uint32_t sent_before;
	uint8_t side;	/* of the sender, or the owner of the note: 0 or 1 */
	uint8_t kind;	/* enum item_kind */
	uint16_t flags; /* enum item_flags */
	uint8_t cause;	/* enum retransmission_cause, with ITEM_RETRANSMISSION_FIRST */
	bool is_sent;	/* recorded by the sender, or on the network */
	bool is_received;
	union {
		struct item_packet packet;
		struct item_cm cm;
		struct item_note note;
	};
};

/* One side of a pair. */
struct conn_side {
	uint32_t host;	  /* index, or MODEL_NONE */
	uint32_t process; /* index, or MODEL_NONE */
	uint32_t qpn;	  /* 0: unknown */
	uint32_t comm_id;
	bool has_receives; /* the trace contains packets that this side received */
};

/* The packets of one direction: requests of the side and the responses to them. */
struct conn_dir {
	uint64_t packets; /* sent by the side, of all kinds, without retransmitted ones */
	uint64_t retransmitted_packets; /* requests */
	uint64_t retransmitted_responses;
	/* retransmissions of one or more packets */
	uint64_t retransmissions[RETRANSMISSION_CAUSES];
	/* sum: last packet or NAK to the retransmission */
	uint64_t retransmission_wait_ns[RETRANSMISSION_CAUSES];
	uint64_t messages;
	uint64_t sends, writes, reads, atomics;
	uint64_t bytes; /* payload of requests and of READ responses to them */
	uint64_t gaps, missing_packets;
	uint64_t out_of_order_packets;
	uint64_t lost_packets;
	uint64_t acks; /* received for requests of this side */
	uint64_t duplicate_acks;
	uint64_t naks[AETH_CODES];
	uint64_t rnr_naks;
	uint64_t rnr_in_sequence_max; /* RNR NAKs without progress between them */
	uint64_t rnr_wait_ns;	      /* that the NAKs demanded */
	uint64_t first_nak_ns;	      /* time, 0: none */
	uint64_t first_rnr_ns;
	uint64_t congestion_marks, notifications;
	uint64_t rtt_count, rtt_sum_ns, rtt_min_ns, rtt_max_ns;
};

struct conn_cm {
	uint64_t req_ns, rep_ns, rtu_ns, rej_ns, dreq_ns, drep_ns;
	uint32_t repeated; /* messages */
	uint16_t reject_reason;
	uint8_t rejecter; /* side */
	bool is_sidr;
	uint64_t service_id;
};

/* A pair of QPs, or the attempt to connect one. */
struct conn {
	struct conn_side side[2]; /* 0: the active side, or the first sender */
	struct conn_dir dir[2];	  /* by requester */
	struct conn_cm cm;
	uint64_t first_ns, last_ns;
	uint64_t first_data_ns, last_data_ns;
	uint64_t item_count;
	uint64_t packets;
	uint32_t mtu_bytes;
	uint8_t transport; /* enum opcode_transport */
	bool has_data;
	bool has_cm; /* side 0 sent the request */
	/* Notes of both sides. */
	uint64_t completions, failed_completions, flushed_completions;
	uint64_t drops, faults, failed_calls, async_events;
	uint32_t first_status; /* of the first failed completion that was not flushed */
	uint32_t first_status_vendor_err;
	uint8_t first_status_side;
};

struct model {
	struct item *items;
	uint32_t item_count, item_size;
	uint64_t items_left_out; /* above MODEL_ITEMS_MAX */
	uint64_t records_lost;	 /* by the rings */
	struct model_host *hosts;
	uint32_t host_count, host_size;
	struct model_process *processes;
	uint32_t process_count, process_size;
	char **texts;
	uint32_t text_count, text_size;
	struct conn *conns;
	uint32_t conn_count, conn_size;
	uint32_t *recent; /* of model_put(): packets of which the other side's record may follow */
};

int model_open(struct model *model) __attribute__((warn_unused_result));
void model_close(struct model *model);

/* Adds a record. Records that concern no connection are ignored. 0 or -ENOMEM. */
int model_put(struct model *model, const struct trace_record *record)
	__attribute__((warn_unused_result));

/*
 * Sorts the items by time, finds the connections and follows their sequence numbers. 0 or -ENOMEM.
 */
int model_end(struct model *model) __attribute__((warn_unused_result));

const char *model_text(const struct model *model, uint32_t index);

/* The steps of model_end(). */
int model_pair(struct model *model) __attribute__((warn_unused_result));
int model_assign_notes(struct model *model) __attribute__((warn_unused_result));
int model_follow(struct model *model) __attribute__((warn_unused_result));

/*
 * Whether the connection was disconnected without a failed completion before. WRs are then flushed.
 */
bool conn_ends_normally(const struct conn *conn);

/* Whether the trace of a connection contains an error, in the sense of the analysis. */
bool conn_has_trouble(const struct conn *conn);

#endif
