/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PING_H
#define TOOLS_PING_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A connection of rping: its objects, and the rounds that transfer a text from the client to the
 * server by RDMA READ, and back by RDMA WRITE.
 *
 * The figure shows one round. The client's messages (struct advert) contain the address and rkey of
 * one of its buffers. The server's messages have the same length; their content is not used.
 *
 *	client					server
 *	fills `out` with text
 *	SEND: here is `out`		-->
 *						READs `out` into its own `in`
 *				<--		SEND: go ahead
 *	SEND: here is `in`		-->
 *						WRITEs its `in` to the client's
 *				<--		SEND: go ahead
 *	compares `in` with `out`
 */

#define SIZE_MIN_BYTES 23 /* length of "rdma-ping-N: " with the longest N */

/* A message in wire format. */
struct advert {
	__be64 addr;
	__be32 rkey;
	__be32 size_bytes;
};

/* Of all connections. The program sets them before the first one. */
extern struct ping_options {
	bool is_server;
	bool is_verbose;
	bool validates;
	bool debugs;
	bool has_own_qp; /* the program creates and modifies the QP itself */
	int count;	 /* 0: no limit */
	int size_bytes;
} ping_options;

/*
 * One connection and its objects. It has its own event channel, so that its thread receives no
 * events of other connections, and two CQs, so that completions of receives and of sends are
 * separate.
 */
struct ping {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *wakeups; /* of both CQs */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;

	struct advert received, sent;
	struct ibv_mr *received_mr, *sent_mr;
	char *in, *out;
	struct ibv_mr *in_mr, *out_mr;
};

#define debug(...)                           \
	do {                                 \
		if (ping_options.debugs)     \
			printf(__VA_ARGS__); \
	} while (0)

/* NULL after an error message. */
struct ping *ping_new(void);
/* Also frees a connection that was created in part. */
void ping_free(struct ping *ping);

/*
 * Creates all objects of a connection whose id is bound to a device, and posts the first receive. 0
 * or -1, after an error message.
 */
int ping_equip(struct ping *ping);
/*
 * Modifies a QP that was not created by rdma_create_qp(). rdma_init_qp_attr() provides the
 * attributes. 0, or -1 with errno.
 */
int ping_move_qp(struct ping *ping, enum ibv_qp_state state);

/*
 * Waits for the next event of a connection and checks its type. 0 or -1, after an error message.
 */
int ping_expect(struct ping *ping, enum rdma_cm_event_type wanted);

/* Runs rounds until the client disconnects. 0 or -1. */
int ping_serve(struct ping *ping);
/* The client's rounds. 0 or -1. */
int ping_rounds(struct ping *ping);

#endif /* TOOLS_PING_H */
