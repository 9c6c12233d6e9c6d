/* SPDX-License-Identifier: BSD-2-Clause */
#include "events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "core/engine/engine_watch.h"
#include "core/engine/transport.h"
#include "local/peer.h"
#include "local/qp.h"

static void node_open_channel(struct events *events, int at)
{
	struct node *node = &events->pair.nodes[at];
	struct ibv_context *context = &node->context.pub.context;

	events->channels[at] = ibv_create_comp_channel(context);
	assert_non_null(events->channels[at]);
	assert_int_equal(ibv_destroy_cq(node->cq), 0);
	node->cq = ibv_create_cq(context, 64, NULL, events->channels[at], 0);
	assert_non_null(node->cq);
	node->engine.progress.state = PROGRESS_THREAD;
}

void events_open(struct events *events, bool can_reach_memory)
{
	pair_open(&events->pair, can_reach_memory);
	for (int i = 0; i < 2; i++) {
		node_open_channel(events, i);
		events->qps[i] = pair_create_qp(&events->pair.nodes[i], IBV_QPT_RC, NULL);
	}
	pair_connect(events->qps[0], events->qps[1]);
	events_peer(events, 0)->is_doorbell_checked = false;
	events_peer(events, 1)->is_doorbell_checked = false;
}

void events_close(struct events *events)
{
	struct ibv_cq *cq;

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(events->qps[i]), 0);
	for (int i = 0; i < 2; i++) {
		struct node *node = &events->pair.nodes[i];

		cq = node->cq;
		node->cq = ibv_create_cq(&node->context.pub.context, 1, NULL, NULL, 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
		assert_int_equal(ibv_destroy_comp_channel(events->channels[i]), 0);
	}
	pair_close(&events->pair);
}

void events_post_recv(struct events *events, int to)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	assert_int_equal(ibv_post_recv(events->qps[to], &wr, &bad), 0);
}

void events_expect(struct events *events, int to)
{
	events_post_recv(events, to);
	assert_int_equal(ibv_req_notify_cq(events->pair.nodes[to].cq, 0), 0);
}

void events_send(struct events *events, int from)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	assert_int_equal(ibv_post_send(events->qps[from], &wr, &bad), 0);
}

void events_replace(struct events *events)
{
	struct node *node = &events->pair.nodes[1];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	node->cq = ibv_create_cq(&node->context.pub.context, 64, NULL, events->channels[1], 0);
	assert_non_null(node->cq);
	events->qps[1] = pair_create_qp(node, IBV_QPT_RC, NULL);
	assert_int_equal(ibv_modify_qp(events->qps[0], &attr, IBV_QP_STATE), 0);
	pair_connect(events->qps[0], events->qps[1]);
}

void events_sleep(struct events *events, int node)
{
	struct engine *engine = &events->pair.nodes[node].engine;

	engine_lock(engine);
	while (engine_turn(engine))
		;
	engine_unlock(engine);
	while (events_has_doorbell(events, node))
		;
}

bool events_has_doorbell(struct events *events, int node)
{
	struct engine *engine = &events->pair.nodes[node].engine;
	struct peer *peer = events_peer(events, node)->main;
	char bytes[2];
	ssize_t n;

	engine_lock(engine);
	while ((n = recv(peer->doorbell->fd, bytes, 2, MSG_DONTWAIT | MSG_PEEK)) == 2)
		engine_watch_dispatch(engine, peer->doorbell_watch);
	engine_unlock(engine);
	return n == 1 && recv(peer->doorbell->fd, bytes, 1, MSG_DONTWAIT) == 1;
}

struct peer *events_peer(struct events *events, int node)
{
	return local_qp_of(to_qp(events->qps[node]))->peer;
}
