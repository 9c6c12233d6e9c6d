/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_LOCAL_EVENTS_H
#define TESTS_UNIT_LOCAL_EVENTS_H

#include "local/peer.h"
#include "pair.h"

/*
 * A pair of connected RC QPs whose CQs have completion channels. No engine has a thread: the test
 * runs them.
 */
struct events {
	struct pair pair;
	struct ibv_comp_channel *channels[2];
	struct ibv_qp *qps[2];
};

void events_open(struct events *events, bool can_reach_memory);
void events_close(struct events *events);

/* Node `to` posts a receive and requests an event. */
void events_expect(struct events *events, int to);
void events_post_recv(struct events *events, int to);
/* A SEND without data. */
void events_send(struct events *events, int from);

/* Creates a CQ and a QP for node 1, whose QP and CQ were destroyed, and connects them. */
void events_replace(struct events *events);

/* What the engine thread of the node does before it waits for messages. Reads the doorbell. */
void events_sleep(struct events *events, int node);
/*
 * Reads one message of one byte that the other node has sent through the doorbell, and all longer
 * ones before it.
 */
bool events_has_doorbell(struct events *events, int node);

struct peer *events_peer(struct events *events, int node);

#endif
