/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_VERBS_RANDOM_H
#define USRDMA_TESTS_VERBS_RANDOM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Two processes, the sides 0 and 1 of a pair, exchange messages in rounds. A round has new objects.
 * Its service, sizes, kinds of memory and operations follow from the seed, the pair and the number
 * of the round, so both sides know each message and check each byte. The sides connect by a socket,
 * over which they also acknowledge what they have checked.
 *
 * A wrong byte or a wrong order ends the process with a line that begins with FAIL. An error
 * completion, a failed call and an asynchronous event are lines that begin with @, and
 * verbs_random.py compares them with the faults that it injected.
 */

enum vr_service { VR_RC, VR_RC_SRQ, VR_UC, VR_UD, VR_XRC, VR_SERVICES };

enum vr_kind {
	VR_SEND,
	VR_SEND_IMM,
	VR_SEND_INV, /* invalidates the memory window of the receiver */
	VR_WRITE,
	VR_WRITE_MW, /* by the rkey of the memory window */
	VR_WRITE_IMM,
	VR_READ,
	VR_READ_BACK, /* of the slot that a preceding WRITE has written */
	VR_FETCH_ADD,
	VR_CMP_SWAP,
	VR_KINDS
};

enum vr_memory {
	VR_ALIGNED,
	VR_PRIVATE,
	VR_SEALED,
	VR_UNSEALED,
	VR_TMPFS,
	VR_SYSV,
	VR_DISK,
	VR_STACK,
	VR_MEMORIES
};

enum vr_wait { VR_SPIN, VR_POLL, VR_BLOCK, VR_WAITS };

/*
 * What ends a round: the victim revokes the access of the peer, which continues to access the
 * memory.
 */
enum vr_action {
	VR_NO_ACTION,
	VR_DEREG,
	VR_REREG,
	VR_DESTROY_QP,
	VR_TO_ERR,
	VR_TO_RESET,
	VR_ACTIONS
};

#define VR_PAIRS_MAX	  64u
#define VR_WINDOW_MAX	  64u
#define VR_OPS_MAX	  1024u
#define VR_COUNTERS	  8u
#define VR_INLINE_MAX	  128u
#define VR_SGES		  3u
#define VR_BATCH	  8u
#define VR_GUARD_BYTES	  64u
#define VR_GRH_BYTES	  40u
#define VR_DATAGRAM_BYTES 1024u
#define VR_STACK_BYTES	  (2u << 20)
/* Initial contents of all memory, and its contents after a revocation. */
#define VR_FRESH   0xa5
#define VR_REVOKED 0xc3

/* Both sides compute the plan. */
struct vr_plan {
	uint64_t key;
	enum vr_service service;
	uint32_t window; /* operations whose slots are in use */
	uint32_t slot_bytes;
	uint32_t ops; /* of each side */
	uint32_t recv_wrs;
	uint8_t rd_atomic;
	uint8_t timeout;
	enum ibv_mtu mtu;
	uint32_t qkey;
	bool is_all_signaled;
	bool has_two_cqs;
	bool has_cq_ex;
	enum vr_memory memory[2];
	enum vr_wait wait[2];
	enum vr_action action;
	unsigned int victim;
};

struct vr_op {
	enum vr_kind kind;
	uint32_t index;
	uint32_t bytes;
	uint32_t offset; /* READ: in the source area */
	uint32_t source; /* READ_BACK: the index of the WRITE */
	unsigned int sges;
	bool is_inline;
	bool is_signaled;
	unsigned int counter; /* atomics */
	uint64_t add;	      /* or swap */
	bool is_match;	      /* CMP_SWAP: the comparison is to succeed */
};

/* What the sides write to each other. */
enum vr_message_type {
	VR_HELLO,
	VR_READY,
	VR_ACK,	    /* a: the messages before this index were checked */
	VR_GRANT,   /* a: number, b: rkey of the memory window */
	VR_SKIP,    /* a: messages before this index may be lost */
	VR_SKIPPED, /* the answer */
	VR_DONE,    /* all was sent; `counters` are the peer's */
	VR_QUIET,   /* all operations of both directions are complete */
	VR_FLOODING,
	VR_REVOKED_NOW,
	VR_FLOOD_OVER,
	VR_END, /* a: 1 if the round has passed */
};

struct vr_message {
	uint32_t type;
	uint32_t round;
	uint64_t a;
	uint64_t b;
	union {
		uint64_t counters[VR_COUNTERS];
		struct {
			uint64_t base;
			uint32_t rkey;
			uint32_t send_qpn;
			uint32_t recv_qpn;
			uint32_t srqn;
			uint32_t psn;
			uint32_t mtu;
			union ibv_gid gid;
		} hello;
	};
};

/* Counts of all processes, in a shared file. verbs_random.py reads it in this order. */
struct vr_tally {
	_Atomic uint64_t rounds;
	_Atomic uint64_t broken;
	_Atomic uint64_t sends;
	_Atomic uint64_t receives;
	_Atomic uint64_t writes;
	_Atomic uint64_t reads;
	_Atomic uint64_t atomics;
	_Atomic uint64_t invalidations;
	_Atomic uint64_t revocations;
	_Atomic uint64_t bytes; /* that were compared */
	_Atomic uint64_t longest_call_us;
	_Atomic uint64_t services[VR_SERVICES]; /* rounds that passed */
	_Atomic uint64_t memories[VR_MEMORIES];
	_Atomic uint64_t actions[VR_ACTIONS];
	_Atomic uint64_t next_round[VR_PAIRS_MAX][2]; /* the first round that has not begun */
};

/* The process; set by main(). */
struct vr_process {
	unsigned int side;
	unsigned int pair;
	uint64_t seed;
	unsigned int run;
	const char *device;
	uint8_t gid_index;
	const char *directory;
	bool is_soak;
	int peer_fd;
	struct vr_tally *tally;
	struct ibv_context *context;
	bool is_device_fatal;
	bool is_without_port;
	bool is_peer_gone;
	_Atomic uint64_t ticks; /* seconds of the watchdog; a stopped process has none */
	_Atomic(const char *) call;
	_Atomic uint64_t call_tick;
};
extern struct vr_process vr;

/* What this side sends. */
struct vr_out {
	uint32_t posted;
	uint32_t retired;
	uint32_t acked;
	uint32_t unsignaled;
	uint32_t skip_asked;
	uint32_t grants;
	uint32_t grant_rkey;
	uint32_t grants_used;
	bool is_done;
	uint64_t counters[VR_COUNTERS]; /* of the peer, after all posted operations */
	struct {
		bool is_signaled;
		uint64_t old; /* atomics */
	} ring[VR_WINDOW_MAX];
};

/* What this side receives. */
struct vr_in {
	uint32_t next; /* the messages before this index were checked */
	uint32_t acked;
	uint32_t skipped;
	uint32_t received;
	bool is_done;
	bool is_skip_pending;
	uint64_t counters[VR_COUNTERS];
	bool has_arrived[VR_OPS_MAX]; /* UD */
};

struct vr_round {
	uint32_t number;
	struct vr_plan plan;
	uint64_t start_ns;
	uint64_t dice; /* of this side, for choices that the peer does not know */

	uint8_t *memory;
	size_t memory_bytes;
	size_t stride;
	size_t recv_stride;
	struct {
		size_t target, source, counters, remote_end, send, landing, recv, end;
	} at;

	struct ibv_pd *pd;
	struct ibv_mr *mr;	  /* all memory, local access */
	struct ibv_mr *remote_mr; /* target, source and counters */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cqs[2];
	struct ibv_cq_ex *cq_ex[2];
	unsigned int cq_count;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *send_qp;
	struct ibv_qp *recv_qp; /* the same, except for XRC */
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	uint32_t mw_rkey; /* bound or being bound */
	uint32_t mw_number;
	bool is_mw_bound;
	int bell; /* readable when a completion event has arrived */
	pthread_t waiter;
	bool has_waiter;

	struct vr_message peer; /* HELLO */
	struct vr_out out;
	struct vr_in in;

	bool has_hello;
	bool is_peer_ready;
	bool is_peer_quiet;
	bool is_peer_passed;
	bool is_passed; /* all checks were made */
	bool has_sent_end;
	bool is_last;	/* no further round follows */
	bool has_error; /* an error completion was reported */
	bool has_send_error;
	bool is_broken_order; /* and a success followed */
	bool is_broken;
	bool is_ended; /* the peer has sent VR_END */
	bool is_flooding;
	bool is_revoked;
	bool is_flood_over;
	bool is_in_flood;
	bool is_flood_refused;
	uint32_t flood_posted;
	uint32_t flood_done;
	uint32_t flood_limit; /* the first operation that was posted after the revocation */
	uint32_t reported[16];
	unsigned int reported_count;
	uint64_t progress_tick;
	unsigned int spins;
	unsigned int turns;
};

/* verbs_random_plan.c */
uint64_t vr_mix(uint64_t value);
uint32_t vr_roll(struct vr_round *r, uint32_t sides);
void vr_make_plan(struct vr_plan *plan, uint64_t seed, unsigned int pair, uint32_t round,
		  bool is_soak);
struct vr_op vr_plan_op(const struct vr_plan *plan, unsigned int side, uint32_t index);
bool vr_takes_receive(enum vr_kind kind);
const char *vr_kind_name(enum vr_kind kind);
const char *vr_service_name(enum vr_service service);
uint32_t vr_imm_be(const struct vr_plan *plan, uint32_t index);

/* The data of message `index` of a side; VR_SOURCE is the data of the source area. */
#define VR_SOURCE 0xfffffeu
void vr_fill(const struct vr_plan *plan, unsigned int side, uint32_t index, uint8_t *data,
	     size_t bytes);
/* Ends the process if the bytes differ from those of the message from `offset` on. */
void vr_expect(const struct vr_round *r, const char *what, unsigned int side, uint32_t index,
	       size_t offset, const uint8_t *data, size_t bytes);
void vr_expect_byte(const struct vr_round *r, const char *what, uint8_t byte, const uint8_t *data,
		    size_t bytes);
/* Each word of a slot is from some message of this slot, or fresh. */
void vr_expect_any(const struct vr_round *r, unsigned int side, uint32_t slot, const uint8_t *data,
		   size_t bytes);

/* verbs_random_report.c */
uint64_t vr_now_ns(void);
void vr_line(const struct vr_round *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void vr_fail(const struct vr_round *r, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* Breaks the round. */
void vr_call_failed(struct vr_round *r, const char *name, int err);
/* Reports the call once in a round, which continues. */
void vr_call_repeats(struct vr_round *r, const char *name, int err);
void vr_start_watchdog(void);
void vr_enter(const char *call);
void vr_leave(uint64_t since_ns);
/* Evaluates a call under the watchdog. */
#define VR_CALL(result, name, call)              \
	do {                                     \
		uint64_t vr_since = vr_now_ns(); \
		vr_enter(name);                  \
		(result) = (call);               \
		vr_leave(vr_since);              \
	} while (0)
void vr_send(struct vr_round *r, enum vr_message_type type, uint64_t a, uint64_t b);
void vr_send_message(struct vr_round *r, struct vr_message *message);

/* verbs_random_objects.c */
bool vr_open_device(struct vr_round *r);
void vr_create(struct vr_round *r, uint8_t *stack);
void vr_destroy(struct vr_round *r);
void vr_destroy_qps(struct vr_round *r);
void vr_dereg_remote(struct vr_round *r);
void vr_dealloc_window(struct vr_round *r);
void vr_churn(struct vr_round *r);
/* Retries `call` while a fault makes it fail. */
void vr_retry(struct vr_round *r, const char *name, int (*call)(void *), void *object);

/* verbs_random_connect.c */
bool vr_connect(struct vr_round *r);

/* verbs_random_send.c */
bool vr_post_some(struct vr_round *r);
void vr_bind_window(struct vr_round *r);
void vr_take_send(struct vr_round *r, const struct ibv_wc *wc);
void vr_error(struct vr_round *r, const struct ibv_wc *wc, const char *queue, const char *op);

/* verbs_random_recv.c */
bool vr_post_recv(struct vr_round *r, uint32_t slot);
void vr_take_recv(struct vr_round *r, const struct ibv_wc *wc, uint32_t invalidated);
void vr_acknowledge(struct vr_round *r, bool is_idle);
void vr_check_memory(struct vr_round *r);

/* verbs_random_pump.c */
/*
 * Handles messages, events and completions; waits for the next one if `is_idle`. Returns false if
 * the round is over.
 */
bool vr_pump(struct vr_round *r, bool is_idle);
bool vr_take_events(struct vr_round *r);

/* verbs_random_revoke.c */
bool vr_revoke(struct vr_round *r);
void vr_take_flood(struct vr_round *r, const struct ibv_wc *wc);

/* wr_id: the index of the operation, or one of these with a slot. */
#define VR_ID_RECV  (UINT64_C(1) << 40)
#define VR_ID_BIND  (UINT64_C(1) << 41)
#define VR_ID_FLOOD (UINT64_C(1) << 42)

#endif
