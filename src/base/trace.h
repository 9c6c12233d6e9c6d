/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_H
#define USRDMA_BASE_TRACE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/probe.h"

/*
 * Trace points. A trace point is a function call at the place of an event. The function fills a
 * struct trace_event and passes it to trace_emit(), which passes it to every sink. This header
 * defines the layout of events; the module that emits an event defines its printer (struct
 * trace_point).
 *
 * An event is a record of fixed size without pointers, so that a sink can store it, pass it to
 * another process and print it later. The numbers of types and the meaning of members do not
 * change. New members are added at the end of a type's struct; any other change of the layout
 * changes TRACE_VERSION.
 */
#define TRACE_VERSION	   1
#define TRACE_EVENT_BYTES  384
#define TRACE_HEAD_BYTES   32
#define TRACE_PACKET_BYTES 304

enum trace_type {
	TRACE_NONE,
	TRACE_PACKET_SENT,
	TRACE_PACKET_RECEIVED,
	TRACE_MAD_SENT,
	TRACE_MAD_RECEIVED,
	TRACE_WR_POSTED,
	TRACE_RECV_POSTED,
	TRACE_CQE,
	TRACE_FIFO_SENT,
	TRACE_FIFO_RECEIVED,
	TRACE_IPC_REQUEST,
	TRACE_IPC_REPLY,
	TRACE_IPC_NOTICE,
	TRACE_CM_STATE,
	TRACE_SIDR_STATE,
	TRACE_QP_STATE,
	TRACE_RETRANSMIT,
	TRACE_RECOVERY_STATE,
	TRACE_WINDOW,
	TRACE_FAULT,
	TRACE_ONE_SIDED,
	TRACE_CM_EVENT,
	TRACE_ASYNC_EVENT,
	TRACE_CALL_FAILED,
	TRACE_DROP,
	TRACE_PORT,
	TRACE_QP_PATH,
	TRACE_TYPE_COUNT
};

/* The first bytes of a MAD, or of the UDP payload of a RoCEv2 packet. */
struct trace_packet {
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
	uint16_t src_port; /* of UDP; 0 for a MAD */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t wire_bytes;
	uint16_t captured_bytes; /* valid in `bytes` */
	uint8_t bytes[TRACE_PACKET_BYTES];
	uint64_t wr_id; /* of the WR of a sent request; 0: unknown */
};

/* A send or receive WR. */
struct trace_wr {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t length_bytes;
	uint32_t rkey;
	uint32_t remote_qpn; /* UD */
	uint32_t send_flags; /* enum ibv_send_flags */
	uint8_t opcode;	     /* enum ibv_wr_opcode */
	uint8_t num_sge;
	uint8_t reserved[6];
};

struct trace_cqe {
	uint64_t wr_id;
	uint32_t status;     /* enum ibv_wc_status */
	uint32_t opcode;     /* enum ibv_wc_opcode */
	uint32_t vendor_err; /* docs/completion-errors.md */
	uint32_t byte_len;
	uint32_t remote_qpn; /* of a received message; 0: unknown */
	uint8_t wr_opcode;   /* enum ibv_wr_opcode, or TRACE_NO_OPCODE: a receive, or unknown */
	uint8_t reserved[3];
};

/* No enum ibv_wr_opcode: an element that is not a request, or a receive WR. */
#define TRACE_NO_OPCODE 0xff

#define TRACE_PAYLOAD_BYTES 256

/* An element of the shared-memory FIFO between two processes. The head's QPN is the destination. */
struct trace_fifo {
	uint64_t remote_addr;
	uint32_t src_qpn;
	uint32_t message_seq;
	uint32_t message_bytes;
	uint32_t rkey;
	uint32_t imm_or_code;
	uint16_t element_bytes;
	uint8_t element_type; /* enum trace_element */
	uint8_t flags;	      /* enum trace_element_flags */
	uint32_t remote_qpn;  /* of the QP that the emitting process does not own */
	uint8_t opcode;	      /* of a request: enum ibv_wr_opcode; else TRACE_NO_OPCODE */
	uint8_t reserved;
	uint16_t payload_bytes; /* valid in `payload` */
	uint64_t compare_add;	/* atomics; of an atomic response: the original value in `swap` */
	uint64_t swap;
	uint64_t wr_id;			      /* of a request that the process sends */
	uint8_t payload[TRACE_PAYLOAD_BYTES]; /* the first bytes of the element's payload */
};

/*
 * The types of FIFO elements, trace_fifo.element_type: enum cell_type of local/ring.h. A request
 * with a response of its own (READ, atomics and later ones) has another number; its
 * trace_fifo.opcode is the operation.
 */
enum trace_element {
	TRACE_ELEMENT_NONE,
	TRACE_ELEMENT_SEND,
	TRACE_ELEMENT_WRITE,
	TRACE_ELEMENT_FAULT = 8,
	TRACE_ELEMENT_ACK,
	TRACE_ELEMENT_NAK,
	TRACE_ELEMENT_RNR,
	TRACE_ELEMENT_NOT_READY,
	TRACE_ELEMENT_READY,
	TRACE_ELEMENT_READ_DATA,
	TRACE_ELEMENT_ATOMIC_RESULT,
	TRACE_ELEMENT_DATAGRAM,
	TRACE_ELEMENT_XRC_FORWARD,
	TRACE_ELEMENT_SHARE_REQUEST,
	TRACE_ELEMENT_SHARE_GONE,
	TRACE_ELEMENT_CHANNEL_REQUEST
};

/* trace_fifo.flags: enum cell_flags of local/ring.h. */
enum trace_element_flags {
	TRACE_ELEMENT_FIRST = 1 << 0,
	TRACE_ELEMENT_LAST = 1 << 1,
	TRACE_ELEMENT_IMM = 1 << 2,
	TRACE_ELEMENT_INVALIDATE = 1 << 3,
	TRACE_ELEMENT_SOLICITED = 1 << 4,
	TRACE_ELEMENT_PLACED = 1 << 6, /* the requester has written the data */
};

/*
 * A WRITE, READ or ATOMIC that the requester carried out on the memory of the peer's process. The
 * head's QPN is the requester's.
 */
struct trace_one_sided {
	uint64_t remote_addr;
	uint64_t wr_id;
	uint64_t compare_add;
	uint64_t swap;
	uint64_t original; /* result of an atomic */
	uint32_t length_bytes;
	uint32_t rkey;
	uint32_t remote_qpn;
	uint32_t message_seq;
	uint32_t imm_be;
	uint32_t status; /* enum access_result of core/queue/execute.h; 0: success */
	uint8_t opcode;	 /* enum ibv_wr_opcode */
	uint8_t reserved;
	uint16_t payload_bytes; /* valid in `payload` */
	uint8_t payload[TRACE_PAYLOAD_BYTES];
};

/* An event that rdma_get_cm_event() returns. Addresses are IPv6 or IPv4-mapped; all zero: none. */
#define TRACE_PRIVATE_BYTES 196
struct trace_cm_event {
	uint64_t id; /* a number of the id that is unique in its process */
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
	uint32_t event; /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t remote_qpn;
	uint16_t local_port;
	uint16_t remote_port;
	uint16_t port_space;	/* enum rdma_port_space */
	uint16_t private_bytes; /* valid in `private_data` */
	uint8_t private_data[TRACE_PRIVATE_BYTES];
};

/* An asynchronous event. The head has the QPN if the event concerns a QP. */
struct trace_async_event {
	uint32_t event; /* enum ibv_event_type */
	uint32_t port;	/* 0: does not concern a port */
};

/* A public call that failed. The head has the QPN if the call concerns a QP. */
struct trace_call_failed {
	char name[32]; /* NUL-terminated, for example "ibv_modify_qp" */
	int32_t error; /* errno */
};

/*
 * A packet or FIFO element that was dropped. The head has the destination QPN and the PSN or
 * message number.
 */
struct trace_drop {
	uint8_t remote_gid[16]; /* all zero: unknown */
	uint32_t src_qpn;	/* 0: unknown */
	uint32_t bytes;		/* length of the packet or element, if known */
	char cause[48];		/* NUL-terminated */
};

enum trace_port_change {
	TRACE_PORT_DOWN,
	TRACE_PORT_UP,
	TRACE_PORT_GID,
	TRACE_PORT_REMOVED,
	TRACE_PORT_PRESENT, /* at the start of a trace: name and GID of a device */
	TRACE_PORT_CHANGE_COUNT
};

/* A change of a device's port. */
struct trace_port {
	uint32_t change; /* enum trace_port_change */
	uint32_t port;
	uint8_t gid[16];
	char device[32]; /* NUL-terminated */
};

/*
 * The path of a connected QP at the transitions to RTR and RTS, and for each existing QP when a
 * trace begins.
 */
struct trace_qp_path {
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
	uint32_t remote_qpn;
	uint32_t sq_psn; /* first PSN that the QP sends */
	uint32_t rq_psn; /* first PSN that the QP expects */
	uint16_t mtu_bytes;
	uint8_t qp_type; /* enum ibv_qp_type */
	uint8_t state;	 /* enum ibv_qp_state */
	uint8_t timeout; /* local ACK timeout: 4.096 us * 2^timeout; 0: none */
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	char transport[8]; /* NUL-terminated: "local", "roce" */
};

/* A message to or from the daemon. */
struct trace_ipc {
	uint32_t message_type; /* enum ipc_type */
	uint32_t seq;
	uint32_t bytes;
	int32_t status; /* of a reply: 0 or -errno */
};

/*
 * A state change of a QP, of its loss recovery, of a connection of the communication manager or of
 * a service ID resolution.
 */
struct trace_state {
	uint32_t from;
	uint32_t to;
	uint32_t input;		/* CM and loss recovery: the input of the state machine */
	uint32_t local_comm_id; /* or the request ID of a resolution */
	uint32_t remote_comm_id;
	uint32_t remote_qpn;
};

/* The congestion window of a requester after a change. */
struct trace_window {
	uint32_t psns;
	uint32_t threshold_psns;
	uint32_t cause; /* of the emitting module */
};

/* A fault point that fired (base/fault.h). */
struct trace_fault {
	uint32_t point;
	uint32_t action;
	int32_t code;
	uint32_t op; /* enum fault_op */
	uint64_t delay_ns;
	uint64_t pass;	 /* number of this pass of the point, counted from 1 */
	int32_t pid;	 /* process that a rule of process concerns; 0: none */
	char netdev[16]; /* network interface that a rule of device concerns; NUL-terminated */
};

struct trace_event {
	uint8_t version; /* trace_emit() sets this and the next three members */
	uint8_t type;	 /* enum trace_type */
	uint16_t bytes;	 /* TRACE_EVENT_BYTES */
	uint32_t tid;
	/*
	 * CLOCK_MONOTONIC, or virtual time; if it is 0, trace_emit() or a sink sets the current
	 * time
	 */
	uint64_t time_ns;
	uint32_t qpn; /* 0: none */
	/* if the type has a PSN; TRACE_WR_POSTED: number of the WR in its send queue, from 0 */
	uint32_t psn;
	uint32_t ifindex; /* network interface of the device; 0: unknown */
	uint32_t pid;	  /* process that the event concerns; 0: the emitting process */
	union {
		struct trace_packet packet;
		struct trace_wr wr;
		struct trace_cqe cqe;
		struct trace_fifo fifo;
		struct trace_ipc ipc;
		struct trace_state state;
		struct trace_window window;
		struct trace_fault fault;
		struct trace_one_sided one_sided;
		struct trace_cm_event cm_event;
		struct trace_async_event async_event;
		struct trace_call_failed call_failed;
		struct trace_drop drop;
		struct trace_port port;
		struct trace_qp_path qp_path;
		uint8_t raw[TRACE_EVENT_BYTES - TRACE_HEAD_BYTES];
	};
};
static_assert(sizeof(struct trace_event) == TRACE_EVENT_BYTES, "sinks store events of this size");
static_assert(offsetof(struct trace_event, packet) == TRACE_HEAD_BYTES,
	      "the head's layout is fixed");

/*
 * Writes a description of the event, without QPN and PSN of the head unless they belong to the
 * description. The text is truncated to out_bytes and NUL-terminated.
 */
typedef void trace_printer(char *out, size_t out_bytes, const struct trace_event *event);

/* Description of an event type: a constant that the emitting module defines. */
struct trace_point {
	uint8_t type; /* enum trace_type */
	const char *name;
	trace_printer *print;
};

/*
 * Consumer of events. put() may be called by any thread, also with locks of the data path held: it
 * must not take these locks or allocate memory. Sinks are constants: put() may be called once more
 * after the sink was removed.
 */
struct trace_sink {
	void (*put)(const struct trace_point *point, const struct trace_event *event);
	bool sets_time; /* put() takes events without a time */
};

#define TRACE_SINKS_MAX 4

/*
 * Adds the sink and switches tracing on, with all details. 0, or -ENOSPC: there are TRACE_SINKS_MAX
 * sinks.
 */
int trace_sink_add(const struct trace_sink *sink) __attribute__((warn_unused_result));

/*
 * Whether this sink needs the events of each packet, FIFO element and one-sided operation. If no
 * sink does, only those are traced that report an error. Calls must not overlap with each other and
 * with trace_sink_remove().
 */
void trace_sink_want_packets(const struct trace_sink *sink, bool is_wanted);

/*
 * Removes the sink. Without sinks, tracing is switched off. No sink may be added at the same time.
 */
void trace_sink_remove(const struct trace_sink *sink);

/* Completes the head of the event and passes the event to the sinks. Preserves errno. */
PROBE_COLD void trace_emit(const struct trace_point *point, struct trace_event *event);

/*
 * The sink of USRDMA_LOG=trace: one line and one write(2) to standard error for each event. The
 * write blocks if standard error is a full pipe.
 */
void trace_text_open(void);

/*
 * Writes the line of an event without newline, truncated to out_bytes and NUL-terminated. Returns
 * its length.
 */
size_t trace_text_line(char *out, size_t out_bytes, const struct trace_point *point,
		       const struct trace_event *event);

/*
 * Begins an event without clearing the members of its type, all of which the caller then sets. The
 * zero bytes of a whole event take as long as the rest of a small one.
 */
static inline void trace_event_begin(struct trace_event *event, uint32_t qpn, uint32_t psn,
				     uint32_t ifindex)
{
	event->time_ns = 0;
	event->qpn = qpn;
	event->psn = psn;
	event->ifindex = ifindex;
	event->pid = 0;
}

static inline bool trace_is_on(void)
{
	return probe_is_on(PROBE_TRACE);
}

/* Whether a sink needs the events of each packet and each FIFO element. */
static inline bool trace_packets_are_on(void)
{
	return probe_is_on(PROBE_PACKETS);
}

#endif
