/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_XRC_WORKER_H
#define USRDMA_TESTS_API_XRC_WORKER_H

#include "fixture.h"

#include <sys/types.h>

/*
 * A process on the receiving side of XRC: this test program, executed again, which has an SRQ, perhaps a receive queue pair,
 * or another name of one, and does what it is told over a socket, one command and one answer at a time. Owned by the test,
 * which ends it with xrc_worker_stop.
 */
struct xrc_worker {
	pid_t pid;
	int sock;
	uint64_t addr; /* of its buffer of SIDE_BUF_BYTES */
	uint32_t rkey;
	uint32_t srqn; /* 0: it has none */
};

enum xrc_op {
	XRC_OPEN,  /* value: oflags; opens the domain of the file */
	XRC_CLOSE, /* the domain */
	XRC_SRQ,   /* answers its number */
	XRC_NO_SRQ,
	XRC_QP,	       /* makes a receive queue pair, in INIT; answers its number */
	XRC_NAME,      /* value: a queue pair's number; opens it */
	XRC_RTR,       /* value: the sender's number */
	XRC_RNR_TIMER, /* value: the code */
	XRC_STATE,     /* answers the queue pair's */
	XRC_ERR,       /* moves it to ERR */
	XRC_NO_QP,     /* destroys it */
	XRC_RECV,      /* offset, length, value: wr_id */
	XRC_WC,	       /* answers the next completion */
	XRC_NO_WC,     /* there is none: 0 */
	XRC_EVENT,     /* answers the next asynchronous event */
	XRC_FILL,      /* offset, length, value: seed */
	XRC_CHECK,     /* the same; whether it is there: 0, or -1 */
	XRC_WORD,      /* answers the 8 bytes at offset */
	XRC_OPS
};

struct xrc_command {
	enum xrc_op op;
	uint32_t length;
	uint64_t offset;
	uint64_t value;
};

struct xrc_answer {
	int ret; /* errno of the call, or as the command says */
	uint64_t value;
	struct ibv_wc wc;
};

/* First thing in main(): true if this process is a worker, whose work is then done and whose exit status is *status. */
bool xrc_worker_main(int argc, char **argv, int *status);

/* file_fd: what names the domain. */
void xrc_worker_start(struct xrc_worker *worker, int file_fd);
/* The same, of another user; only root can. */
void xrc_worker_start_as(struct xrc_worker *worker, int file_fd, uid_t user);
/* Tells it to end, and asserts that it does so well, or that it was killed, if it was. */
void xrc_worker_stop(struct xrc_worker *worker);
void xrc_worker_kill(struct xrc_worker *worker);

struct xrc_answer xrc_worker_do(struct xrc_worker *worker, struct xrc_command command);
/* Asserts that it works, and answers the value. */
uint64_t xrc_worker_ask(struct xrc_worker *worker, enum xrc_op op, uint64_t value);

/* The commands that tests give often; each asserts that the call worked. */
void xrc_worker_recv(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint64_t wr_id);
void xrc_worker_fill(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed);
bool xrc_worker_holds(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed);
struct ibv_wc xrc_worker_wc(struct xrc_worker *worker, uint64_t wr_id, enum ibv_wc_status status);

#endif
