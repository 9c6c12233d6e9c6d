/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_WAITS_WORKER_H
#define USRDMA_TESTS_WAITS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

/*
 * A thread that serves some connections and waits for their completions in a way that it changes at
 * random: it blocks in ibv_get_cq_event(), waits with poll(2) or epoll_wait(2), or polls. All CQs
 * of its connections have one completion channel.
 *
 * On a connection the two sides send in turn. A turn has one to four messages. The receiver checks
 * their numbers and contents.
 */

#define WAITS_CONNECTIONS_MAX 8
#define WAITS_QUEUE_WRS	      64

struct waits_connection {
	struct waits_worker *worker;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *memory;
	struct {
		uint64_t addr;
		uint32_t rkey;
	} remote;	     /* the peer's `memory` */
	uint32_t posted;     /* send WRs; a completion's wr_id is their number */
	uint32_t retired;    /* send WRs that are known to be complete */
	uint32_t unsignaled; /* since the last signaled one */
	uint32_t sent;	     /* messages */
	uint32_t received;
	bool is_driver; /* begins, and ends after the time */
	bool owes_turn; /* a turn of the peer is complete */
	bool is_ended;	/* the peer's last message has arrived */
};

struct waits_worker {
	uint64_t dice;
	uint64_t end_ms;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cqs[2 * WAITS_CONNECTIONS_MAX];
	bool is_armed[2 * WAITS_CONNECTIONS_MAX];
	unsigned int cq_count;
	struct waits_connection *connections[WAITS_CONNECTIONS_MAX];
	unsigned int connection_count;
	int epoll_fd;
	unsigned int mode;	/* how the next waits are made */
	unsigned int mode_left; /* their number */
	bool is_nonblocking;
	atomic_uint messages; /* received; the watchdog examines it */
	atomic_uint shown_mode;
};

/* The random numbers of the worker follow from the seed and its number. */
void waits_seed(struct waits_worker *worker, uint64_t seed, uint64_t number);
/* A random number below `sides`. */
unsigned int waits_roll(struct waits_worker *worker, unsigned int sides);

/* Creates the channel with the first CQ. */
struct ibv_cq *waits_cq(struct waits_worker *worker, struct ibv_context *context);

/* Allocates and registers the memory. */
void waits_prepare(struct waits_connection *connection, struct ibv_pd *pd);

/* Posts the receive WRs; the QP exists. */
void waits_post_recvs(struct waits_connection *connection);

/* The thread; returns when all connections have ended. */
void *waits_work(void *worker);

const char *waits_mode_name(unsigned int mode);

#endif
