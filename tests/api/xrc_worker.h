/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_XRC_WORKER_H
#define USRDMA_TESTS_API_XRC_WORKER_H

#include "fixture.h"

#include <sys/types.h>

/*
 * A process on the receiving side of XRC: this test program, executed again. It has an SRQ, and
 * possibly an XRC target QP or another handle of one. It executes commands that it receives over a
 * socket, one command and one reply at a time. Owned by the test, which ends it with
 * xrc_worker_stop.
 */
struct xrc_worker {
	pid_t pid;
	int sock;
	uint64_t addr; /* address of its buffer of SIDE_BUF_BYTES */
	uint32_t rkey;
	uint32_t srqn; /* 0: it has no SRQ */
};

enum xrc_op {
	XRC_OPEN,  /* value: oflags; opens the XRC domain of the file */
	XRC_CLOSE, /* closes the domain */
	XRC_SRQ,   /* creates an SRQ; returns its number */
	XRC_NO_SRQ,
	XRC_QP,	       /* creates an XRC target QP in INIT; returns its QPN */
	XRC_NAME,      /* value: a QPN; opens this XRC target QP */
	XRC_RTR,       /* value: the sender's QPN; moves the QP to RTR */
	XRC_RNR_TIMER, /* value: the RNR timer code */
	XRC_STATE,     /* returns the state of the QP */
	XRC_ERR,       /* moves the QP to ERR */
	XRC_NO_QP,     /* destroys the QP */
	XRC_RECV,      /* offset, length, value: wr_id */
	XRC_WC,	       /* returns the next completion */
	XRC_NO_WC,     /* 0: the CQ is empty */
	XRC_EVENT,     /* returns the next asynchronous event */
	XRC_FILL,      /* offset, length, value: seed */
	XRC_CHECK, /* arguments of XRC_FILL; returns 0 if the buffer contains that pattern, or -1 */
	XRC_WORD,  /* returns the 8 bytes at offset */
	XRC_OPS
};

struct xrc_command {
	enum xrc_op op;
	uint32_t length;
	uint64_t offset;
	uint64_t value;
};

struct xrc_answer {
	int ret; /* errno of the call, unless the command defines another value */
	uint64_t value;
	struct ibv_wc wc;
};

/*
 * To be called first in main(). Returns true if this process is a worker; it has then finished,
 * with the exit status *status.
 */
bool xrc_worker_main(int argc, char **argv, int *status);

/* file_fd: the file that identifies the XRC domain. */
void xrc_worker_start(struct xrc_worker *worker, int file_fd);
/* The same, as another user; requires root. */
void xrc_worker_start_as(struct xrc_worker *worker, int file_fd, uid_t user);
/*
 * Ends the worker, and asserts that its exit was successful, or that it was killed if the test
 * killed it.
 */
void xrc_worker_stop(struct xrc_worker *worker);
void xrc_worker_kill(struct xrc_worker *worker);

struct xrc_answer xrc_worker_do(struct xrc_worker *worker, struct xrc_command command);
/* Asserts that the command succeeds, and returns its value. */
uint64_t xrc_worker_ask(struct xrc_worker *worker, enum xrc_op op, uint64_t value);

/* Frequent commands; each asserts that its call succeeded. */
void xrc_worker_recv(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint64_t wr_id);
void xrc_worker_fill(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed);
bool xrc_worker_holds(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed);
struct ibv_wc xrc_worker_wc(struct xrc_worker *worker, uint64_t wr_id, enum ibv_wc_status status);

#endif
