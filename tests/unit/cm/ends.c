/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cm/conn.h"
#include "ends.h"

struct net net;
struct net_node *here, *there;
struct end active, passive;
uint16_t refuse_reason;
bool is_refusing;
enum cm_msg_type sent[LOG_MAX];
struct cm_msg last_sent;
unsigned sent_count;

static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	assert_ptr_equal(node, there);
	assert_int_equal(req->service_id, NET_SERVICE);
	if (is_refusing) {
		*reason = refuse_reason;
		return NULL;
	}
	passive.conn = conn;
	return &passive;
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct end *end = owner;

	(void)node;
	assert_ptr_equal(end->conn, conn);
	end->events++;
	end->last = type;
	if (msg)
		end->msg = *msg;
}

static void on_wire(struct net_node *from, const struct cm_msg *msg)
{
	(void)from;
	assert_true(sent_count < LOG_MAX);
	last_sent = *msg;
	sent[sent_count++] = msg->type;
}

/* Each host has validated the address of the other one. */
static void validate_hosts(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct cm_validation validation = {0};
		struct cm_path path;

		net_path(&net.nodes[i], &path);
		cm_validation_done(net.nodes[i].cm, &validation, &path, net.now_ns);
	}
}

int ends_open(void **state)
{
	(void)ends_open_unvalidated(state);
	validate_hosts();
	return 0;
}

int ends_open_unvalidated(void **state)
{
	(void)state;
	net_open(&net, 7);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_wire = on_wire;
	here = &net.nodes[0];
	there = &net.nodes[1];
	memset(&active, 0, sizeof(active));
	memset(&passive, 0, sizeof(passive));
	is_refusing = false;
	refuse_reason = 0;
	sent_count = 0;
	return 0;
}

int ends_close(void **state)
{
	(void)state;
	net_close(&net);
	return 0;
}

/* Delivers all MADs of the network; no timer expires. */
void deliver(void)
{
	while (net.in_flight > 0)
		net_advance(&net, net.now_ns + 1);
}

/* All MADs are lost from here on. */
void lose(void)
{
	net.loss_percent = 100;
}

void expect_sent(unsigned count, const enum cm_msg_type *types)
{
	assert_int_equal(sent_count, count);
	for (unsigned i = 0; i < count; i++)
		assert_string_equal(cm_msg_name(sent[i]), cm_msg_name(types[i]));
}

void expect_state(const struct end *end, enum cm_state state)
{
	assert_string_equal(cm_state_name(cm_conn_state(end->conn)), cm_state_name(state));
}

void expect_event(const struct end *end, unsigned count, enum cm_event_type type)
{
	assert_int_equal(end->events, count);
	assert_string_equal(cm_event_name(end->last), cm_event_name(type));
}

void request(void)
{
	active.conn = net_connect(here, &active, ACTIVE_QPN);
	deliver();
}

void accept_request(void)
{
	struct cm_rep rep;

	net_rep(&rep, there, PASSIVE_QPN);
	rep.responder_resources = 3;
	memcpy(rep.private_data, "hello", 5);
	assert_int_equal(cm_accept(passive.conn, &rep, net.now_ns), 0);
}

void establish_both(void)
{
	request();
	accept_request();
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&active, CM_STATE_ESTABLISHED);
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

void receive_by_hand(struct net_node *node, const struct cm_msg *msg, uint8_t gid_end)
{
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	cm_msg_build(msg, mad);
	net_path(node, &path);
	path.dgid[15] = gid_end;
	cm_receive(node->cm, &path, mad, MAD_BYTES, net.now_ns);
}
