/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random messages with forged source addresses, and a consumer that makes any call: no address
 * receives more bytes than were sent in its name (RFC 9000 §8.1 with the factor 1). Each seed is
 * one run; a failure prints the seed.
 *
 *     test-cm-amplification [seed]
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/timer.h"
#include "net.h"

#define SEEDS	    2000
#define STEPS	    300
#define CONNS_MAX   64
#define FIRST_GID   0x40 /* last byte of the first forged address */
#define ADDRESSES   4
#define REQUEST_IDS 16

static struct net net;
static struct net_node *victim;
static struct cm_conn *conns[CONNS_MAX];
static unsigned conn_count;
static uint64_t received_from[256];
static uint64_t given_seed;

static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	(void)node;
	(void)req;
	if (conn_count == CONNS_MAX || net_chance(&net, 10)) {
		*reason = net_chance(&net, 50) ? CM_REJ_NO_RESOURCES : 0;
		return NULL;
	}
	conns[conn_count] = conn;
	return &conns[conn_count++];
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct cm_conn **place = owner;

	(void)node;
	(void)type;
	(void)msg;
	if (net_chance(&net, 50))
		return;
	*place = NULL;
	cm_destroy(conn, net.now_ns);
}

static void *on_sidr_request(struct net_node *node, struct cm_sidr *sidr,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	(void)node;
	(void)sidr;
	(void)req;
	if (net_chance(&net, 50))
		*status = CM_SIDR_REJECTED;
	return NULL;
}

/* A message as a host can send it that has received nothing. */
static void forge(struct cm_msg *msg)
{
	static const enum cm_msg_type others[] = {
		CM_MSG_MRA,  CM_MSG_REJ, CM_MSG_REP, CM_MSG_RTU,      CM_MSG_DREQ,
		CM_MSG_DREP, CM_MSG_LAP, CM_MSG_APR, CM_MSG_SIDR_REQ, CM_MSG_SIDR_REP,
	};
	uint32_t id = 1 + net_below(&net, REQUEST_IDS);

	memset(msg, 0, sizeof(*msg));
	msg->tid = id;
	msg->type = CM_MSG_REQ;
	if (net_chance(&net, 20))
		msg->type = others[net_below(&net, sizeof(others) / sizeof(others[0]))];
	if (msg->type == CM_MSG_REQ) {
		msg->req.local_comm_id = id;
		msg->req.local_ca_guid = 0xbad;
		msg->req.local_qpn = 0x100 + id;
		msg->req.service_id = NET_SERVICE + !net_below(&net, 10);
		msg->req.local_cm_response_timeout = (uint8_t)(10 + net_below(&net, 12));
		msg->req.max_cm_retries = (uint8_t)net_below(&net, CM_MAX_RETRIES + 1);
	} else if (msg->type == CM_MSG_SIDR_REQ) {
		msg->sidr_req.request_id = id;
		msg->sidr_req.service_id = NET_SERVICE;
	} else if (msg->type == CM_MSG_SIDR_REP) {
		msg->sidr_rep.request_id = id;
	} else {
		msg->rtu.local_comm_id = id;
		msg->rtu.remote_comm_id = 1 + net_below(&net, 1000);
	}
}

static void receive_forged(void)
{
	uint8_t mad[MAD_BYTES];
	struct cm_path path;
	struct cm_msg msg;

	forge(&msg);
	cm_msg_build(&msg, mad);
	net_path(victim, &path);
	path.dgid[15] = (uint8_t)(FIRST_GID + net_below(&net, ADDRESSES));
	received_from[path.dgid[15]]++;
	cm_receive(victim->cm, &path, mad, MAD_BYTES, net.now_ns);
}

/* Any call; most are invalid in the state of the connection. */
static void call_consumer(void)
{
	unsigned i = conn_count ? net_below(&net, conn_count) : 0;
	struct cm_conn *conn = conn_count ? conns[i] : NULL;
	struct cm_rep rep;
	int ret = 0;

	if (!conn)
		return;
	switch (net_below(&net, 5)) {
	case 0:
		ret = cm_reject(conn, CM_REJ_CONSUMER, NULL, 0, net.now_ns);
		break;
	case 1:
		ret = cm_disconnect(conn, net.now_ns);
		break;
	case 2:
		conns[i] = NULL;
		cm_destroy(conn, net.now_ns);
		break;
	default:
		net_rep(&rep, victim, 0x20 + i);
		ret = cm_accept(conn, &rep, net.now_ns);
	}
	assert_true(ret == 0 || ret == -EINVAL);
}

static void step(void)
{
	uint64_t next_ns = net_next(&net);

	switch (net_below(&net, 3)) {
	case 0:
		receive_forged();
		break;
	case 1:
		call_consumer();
		break;
	default:
		net_advance(&net, next_ns != TIMER_NEVER_NS && net_chance(&net, 80) ?
					  next_ns :
					  net.now_ns + 10 * CLOCK_NS_PER_MS);
	}
}

static void check(uint64_t seed)
{
	for (unsigned i = FIRST_GID; i < FIRST_GID + ADDRESSES; i++) {
		if (net.sent_to[i] <= received_from[i])
			continue;
		printf("seed %llu: %llu MADs to address %u, %llu from it\n",
		       (unsigned long long)seed, (unsigned long long)net.sent_to[i], i,
		       (unsigned long long)received_from[i]);
		fail();
	}
}

static uint64_t run_seed(uint64_t seed)
{
	uint64_t sent;

	net_open(&net, seed);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_sidr_request = on_sidr_request;
	victim = &net.nodes[1];
	conn_count = 0;
	memset(conns, 0, sizeof(conns));
	memset(received_from, 0, sizeof(received_from));
	for (unsigned i = 0; i < STEPS; i++) {
		step();
		check(seed);
	}
	for (unsigned i = 0; i < conn_count; i++) {
		if (conns[i])
			cm_destroy(conns[i], net.now_ns);
		conns[i] = NULL;
		check(seed);
	}
	assert_true(net_settle(&net, 100000));
	check(seed);
	assert_int_equal(cm_conn_count(victim->cm), 0);
	sent = net.sent;
	net_close(&net);
	return sent;
}

static void cm_receive_forged_messages_sends_no_more_than_received(void **state)
{
	uint64_t sent = 0;

	(void)state;
	if (given_seed) {
		(void)run_seed(given_seed);
		return;
	}
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		sent += run_seed(seed);
	/* The runs covered responses. */
	assert_true(sent > SEEDS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_receive_forged_messages_sends_no_more_than_received),
	};

	given_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
