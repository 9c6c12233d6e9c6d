/* SPDX-License-Identifier: BSD-2-Clause */
/* More requests than can be served: memory is bounded, and valid clients still connect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cm/sidr.h"
#include "net.h"

#define FLOOD	   100000u
#define SOURCE_MAX 3072u /* half-open requests that one host may have, see cm/half_open.c */
#define TOTAL_MAX  12288u
#define BACKLOG	   16u
#define QUIET	   0xff /* the last byte of a GID that sends no flood */

static struct net net;
static struct net_node *here, *there;
static unsigned backlog, waiting, requests;
static struct cm_conn *theirs; /* the passive end of the valid connection */
static struct cm_sidr *theirs_sidr;
static unsigned replies, responses;
static bool is_local; /* the flood comes from this host */

/* A listener with a backlog of this size, which answers only the host `here`. */
static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	(void)node;
	(void)reason;
	if (waiting >= backlog)
		return NULL;
	waiting++;
	requests++;
	if (req->local_ca_guid == here->guid)
		theirs = conn;
	return &waiting;
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	(void)conn;
	(void)owner;
	(void)msg;
	if (node == here && type == CM_EVENT_REP)
		replies++;
}

static void *on_sidr_request(struct net_node *node, struct cm_sidr *sidr,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	(void)node;
	(void)status;
	if (waiting >= backlog)
		return NULL;
	waiting++;
	requests++;
	if (!memcmp(req->private_data, "who", 4))
		theirs_sidr = sidr;
	return &waiting;
}

static void on_sidr_event(struct net_node *node, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep)
{
	(void)sidr;
	(void)owner;
	if (node == here && rep)
		responses++;
}

static int setup(void **state)
{
	(void)state;
	net_open(&net, 5);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_sidr_request = on_sidr_request;
	net.on_sidr_event = on_sidr_event;
	here = &net.nodes[0];
	there = &net.nodes[1];
	is_local = false;
	backlog = UINT32_MAX;
	waiting = requests = replies = responses = 0;
	theirs = NULL;
	theirs_sidr = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	net_close(&net);
	return 0;
}

/* One request without any later message, from the host whose GID has this last byte. */
static void flood(enum cm_msg_type type, unsigned number, unsigned host)
{
	struct cm_msg msg = {.type = type, .tid = number};
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	if (type == CM_MSG_REQ) {
		msg.req.local_comm_id = number + 1;
		msg.req.local_ca_guid = 0xf100d;
		msg.req.local_qpn = 2 + number;
		msg.req.service_id = NET_SERVICE;
	} else {
		msg.sidr_req.request_id = number + 1;
		msg.sidr_req.service_id = NET_SERVICE;
	}
	cm_msg_build(&msg, mad);
	net_path(there, &path);
	path.is_local = is_local;
	path.dgid[14] = (uint8_t)(host >> 8);
	path.dgid[15] = (uint8_t)host;
	cm_receive(there->cm, &path, mad, MAD_BYTES, net.now_ns);
}

static void cm_receive_req_flood_of_one_host_is_limited(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FLOOD; i++)
		flood(CM_MSG_REQ, i, 9);
	assert_in_range(cm_conn_count(there->cm), 1, SOURCE_MAX);
	assert_true(cm_counters(there->cm)->turned_away >= FLOOD - SOURCE_MAX);
	/* Also if each request is retransmitted. */
	for (unsigned i = 0; i < FLOOD; i++)
		flood(CM_MSG_REQ, i, 9);
	assert_in_range(cm_conn_count(there->cm), 1, SOURCE_MAX);
	assert_int_equal(cm_conn_count(there->cm), requests);
}

static void cm_receive_req_flood_of_many_hosts_is_limited(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * FLOOD; i++)
		flood(CM_MSG_REQ, i % FLOOD, i % FLOOD % 50000);
	assert_in_range(cm_conn_count(there->cm), 1, TOTAL_MAX);
	for (unsigned i = 0; i < 2 * FLOOD; i++)
		flood(CM_MSG_SIDR_REQ, i % FLOOD, i % FLOOD % 50000);
	assert_in_range(cm_conn_count(there->cm) + cm_sidr_count(there->cm), 1, TOTAL_MAX);
}

static void cm_receive_half_open_entry_is_released(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct cm_msg rej = {.type = CM_MSG_REJ};
		struct cm_path path;
		uint8_t mad[MAD_BYTES];

		net_path(there, &path);
		path.dgid[15] = 9;
		for (unsigned i = 0; i < 1000; i++) {
			flood(CM_MSG_REQ, i, 9);
			rej.tid = i;
			rej.rej.local_comm_id = i + 1;
			rej.rej.reason = CM_REJ_TIMEOUT;
			rej.rej.ari[5] = 0x0f;
			rej.rej.ari[6] = 0x10;
			rej.rej.ari[7] = 0x0d;
			cm_msg_build(&rej, mad);
			cm_receive(there->cm, &path, mad, MAD_BYTES, net.now_ns);
		}
	}
	assert_int_equal(requests, 3000);
	assert_int_equal(cm_counters(there->cm)->turned_away, 0);
}

/*
 * Runs until the valid request has arrived or its sender gives up: its timers and the flood
 * alternate.
 */
static void flood_meanwhile(enum cm_msg_type type, bool (*is_there)(void))
{
	uint64_t end_ns = net.now_ns + CM_TIMEOUT_NS;
	unsigned number = 0;

	while (!is_there() && net.now_ns < end_ns) {
		for (unsigned i = 0; i < 100; i++, number++)
			flood(type, number, type == CM_MSG_REQ ? number % 7 : here->gid[15]);
		/* The listener sometimes takes a request, almost certainly one of the flood. */
		if (waiting > 0 && !is_there())
			waiting--;
		net_advance(&net, net.now_ns + 2 * CLOCK_NS_PER_MS);
	}
	assert_true(number > 500);
}

static bool is_theirs_there(void)
{
	return theirs != NULL;
}

static void cm_receive_retransmitted_req_during_flood_is_accepted(void **state)
{
	struct cm_rep rep;

	(void)state;
	backlog = BACKLOG;
	for (unsigned i = 0; i < 1000; i++)
		flood(CM_MSG_REQ, i + FLOOD, QUIET);
	assert_int_equal(waiting, BACKLOG);
	(void)net_connect(here, &replies, 0x10);
	flood_meanwhile(CM_MSG_REQ, is_theirs_there);
	assert_non_null(theirs);
	net_rep(&rep, there, 0x20);
	assert_int_equal(cm_accept(theirs, &rep, net.now_ns), 0);
	while (net.in_flight > 0)
		net_advance(&net, net.now_ns + 1);
	assert_int_equal(replies, 1);
	assert_in_range(cm_conn_count(there->cm), 1, TOTAL_MAX);
}

static bool is_their_sidr_there(void)
{
	return theirs_sidr != NULL;
}

/* The valid client may have the same address as the flood. */
static void cm_receive_sidr_req_during_flood_is_accepted(void **state)
{
	struct cm_sidr_rep rep = {.qpn = 3};

	(void)state;
	backlog = BACKLOG;
	for (unsigned i = 0; i < 1000; i++)
		flood(CM_MSG_SIDR_REQ, i + FLOOD, here->gid[15]);
	assert_int_equal(waiting, BACKLOG);
	(void)net_resolve(here, &responses);
	flood_meanwhile(CM_MSG_SIDR_REQ, is_their_sidr_there);
	assert_non_null(theirs_sidr);
	assert_int_equal(cm_sidr_reply(theirs_sidr, &rep, net.now_ns), 0);
	while (net.in_flight > 0)
		net_advance(&net, net.now_ns + 1);
	assert_int_equal(responses, 1);
}

/* Many concurrent connections count as a flood only if no local application answers them. */
static void cm_receive_req_of_same_host_is_not_limited(void **state)
{
	(void)state;
	is_local = true;
	for (unsigned i = 0; i < 20000; i++)
		flood(CM_MSG_REQ, i, 9);
	assert_int_equal(requests, 20000);
	backlog = waiting;
	flood(CM_MSG_REQ, FLOOD, 9);
	assert_int_equal(cm_counters(there->cm)->turned_away, 1);
	/* A full backlog does not restrict other listeners. */
	backlog++;
	is_local = false;
	flood(CM_MSG_REQ, FLOOD + 1, 10);
	assert_int_equal(requests, 20001);
}

static void cm_receive_first_req_after_flood_is_accepted(void **state)
{
	(void)state;
	backlog = BACKLOG;
	for (unsigned i = 0; i < 1000; i++)
		flood(CM_MSG_REQ, i, 9);
	waiting = 0;
	net_advance(&net, net.now_ns + CLOCK_NS_PER_S);
	requests = 0;
	flood(CM_MSG_REQ, FLOOD, 10);
	assert_int_equal(requests, 1);
	/* Requests that were dropped long ago no longer count. */
	backlog = 0;
	flood(CM_MSG_REQ, FLOOD + 1, 10);
	net_advance(&net, net.now_ns + 20 * CLOCK_NS_PER_S);
	flood(CM_MSG_REQ, FLOOD + 2, 10);
	backlog = BACKLOG;
	flood(CM_MSG_REQ, FLOOD + 1, 10);
	assert_int_equal(requests, 1);
	flood(CM_MSG_REQ, FLOOD + 2, 10);
	assert_int_equal(requests, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cm_receive_req_flood_of_one_host_is_limited),
		TEST(cm_receive_req_flood_of_many_hosts_is_limited),
		TEST(cm_receive_half_open_entry_is_released),
		TEST(cm_receive_retransmitted_req_during_flood_is_accepted),
		TEST(cm_receive_sidr_req_during_flood_is_accepted),
		TEST(cm_receive_req_of_same_host_is_not_limited),
		TEST(cm_receive_first_req_after_flood_is_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
