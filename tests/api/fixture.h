/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_FIXTURE_H
#define USRDMA_TESTS_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "refusal.h"

/*
 * Objects for most tests of the verbs: an open device with a PD, and a pair of connected queue
 * pairs. Every helper asserts that its calls succeed, unless its name tells otherwise. Owned by the
 * test; the close functions assert that everything can be destroyed.
 */
struct api {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid; /* GID index 0 of port 1 */
	/*
	 * With USRDMA_TEST_DOMAINS, of the QPs of both sides of a pair: thread domains, and parent
	 * domains of pd.
	 */
	struct ibv_td *tds[2];
	struct ibv_pd *qp_pds[2];
};

#define SIDE_BUF_BYTES 65536
#define UD_QKEY	       0x22222222u
#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* One side of a pair: a queue pair with CQs and a registered buffer of its own. */
struct side {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf; /* SIDE_BUF_BYTES, page-aligned */
};

/* The attributes of a pair; zero selects the default in brackets. */
struct pair_options {
	enum ibv_qp_type type; /* [IBV_QPT_RC]; UD queue pairs have the Q_Key UD_QKEY and no peer */
	unsigned int mr_access;	 /* [ALL_ACCESS] */
	unsigned int qp_access;	 /* [the remote rights of ALL_ACCESS] */
	uint32_t max_wr;	 /* [64] */
	uint32_t max_sge;	 /* [4] */
	uint32_t max_inline;	 /* [0] */
	uint8_t rnr_retry;	 /* [0] */
	uint8_t retry_cnt;	 /* [1; 7 with RoCEv2, because a busy machine drops packets] */
	uint64_t send_ops_flags; /* not 0: created with ibv_create_qp_ex() */
	struct ibv_srq *srq;	 /* SRQ of side b */
	struct ibv_comp_channel *channel; /* channel of both CQs */
	bool is_sig_all;
	bool stays_unconnected; /* the queue pairs stay in RESET */
};

struct pair {
	struct api *api;
	struct side a;
	struct side b;
	struct pair_options options;
};

void api_open(struct api *api);
void api_close(struct api *api);
/* Fixtures for a group of tests or for each test: *state is the struct api. */
int api_setup(void **state);
int api_teardown(void **state);

/*
 * To be called by each test that makes registered memory inaccessible. cmocka replaces the
 * library's handlers of SIGSEGV and SIGBUS before each test. The library notices it after 1024
 * accesses of a thread at the latest.
 */
void notice_signal_handlers(const struct api *api);

void pair_open(struct pair *pair, struct api *api, const struct pair_options *options);
void pair_close(struct pair *pair);

/* Moves both queue pairs through RESET to RTS and empties both CQs. */
void pair_reconnect(struct pair *pair);

/* Single transitions; each returns the result of ibv_modify_qp(). */
int qp_to_init(struct ibv_qp *qp, unsigned int access);
int qp_to_rtr(struct ibv_qp *qp, const struct api *api, uint32_t remote_qpn);
int qp_to_rts(struct ibv_qp *qp, uint8_t retry_cnt, uint8_t rnr_retry);
int qp_to_err(struct ibv_qp *qp);
/* Moves a UD queue pair from RESET to RTS. */
void ud_to_rts(struct ibv_qp *qp, uint32_t qkey);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

struct ibv_sge sge_of(const struct side *side, size_t offset, uint32_t length);

/* A send WR with one SGE of `side`; one-sided operations use the same offset of `remote`. */
struct ibv_send_wr send_wr(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   const struct side *remote, size_t remote_offset, uint64_t wr_id);

void post_send_ok(struct side *side, struct ibv_send_wr *wr);
/* ibv_wr_start() and the fields of a signaled WR. */
struct ibv_qp_ex *batch_start(struct side *side, uint64_t wr_id);
void post_recv_ok(struct side *side, struct ibv_sge *sge, int num_sge, uint64_t wr_id);

/* Returns the next completion; it must arrive within ten seconds. */
struct ibv_wc wc_next(struct ibv_cq *cq);
/* As wc_next(), but the completion must have this wr_id and status. */
struct ibv_wc wc_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* Asserts that the CQ is empty. To be called when all preceding work requests have completed. */
void wc_none(struct ibv_cq *cq);

/*
 * Returns the element of the next asynchronous event, which must arrive within ten seconds and have
 * this type. The event is acknowledged.
 */
void *async_expect(struct ibv_context *ctx, enum ibv_event_type type);
/* Asserts that no event is queued. */
void async_none(struct ibv_context *ctx);

/* Whether queue pairs on this host use RoCEv2 (USRDMA_TRANSPORT) and not shared memory. */
bool on_the_wire(void);

void fill_pattern(uint8_t *buf, size_t bytes, uint8_t seed);

void make_nonblocking(int fd);
bool readable_within(int fd, int timeout_ms);

#endif
