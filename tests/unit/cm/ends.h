/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_CM_ENDS_H
#define USRDMA_TEST_CM_ENDS_H

#include "net.h"

/* One connection between two communication managers, and the events of both ends. */
#define LOG_MAX	    256
#define ACTIVE_QPN  0x10
#define PASSIVE_QPN 0x20
#define MRA_NS	    (4096ull << 24)
#define RESPONSE_NS (4096ull << 16) /* response timeout of net_connect() */
#define TIMEWAIT_NS (4096ull << 10)

/* One of the two ends of the connection under test. */
struct end {
	struct cm_conn *conn;
	unsigned events;
	enum cm_event_type last;
	struct cm_msg msg; /* message of the last event */
};

extern struct net net;
extern struct net_node *here, *there;
extern struct end active, passive;
extern uint16_t refuse_reason;
extern bool is_refusing;
extern enum cm_msg_type sent[LOG_MAX];
extern struct cm_msg last_sent;
extern unsigned sent_count;

/*
 * The hosts have validated each other's address, so that a REP follows a REQ without an address
 * challenge.
 */
int ends_open(void **state);
/* The hosts have exchanged no message. */
int ends_open_unvalidated(void **state);
int ends_close(void **state);

/* Delivers all MADs of the network; no timer expires. */
void deliver(void);
/* All MADs are lost from here on. */
void lose(void);
void expect_sent(unsigned count, const enum cm_msg_type *types);
void expect_state(const struct end *end, enum cm_state state);
void expect_event(const struct end *end, unsigned count, enum cm_event_type type);
void request(void);
void accept_request(void);
void establish_both(void);

/* Delivers one message from the host whose GID has this last byte. */
void receive_by_hand(struct net_node *node, const struct cm_msg *msg, uint8_t gid_end);

#endif
